"""docs/benchmarks.md: the tables between its markers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from scripts.bench.table import Table

PATH = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"


def block(tables: Sequence[Table], machine: str) -> str:
    """The tables of one name, and what measured them."""
    return "\n".join([*(table.markdown() for table in tables), f"Measured on {machine}.\n"])


def write(name: str, text: str, path: Path = PATH) -> None:
    """Replace what stands between `<!-- bench:name -->` and `<!-- /bench:name -->`. Raises ValueError without them."""
    path.write_text(replaced(path.read_text(), name, text))


def replaced(page: str, name: str, text: str) -> str:
    """The page with `text` between the markers of `name`."""
    begin, end = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
    if begin not in page or end not in page:
        raise ValueError(f"the page has no {begin} … {end}; add the two lines where the table belongs")
    return re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: f"{begin}\n{text}{end}", page, flags=re.S)
