"""A model that is shared out over its replicas waits for its parameters."""

from __future__ import annotations

from trainer.doctor.finding import Finding
from trainer.doctor.situation import NOTICEABLE, shared_out
from trainer.doctor.typical import typical_ms
from trainer.doctor.wording import ms, share
from trainer.overlap.evidence import Evidence


def look(evidence: Evidence) -> Finding | None:
    step, comm, exposed = (typical_ms(evidence, name) for name in ("step", "comm", "exposed"))
    # On a GPU none of it is measured.
    if not shared_out(evidence) or not step or not comm or exposed is None or exposed < NOTICEABLE * step:
        return None
    return Finding(
        f"{share(exposed / step)} of the step waits for parameters or gradients that are shared out",
        f"{ms(exposed)} of {ms(comm)} of communication are exposed, in a step of {ms(step)}. With parallel=ddp a third"
        " less travels, and none of it in the forward pass; each rank then holds the whole model and its optimizer's"
        " state.",
        "parallel=ddp",
        None,
    )
