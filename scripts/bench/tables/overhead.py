"""What the trainer adds to a step: its loop against the hand-written one, no link in between."""

from typing import Any

from scripts.bench.case import FLOORS, Case, Variant

VARIANTS = (*FLOORS, Variant("hand-written", "hand"), Variant("train.py", "ours"))
SHARED: dict[str, Any] = {"variants": VARIANTS, "reference": "hand-written", "rounds": 40, "steps": 5}
# Short turns keep what is compared close in time; each has one log step, twice as many as by default.
TRAINED = ("data=digits", "batch.size=64", "log.every=5")

CASES = (
    Case("ResNet-18 on digits", overrides=("model=resnet", *TRAINED), **SHARED),
    Case(
        "ViT of 12 layers on digits",
        overrides=("model=vit", "model.depth=12", "optimizer=adamw", *TRAINED),
        quick=False,
        **SHARED,
    ),
)
