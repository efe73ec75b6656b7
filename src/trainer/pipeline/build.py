"""One rank's part of a pipeline: what it keeps of the model, its schedule, and its channels to the neighbours."""

from __future__ import annotations

import datetime
import itertools
import logging
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from trainer.mesh import Mesh
from trainer.overlap.meter import Meter
from trainer.overlap.metrics import gather
from trainer.parallel.executor import autocast_for
from trainer.pipeline.actions import Plan, held
from trainer.pipeline.balance import Cost, balance, measure, now
from trainer.pipeline.channel import Receiver, Sender
from trainer.pipeline.check import plan_of
from trainer.pipeline.choose import Choice, Link, choose, rank_bytes
from trainer.pipeline.cut import Chain
from trainer.pipeline.executor import Ends, PipelineExecutor
from trainer.pipeline.stage import Stage
from trainer.run import Run
from trainer.tensor.share import Shared

log = logging.getLogger(__name__)

# Messages by which a link is measured: one that is all latency, and one that is hardly.
PROBES = (8, 2**20)
PROBED = 5


@dataclass(frozen=True)
class Pipeline:
    """One rank's stages."""

    module: nn.Module
    """what this rank keeps of the model, under the model's own names"""
    stages: dict[int, Stage]
    plan: Plan
    onward: Ends
    back: Ends
    targets: Ends
    memory: str
    """what this rank should need, in words"""
    shared: Shared
    begins: tuple[str, ...]
    """the layers that begin the second and later stages"""
    predicted: Mapping[str, float]
    """the seconds of a step under each schedule that was simulated"""

    @property
    def modules(self) -> list[nn.Module]:
        """The stages' own forward passes."""
        return [stage.module for stage in self.stages.values()]

    def executor(
        self,
        run: Run,
        rank: int,
        device: torch.device,
        meter: Meter,
        scaler: torch.amp.GradScaler,
        module: nn.Module,
        complete: Callable[[], None],
    ) -> PipelineExecutor:
        """What runs the stages of the pipeline's rank `rank`, which are in `module`."""
        return PipelineExecutor(
            module,
            self.stages,
            self.plan,
            rank,
            self.onward,
            self.back,
            self.targets,
            self.memory,
            self.shared.loss,
            self.shared.output,
            run.loss_scale,
            device,
            run.precision,
            meter,
            scaler,
            complete,
        )


def build(
    run: Run, mesh: Mesh, model: nn.Module, shared: Shared, device: torch.device, meter: Meter, cut: Sequence[str]
) -> Pipeline:
    """Cut `model`, on the CPU and the same on all ranks of a tensor axis, and keep what is this rank's; collective.

    `cut` names the layers that begin later stages where that is known, as from a checkpoint.
    """
    axis, ranks, rank = run.parallel.pipeline, mesh.sizes["pipeline"], mesh.ranks["pipeline"]
    ring = axis.stages_a_rank > 1 or axis.schedule == "auto"
    onward, back = _channels(mesh, device, run.timeout, meter, ring)
    chain = Chain(model, list(cut) or axis.split)
    choice = _decide(run, mesh, chain, shared, device, onward, back)
    if mesh.rank == 0:
        layers = [[unit.layer for unit in chain.units[first:stop]] for first, stop in chain.bounds(choice.begins)]
        log.info("pipeline: %s", choice.reason)
        log.info("pipeline: stages %s", ", ".join(f"{names[0]} to {names[-1]}" for names in layers))
    bounds = chain.bounds(choice.begins)
    own = {number: bounds[number] for number in range(rank, len(bounds), ranks)}
    kept = chain.keep(own.values()).to(device)
    splits = any(action.kind == "W" for action in choice.plan[rank])
    stages = {number: Stage(chain.module(*at, kept), number == 0, splits) for number, at in own.items()}
    return Pipeline(
        module=kept,
        stages=stages,
        plan=choice.plan,
        onward=onward,
        back=back,
        targets=_targets_channel(mesh, device, run.timeout, meter),
        memory=_memory(choice, rank),
        shared=shared,
        begins=tuple(chain.units[number].layer for number in choice.begins),
        predicted=choice.predicted,
    )


def _channels(mesh: Mesh, device: torch.device, timeout: datetime.timedelta, meter: Meter, ring: bool) -> list[Ends]:
    """The channels onward and back; with `ring` also from the last rank to the first and back; collective."""
    members = dist.get_process_group_ranks(mesh.groups["pipeline"])
    size, me = len(members), mesh.ranks["pipeline"]
    found = []
    for direction, step in (("onward", 1), ("back", -1)):
        group = mesh.another("pipeline", f"pipeline {direction}", device, timeout)
        # Between two ranks the way around is the same pair's other direction.
        around = mesh.another("pipeline", f"pipeline {direction}, around", device, timeout) if ring else None
        after, before = me + step, me - step
        to = group if 0 <= after < size else around
        source = group if 0 <= before < size else around
        found.append(
            Ends(
                None if to is None else Sender(to, members[after % size], device, meter, f"send_{direction}"),
                None if source is None else Receiver(source, members[before % size], device),
            )
        )
    return found


