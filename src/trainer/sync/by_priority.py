"""A thread that carries chunks, the most urgent first, in an order that is the first rank's and the same on all."""

from __future__ import annotations

import collections
import datetime
import functools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from trainer.sync.base import take_over
from trainer.sync.chunks import Chunk

# Chunks under way at once: while one travels the next is prepared, and no more, so that what is urgent gets in between.
WINDOW = 2
# Between two steps nothing is announced, however long an evaluation takes.
PATIENCE = datetime.timedelta(days=365)
CLOSE = -1


class Load(NamedTuple):
    """A chunk whose gradients are computed."""

    chunk: Chunk
    rates: list[float]
    """the learning rates of its step"""
    computed: torch.cuda.Event | None


class PriorityCourier:
    """Reduces chunks through a hook, and calls `land` with each when its average is there, all on one thread.

    1. A rank adds a chunk when its gradients are computed. 2. The first rank takes the most urgent of those it has, at
    the beginning of a step always the one of index 0, and announces it on a group of its own. 3. All ranks start it
    when they have it too, and when it is its turn. 4. What has arrived lands in the order in which it was started. As
    P3 (Jayarajan et al. 2019) and ByteScheduler (Peng et al. 2019), without a parameter server.
    """

    def __init__(
        self,
        group: dist.ProcessGroup,
        device: torch.device,
        reduce: Callable[[Chunk], torch.futures.Future],
        land: Callable[[Load], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        """`fail` is called, on the thread itself, with whatever ended it."""
        self._reduce, self._land, self._fail = reduce, land, fail
        self._ranks = dist.get_process_group_ranks(group)
        self._first = dist.get_rank(group) == 0
        order = dist.new_group(
            self._ranks, backend="gloo", timeout=PATIENCE, use_local_synchronization=True, group_desc="order"
        )
        assert isinstance(order, dist.ProcessGroup), "this rank is a member of the group"
        self._order = order
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._changed = threading.Condition()
        self._ready: dict[int, Load] = {}
        self._left = 0  # of the step under way, chunks that have not started; counted on the first rank
        self._announced: collections.deque[int] = collections.deque()
        self._flying: collections.deque[tuple[Load, torch.futures.Future]] = collections.deque()
        self._closing = False
        self._threads = [threading.Thread(target=self._guarded, args=(self._carry,), name="courier", daemon=True)]
        if not self._first:
            listen = threading.Thread(target=self._guarded, args=(self._listen,), name="order", daemon=True)
            self._threads.append(listen)
        for thread in self._threads:
            thread.start()

    def add(self, load: Load) -> None:
        """The chunk's gradients are computed."""
        with self._changed:
            self._ready[load.chunk.place] = load
            self._changed.notify_all()

    def close(self) -> None:
        """End the threads, when every chunk has landed on all ranks."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            if self._stream is None:
                work()
            else:
                with torch.cuda.stream(self._stream):
                    work()
        except BaseException as error:  # whatever happens here belongs to the training thread
            self._fail(error)

    def _carry(self) -> None:
        while (action := self._next()) is not None:
            action()
        if self._first:
            self._announce(CLOSE)

    def _next(self) -> Callable[[], None] | None:
        """The next thing to do, or None at the end."""
        with self._changed:
            while True:
                if len(self._flying) < WINDOW and (load := self._turn()) is not None:
                    return functools.partial(self._start, load)
                if self._flying and self._flying[0][1].done():
                    return self._finish
                if self._closing and not self._flying:
                    return None
                self._changed.wait()

    def _turn(self) -> Load | None:
        if self._first:
            return self._most_urgent()
        if self._announced and self._announced[0] in self._ready:
            return self._ready.pop(self._announced.popleft())
        return None

    def _most_urgent(self) -> Load | None:
        # A hook counts a step at bucket 0. Its gradients are computed first, so as a rule nothing waits for it.
        ready = [load for load in self._ready.values() if self._left or load.chunk.index() == 0]
        if not ready:
            return None
        load = min(ready, key=lambda load: load.chunk.place)
        self._left = (self._left or load.chunk.count) - 1
        return self._ready.pop(load.chunk.place)

    def _start(self, load: Load) -> None:
        if self._first:
            self._announce(load.chunk.place)
        if load.computed is not None:
            torch.cuda.current_stream().wait_event(load.computed)
        future = self._reduce(load.chunk)
        self._flying.append((load, future))
        future.add_done_callback(self._wake)

    def _wake(self, _: Any) -> None:
        with self._changed:
            self._changed.notify_all()

    def _finish(self) -> None:
        load, future = self._flying.popleft()
        take_over(future.wait(), load.chunk.buffer())
        self._land(load)

    def _announce(self, place: int) -> None:
        dist.broadcast(torch.tensor(place), self._ranks[0], group=self._order)

    def _listen(self) -> None:
        place = torch.tensor(0)
        while True:
            dist.broadcast(place, self._ranks[0], group=self._order)
            if place == CLOSE:
                return
            with self._changed:
                self._announced.append(int(place))
                self._changed.notify_all()
