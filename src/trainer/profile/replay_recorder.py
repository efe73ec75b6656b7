"""Writes a replay table of a real run: what each layer costs on this device."""

from __future__ import annotations

import collections
import logging
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from trainer.overlap.clock import Clock
from trainer.profile.recording import Recording
from trainer.replay_table import Row, write

log = logging.getLogger(__name__)

# Steps that are passed over while everything warms up, and steps whose median is taken.
WARMUP_STEPS, RECORDED_STEPS = 3, 10


# The row of what the module itself reads, beside its layers.
WHOLE = "(model)"
# They hold parameters for the module that they are in, and are never called.
CONTAINERS = (nn.ParameterList, nn.ParameterDict)


def own(layer: nn.Module) -> Iterator[nn.Parameter]:
    """The parameters that `layer` itself reads."""
    yield from layer.parameters(False)
    for held in layer.children():
        if isinstance(held, CONTAINERS):
            yield from own(held)


class _Pass:
    """The marks of one forward and backward pass."""

    def __init__(self, start: Any) -> None:
        self.start = start
        self.entered: list[tuple[str, Any]] = []
        self.forward_end: Any = None
        self.ready: dict[str, Any] = {}


class ReplayRecorder(Recording):
    """Hooks on a module that mark when each layer with parameters of its own starts, and when its gradients are ready.

    A layer lasts from its start to the next one's; so what has no parameters, such as an activation, counts with the
    layer before it, and the table's times add up to the whole. In the backward pass likewise, from gradient to
    gradient.
    """

    def __init__(self, module: nn.Module, clock: Clock, path: Path, title: str) -> None:
        self.module, self.clock, self.path, self.title = module, clock, path, title
        self._passes: list[_Pass] = []
        self._bytes: dict[str, int] = {}
        self._open: _Pass | None = None
        self._layers = {
            name or WHOLE: layer
            for name, layer in module.named_modules()
            if not isinstance(layer, CONTAINERS) and any(True for _ in own(layer))
        }
        self._handles = [module.register_forward_pre_hook(self._begin), module.register_forward_hook(self._end)]
        for name, layer in self._layers.items():
            self._handles += [
                layer.register_forward_pre_hook(lambda *_, name=name: self._enter(name)),
                layer.register_forward_hook(lambda layer, inputs, output, name=name: self._leave(name, output)),
            ]
            for parameter in own(layer):
                if parameter.requires_grad:
                    hook = parameter.register_post_accumulate_grad_hook(lambda _, name=name: self._ready(name))
                    self._handles.append(hook)

    def close(self) -> None:
        """Write the table and take the hooks away. A run that was too short is told so."""
        for handle in self._handles:
            handle.remove()
        passes = [one for one in self._passes[WARMUP_STEPS:] if one.ready and self._passed(one)]
        if not passes:
            log.warning("profile.record_replay: no pass after the first %d was recorded; use more steps", WARMUP_STEPS)
            return
        forward, backward = map(_typical, zip(*map(self._measure, passes), strict=True))
        listed: set[int] = set()

        def trained(layer: nn.Module) -> Iterator[nn.Parameter]:
            """Those that have a gradient, one that several layers share at the first: its gradient is ready last."""
            for parameter in own(layer):
                if parameter.requires_grad and id(parameter) not in listed:
                    listed.add(id(parameter))
                    yield parameter

        rows = [
            Row(
                layer=name,
                parameters=tuple(tuple(p.shape) for p in trained(layer)),
                forward_ms=1000 * forward.get(name, 0.0),
                backward_ms=1000 * backward.get(name, 0.0),
                activation_bytes=self._bytes.get(name, 0),
            )
            for name, layer in sorted(self._layers.items(), key=lambda item: self._place(passes[0], item[0]))
        ]
        remark = f"medians of {len(passes)} passes of one rank, which add up to the median pass"
        write(self.path, rows, [self.title, remark])
        log.info("profile.record_replay: wrote %s; rehearse it with model=replay model.table=%s", self.path, self.path)

    def _begin(self, *_: Any) -> None:
        recording = torch.is_grad_enabled() and len(self._passes) < WARMUP_STEPS + RECORDED_STEPS
        self._open = _Pass(self.clock.mark()) if recording else None
        if self._open is not None:
            self._passes.append(self._open)

    def _end(self, *_: Any) -> None:
        if self._open is not None:
            self._open.forward_end = self.clock.mark()

    def _enter(self, name: str) -> None:
        if self._open is not None:
            self._open.entered.append((name, self.clock.mark()))

    def _leave(self, name: str, output: Any) -> None:
        if self._open is not None and isinstance(output, Tensor):
            self._bytes[name] = output.nbytes

    def _ready(self, name: str) -> None:
        if self._open is not None:
            self._open.ready[name] = self.clock.mark()

    def _passed(self, one: _Pass) -> bool:
        return all(self.clock.passed(mark) for mark in (one.forward_end, *one.ready.values()))

    def _place(self, one: _Pass, name: str) -> int:
        order = [entered for entered, _ in one.entered]
        return order.index(name) if name in order else len(order)

    def _measure(self, one: _Pass) -> tuple[dict[str, float], dict[str, float]]:
        """Seconds of each layer, forward and backward."""
        forward: dict[str, float] = collections.defaultdict(float)
        ends = [mark for _, mark in one.entered[1:]] + [one.forward_end]
        for (name, start), end in zip(one.entered, ends, strict=True):
            forward[name] += self.clock.between(start, end)
        backward: dict[str, float] = {}
        before = one.forward_end
        for name, mark in sorted(one.ready.items(), key=lambda item: self.clock.between(one.start, item[1])):
            backward[name] = self.clock.between(before, mark)
            before = mark
        return forward, backward


def _typical(passes: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Each layer's median, in seconds, by a factor such that they add up to the median of the whole passes.

    On shared cores a pass is held up for a while, each time in another layer, of which no layer's median knows.
    """
    medians = {name: statistics.median(one.get(name, 0.0) for one in passes) for name in set().union(*passes)}
    whole, known = statistics.median(sum(one.values()) for one in passes), sum(medians.values())
    return {name: seconds * whole / known for name, seconds in medians.items()} if known else medians
