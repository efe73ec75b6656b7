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


def swapped(group):
    return _scaled, group


def failing(group):
    raise KeyError("ring")


def two_arguments(group, ratio):
    return (group, ratio), _scaled


def no_arguments():
    return None, _scaled


def _gradient(mesh: Mesh) -> float:
    net = torch.nn.Linear(1, 1, bias=False)
    ddp = torch.nn.parallel.DistributedDataParallel(net, process_group=mesh.groups["data"])
    ddp.register_comm_hook(*Custom(factory=f"{__name__}:scaled", kwargs={"factor": 2.0}).build(mesh.groups["data"]))
    ddp(torch.ones(1, 1) * (mesh.rank + 1)).sum().backward()
    return net.weight.grad.item()


def test_a_users_hook_reduces(workers):
    assert workers(2, _gradient) == [3.0, 3.0]


EXPECTED = "; it must take the process group, then comm.kwargs, and return (state, hook)"


@pytest.mark.parametrize(
    ("factory", "kwargs", "line"),
    [
        (
            "nowhere:make",
            [],
            "comm.factory: cannot import nowhere (ModuleNotFoundError: No module named 'nowhere'); check the name and"
            " PYTHONPATH",
        ),
        (
            f"{__name__}:scaled",
            ["+comm.kwargs.speed=3"],
            f"comm.factory: {__name__}:scaled takes (group, factor), but is called with (group, speed): got an"
            f" unexpected keyword argument 'speed'{EXPECTED}",
        ),
        (
            f"{__name__}:two_arguments",
            [],
            f"comm.factory: {__name__}:two_arguments takes (group, ratio), but is called with (group): missing a"
            f" required argument: 'ratio'{EXPECTED}",
        ),
        (
            f"{__name__}:no_arguments",
            [],
            f"comm.factory: {__name__}:no_arguments takes (), but is called with (group): too many positional"
            f" arguments{EXPECTED}",
        ),
        (
            f"{__name__}:scaled",
            ["+comm.kwargs.group=3"],
            f"comm.factory: {__name__}:scaled takes (group, factor), but is called with (group, group): multiple values"
            f" for argument 'group'{EXPECTED}",
        ),
        (
            f"{__name__}:_scaled",
            [],
            f"comm.factory: {__name__}:_scaled takes (state, bucket), but is called with (group): missing a required"
            f" argument: 'bucket'{EXPECTED}",
        ),
    ],
)
def test_a_factory_that_cannot_be_called_is_refused_in_the_launcher(make_run, factory, kwargs, line):
    with pytest.raises(ConfigError) as caught:
        make_run("comm=custom", f"comm.factory={factory}", *kwargs)
    assert str(caught.value) == line


PAIR = "; it must return (state, hook), as DDP's register_comm_hook takes them"


@pytest.mark.parametrize(
    ("factory", "line"),
    [
        (
            "other_names",
            f"comm.factory: the hook of {__name__}:other_names takes (state, gradients); DDP calls it as hook(state,"
            " bucket), with these names",
        ),
        ("no_pair", f"comm.factory: {__name__}:no_pair returned int{PAIR}"),
        ("swapped", f"comm.factory: {__name__}:swapped returned (function, int){PAIR}"),
        ("failing", f"comm.factory: {__name__}:failing failed with KeyError: 'ring'; check comm.kwargs"),
    ],
)
def test_a_wrong_hook_is_refused_in_the_worker(factory, line):
    """What a factory returns is known only where there is a group, for which any value stands here."""
    with pytest.raises(ConfigError) as caught:
        Custom(factory=f"{__name__}:{factory}").build(3)
    assert str(caught.value) == line
