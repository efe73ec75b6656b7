"""What is usually tried first and was left as it comes, where communication is exposed."""

from __future__ import annotations

from trainer.doctor.finding import Finding
from trainer.doctor.situation import situation
from trainer.doctor.wording import share
from trainer.overlap.evidence import Evidence

# A reminder, not a finding of its own: it comes behind all others.
LAST = True


def look(evidence: Evidence) -> Finding | None:
    """The checklist. Asynchronous reduction is not on it: every hook here is asynchronous."""
    at = situation(evidence)
    if at is None or not at.exposes or not evidence.config:
        return None
    left: dict[str, str] = {}  # what was left, and what to type
    if evidence.option("parallel.data.bucket_cap_mb") is None:
        left["the bucket size is DDP's own, not searched"] = "-m parallel.data.bucket_cap_mb=1,5,25"
    if evidence.component("comm") == "allreduce":
        left["no other communication hook was taken"] = "-m comm=allreduce,fp16,onebit"
    if not evidence.option("data.workers"):
        left["batches are not prefetched by loader processes"] = "data.workers=2"
    if at.device == "cuda" and not evidence.option("nccl.read_back"):
        left["what NCCL chose was not looked at"] = "nccl.read_back=true"
    if evidence.component("profile") in ("", "base"):
        left["no profile was taken"] = "profile=window"
    if not left:
        return None
    return Finding(
        "Settings that were left as they come",
        f"{share(at.exposed_share)} of the step is exposed communication, and {'; '.join(left)}.",
        next(iter(left.values())),
        None,
    )
