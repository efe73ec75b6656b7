"""The check itself: every rule looks at the values, and what they find is put in order."""

from __future__ import annotations

from collections.abc import Mapping

from trainer.nccl.checker.context import Context
from trainer.nccl.checker.finding import Finding
from trainer.nccl.checker.sources import Value


def check(values: Mapping[str, Value], context: Context) -> list[Finding]:
    """What is wrong with `values` for a run in `context`: errors first, then warnings, each in the rules' order."""
    return []
