"""DDP's bucket size on slow links: the hand-written loop with real compute, and with paced compute."""

from typing import Any

from scripts.bench.case import FLOORS, Case, Variant

SIZES_MB = (1, 5, 10, 25, 60, 100)
VARIANTS = (
    *FLOORS,
    Variant("default", "hand"),
    *(Variant(f"{size} MB", "hand", options={"bucket_cap_mb": size}) for size in SIZES_MB),
)
REAL = ("model=resnet", "data=synthetic", "batch.size=16", "optimizer.lr=0.001")
PACED = ("model=replay", "model.table=resnet50", "data=synthetic", "batch.size=16")
SHARED: dict[str, Any] = {"variants": VARIANTS, "reference": "default", "warmup": 2}

CASES = (
    Case("ResNet-18, 32x32 images", overrides=REAL, rate="1gbit", rounds=8, steps=2, **SHARED),
    Case("ResNet-50, paced compute", overrides=PACED, rate="1gbit", rounds=5, steps=2, quick=False, **SHARED),
    Case("ResNet-18, 32x32 images", overrides=REAL, rate="100mbit", rounds=4, steps=1, quick=False, **SHARED),
    Case("ResNet-50, paced compute", overrides=PACED, rate="100mbit", rounds=3, steps=1, quick=False, **SHARED),
)
