"""Training under any rule, without a launcher: what the tests of the rules share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from trainer.comm.allreduce import AllReduce
from trainer.comm.base import CommHook
from trainer.mesh import Mesh
from trainer.overlap.clock import HostClock
from trainer.overlap.meter import Meter
from trainer.overlap.timed_hook import Timed, timed_hook
from trainer.parallel.base import DataAxis
from trainer.parallel.ddp import replicate
from trainer.parallel.executor import Executor, WholeExecutor, scaler_for
from trainer.sync.base import Replica, Sync, Synchroniser

CPU = torch.device("cpu")
BATCH = 24
# Every rank has its own until the trainer shares them, before an evaluation or a checkpoint.
OWN = ("model/norm.running_mean", "model/norm.running_var")


class Tied(nn.Module):
    """Convolution, batch norm with its buffers, and one weight that two layers share."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)
        self.second.weight = self.first.weight
        self.out = nn.Linear(64, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.conv(x)).relu().mean(1).flatten(1)
        return self.out(self.second(self.first(x).relu()).relu())


class Case(NamedTuple):
    """A training to repeat under several rules."""

    optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    loss: Callable[[Tensor, Tensor], Tensor] = nn.functional.cross_entropy
    model: Callable[[], nn.Module] = Tied
    dtype: torch.dtype = torch.float64
    steps: int = 30
    microbatches: int = 1
    comm: CommHook = AllReduce()
    max_norm: float | None = None
    previous_norm: bool = False
    axis: DataAxis = DataAxis(bucket_cap_mb=0.01)


def sgd(net: nn.Module) -> torch.optim.Optimizer:
    """Two groups with different options, momentum."""
    biases = [p for name, p in net.named_parameters() if name.endswith("bias")]
    weights = [p for name, p in net.named_parameters() if not name.endswith("bias")]
    groups = [{"params": weights, "weight_decay": 0.01}, {"params": biases, "lr": 0.01, "momentum": 0.5}]
    return torch.optim.SGD(groups, lr=0.05, momentum=0.9)


def adamw(net: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(net.parameters(), lr=0.01, fused=True)


class Training(NamedTuple):
    net: nn.Module
    replica: Replica
    executor: Executor
    synchroniser: Synchroniser
    close: Callable[[], None]


def begin(mesh: Mesh, rule: Sync, case: Case) -> Training:
    torch.manual_seed(0)
    net, group, size = case.model().to(case.dtype), mesh.groups["data"], mesh.sizes["data"]
    meter, comm = Meter(HostClock()), case.comm
    state, hook = comm.build(group)
    timed = Timed(meter, state, hook, lambda nbytes: comm.bytes_sent(state, nbytes, size))
    replica = Replica(
        model=net,
        optimizer=case.optimizer(net),
        scaler=scaler_for("fp32", CPU),
        device=CPU,
        group=group,
        parts=mesh.groups["pipeline"],
        foreign=frozenset(),
        state=timed,
        hook=timed_hook,
        divisible=comm.divisible,
        wrap=lambda state, hook: replicate(net, case.axis, group, state, hook),
        max_norm=case.max_norm,
        previous_norm=case.previous_norm,
        meter=meter,
    )
    synchroniser = rule.attach(replica)
    executor = WholeExecutor(
        synchroniser.module,
        case.loss,
        lambda output: output,
        1 / case.microbatches,
        CPU,
        "fp32",
        case.microbatches,
        meter,
        replica.scaler,
        synchroniser.accumulate,
    )

    def close() -> None:
        synchroniser.close()
        comm.close(state)

    return Training(net, replica, executor, synchroniser, close)


def batch(mesh: Mesh, step: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """This rank's share of a step's batch."""
    generator = torch.Generator().manual_seed(100 + step)
    inputs = torch.randn(BATCH, 1, 8, 8, generator=generator, dtype=torch.float64).to(dtype)
    targets = torch.randint(5, (BATCH,), generator=generator)
    share = BATCH // mesh.sizes["data"]
    return inputs[mesh.rank * share :][:share], targets[mesh.rank * share :][:share]


def run(training: Training, mesh: Mesh, case: Case, steps: range) -> None:
    """Some steps."""
    # Taken once: a rule may narrow the optimizer's list for a moment, on another thread.
    groups = training.replica.optimizer.param_groups
    for step in steps:
        training.replica.meter.begin_step()
        set_rates(groups, step, case)
        training.executor.forward_backward(*batch(mesh, step, case.dtype))
        training.synchroniser.step()
        training.replica.meter.end_step()


def set_rates(groups: list[dict[str, Any]], step: int, case: Case) -> None:
    """A learning rate that falls from step to step."""
    rates = [0.05, 0.01] if len(groups) == 2 else [0.01]
    for group, rate in zip(groups, rates, strict=True):
        group["lr"] = rate * (1 - step / case.steps)


def state(training: Training) -> dict[str, Any]:
    """Weights, and the optimizer's state by parameter, as they are now."""
    names = {id(p): name for name, p in training.net.named_parameters()}
    found = {f"model/{name}": value.clone() for name, value in training.net.state_dict().items()}
    for parameter, entries in training.replica.optimizer.state.items():
        found |= {f"{names[id(parameter)]}/{entry}": torch.as_tensor(v).clone() for entry, v in entries.items()}
    return found


def train(mesh: Mesh, rule: Sync, case: Case) -> dict[str, Any]:
    """The state after the whole training."""
    training = begin(mesh, rule, case)
    run(training, mesh, case, range(case.steps))
    training.synchroniser.finish()
    with training.synchroniser.whole():
        result = state(training)
    training.close()
    return result


def history(mesh: Mesh, rule: Sync, case: Case) -> list[dict[str, Tensor]]:
    """This rank's parameters after each step."""
    training = begin(mesh, rule, case)
    points = []
    for step in range(case.steps):
        run(training, mesh, case, range(step, step + 1))
        points.append({name: p.detach().clone() for name, p in training.net.named_parameters()})
    training.synchroniser.finish()
    training.close()
    return points
