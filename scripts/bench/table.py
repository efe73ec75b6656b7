"""Tables: of the times of a case, or of anything; as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from scripts.bench import pairs
from scripts.bench.case import COMMUNICATION, COMPUTE, Case
from scripts.bench.worker import Measured


@dataclass(frozen=True)
class Table:
    """A title, a line on the setting, cells as they are shown, and the numbers behind them."""

    title: str
    setting: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Any = field(default_factory=dict)

    def markdown(self) -> str:
        """The table with its title and setting above it."""
        lines = [self.columns, ["---", *["---:"] * (len(self.columns) - 1)], *self.rows]
        body = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        return f"**{self.title}.** {self.setting}\n\n{body}\n"

    def plain(self) -> dict[str, Any]:
        """What --json writes."""
        return {"title": self.title, "setting": self.setting, "numbers": self.numbers}


def case_table(case: Case, measured: Measured) -> Table:
    """Each variant's step against the reference and against the larger floor."""
    medians = {name: pairs.spread(turns).median for name, turns in measured.seconds.items()}
    floors = [name for name in (COMPUTE, COMMUNICATION) if name in medians]
    setting = f"`{' '.join(case.overrides)}`; {case.rounds} rounds of {case.steps} steps."
    against = [case.reference, *([max(floors, key=medians.__getitem__)] if floors else [])]
    return times_table(f"{case.title}, {case.network}", setting, "step", measured, against)


def times_table(title: str, setting: str, what: str, measured: Measured, against: Sequence[str]) -> Table:
    """The time of `what` by variant, and its ratios, taken round by round, to each of the variants in `against`."""
    rows, numbers = [], {}
    for name, seconds in measured.seconds.items():
        time, to = pairs.spread(seconds), {other: pairs.ratio(seconds, measured.seconds[other]) for other in against}
        cells = ["" if other == name else pairs.spell_ratio(ratio) for other, ratio in to.items()]
        rows.append([name, pairs.spell_ms(time), *cells])
        ratios = {other: ratio._asdict() | {"clear": pairs.is_clear(ratio)} for other, ratio in to.items()}
        numbers[name] = {"seconds": time._asdict(), "rounds": seconds, "ratios": ratios}
    for name, reason in measured.missing.items():
        rows.append([name, reason, *["" for _ in against]])
        numbers[name] = {"missing": reason}
    columns = ["variant", f"{what}, ms", *(f"÷ {other}" for other in against)]
    return Table(title, setting, columns, rows, numbers)
