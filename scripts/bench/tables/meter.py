"""What measuring costs: a step with the meter against the same step without."""

from typing import Any

from scripts.bench.case import Case, Variant

# 160 tensors, some 25 ms a step.
MODEL = ("model=mlp", "model.depth=79", "model.width=256", "data=digits", "batch.size=64")
VARIANTS = (Variant("without", "metered", options={"metered": False}), Variant("with the meter", "metered"))
SHARED: dict[str, Any] = {"reference": "without", "rounds": 60, "steps": 4}

CASES = (Case("MLP of 160 tensors on digits", VARIANTS, overrides=MODEL, **SHARED),)
