"""Values and context together, with the questions that rules ask of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trainer.nccl.checker import reading
from trainer.nccl.checker.context import Context
from trainer.nccl.checker.sources import Value


@dataclass(frozen=True)
class Situation:
    """An empty value is the default to NCCL, so here it counts as unset."""

    values: Mapping[str, Value]
    context: Context

    def text(self, name: str) -> str | None:
        value = self.values.get(name)
        return value.value if value is not None and value.value and not value.problem else None

    def number(self, name: str) -> int | None:
        """What NCCL takes the text for, however it is written; None for its default."""
        text = self.text(name)
        return None if text is None else reading.number(text)

    def meant(self, name: str) -> int | None:
        """The number, where the text is one; what is no number has a rule of its own."""
        text = self.text(name)
        return None if text is None or not reading.is_number(text) else reading.number(text)

    def on(self, name: str) -> bool:
        """Whether a switch is set to any number but 0."""
        return self.number(name) not in (None, 0)

    def true(self, name: str) -> bool | None:
        """A switch of torch's; None where it is unset, or no switch."""
        text = self.text(name)
        return None if text is None else reading.truth(text)

    def begins(self, *beginnings: str) -> list[str]:
        """The names that are set and begin so."""
        return [name for name in self.values if name.startswith(beginnings) and self.text(name) is not None]

    def given(self, *names: str) -> list[str]:
        """Those of `names` that are set."""
        return [name for name in names if self.text(name) is not None]

    def since(self, *release: int) -> bool:
        """Whether NCCL is at least this release; one that is unknown is taken as new."""
        return self.context.nccl is None or self.context.nccl >= release

    @property
    def several_nodes(self) -> bool:
        return self.context.nodes is not None and self.context.nodes > 1

    @property
    def several_here(self) -> bool:
        """Whether a node has several processes, which is taken for granted unless it is known to have one."""
        return self.context.processes != 1

    @property
    def rdma(self) -> bool:
        return self.context.net in ("ib", "roce")
