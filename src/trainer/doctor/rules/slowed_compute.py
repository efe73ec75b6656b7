"""Computing is slower while something travels: hidden communication that is not free."""

from __future__ import annotations

from trainer.doctor.finding import Finding
from trainer.doctor.typical import number, typical_metric
from trainer.doctor.wording import ms, share
from trainer.overlap.evidence import Evidence

# Single repeated steps vary by some percent.
SLOWED = 1.1


def look(evidence: Evidence) -> Finding | None:
    slowdown = typical_metric(evidence, "overlap/slowdown")
    if slowdown is None or slowdown <= SLOWED:
        return None
    exposed, counted = (typical_metric(evidence, f"overlap/{name}") for name in ("ablation_exposed_ms", "exposed_ms"))
    cost = ""
    if exposed is not None and counted is not None:
        cost = f" Communication adds {ms(max(0.0, exposed))} to a step, of which {ms(counted)} stand as exposed."
    if evidence.option("place.device") == "cuda":
        how = "NCCL's kernels take multiprocessors from the model's; fewer channels take fewer."
        advice = "nccl.env.NCCL_MAX_CTAS=4"
    else:
        how = "Sending and encoding need a core that computing has taken."
        advice = _fewer_threads(number(evidence, "launch.threads"))
    return Finding(
        f"Computing takes {share(slowdown - 1)} longer beside communication",
        f"Steps repeated without communication tell.{cost} {how}",
        advice,
        None,
    )


def _fewer_threads(present: float | None) -> str:
    if present is None:  # auto: only the launcher knew the cores
        return "launch.threads=<cores of a worker, less one>"
    return f"launch.threads={int(present) - 1}" if present > 1 else "profile=window"