def _targets_channel(mesh: Mesh, device: torch.device, timeout: datetime.timedelta, meter: Meter) -> Ends:
    """From the first rank to the last one; collective."""
    members = dist.get_process_group_ranks(mesh.groups["pipeline"])
    group = mesh.another("pipeline", "pipeline targets", device, timeout)
    if mesh.rank == members[0]:
        return Ends(Sender(group, members[-1], device, meter, "send_onward"), None)
    return Ends(None, Receiver(group, members[0], device) if mesh.rank == members[-1] else None)


def _memory(choice: Choice, rank: int) -> str:
    if not choice.rank_bytes:
        return ""
    mean = sum(choice.rank_bytes) / len(choice.rank_bytes)
    own = choice.rank_bytes[rank]
    return f", {own / 2**20:,.0f} MiB should do, which is {own / mean - 1:+.0%} against the mean of the ranks"


def _decide(
    run: Run, mesh: Mesh, chain: Chain, shared: Shared, device: torch.device, onward: Ends, back: Ends
) -> Choice:
    """The first rank's decision, on all ranks; collective."""
    axis = run.parallel.pipeline
    why = "cut as in the checkpoint" if axis.split == "auto" else "cut where split says"
    if chain.begins and axis.schedule != "auto":
        return Choice(chain.begins, axis.schedule, plan_of(run), f"{axis.schedule}, {why}", [])
    links = _probe(mesh, device, onward, back) if axis.schedule == "auto" else []
    decided: list[Any] = [None]
    # Ranks that share layers must run them together.
    if mesh.rank < mesh.sizes["tensor"]:
        costs = _costs(run, chain, shared, device)
        if links:
            decided = [choose(axis, run.microbatches, costs, links, _memory_bytes(device), chain.begins)]
        else:
            plan = plan_of(run)
            begins = balance(costs, held(plan), _memory_bytes(device))
            edges = [0, *begins, len(costs)]
            times = [1000 * sum(c.seconds for c in costs[a:b]) for a, b in itertools.pairwise(edges)]
            reason = f"{axis.schedule}, stages of {', '.join(f'{ms:.1f}' for ms in times)} ms a micro-batch"
            decided = [Choice(begins, axis.schedule, plan, reason, rank_bytes(costs, begins, plan))]
    dist.broadcast_object_list(decided, 0, group=mesh.control)
    choice: Choice = decided[0]
    return choice


def _costs(run: Run, chain: Chain, shared: Shared, device: torch.device) -> list[Cost]:
    sample, size = run.data.sample(), run.share // run.microbatches
    if sample.kind == "tokens":
        inputs = torch.randint(sample.classes, (size, *sample.shape))
        targets = inputs
    else:
        inputs = torch.randn(size, *sample.shape)
        targets = torch.zeros(size, dtype=torch.int64)
    targets = targets.to(device)

    def loss(output: Tensor) -> Tensor:
        return shared.loss(output, targets)

    return measure(chain, inputs, loss, device, autocast_for(run.precision, device))


def _probe(mesh: Mesh, device: torch.device, onward: Ends, back: Ends) -> list[Link]:
    """The links from each rank of the first pipeline to the next one; collective.

    Half the time of a message there and back, one pair of ranks after another.
    """
    rank, last = mesh.ranks["pipeline"], mesh.sizes["pipeline"] - 1
    seconds = [0.0] * len(PROBES)
    messages = [torch.zeros(nbytes, dtype=torch.uint8, device=device) for nbytes in PROBES]
    if rank > 0:
        assert onward.receiver is not None, "there is a rank before"
        assert back.sender is not None, "there is a rank before"
        for message in messages:
            for _ in range(PROBED):
                dist.recv(message, onward.receiver.peer, group=onward.receiver.group)
                dist.send(message, back.sender.peer, group=back.sender.group)
    if rank < last:
        assert onward.sender is not None, "there is a rank after"
        assert back.receiver is not None, "there is a rank after"
        for number, message in enumerate(messages):
            times = []
            for _ in range(PROBED):
                began = now(device)
                dist.send(message, onward.sender.peer, group=onward.sender.group)
                dist.recv(message, back.receiver.peer, group=back.receiver.group)
                times.append((now(device) - began) / 2)
            seconds[number] = statistics.median(times)
    measured = gather(seconds, mesh.control)
    members = dist.get_process_group_ranks(mesh.groups["pipeline"])
    extra = PROBES[1] - PROBES[0]
    return [Link(short, extra / max(long - short, 1e-9)) for short, long in measured[members[:-1]].tolist()]


def _memory_bytes(device: torch.device) -> float:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    # What this machine's ranks share, with what the system only keeps in case it is read again.
    lines = [line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable:")]
    available = 1024 * int(lines[0].split()[1])
    return available / int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
