"""The ranks that share layers wait for each other's parts."""

from __future__ import annotations

import math

from trainer.doctor.finding import Finding
from trainer.doctor.situation import NOTICEABLE
from trainer.doctor.typical import number, typical_metric, typical_ms
from trainer.doctor.wording import ms, share
from trainer.overlap.evidence import Evidence
from trainer.overlap.metrics import TENSOR_MILLISECONDS
from trainer.tensor.hosts import apart


def look(evidence: Evidence) -> Finding | None:
    size = int(number(evidence, "parallel.tensor.size") or 1)
    step = typical_ms(evidence, "step")
    total, exposed = (typical_metric(evidence, name) for name in TENSOR_MILLISECONDS.values())
    if size < 2 or not step or not total or exposed is None or exposed < NOTICEABLE * step:
        return None
    why, advice = _cause(evidence, size)
    return Finding(
        f"{share(exposed / step)} of the step waits for sums between the ranks that share layers",
        f"{ms(exposed)} of {ms(total)} in which anything passes between them are exposed, in a step of {ms(step)}."
        f" {why}",
        advice,
        None,
    )


def _cause(evidence: Evidence, size: int) -> tuple[str, str]:
    """What most likely makes them wait, and what to type instead."""
    if apart(evidence.hosts, size):
        inside = math.gcd(size, int(number(evidence, "place.processes") or 1))
        return (
            f"The {size} ranks of a layer are on several hosts, and every layer's sum goes between these. Fewer ranks a"
            " layer, all inside a host, leave the link between hosts to gradients.",
            f"parallel.tensor.size={inside}",
        )
    if evidence.option("parallel.tensor.overlap") is False:
        return (
            "Sums of the backward pass are waited for before the gradients of weights are computed, and could travel"
            " beside that.",
            "parallel.tensor.overlap=true",
        )
    if evidence.option("parallel.tensor.sequence") is True:
        return (
            "What is shared out along the sequence is gathered in both passes with nothing to hide beside it; without"
            " that activations take more memory.",
            "parallel.tensor.sequence=false",
        )
    fewer = "1 rank computes a layer alone" if size == 2 else f"{size // 2} ranks a layer send less"
    return (
        f"Sums of the forward pass have nothing beside them. Where a larger part of the model fits, {fewer}, and the"
        " others become replicas.",
        f"parallel.tensor.size={size // 2}",
    )
