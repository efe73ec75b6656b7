"""Carry out one rank's list of actions."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from trainer.overlap.meter import Meter
from trainer.parallel.executor import autocast_for
from trainer.pipeline.actions import Action, Plan, arrivals, stages_of
from trainer.pipeline.channel import ChannelError, Receiver, Sender
from trainer.pipeline.stage import Stage

# The kind of message that targets are; all others are named by the stage that they go to.
TARGETS = -1


class PipelineError(RuntimeError):
    """A neighbour failed; the message names the stage, the micro-batch and the rank that was waited for."""


class Ends(NamedTuple):
    """One direction's channels of a rank; None where there is no neighbour."""

    sender: Sender | None
    receiver: Receiver | None


class PipelineExecutor:
    """Runs the actions of one rank; the gradients of the last micro-batch of a stage meet its replicas'.

    1. What will arrive in the step is expected before it begins, so that no message waits for a buffer. 2. An action
    waits only for its own input. 3. What it gives is sent at once and never waited for. 4. Before the first pass that
    completes gradients, `complete` is told; a stage whose own last pass is still to come is quiet from then on.
    """

    def __init__(
        self,
        module: nn.Module,
        stages: Mapping[int, Stage],
        plan: Plan,
        rank: int,
        onward: Ends,
        back: Ends,
        targets: Ends,
        memory: str,
        loss: Callable[[Tensor, Tensor], Tensor],
        output: Callable[[Tensor], Tensor],
        scale: float,
        device: torch.device,
        precision: str,
        meter: Meter,
        scaler: torch.amp.GradScaler,
        complete: Callable[[], None],
    ) -> None:
        """`module` holds all of the rank's stages; `scale` is the factor on each micro-batch's loss, and `output` makes
        the model's output of the last stage's.

        `targets` lead from the rank with the first stage to that with the last; `memory` says what this rank should
        need, should there be too little.
        """
        self.module, self.stages, self.rank, self.onward, self.back = module, stages, rank, onward, back
        self.targets, self._memory, self._output = targets, memory, output
        self.loss, self.scale, self.meter, self.scaler, self._complete = loss, scale, meter, scaler, complete
        self.actions, self.last_stage, self.ranks = plan[rank], stages_of(plan) - 1, len(plan)
        self.microbatches = 1 + max(action.microbatch for action in self.actions)
        self.has_loss, self.has_data = self.last_stage in stages, 0 in stages
        self._forwards, self._backwards = arrivals(plan, rank, "F"), arrivals(plan, rank, "B")
        # The last passes of each stage, by which its gradients are complete.
        self._last = set({a.stage: a for a in self.actions if a.kind in ("B", "I")}.values())
        self._last |= set({a.stage: a for a in self.actions if a.kind == "W"}.values())
        self._looks: dict[int, tuple[torch.Size, torch.dtype]] = {}
        self._one = torch.ones((), device=device)
        self._autocast = autocast_for(precision, device)

    def forward_backward(self, inputs: Tensor, targets: Tensor, reduce: bool = True) -> Tensor:
        """The mean (or sum) of the loss over the share, detached, on the device; NaN on ranks without the last stage.

        Gradients are left in the parameters, averaged over the replicas unless `reduce` is false.
        """
        # A loss scale that was never used cannot be unscaled; only the last stage uses it for its gradients.
        one = self.scaler.scale(self._one)
        targets = self._handed_on(targets)
        losses = []
        entering, wanted = inputs.chunk(self.microbatches), targets.chunk(self.microbatches)
        for ends, coming in ((self.onward, self._forwards), (self.back, self._backwards)):
            if ends.receiver is not None:
                ends.receiver.expect([(stage, (stage, microbatch)) for stage, microbatch in coming])
        completing = False
        for action in self.actions:
            stage, microbatch = self.stages[action.stage], action.microbatch
            name = f"stage {action.stage}, micro-batch {microbatch}"
            if reduce and not completing and action in self._last:
                completing = True
                self._complete()
            if action.kind == "F":
                entered = entering[microbatch] if stage.first else self._take(self.onward, action)
                finish = self._finish(action.stage, wanted[microbatch])
                with self.meter.span("forward", name), self._autocast(), self._room(action):
                    left = stage.forward(microbatch, entered, finish)
                if action.stage == self.last_stage:
                    losses.append(left)
                else:
                    self._send(self.onward, left, action, action.stage + 1)
                    self._know(action.stage, left)
            elif action.kind == "W":
                with self.meter.span("backward", f"weights of {name}"), self._room(action):
                    stage.weights(microbatch, last=reduce and action in self._last)
            else:
                at_end = action.stage == self.last_stage
                gradient = one if at_end else self._take(self.back, action)
                send = functools.partial(self._send, self.back, action=action, to=action.stage - 1)
                with self.meter.span("backward", name), self._room(action):
                    quiet = completing and action not in self._last
                    stage.backward(microbatch, gradient, send, quiet)
        return torch.stack(losses).sum() if losses else torch.full_like(self._one, torch.nan)

    def predict(self, inputs: Tensor) -> Tensor | None:
        """The model's output on the rank with the last stage, None on all others; batches may be uneven."""
        left = inputs
        for number, stage in sorted(self.stages.items()):
            if number > 0:
                assert self.onward.receiver is not None, "every stage but the first has one before it"
                left = self._guarded(self.onward.receiver.take_described, f"stage {number} evaluates")
            with self._autocast():
                left = stage.module(left)
            if number < self.last_stage:
                assert self.onward.sender is not None, "every stage but the last has one after it"
                self.onward.sender.send(left, f"stage {number} evaluates", described=True)
                self.onward.sender.drain()
        return self._output(left) if self.has_loss else None

    def close(self) -> None:
        for sender in (self.onward.sender, self.back.sender, self.targets.sender):
            if sender is not None:
                sender.close()

    def _handed_on(self, targets: Tensor) -> Tensor:
        """The targets, on the ranks with the first and the last stage: only the first reads the data."""
        if self.targets.sender is not None:
            self.targets.sender.send(targets, "targets", self._is_new(TARGETS, targets))
        if self.targets.receiver is not None:
            self.targets.receiver.expect([(TARGETS, TARGETS)])
            take = functools.partial(self.targets.receiver.take, TARGETS)
            with self.meter.span("await_activations", "targets"):
                return self._guarded(take, "the last stage waits for targets")
        return targets

    def _is_new(self, kind: int, tensor: Tensor) -> bool:
        """Whether the receiver must be told what the tensor looks like. Raises PipelineError where that has changed."""
        looks = tensor.shape, tensor.dtype
        known = self._looks.setdefault(kind, looks)
        if known != looks:
            raise PipelineError(
                f"pipeline: what goes to {'the last stage' if kind == TARGETS else f'stage {kind}'} was"
                f" {tuple(known[0])} {known[1]} and is {tuple(looks[0])} {looks[1]} now; a pipeline needs micro-batches"
                " of one shape: pad them, or use parallel=ddp"
            )
        return known is looks

    @contextlib.contextmanager
    def _room(self, action: Action) -> Iterator[None]:
        try:
            yield
        except torch.OutOfMemoryError as error:
            raise PipelineError(
                f"pipeline: rank {self.rank} of the pipeline, {action}: out of memory{self._memory}; move layers to"
                " other stages with parallel.pipeline.split, use parallel.activation_checkpointing=full, or a schedule"
                f" that holds fewer micro-batches ({str(error).splitlines()[0]})"
            ) from error

    def _finish(self, stage: int, targets: Tensor) -> Callable[[Tensor], Tensor]:
        if stage < self.last_stage:
            return lambda output: output
        return lambda output: self.loss(output, targets) * self.scale

    def _know(self, stage: int, left: Tensor) -> None:
        # The gradient of what was sent looks like it.
        if self.back.receiver is not None:
            self.back.receiver.know(stage, left)

    def _take(self, ends: Ends, action: Action) -> Tensor:
        onward = ends is self.onward
        what = "activations" if onward else "gradients"
        assert ends.receiver is not None, "the plan has a neighbour there"
        with self.meter.span(f"await_{what}", f"stage {action.stage}, micro-batch {action.microbatch}"):
            key = (action.stage, action.microbatch)
            doing = f"stage {action.stage} waits for the {what} of micro-batch {action.microbatch}"
            return self._guarded(functools.partial(ends.receiver.take, key), doing)

    def _send(self, ends: Ends, tensor: Tensor, action: Action, to: int) -> None:
        assert ends.sender is not None, "the plan has a neighbour there"
        what = "activations" if ends is self.onward else "gradients"
        name = f"{what} of micro-batch {action.microbatch} to stage {to}"
        # Gradients look like the activations that they are of.
        described = ends is self.onward and self._is_new(to, tensor)
        send = functools.partial(ends.sender.send, tensor, name, described)
        self._guarded(send, f"stage {action.stage} sends {name}")

    def _guarded(self, work: Callable, doing: str) -> Tensor:
        try:
            return work()
        except ChannelError as error:
            raise PipelineError(f"pipeline: rank {self.rank} of the pipeline, {doing}: {error}") from error
