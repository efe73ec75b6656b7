"""All rules, one after another: what there is to say about a run."""

from __future__ import annotations

import importlib
import math
import pkgutil

from trainer.doctor import rules
from trainer.doctor.finding import Finding
from trainer.doctor.wording import ms
from trainer.overlap.evidence import Evidence

# The summary at the end of a run is read in passing: more than this is not.
MOST_LINES = 3


def examine(evidence: Evidence) -> list[Finding]:
    """Findings, the largest expected gain first, those without a prediction behind.

    Every module in `rules` has `look(evidence)`, which returns a finding or None; one that also has LAST comes behind
    all others. Two rules may come to one advice from two sides; the one that is listed first is kept.
    """
    found: list[tuple[bool, float, Finding]] = []
    for name in sorted(module.name for module in pkgutil.iter_modules(rules.__path__)):
        rule = importlib.import_module(f"{rules.__name__}.{name}")
        finding = rule.look(evidence)
        if finding is not None:
            gain = -math.inf if finding.gain_ms is None else finding.gain_ms
            found.append((getattr(rule, "LAST", False), -gain, finding))
    found.sort(key=lambda one: one[:2])
    by_advice: dict[str, Finding] = {}
    for _, _, finding in found:
        by_advice.setdefault(finding.advice, finding)
    return list(by_advice.values())


def lines(findings: list[Finding]) -> list[str]:
    """The few findings that matter, a line each."""
    shown = [f"{finding.title}: try {finding.advice}{_saves(finding)}" for finding in findings[:MOST_LINES]]
    if len(findings) > MOST_LINES:
        shown.append(f"and {len(findings) - MOST_LINES} more, which scripts/doctor tells")
    return shown


def _saves(finding: Finding) -> str:
    return f" (saves about {ms(finding.gain_ms)} a step)" if finding.gain_ms is not None else ""
