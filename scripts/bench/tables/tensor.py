"""Shared layers: against torch's own, with and without overlap, and between hosts of several processes."""

from scripts.bench.case import Case, Variant

# Six blocks of 256: wide enough for a product to take longer than a message.
VIT = (
    "model=vit",
    "model.width=256",
    "model.depth=6",
    "model.heads=8",
    "model.patch=4",
    "data=synthetic",
    "batch.size=16",
    "optimizer.lr=0.001",
)
TENSOR = ("parallel=tensor", "parallel.tensor.size=2", "parallel.data.size=1")
HYBRID = ("parallel=tensor", "parallel.tensor.size=2", "parallel.data.size=2")

CASES = (
    Case(
        "A vision transformer shared by two",
        (
            Variant("torch DTensor", "torch_tensor"),
            Variant("tensor", "ours"),
            Variant("tensor, no overlap", "ours", ("parallel.tensor.overlap=false",)),
            Variant("tensor, sequence", "ours", ("parallel.tensor.sequence=true",)),
        ),
        "torch DTensor",
        (*VIT, *TENSOR),
        quick=False,
    ),
    Case(
        "The same over a slow link",
        (
            Variant("tensor", "ours"),
            Variant("tensor, no overlap", "ours", ("parallel.tensor.overlap=false",)),
        ),
        "tensor, no overlap",
        (*VIT, *TENSOR),
        rate="1gbit",
        quick=False,
    ),
    Case(
        "Shared inside a host, replicas between hosts",
        (
            Variant("allreduce", "ours"),
            Variant("topk", "ours", ("comm=topk", "comm.warmup_steps=0")),
            Variant("compute alone", "ours", ("comm=noop",)),
        ),
        "allreduce",
        # Four processes share the cores: with more samples a step the table would tell about them, not about the hook.
        (*VIT, *HYBRID, "batch.size=4"),
        ranks=4,
        rate="100mbit",
        ranks_per_host=2,
        rounds=4,
        steps=2,
        quick=False,
    ),
)
