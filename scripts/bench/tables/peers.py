"""Other ways to train the same model: torch's own hooks, Lightning, Accelerate, DeepSpeed."""

from scripts.bench.case import FLOORS, Case, Variant

VARIANTS = (
    *FLOORS,
    Variant("hand-written DDP", "hand"),
    Variant("train.py", "ours"),
    Variant("torch fp16 hook", "torch_hooks", options={"hook": "fp16"}),
    Variant("torch bf16 hook", "torch_hooks", options={"hook": "bf16"}),
    Variant("torch PowerSGD hook, rank 4, one bucket", "torch_hooks", options={"hook": "powersgd"}),
    Variant("Lightning Fabric", "fabric"),
    Variant("Lightning Trainer", "lightning_trainer"),
    Variant("Accelerate", "accelerate"),
    Variant("DeepSpeed, stage 0", "deepspeed"),
)
CASES = (
    Case(
        "ResNet-18, 32x32 images",
        VARIANTS,
        "hand-written DDP",
        ("model=resnet", "data=synthetic", "batch.size=16", "optimizer.lr=0.001"),
        rate="1gbit",
        rounds=8,
        steps=2,
    ),
)
