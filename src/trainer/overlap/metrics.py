"""The names under which every logger writes what the meter saw, as the mean over ranks and the worst rank."""

from __future__ import annotations

import resource
from collections.abc import Sequence

import torch
import torch.distributed as dist

from trainer.overlap.meter import SUMS

MILLISECONDS = {
    "step": "speed/step_ms",
    "forward": "speed/forward_ms",
    "backward": "speed/backward_ms",
    "optimizer": "speed/optimizer_ms",
    "data": "speed/data_wait_ms",
    "comm": "overlap/comm_ms",
    "exposed": "overlap/exposed_ms",
    "tail": "overlap/tail_ms",
}


def gather(values: Sequence[float], group: dist.ProcessGroup) -> torch.Tensor:
    """The values of all ranks of `group`, (ranks, values) in float64."""
    mine = torch.tensor(values, dtype=torch.float64)
    everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(everyone, mine, group=group)
    return torch.stack(everyone)


def summarise(steps: Sequence[dict[str, float]], group: dist.ProcessGroup) -> dict[str, float]:
    """Metrics of a window of steps from every rank's measurements of it; collective over `group`.

    Times are means over steps. `name` is the mean over ranks and `name/worst` the largest of any rank (for
    `overlap/hidden_ratio` the smallest). A ratio without a denominator is left out, and so is everything without steps.
    """
    totals = [sum(step[name] for step in steps) for name in SUMS]
    ranks = gather([len(steps), *totals], group)
    ranks = ranks[ranks[:, 0] > 0]
    if not len(ranks):
        return {}
    table = dict(zip(SUMS, (ranks[:, 1:] / ranks[:, :1]).T, strict=True))

    metrics: dict[str, float] = {}
    for key, name in MILLISECONDS.items():
        metrics[name] = table[key].mean().item() * 1000
        metrics[f"{name}/worst"] = table[key].max().item() * 1000
    if (table["comm"] > 0).all():
        metrics["overlap/hidden_ratio"] = 1 - (table["exposed"].sum() / table["comm"].sum()).item()
        metrics["overlap/hidden_ratio/worst"] = 1 - (table["exposed"] / table["comm"]).max().item()
    metrics["overlap/exposed_share"] = (table["exposed"].sum() / table["step"].sum()).item()
    metrics["comm/bytes_sent"] = table["bytes"].mean().item()
    if (table["comm"] > 0).all():
        metrics["comm/wire_gbit_per_s"] = (table["bytes"].sum() * 8e-9 / table["comm"].sum()).item()
    return metrics


def peak_memory_mb(device: torch.device) -> float:
    """The most memory this process held: allocated on the GPU, or resident on a CPU, in MiB."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
