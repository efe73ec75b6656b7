"""What arrives after the backward pass could arrive earlier from smaller buckets."""

from __future__ import annotations

from trainer.doctor.finding import Finding
from trainer.doctor.forecast import best_size, limited_by_cap
from trainer.doctor.recorded import travel_ms
from trainer.doctor.situation import NOTICEABLE, situation
from trainer.doctor.typical import bucket_cap
from trainer.doctor.wording import ms, rate, share, size
from trainer.overlap.evidence import Evidence


def look(evidence: Evidence) -> Finding | None:
    at = situation(evidence)
    if at is None or at.step is None or at.link is None or not at.exposes:
        return None
    if not limited_by_cap(at.step, bucket_cap(evidence)):
        return None
    step, better = at.step, best_size(at.step, at.link, at.step_ms, at.exposed_ms)
    if better.buckets <= len(step.buckets) or better.gain_ms < NOTICEABLE * at.step_ms:
        return None
    last, taken = step.buckets[-1], travel_ms(step.buckets)[-1]
    return Finding(
        f"The last bucket arrives {ms(step.tail_ms)} after the backward pass",
        f"It is the last of {len(step.buckets)}, holds {size(last.size)} and travels for {ms(taken)} at"
        f" {rate(at.link.gbit)}; {share(at.exposed_share)} of the step is exposed communication. In {better.buckets}"
        f" buckets of {better.size_mb} MiB, sent beside a backward pass of {ms(step.backward_ms)}, the last one would"
        f" arrive {ms(better.tail_ms)} after it.",
        f"parallel.data.bucket_cap_mb={better.size_mb}",
        better.gain_ms,
    )
