"""Exactly synchronous, but a parameter is waited for only where the next forward pass needs it."""

# No future annotations: hooks of torch inspect annotations.

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Annotated, Any, ClassVar

import torch
import torch.distributed as dist
from pydantic import Field
from torch import Tensor, nn

from trainer.sync.base import Replica, Sync, Synchroniser
from trainer.sync.buffers import SharedBuffers
from trainer.sync.by_priority import Load, PriorityCourier
from trainer.sync.chunks import MIB, Chunk, Chunks
from trainer.sync.readers import Readers
from trainer.sync.roads import Roads
from trainer.sync.updates import Updates


class NextForward(Sync):
    """Gradients travel in chunks, those of the front layers first, and under the next forward pass too.

    As P3 (Jayarajan et al. 2019) and ByteScheduler (Peng et al. 2019) do with a parameter server, and DeAR (Zhang et
    al. 2023) with split collectives. The result is that of strict training: a chunk's optimizer step runs when its
    average is there, and a module's forward pass waits for the parameters it reads.
    """

    early: ClassVar[bool] = True
    lazy: ClassVar[bool] = True

    chunk_mb: Annotated[float, Field(gt=0)] = 4.0
    """the MiB of gradient that travel together; large parameters are cut, small ones share a chunk"""

    def attach(self, replica: Replica) -> Synchroniser:
        if dist.get_world_size(replica.group) == 1 or not any(p.requires_grad for p in replica.model.parameters()):
            return _Alone(replica, replica.model)
        return _NextForward(replica, self.chunk_mb * MIB)


class _Alone(Synchroniser):
    def step(self) -> None:
        self.replica.update()


