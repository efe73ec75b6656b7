"""A schedule as a picture of characters: ranks down, time to the right."""

from __future__ import annotations

from trainer.pipeline.actions import Plan, stages_of
from trainer.pipeline.simulate import alike, simulate


def grid(plan: Plan) -> str:
    """One line a rank, one cell a unit of time: stages take one for F, I and W and two for B, and hops take none.

    A cell holds the micro-batch's number in F, B, I or W; where a rank has several stages, `F3.1` is its second one.
    """
    ranks, stages = len(plan), stages_of(plan)
    forecast = simulate(plan, alike(stages))
    several = stages > ranks

    def label(kind: str, stage: int, microbatch: int) -> str:
        return f"{kind}{microbatch}" + (f".{stage // ranks}" if several else "")

    labels = [[label(*slot.action) for slot in slots] for slots in forecast.slots]
    width = 1 + max(len(text) for line in labels for text in line)
    lines = []
    for rank, (slots, texts) in enumerate(zip(forecast.slots, labels, strict=True)):
        line = ""
        for slot, text in zip(slots, texts, strict=True):
            line = line.ljust(round(slot.start) * width)
            line += text.ljust(width * round(slot.end - slot.start), "-" if slot.action.kind == "B" else " ")[:-1] + " "
        lines.append(f"rank {rank} | {line.rstrip()}")
    return "\n".join(lines)
