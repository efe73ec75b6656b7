"""Paced compute: layers that sleep as long as recorded ones computed, with gradients of the real size.

Cores stay free for communication, as they are beside a GPU, so one machine rehearses many.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from trainer.model.base import Model
from trainer.replay_table import Row, read
from trainer.sample import Sample
from trainer.spec import ConfigError

if TYPE_CHECKING:
    from trainer.run import Run

# A sleep ends some 0.1 ms late. Up to here that is made good in the next layer; a longer delay was a wait, and stays.
OVERSHOOT_S = 1e-3


class Replay(Model):
    """The layers of a replay table, one after another. It learns nothing: its gradients are noise."""

    table: str = "resnet50"
    """the name of a table that comes with the package, or the path of a CSV file"""
    time_scale: Annotated[float, Field(gt=0)] = 1.0
    """the factor on all times: 0.5 replays a device of twice the speed"""

    def accepts(self) -> tuple[Literal["image", "tokens"], ...]:
        return ("image", "tokens")

    def check(self, run: Run) -> None:
        super().check(run)
        self.rows()

    def rows(self) -> list[Row]:
        """The table's rows. Raises ConfigError."""
        shipped = Path(str(files("trainer.model"))) / "tables"
        if (shipped / f"{self.table}.csv").exists():
            return read(shipped / f"{self.table}.csv", "model.table")
        if not Path(self.table).exists():
            names = ", ".join(sorted(path.stem for path in shipped.glob("*.csv")))
            raise ConfigError(f"model.table: there is no table {self.table!r}; choose from: {names}, or give a path")
        return read(Path(self.table), "model.table")

    def build(self, sample: Sample) -> nn.Module:
        return _Replay(self.rows(), self.time_scale, sample)


class _Replay(nn.Module):
    def __init__(self, rows: list[Row], time_scale: float, sample: Sample) -> None:
        super().__init__()
        pace = _Pace()
        self.entry = _Entry()
        self.layers = nn.ModuleDict()
        for row in rows:
            logits = sample if row is rows[-1] else None
            self.layers[row.layer.replace(".", "/")] = _Layer(row, time_scale, pace, logits)

    def forward(self, x: Tensor) -> Tensor:
        x = self.entry(x)
        for layer in self.layers.values():
            x = layer(x)
        return x


class _Entry(nn.Module):
    """What is left of the input: how many samples it has."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros(len(x), 1, device=x.device, requires_grad=True)


class _Layer(nn.Module):
    def __init__(self, row: Row, time_scale: float, pace: _Pace, logits: Sample | None) -> None:
        """The last layer gives `logits`, for samples like this; all others as many bytes as they were recorded with."""
        super().__init__()
        self.tensors = nn.ParameterList([nn.Parameter(torch.zeros(shape)) for shape in row.parameters])
        self.forward_s, self.backward_s = row.forward_ms * time_scale / 1000, row.backward_ms * time_scale / 1000
        self.activation_bytes, self.pace, self.logits = row.activation_bytes, pace, logits
        # Where a schedule splits the backward pass, what takes its second half; see trainer.pipeline.deferred.
        self.defer: Callable[[Sequence[nn.Parameter], Callable[[], tuple[Tensor, ...]]], None] | None = None
        # The same noise in every step, since drawing it would take the time that shall be slept. It is no parameter
        # and no buffer: nothing of it belongs into a checkpoint.
        generator = torch.Generator().manual_seed(row.numel)
        self.noise = [torch.randn(shape, generator=generator) * 1e-3 for shape in row.parameters]

    def forward(self, x: Tensor) -> Tensor:
        return _Sleep.apply(x, self, *(self.tensors if self.defer is None else ()))

    def shape(self, batch: int) -> tuple[int, ...]:
        """The shape of the output for a batch."""
        if self.logits is None:
            return batch, max(1, self.activation_bytes // 4 // batch)
        length = self.logits.shape[:1] if self.logits.kind == "tokens" else ()
        return batch, *length, self.logits.classes

    def gradients(self, device: torch.device) -> tuple[Tensor, ...]:
        return tuple(part.to(device, copy=True) for part in self.noise)


class _Sleep(torch.autograd.Function):
    """Passes activations and their gradients through, late, and gives each parameter a gradient of noise.

    Activations are one number, seen as many: they have their size on a wire only.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: _Layer, *tensors: Tensor) -> Tensor:
        ctx.layer, ctx.entered = layer, x.shape
        layer.pace.take(layer.forward_s, time.perf_counter())
        return x.new_zeros(1).expand(layer.shape(len(x)))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        layer, began = ctx.layer, time.perf_counter()
        own = gradients[0].new_zeros(1).expand(ctx.entered)
        if layer.defer is not None:
            layer.pace.take(layer.backward_s / 2, began)
            layer.defer(list(layer.tensors), functools.partial(_second_half, layer, own.device))
            return own, None
        # Inside the layer's time, as a real layer writes its gradients inside its own.
        noise = layer.gradients(own.device)
        layer.pace.take(layer.backward_s, began)
        return own, None, *noise


def _second_half(layer: _Layer, device: torch.device) -> tuple[Tensor, ...]:
    began = time.perf_counter()
    noise = layer.gradients(device)
    layer.pace.take(layer.backward_s / 2, began)
    return noise


class _Pace:
    """Sleeps to a schedule: a layer begins where the one before it was due to end, unless something was waited for."""

    def __init__(self) -> None:
        self._due = 0.0

    def take(self, seconds: float, began: float) -> None:
        """Return `seconds` after the layer began, which it did at `began` or, less the overshoot, when it was due."""
        self._due = (self._due if began - self._due < OVERSHOOT_S else began) + seconds
        time.sleep(max(0.0, self._due - time.perf_counter()))
