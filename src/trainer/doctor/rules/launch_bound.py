"""Many small buckets, of which starting costs more than sending."""

from __future__ import annotations

from trainer.doctor.finding import Finding
from trainer.doctor.forecast import best_size
from trainer.doctor.recorded import travel_ms
from trainer.doctor.situation import NOTICEABLE, situation
from trainer.doctor.wording import ms, rate, share, size
from trainer.overlap.evidence import Evidence

# Where starting is a smaller part of the travelling than this, larger buckets save little, and make the tail longer.
STARTING = 0.25


def look(evidence: Evidence) -> Finding | None:
    at = situation(evidence)
    if at is None or at.step is None or at.link is None or not at.link.separated or not at.exposes:
        return None
    step, link = at.step, at.link
    travelled = sum(travel_ms(step.buckets))
    starting = len(step.exchanges) * link.start_ms
    better = best_size(step, link, at.step_ms, at.exposed_ms)
    if starting < STARTING * travelled or better.buckets >= len(step.buckets):
        return None
    if better.gain_ms < NOTICEABLE * at.step_ms:
        return None
    mean = step.gradient / len(step.buckets)
    sent = sum(one.sent for one in step.exchanges) / len(step.exchanges)
    return Finding(
        f"Starting {len(step.buckets)} buckets takes {share(min(1.0, starting / travelled))} of the communication",
        f"Over all recorded buckets, starting one takes {ms(link.start_ms)} and its bytes travel at {rate(link.gbit)};"
        f" the mean bucket of {size(mean)} gets {rate(8e-6 * sent / link.ms(sent))} out of that."
        f" {better.buckets} buckets of {better.size_mb} MiB would leave {ms(better.tail_ms)} after the backward pass"
        f" instead of {ms(step.tail_ms)}.",
        f"parallel.data.bucket_cap_mb={better.size_mb}",
        better.gain_ms,
    )
