"""The guard: watches whether a run still converges, and takes back what it traded for speed when it does not."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

log = logging.getLogger(__name__)

# Weight of a new loss in the smoothed past.
SMOOTHING = 0.3
# A loss this many mean deviations and this factor above its smoothed past is no noise.
DEVIATIONS, RISE = 4.0, 1.2
# Successive updates that point this much against each other: the steps overshoot.
AGAINST = -0.7
# A compression whose error is larger than what it compresses adds noise without end.
EXPANDS = 1.0
# Of all weights, about so many are looked at: as telling of an angle as all of them, and next to no time and memory.
SAMPLE = 2**20
# Updates of a norm below that, which no training has, are none.
TINY = 1e-15
# So many bad lines in a row step down; so many good ones step up again, and twice as many after each relapse.
BAD_LINES, GOOD_LINES = 2, 10


class Lever(Protocol):
    """Something that trades convergence for speed, by degrees. All ranks pull it at the same step."""

    def ease(self) -> str | None:
        """Trade one degree less, and say what that means; None where nothing is traded any more."""

    def tighten(self) -> str | None:
        """Trade one degree more again; None where it is as the user asked for."""


class Guard:
    """Pulls levers, the first before the second, by what is seen on lines of metrics; the same on all ranks.

    1. A line is bad where the loss rises out of its smoothed past, successive updates point against each other, or the
    hook's error exceeds what it compresses. 2. After two bad lines it steps down: fewer steps of delay, larger k, at
    last strict. 3. After ten good ones it steps up again.
    """

    def __init__(self, levers: Sequence[Lever], model: nn.Module, every: int) -> None:
        """`every` is the number of steps between lines."""
        self.levers, self.every = list(levers), every
        self.level = 0
        self._updates = _Updates(model)
        self._smoothed: float | None = None
        self._deviation = 0.0
        self._bad = self._good = 0
        self._wanted = GOOD_LINES

    def step(self, done: int) -> None:
        """After every step: look at the updates of the two before a line."""
        if self.every >= 2 and (done + 2) % self.every < 3:
            self._updates.look()

    def cosine(self) -> float:
        """Of this rank's last two updates; NaN where there were no two. Waits for the device."""
        cosine = self._updates.cosine()
        return math.nan if cosine is None else cosine

    def see(self, step: int, loss: float, cosine: float, contraction: float | None) -> dict[str, float]:
        """A line of metrics is due; all values are means over ranks. What to write beside them."""
        reasons = self._reasons(loss, cosine, contraction)
        self._bad = self._bad + 1 if reasons else 0
        self._good = 0 if reasons else self._good + 1
        if self._bad >= BAD_LINES:
            self._move(step, "ease", 1, ", ".join(reasons))
        elif self.level and self._good >= self._wanted:
            self._move(step, "tighten", -1, f"{self._good} lines were good")
        return {"guard/level": float(self.level)} | ({} if math.isnan(cosine) else {"guard/cosine": cosine})

    def carried(self) -> dict[str, Tensor]:
        past = [self._smoothed if self._smoothed is not None else math.nan, self._deviation]
        return {"guard": torch.tensor([self.level, self._bad, self._good, self._wanted, *past], dtype=torch.float64)}

    def resume(self, stored: Sequence[dict[str, Tensor]], mine: int | None) -> None:
        values = stored[mine or 0].get("guard")
        if values is None:
            return
        level, self._bad, self._good, self._wanted = (int(value) for value in values[:4])
        smoothed, self._deviation = values[4:].tolist()
        self._smoothed = None if math.isnan(smoothed) else smoothed
        while self.level < level and any(lever.ease() is not None for lever in self.levers):
            self.level += 1

    def _move(self, step: int, way: str, by: int, reason: str) -> None:
        self._bad = self._good = 0
        for lever in self.levers if by > 0 else reversed(self.levers):
            done = getattr(lever, way)()
            if done is not None:
                self.level += by
                if by < 0:
                    self._wanted *= 2
                log.warning("guard: %s after step %d, since %s", done, step, reason)
                return

    def _reasons(self, loss: float, cosine: float, contraction: float | None) -> list[str]:
        found = []
        if self._smoothed is not None:
            rise = loss - self._smoothed
            if rise > DEVIATIONS * self._deviation and loss > RISE * self._smoothed:
                found.append(f"the loss rose to {loss:.4g} from about {self._smoothed:.4g}")
        if cosine < AGAINST:
            found.append(f"updates point against each other (cosine {cosine:.2f})")
        if contraction is not None and contraction > EXPANDS:
            found.append(f"the hook loses more than it sends (contraction {contraction:.2f})")
        if not found:
            # What is bad is no part of the past that others are compared with.
            before = loss if self._smoothed is None else self._smoothed
            self._deviation += SMOOTHING * (abs(loss - before) - self._deviation)
            self._smoothed = before + SMOOTHING * (loss - before)
        return found


class _Updates:
    """The angle between two successive updates of a model, by a sample of its weights from all parameters."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._points: list[Tensor] = []

    def look(self) -> None:
        """Remember the weights of now; the last three count."""
        # The model is asked each time: a rule under which updates are still to land lets them land then.
        weights = [p.detach() for p in self.model.parameters() if p.requires_grad]
        stride = max(1, sum(p.numel() for p in weights) // SAMPLE)
        self._points = [*self._points[-2:], torch.cat([p.flatten()[::stride] for p in weights])]

    def cosine(self) -> float | None:
        """The cosine of the last two updates; None where there were no two. Waits for the device."""
        points, self._points = self._points, []
        if len(points) < 3:
            return None
        return functional.cosine_similarity(points[1] - points[0], points[2] - points[1], dim=0, eps=TINY).item()
