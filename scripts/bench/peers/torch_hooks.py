"""torch's own communication hooks on the hand-written loop."""

# https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html

from __future__ import annotations

from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

from scripts.bench.harness import Bare
from scripts.bench.peers import hand
from scripts.bench.task import Task

# MiB that any of the benchmarks' models fits into.
ONE_BUCKET_MB = 1e4


def build(task: Task, hook: str, rank: int = 4) -> Bare:
    """`hook` is fp16, bf16 or powersgd; `rank` is PowerSGD's."""
    if hook == "powersgd":
        # It starts collectives from callbacks, which on Gloo run in another order on each rank: two buckets that cross
        # abort the process. On a CPU it gets one.
        model = hand.wrap(task, ONE_BUCKET_MB if task.device.type == "cpu" else None)
        # Two dense steps are the fewest that it takes with error feedback; the warm-up must be longer.
        state = powerSGD_hook.PowerSGDState(task.group, matrix_approximation_rank=rank, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    else:
        model = hand.wrap(task)
        model.register_comm_hook(task.group, getattr(default_hooks, f"{hook}_compress_hook"))
    return hand.loop(task, model)
