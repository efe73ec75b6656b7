"""What compression gains on a slow link and loses on a fast one: our hooks and torch's own."""

from typing import Any

from scripts.bench.case import FLOORS, Case, Variant

OURS = {
    "allreduce": ("comm=allreduce",),
    "fp16": ("comm=fp16",),
    "int8": ("comm=int8",),
    "onebit": ("comm=onebit",),
    "topk 1 %": ("comm=topk", "comm.ratio=0.01"),
    "powersgd, rank 4": ("comm=powersgd", "comm.rank=4"),
}
TORCHS: dict[str, dict[str, Any]] = {
    "torch fp16": {"hook": "fp16"},
    "torch PowerSGD, rank 4, one bucket": {"hook": "powersgd", "rank": 4},
}
VARIANTS = (
    *FLOORS,
    Variant("hand-written DDP", "hand"),
    *(Variant(name, "ours", overrides) for name, overrides in OURS.items()),
    *(Variant(name, "torch_hooks", options=options) for name, options in TORCHS.items()),
)
SHARED: dict[str, Any] = {"title": "ResNet-18, 32x32 images", "variants": VARIANTS, "reference": "hand-written DDP"}
NET = ("model=resnet", "data=synthetic", "optimizer.lr=0.001")

CASES = (
    Case(overrides=(*NET, "batch.size=16"), rate="100mbit", rounds=4, steps=1, quick=False, **SHARED),
    Case(overrides=(*NET, "batch.size=16"), ranks=4, rate="100mbit", rounds=3, steps=1, quick=False, **SHARED),
    Case(overrides=(*NET, "batch.size=16"), rate="none", rounds=8, steps=2, **SHARED),
)
