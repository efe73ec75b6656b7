"""The ranks that hold the same part of the model: what they do and wait for can be compared, that of others cannot."""

from __future__ import annotations

from collections.abc import Sequence

from trainer.doctor.typical import typical_ms
from trainer.overlap.evidence import Evidence

# A stage that waits for activations for less than this share of a step is not held up by the one before it.
NOTHING = 0.01


def parts(evidence: Evidence) -> list[list[int]]:
    """The ranks of each part, from the first stages of a pipeline to the last; all in one without a pipeline."""
    held = evidence.stages()
    return [[rank for rank, part in enumerate(held) if part == one] for one in sorted(set(held))]


def only(evidence: Evidence, ranks: Sequence[int]) -> Evidence:
    """What was measured of these ranks."""
    windows = [
        window.model_copy(
            update={
                "ranks": [window.ranks[rank] for rank in ranks if rank < len(window.ranks)],
                "timeline": window.timeline
                and [window.timeline[rank] for rank in ranks if rank < len(window.timeline)],
            }
        )
        for window in evidence.windows
    ]
    hosts = [evidence.hosts[rank] for rank in ranks if rank < len(evidence.hosts)]
    return evidence._replace(windows=windows, hosts=hosts)


def reducing(evidence: Evidence) -> tuple[Evidence, float | None]:
    """The part whose exposed communication costs the run most, and the ms a step that this costs.

    The first stage is the last to have its gradients, and the next step begins with it. What a later stage exposes
    costs nothing while it waits for activations afterwards: it would only wait longer.
    """
    found: list[tuple[float, Evidence]] = []
    for ranks in parts(evidence):
        part = only(evidence, ranks)
        exposed = typical_ms(part, "exposed")
        if exposed is None:
            continue
        waits, step = typical_ms(part, "await_activations") or 0.0, typical_ms(part, "step") or 0.0
        found.append((0.0 if found and waits > NOTHING * step else exposed, part))
    if not found:
        return evidence, typical_ms(evidence, "exposed")
    cost, part = max(found, key=lambda one: one[0])
    return part, cost


def mean_ms(evidence: Evidence, ranks: Sequence[int], *names: str) -> float:
    """The sum of some of a step's times, as the mean over `ranks` and the median over windows."""
    part = only(evidence, ranks)
    return sum(typical_ms(part, name) or 0.0 for name in names)
