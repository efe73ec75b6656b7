"""The names under which every logger writes what the meter saw, as the mean over ranks and the worst rank."""

from __future__ import annotations

import resource
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist

from trainer.overlap import alignment, peers
from trainer.overlap.meter import SHARED, SHARED_WAIT, SUMS, PastStep

MILLISECONDS = {
    "step": "speed/step_ms",
    "forward": "speed/forward_ms",
    "backward": "speed/backward_ms",
    "optimizer": "speed/optimizer_ms",
    "data": "speed/data_wait_ms",
    "comm": "overlap/comm_ms",
    "exposed": "overlap/exposed_ms",
    "tail": "overlap/tail_ms",
    "peers": "overlap/wait_for_peers_ms",
}
# Only where stages send each other anything.
PIPELINE_MILLISECONDS = {
    "await_activations": "overlap/wait_activations_ms",
    "await_gradients": "overlap/wait_gradients_ms",
}
# Only where layers are shared out.
TENSOR_MILLISECONDS = {
    SHARED: "overlap/tensor_ms",
    SHARED_WAIT: "overlap/exposed_tensor_ms",
}


class Ranks(NamedTuple):
    """A window of steps as every rank measured it."""

    sums: list[dict[str, float]]
    """SUMS and `peers`, the time spent waiting for slower ranks, a step; of each rank, empty if it measured no step"""
    ahead: list[float]
    """seconds by which each rank's clock is ahead of rank 0's"""
    last: int | None
    """the number of the last step that all ranks have measured"""


def gather(values: Sequence[float], group: dist.ProcessGroup) -> torch.Tensor:
    """The values of all ranks of `group`, (ranks, values) in float64."""
    mine = torch.tensor(values, dtype=torch.float64)
    everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(everyone, mine, group=group)
    return torch.stack(everyone)


def gather_ranks(steps: Sequence[PastStep], group: dist.ProcessGroup, part: int = 0) -> Ranks:
    """What all ranks of `group` measured in a window of steps; collective.

    `part` says which part of the model this rank holds, as its rank in a pipeline does: only ranks of one part have the
    same buckets and wait for each other there. Clocks of other machines are told by these buckets, and from one part
    to another by the messages between stages.
    """
    totals = [sum(step.sums[name] for step in steps) for name in SUMS]
    first, last = (steps[0].number, steps[-1].number) if steps else (0, -1)
    mine = peers.buckets(steps)
    ranks = gather([peers.clock_name(), part, first, last, len(steps), *totals], group)
    clocks, numbers = ranks[:, 0].long().tolist(), ranks[:, 4]
    holding = [torch.nonzero(ranks[:, 1] == one).flatten().tolist() for one in ranks[:, 1].unique()]
    waited, ahead = torch.zeros(len(ranks), dtype=torch.float64), torch.zeros(len(ranks), dtype=torch.float64)
    everyone = _gather_rows(mine, group)
    for members in holding:
        times = peers.common([everyone[rank] for rank in members])
        ahead[members] = peers.offsets(times, [clocks[rank] for rank in members])
        # As if the buckets that not all have measured yet were like the others.
        counts = torch.tensor([float(len(everyone[rank])) for rank in members])
        waited[members] = peers.waits(times, ahead[members]).sum(dim=1) * counts / max(1, times.shape[1])
    ahead = alignment.across(holding, clocks, ahead, lambda: _gather_rows(alignment.messages(steps), group))
    # A rank may be a step behind: its last bucket has not been marked as arrived yet.
    first, last = int(ranks[:, 2].max()), int(ranks[:, 3].min())
    return Ranks(
        [
            {name: value / number for name, value in zip((*SUMS, "peers"), (*row, wait), strict=True)} if number else {}
            for number, row, wait in zip(numbers.tolist(), ranks[:, 5:].tolist(), waited.tolist(), strict=True)
        ],
        ahead.tolist(),
        last if last >= first else None,
    )


def _gather_rows(mine: torch.Tensor, group: dist.ProcessGroup) -> list[torch.Tensor]:
    """The tables of all ranks of `group`, which differ in the number of their rows; collective."""
    counts = gather([len(mine)], group).flatten().long().tolist()
    padded = torch.nn.functional.pad(mine, (0, 0, 0, max(counts) - len(mine)))
    everyone = gather(padded.flatten().tolist(), group).view(len(counts), max(counts), mine.shape[1])
    return [rows[:count] for rows, count in zip(everyone, counts, strict=True)]


def summarise(ranks: Ranks) -> dict[str, float]:
    """Metrics of a window of steps.

    Times are means over steps. `name` is the mean over ranks and `name/worst` the largest of any rank (for
    `overlap/hidden_ratio` the smallest). A ratio without a denominator is left out, and so is everything without steps.
    """
    measured = [sums for sums in ranks.sums if sums]
    if not measured:
        return {}
    table = {name: torch.tensor([sums[name] for sums in measured], dtype=torch.float64) for name in measured[0]}

    metrics: dict[str, float] = {}
    pipeline, tensor = bool(table["stage_bytes"].any()), bool(table["shared_bytes"].any())
    names = MILLISECONDS | (PIPELINE_MILLISECONDS if pipeline else {}) | (TENSOR_MILLISECONDS if tensor else {})
    for key, name in names.items():
        metrics[name] = table[key].mean().item() * 1000
        metrics[f"{name}/worst"] = table[key].max().item() * 1000
    if pipeline:
        waited = table["await_activations"] + table["await_gradients"]
        metrics["overlap/bubble_share"] = (waited.sum() / table["step"].sum()).item()
        metrics["overlap/bubble_share/worst"] = (waited / table["step"]).max().item()
        metrics["pipeline/bytes_sent"] = table["stage_bytes"].mean().item()
    if tensor:
        metrics["tensor/bytes_sent"] = table["shared_bytes"].mean().item()
    # A part of the model may have nothing to reduce.
    communicated = table["comm"] > 0
    if communicated.any():
        metrics["overlap/hidden_ratio"] = 1 - (table["exposed"].sum() / table["comm"].sum()).item()
        worst = (table["exposed"] / table["comm"])[communicated].max().item()
        metrics["overlap/hidden_ratio/worst"] = 1 - worst
    metrics["overlap/exposed_share"] = (table["exposed"].sum() / table["step"].sum()).item()
    metrics["comm/bytes_sent"] = table["bytes"].mean().item()
    moving = (table["exchange"] - table["peers"]).sum().item()
    if communicated.any() and moving > 0:
        metrics["comm/wire_gbit_per_s"] = table["bytes"].sum().item() * 8e-9 / moving
    return metrics


def peak_memory_mb(device: torch.device) -> float:
    """The most memory this process held: allocated on the GPU, or resident on a CPU, in MiB."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
