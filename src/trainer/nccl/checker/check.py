"""The check itself: every rule looks at the values, and what they find is put in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trainer.nccl.checker.catalogue import RULES
from trainer.nccl.checker.context import Context
from trainer.nccl.checker.finding import Finding
from trainer.nccl.checker.situation import Situation
from trainer.nccl.checker.sources import Value


def check(values: Mapping[str, Value], context: Context) -> list[Finding]:
    """What is wrong with `values` for a run in `context`: errors first, then warnings, each in the rules' order."""
    at = Situation(values, context)
    found = [_softened(finding, context) for rule in RULES for finding in rule.findings(at)]
    return sorted(found, key=lambda finding: finding.severity != "error")


def _softened(finding: Finding, context: Context) -> Finding:
    # Under Gloo nobody reads NCCL's variables, so no mistake in them may stop a run.
    if context.backend == "gloo" and finding.variable.startswith(("NCCL_", "TORCH_NCCL_")):
        return replace(finding, severity="warning")
    return finding
