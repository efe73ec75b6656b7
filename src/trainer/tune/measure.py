"""A short run that tells what a step is made of and what its links and hooks cost; collective."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from trainer import replay_table
from trainer.comm.base import CommHook
from trainer.comm.noop import NoOp
from trainer.control import Control
from trainer.mesh import Mesh
from trainer.nccl.probe import Link, hosts_of
from trainer.overlap.metrics import gather
from trainer.profile.base import Profile as Recordings
from trainer.run import Run
from trainer.sync.chunk_plan import Piece
from trainer.sync.chunks import Chunk
from trainer.sync.strict import Strict
from trainer.tune import space
from trainer.tune.calibrate import calibrated
from trainer.tune.profile import Point, Profile
from trainer.tune.short_run import Steps, quiet, take

# Bytes of the buckets that are timed, and how many are handed over at once: a hook works at a queue, as in a step.
QUEUES = ((2**16, 4), (2**20, 3), (2**22, 2), (2**24, 1))
# Rounds of each at the most; the first warms up. Over a slow link the seconds hardly differ between rounds.
ROUNDS, ENOUGH_S = 4, 0.25
# Bytes of gradient that are copied to time that: a bucket of the usual size.
COPIED = 2**24
# On a link so slow that a round takes as long, larger buckets are on the same line.
LONG_S = 0.5


def measure(
    run: Run, count: int, hooks: Mapping[str, CommHook], wire: Link, mesh: Mesh, device: torch.device
) -> Profile:
    """The profile of `run`, of `count` steps without communication, as many with its own settings, and all `hooks`.

    It is rank 0's, on all ranks.
    """
    control = Control(mesh.control)
    short = quiet(run, count, max(2, count // 4))
    # A recorder of layers counts its own steps.
    bare = {"comm": NoOp(), "sync": Strict(), "profile": Recordings(record_replay=True)}
    alone = take(short.model_copy(update=bare), count, mesh, device, control)
    curves = {name: curve(hook, mesh, device, run) for name, hook in hooks.items()}
    copying = _copying(mesh, device)
    present = take(short, count, mesh, device, control)
    hosts = hosts_of(mesh.control)
    told: list[Any] = [None]
    if mesh.rank == 0:
        told = [_profile(run, hooks, wire, mesh, hosts, alone, curves, copying, present)]
    dist.broadcast_object_list(told, src=0, group=mesh.control)
    return told[0]


def _profile(
    run: Run,
    hooks: Mapping[str, CommHook],
    wire: Link,
    mesh: Mesh,
    hosts: Sequence[str],
    alone: Steps,
    curves: dict[str, list[Point]],
    copying: float,
    present: Steps,
) -> Profile:
    """The profile of rank 0, which alone has recorded its layers."""
    rows = replay_table.read(run.folder / "replay.csv", "tune")
    quartiles = statistics.quantiles(present.seconds, n=4)
    optimizer_s = statistics.median(line["speed/optimizer_ms"] for line in alone.lines[1:]) / 1000
    layers_s = sum(row.forward_ms + row.backward_ms for row in rows) / 1000
    # Several nodes may be namespaces of one machine, and share its cores.
    beside = sum(host.rpartition("/")[0] == platform.node() for host in hosts)
    profile = Profile(
        rows=rows,
        rest_s=max(0.0, statistics.median(alone.seconds) - layers_s - optimizer_s),
        optimizer_s=optimizer_s,
        busy=alone.cpu_s / sum(alone.seconds),
        cores=len(os.sched_getaffinity(0)) / beside,
        copying=copying,
        ranks=mesh.sizes["data"],
        hosts=len(set(hosts)),
        wire=wire,
        curves=curves,
        divisible=[name for name, hook in hooks.items() if hook.divisible],
        present_s=quartiles[1],
        spread_s=(quartiles[2] - quartiles[0]) / 2,
    )
    computing_ms = (line["speed/step_ms"] - line["overlap/exposed_ms"] for line in present.lines[1:])
    return calibrated(profile, space.present(run), statistics.median(computing_ms) / 1000)


def curve(hook: CommHook, mesh: Mesh, device: torch.device, run: Run) -> list[Point]:
    """What buckets of several sizes cost, each of a queue of them, on the slowest rank."""
    points: list[Point] = []
    for size, count in QUEUES:
        points.append(_point(hook, size, count, mesh, device, run))
        if points[-1].wall_s * count > LONG_S:
            break
    return points


def _point(hook: CommHook, size: int, count: int, mesh: Mesh, device: torch.device, run: Run) -> Point:
    state, reduce = hook.build(mesh.groups["data"], run.timeout)
    buckets = [_bucket(place, count, size, device) for place in range(count)]
    rounds = []
    for _ in range(ROUNDS):
        dist.barrier(group=mesh.control)
        began, worked = time.perf_counter(), time.process_time()
        for future in [reduce(state, bucket) for bucket in buckets]:
            future.wait()
        _catch_up(device)
        taken = gather([time.perf_counter() - began, time.process_time() - worked], mesh.control)
        rounds.append((taken[:, 0].max().item() / count, taken[:, 1].mean().item() / count))
        sent = sum(hook.bytes_sent(state, bucket.buffer().nbytes, mesh.sizes["data"]) for bucket in buckets) / count
        if sum(wall for wall, _ in rounds[1:]) * count > ENOUGH_S:
            break
    hook.close(state)
    walls, cpus = zip(*rounds[1:], strict=True)
    return Point(buckets[0].buffer().nbytes, statistics.median(walls), statistics.median(cpus), sent)


def _copying(mesh: Mesh, device: torch.device) -> float:
    """Bytes per second at which this rank copies gradients while all do."""
    gradients = torch.ones(COPIED // 4, device=device)
    taken = []
    for _ in range(ROUNDS):
        dist.barrier(group=mesh.control)
        began = time.perf_counter()
        gradients.clone()
        _catch_up(device)
        taken.append(time.perf_counter() - began)
    return COPIED / statistics.median(taken[1:])


def _catch_up(device: torch.device) -> None:
    """Wait for what the device has been told to do."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _bucket(place: int, count: int, size: int, device: torch.device) -> Any:
    """Gradients of `size` bytes of one square parameter, as DDP hands them to a hook."""
    side = round((size // 4) ** 0.5)
    flat = torch.randn(side * side, device=device) * 1e-3
    parameter = flat.clone().view(side, side)
    return Chunk(count - 1 - place, count, [Piece(0, 0, flat.numel())], [parameter], flat)