class _NextForward(Synchroniser):
    """The life of a step.

    1. The first forward pass is watched: it tells who reads what, and in which order. 2. When a parameter's gradient
    is computed it moves into its chunk; when all of a chunk's are, the courier takes it. 3. Where its average lands, on
    the courier's thread, the optimizer steps for the parameters that are complete. 4. A module that reads a parameter
    waits before its forward pass until it is updated. After the first step the chunks are cut anew, in the order of
    use.
    """

    def __init__(self, replica: Replica, cap_bytes: float) -> None:
        super().__init__(replica, replica.model)
        self.cap_bytes = cap_bytes
        self._names = {id(p): name for name, p in replica.model.named_parameters()}
        self._trained = [p for p in replica.model.parameters() if p.requires_grad]
        self._accumulating = False
        self._error: BaseException | None = None
        # All replicas begin as the first one, as with DDP.
        self._buffers = SharedBuffers(replica.model, replica.group, replica.meter)
        self._buffers.share()
        for parameter in self._trained:
            self._buffers.broadcast([parameter.detach()])
        self._readers = Readers(replica.model)
        self._watching: ExitStack | None = None
        self._first_step = True
        self._cut(self._trained)
        self._updates = Updates(replica, self._chunks)
        self._courier = PriorityCourier(replica.group, replica.device, self._reduce, self._land, self._fail)
        self._roads = Roads(replica.model, self.flush, self._unhooked)
        self._on_gradients = [p.register_post_accumulate_grad_hook(self._computed) for p in self._trained]
        self._on_modules: list[Any] = []
        self._hook_modules()

    @contextmanager
    def accumulate(self) -> Iterator[None]:
        self._accumulating = True
        try:
            yield
        finally:
            self._accumulating = False

    def step(self) -> None:
        missing = [self._names[id(p)] for p in self._trained if id(p) not in self._seen]
        if missing:
            raise RuntimeError(
                f"sync: {', '.join(missing[:3])} got no gradient in this step, and its chunk waits for it; use"
                " sync=strict with parallel.data.find_unused_parameters=true"
            )
        self._seen.clear()
        self._waited.clear()
        if not self._updates.immediate:
            self.flush()
            self._updates.whole(self._trained, self._rates)
        if self._first_step:
            self._first_step = False
            self.flush()
            self._cut_by_use()

    @contextmanager
    def whole(self) -> Iterator[None]:
        self.flush()
        self._buffers.land()
        yield

    def finish(self) -> None:
        self.flush()
        self._buffers.land()

    def flush(self) -> None:
        """Wait until every pending update has landed."""
        for chunk in self._chunks.all:
            self._wait_for(chunk)

    def carried(self) -> dict[str, Tensor]:
        return {} if self._updates.clip is None else self._updates.clip.carried()

    def resume(self, stored: Sequence[dict[str, Tensor]], mine: int | None) -> None:
        if self._updates.clip is not None:
            self._updates.clip.resume(stored[mine or 0])

    def close(self) -> None:
        self.flush()
        self._courier.close()
        self._roads.close()
        self._unhook_modules()
        for handle in self._on_gradients:
            handle.remove()

    # Chunks

    def _cut(self, parameters: Sequence[nn.Parameter]) -> None:
        self._chunks = Chunks(parameters, self.cap_bytes, self.replica.divisible)
        self._arrived = [threading.Event() for _ in self._chunks.all]
        self._events: dict[int, torch.cuda.Event] = {}
        self._missing = [{piece.parameter for piece in chunk.pieces} for chunk in self._chunks.all]
        self._seen: set[int] = set()
        self._waited: set[int] = set()
        self._number = {id(p): number for number, p in enumerate(self._chunks.parameters)}
        for event in self._arrived:
            event.set()

    def _cut_by_use(self) -> None:
        """Cut anew in the order in which the first rank's forward pass read the parameters."""
        place = {parameter: number for number, parameter in enumerate(self._readers.order)}
        own = [place.get(id(p), len(place)) for p in self._trained]
        order = torch.tensor(own, device=self.replica.device)
        dist.broadcast(order, dist.get_process_group_ranks(self.replica.group)[0], group=self.replica.group)
        self._cut([self._trained[number] for number in order.argsort(stable=True).tolist()])
        self._updates.cut(self._chunks)
        self._unhook_modules()
        self._hook_modules()

    # The forward pass

    def _watch(self, model: nn.Module, _: Any) -> None:
        if torch.is_grad_enabled():
            self._buffers.land()
        if self._first_step and self._watching is None and torch.is_grad_enabled():
            self._watching = ExitStack()
            self._watching.enter_context(self._readers.watch())

    def _unwatch(self, *_: Any) -> None:
        if self._watching is not None:
            self._watching.close()
            self._watching = None

    def _send_buffers(self, *_: Any) -> None:
        if torch.is_grad_enabled() and not self._accumulating:
            self._buffers.send()

    def _hook_modules(self) -> None:
        model = self.replica.model
        self._on_modules += [
            model.register_forward_pre_hook(self._watch, prepend=True),
            model.register_forward_hook(self._unwatch, always_call=True),
            model.register_forward_hook(self._send_buffers),
        ]
        readers: dict[int, list[Tensor]] = {}
        for parameter in self._trained:
            for module in self._readers.modules_of[id(parameter)]:
                readers.setdefault(id(module), []).append(parameter)
        for module in model.modules():
            if id(module) in readers:
                chunks = {chunk.place: chunk for p in readers[id(module)] for chunk in self._chunks.of[id(p)]}
                waits = sorted(chunks)
                self._on_modules.append(
                    module.register_forward_pre_hook(lambda *_, waits=waits: self._before_forward(waits), prepend=True)
                )

    def _unhook_modules(self) -> None:
        for handle in self._on_modules:
            handle.remove()
        self._on_modules = []

    @contextmanager
    def _unhooked(self) -> Iterator[None]:
        self._unhook_modules()
        try:
            yield
        finally:
            self._hook_modules()

    def _before_forward(self, waits: Sequence[int]) -> None:
        for place in waits:
            self._wait_for(self._chunks.all[place])
        if torch.is_grad_enabled():
            self._waited.update(waits)

    def _wait_for(self, chunk: Chunk) -> None:
        arrived = self._arrived[chunk.place]
        if not arrived.is_set():
            with self.replica.meter.span("wait", f"bucket {chunk.index()}"):
                arrived.wait()
        if self._error is not None:
            raise RuntimeError(str(self._error)) from self._error
        if chunk.place in self._events:
            torch.cuda.current_stream().wait_event(self._events[chunk.place])

    # The backward pass

    def _computed(self, parameter: nn.Parameter) -> None:
        """A gradient is there, on the thread of the backward pass."""
        if self._accumulating:
            return
        if not self._seen:
            self._rates = self._updates.optimizer.rates()
        key = id(parameter)
        self._seen.add(key)
        if not self._first_step and not self._waited.issuperset(chunk.place for chunk in self._chunks.of[key]):
            raise RuntimeError(
                f"sync: {self._names[key]} was read outside the forward pass of its own module, and was not so in the"
                " first step, so it may have been read before it was updated; use sync=strict"
            )
        gradient = parameter.grad
        assert gradient is not None
        self._chunks.gradients[key].copy_(gradient)
        parameter.grad = None
        for chunk in self._chunks.of[key]:
            missing = self._missing[chunk.place]
            missing.discard(self._number[key])
            if not missing:
                self._missing[chunk.place] = {piece.parameter for piece in chunk.pieces}
                self._arrived[chunk.place].clear()
                computed = None
                if gradient.is_cuda:
                    computed = torch.cuda.Event()
                    computed.record()
                self._courier.add(Load(chunk, self._rates, computed))

    # On the courier's thread

    def _reduce(self, chunk: Chunk) -> torch.futures.Future:
        return self.replica.hook(self.replica.state, chunk)

    def _land(self, load: Load) -> None:
        if self._updates.immediate:
            self._updates.land(load)
        if load.computed is not None:
            event = torch.cuda.Event()
            event.record()
            self._events[load.chunk.place] = event
        self._arrived[load.chunk.place].set()

    def _fail(self, error: BaseException) -> None:
        self._error = error
        for event in self._arrived:
            event.set()
