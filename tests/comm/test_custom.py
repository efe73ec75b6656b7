"""A user's own hook: what it may be, and what is refused."""

import pytest
import torch
import torch.distributed as dist

from trainer.comm.custom import Custom
from trainer.mesh import Mesh
from trainer.spec import ConfigError


def scaled(group, factor=1.0):
    """An average that is scaled, as (state, hook)."""
    return (group, factor), _scaled


def _scaled(state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    group, factor = state
    buffer = bucket.buffer().mul_(factor / dist.get_world_size(group))
    return dist.all_reduce(buffer, group=group, async_op=True).get_future().then(lambda done: done.value()[0])


def other_names(group):
    return group, lambda state, gradients: None


def no_pair(group):
    return group


def _gradient(mesh: Mesh) -> float:
    net = torch.nn.Linear(1, 1, bias=False)
    ddp = torch.nn.parallel.DistributedDataParallel(net, process_group=mesh.groups["data"])
    ddp.register_comm_hook(*Custom(factory=f"{__name__}:scaled", kwargs={"factor": 2.0}).build(mesh.groups["data"]))
    ddp(torch.ones(1, 1) * (mesh.rank + 1)).sum().backward()
    return net.weight.grad.item()


def test_a_users_hook_reduces(workers):
    assert workers(2, _gradient) == [3.0, 3.0]


@pytest.mark.parametrize(
    ("factory", "kwargs", "line"),
    [
        ("nowhere:make", "", "comm.factory: cannot import nowhere (ModuleNotFoundError: No module named 'nowhere')"),
        (f"{__name__}:scaled", "+comm.kwargs.speed=3", f"comm.factory: {__name__}:scaled cannot be called as factory("),
    ],
)
def test_a_factory_that_cannot_be_called_is_refused_in_the_launcher(make_run, factory, kwargs, line):
    with pytest.raises(ConfigError) as caught:
        make_run("comm=custom", f"comm.factory={factory}", *([kwargs] if kwargs else []))
    assert str(caught.value).startswith(line)


@pytest.mark.parametrize(
    ("factory", "line"),
    [
        (
            "other_names",
            f"comm.factory: the hook of {__name__}:other_names takes (state, gradients); DDP calls it as hook(state,"
            " bucket), with these names",
        ),
        ("no_pair", f"comm.factory: {__name__}:no_pair returned ProcessGroup; it must return (state, hook)"),
    ],
)
def test_a_wrong_hook_is_refused(workers, factory, line):
    assert workers(1, _refusal, factory) == [line]


def _refusal(mesh: Mesh, factory: str) -> str:
    with pytest.raises(ConfigError) as caught:
        Custom(factory=f"{__name__}:{factory}").build(mesh.groups["data"])
    return str(caught.value)
