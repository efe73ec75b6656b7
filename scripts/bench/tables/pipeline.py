"""Pipeline schedules against torch's own, over slow links and free ones, and hooks between the replicas of stages."""

from scripts.bench.case import Case, Variant

# Eight layers of 10 and 20 ms in four stages: 20 ms forward, 40 ms backward, and 2 MB to the next stage.
PACED = (
    "model=replay",
    "model.table=eight_layers",
    "data=synthetic",
    "batch.size=8",
    "parallel=pipeline",
    "parallel.pipeline.size=4",
    "parallel.data.size=1",
    "parallel.pipeline.microbatches=8",
    "parallel.pipeline.split=[layers.layer2,layers.layer4,layers.layer6]",
)
EIGHT = "parallel.pipeline.split=[" + ",".join(f"layers.layer{number}" for number in range(1, 8)) + "]"
STOCK = (
    Variant("torch 1F1B", "torch_pipeline", options={"schedule": "1f1b"}),
    Variant("torch GPipe", "torch_pipeline", options={"schedule": "gpipe"}),
)
SCHEDULES = (
    *(Variant(name, "ours", (f"parallel.pipeline.schedule={name}",)) for name in ("1f1b", "gpipe", "eager_1f1b")),
    Variant("interleaved", "ours", ("parallel.pipeline.schedule=interleaved", EIGHT)),
    Variant("zero_bubble", "ours", ("parallel.pipeline.schedule=zero_bubble",)),
)
AUTO = Variant("auto", "ours", ("parallel.pipeline.schedule=auto", "parallel.pipeline.split=auto"))
# 44 MB of gradient, 22 MB a stage.
RESNET = (
    "model=resnet",
    "data=synthetic",
    "batch.size=32",
    "optimizer.lr=0.001",
    "parallel=pipeline",
    "parallel.pipeline.split=[layer4.0]",
    "parallel.pipeline.microbatches=4",
)

# All slow: a quick look at every table shall take three minutes.
CASES = (
    Case(
        "Schedules",
        (*STOCK, *SCHEDULES, AUTO),
        "torch 1F1B",
        PACED,
        ranks=4,
        rate="1gbit",
        rounds=5,
        lead=1,
        quick=False,
    ),
    Case("Schedules", (*STOCK, *SCHEDULES), "1f1b", PACED, ranks=4, rounds=5, lead=1, quick=False),
    Case(
        "Two stages of two replicas, ResNet-18 on 32x32 images",
        (Variant("allreduce", "ours"), Variant("topk", "ours", ("comm=topk", "comm.warmup_steps=0"))),
        "allreduce",
        RESNET,
        ranks=4,
        rate="100mbit",
        rounds=4,
        steps=2,
        quick=False,
    ),
)
