"""What has been renamed, so that an option or a choice that is no more can be told its new name."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

import yaml

FILE = Path(__file__).with_name("renames.yaml")


class Renames(NamedTuple):
    """Old names and the new ones."""

    options: dict[str, str]
    """dotted"""
    choices: dict[str, str]
    """of groups, group/choice"""

    def option(self, name: str) -> str | None:
        """The new name of the option `name`, itself renamed or within something that was; None if it was not."""
        words = name.split(".")
        for count in range(len(words), 0, -1):
            new = self.options.get(".".join(words[:count]))
            if new is not None:
                return ".".join([new, *words[count:]])
        return None

    def choice(self, name: str) -> str | None:
        """The new name of the choice `name`, written group/choice; None if it was not renamed."""
        return self.choices.get(name)


@functools.cache
def read(path: Path = FILE) -> Renames:
    """The table in `path`."""
    return Renames(**yaml.safe_load(path.read_text(encoding="utf-8")))
