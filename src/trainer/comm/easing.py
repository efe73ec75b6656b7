"""A compressing hook as the guard's lever: it sends more, by degrees, and at last everything."""

from typing import TYPE_CHECKING

from torch import Tensor

from trainer.comm.layout import Part
from trainer.comm.wire import Wire

if TYPE_CHECKING:
    from trainer.comm.compressed import Codec, Compressed, Compressor


class Exact:
    """Sends all that is pending, so that nothing is after it."""

    def accumulate(self, pending: Tensor, gradient: Tensor, part: Part) -> None:
        pending.add_(gradient)

    def reduce(self, pending: Tensor, mean: Tensor, part: Part, step: int, wire: Wire) -> None:
        mean.copy_(pending)
        pending.zero_()
        wire.average_(mean, "dense average")


def larger_shares(spec: "Compressed", ratio: float) -> list[tuple[str, "Codec"]]:
    """A sparsifier with four and with sixteen times its `ratio`, as far as that is not all."""
    larger = [spec.model_copy(update={"ratio": ratio * factor}) for factor in (4, 16) if ratio * factor < 1]
    return [(one.words(), one.codec()) for one in larger]


class HookLever:
    """Swaps the codec between two steps; what is pending stays where it is."""

    def __init__(self, state: "Compressor") -> None:
        self.state = state
        self._degrees = [(state.spec.words(), state.codec), *state.spec.degrees()]
        self._at = 0

    def ease(self) -> str | None:
        return self._move(1)

    def tighten(self) -> str | None:
        return self._move(-1)

    def _move(self, by: int) -> str | None:
        if not 0 <= self._at + by < len(self._degrees):
            return None
        before = self._degrees[self._at][0]
        self._at += by
        words, self.state.codec = self._degrees[self._at]
        return f"comm {before} -> {words}"
