"""What compressing costs: encoding and decoding one bucket on one core, in multiples of copying it."""

from __future__ import annotations

import math

import torch
import torch.distributed as dist

from scripts.bench import codecs
from scripts.bench.harness import Bare, interleave
from scripts.bench.table import Table, times_table
from scripts.bench.task import compose_run
from scripts.bench.worker import Measured

# The last layers of a ResNet-18, which DDP's default bucket holds.
SHAPES = [(512, 512, 3, 3), (512, 512, 3, 3), (512, 256, 3, 3), (256, 256, 3, 3)]
COPY = "copy"
HOOKS = {
    "fp16": ["comm=fp16"],
    "bf16": ["comm=bf16"],
    "topk 1 %": ["comm=topk", "comm.ratio=0.01"],
    "randomk 1 %": ["comm=randomk", "comm.ratio=0.01"],
    "int8": ["comm=int8"],
    "onebit": ["comm=onebit"],
    "powersgd, rank 4": ["comm=powersgd", "comm.rank=4"],
}
ROUNDS, QUICK_ROUNDS, STEPS, WARMUP = 30, 5, 3, 5


def measure(quick: bool) -> list[Table]:
    """Encode and decode of every hook, interleaved with a copy of the bucket."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    group = dist.group.WORLD
    assert group is not None
    try:
        source = torch.randn(sum(map(math.prod, SHAPES)))
        target = torch.empty_like(source)
        steppers = {COPY: Bare(lambda: target.copy_(source))}
        for name, overrides in HOOKS.items():
            spec = compose_run(["model=mlp", "launch.processes=2", *overrides]).comm
            steppers[name] = Bare(codecs.work(spec, SHAPES, group))
        for stepper in steppers.values():
            for _ in range(WARMUP):
                stepper.step()
        rounds = QUICK_ROUNDS if quick else ROUNDS
        seconds = interleave(steppers, rounds, STEPS, group, torch.device("cpu"))
    finally:
        dist.destroy_process_group()
    setting = f"{source.nbytes / 1e6:.1f} MB of fp32 on one core, as one of two ranks; {rounds} rounds of {STEPS}."
    return [times_table("Encode and decode", setting, "time", Measured(seconds, {}), [COPY])]
