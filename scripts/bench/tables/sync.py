"""When gradients are waited for: sync rules against DDP, with paced compute and with real."""

from typing import Any

from scripts.bench.case import FLOORS, Case, Variant

# 0.6 s of computing and 100 MB of gradient.
PACED = ("model=replay", "model.table=hundred_mb", "data=synthetic", "batch.size=16")
REAL = ("model=resnet", "data=synthetic", "batch.size=16", "optimizer.lr=0.001")
SIZES_MB = (1, 5, 10)
DDP = (
    Variant("DDP", "hand"),
    *(Variant(f"DDP, {size} MB", "hand", options={"bucket_cap_mb": size}) for size in SIZES_MB),
)
RULES = (
    Variant("partitioned", "ours", ("sync=partitioned",)),
    Variant("next_forward", "ours", ("sync=next_forward",)),
    Variant("delayed by 1", "ours", ("sync=delayed", "sync.warmup_steps=0")),
)
PAIR = (*FLOORS, Variant("strict", "ours"), Variant("next_forward", "ours", ("sync=next_forward",)))
SHARED: dict[str, Any] = {"lead": 2, "warmup": 3}


def _ratio(time_scale: float, words: str, *more: Variant, quick: bool = False) -> Case:
    return Case(
        f"Paced compute, {words}",
        (*PAIR, *more),
        "strict",
        (*PACED, f"model.time_scale={time_scale}"),
        rate="1gbit",
        rounds=4,
        steps=3,
        quick=quick,
        **SHARED,
    )


CASES = (
    Case(
        "Paced compute", (*FLOORS, *DDP, *RULES), "DDP", PACED, rate="1gbit", rounds=5, steps=4, quick=False, **SHARED
    ),
    Case(
        "Paced compute",
        # Each variant of each of four hosts holds its own 100 MB several times, on one machine.
        (*FLOORS, *DDP[:3], RULES[1]),
        "DDP",
        (*PACED, "batch.size=32"),
        ranks=4,
        rate="1gbit",
        rounds=4,
        steps=3,
        quick=False,
        **SHARED,
    ),
    _ratio(6.0, "communication a quarter of it"),
    _ratio(1.5, "as much communication", RULES[2], quick=True),
    _ratio(0.37, "communication four times it"),
    Case(
        "ResNet-18, 32x32 images",
        (*FLOORS, *DDP, *RULES),
        "DDP",
        REAL,
        rate="250mbit",
        rounds=4,
        steps=3,
        quick=False,
        **SHARED,
    ),
)
