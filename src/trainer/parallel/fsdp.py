"""The data axis with everything shared out: torch's fully_shard, layer by layer."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from trainer.layers import CONTAINERS, visit
from trainer.parallel.fsdp_collectives import AwaitedAllGather, AwaitedReduceScatter
from trainer.spec import ConfigError

if TYPE_CHECKING:
    from trainer.overlap.meter import Meter


def shard(
    model: nn.Module, group: dist.ProcessGroup, device: torch.device, reduce_dtype: torch.dtype | None, meter: Meter
) -> FSDPModule:
    """Leave each rank of `group` its part of every parameter of `model`, already on `device` and the same on all ranks.

    Parameters are gathered layer by layer as the passes come to them, and each layer's gradients are averaged and
    shared out in the backward pass, in `reduce_dtype` (None: the parameters' own). The model's class changes, its names
    do not. On a CPU the collectives are measured; on a GPU nothing is, since torch does not tell when its streams wait.
    """
    mesh = DeviceMesh.from_group(group, device.type)
    policy = MixedPrecisionPolicy(reduce_dtype=reduce_dtype, cast_forward_inputs=False)
    names = {module: name for name, module in model.named_modules()}
    layers = groups_of(model)
    for layer in layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    assert isinstance(model, FSDPModule), "fully_shard changes the class in place"
    if measured(device):
        _on_the_host(model, [model, *layers], names, meter)
    # As DDP calls it, so that accumulation need not know of this.
    model.no_sync = functools.partial(_without_reduction, model)  # type: ignore[assignment]
    return model


def measured(device: torch.device) -> bool:
    """Whether the collectives of a model that is shared out are measured on `device`."""
    return device.type == "cpu"


def groups_of(model: nn.Module) -> list[nn.Module]:
    """The modules whose parameters are gathered together, in the order in which the model names them.

    They are the layers of `layers.visit` and the single layers with a matrix that the model calls itself, such as an
    embedding. All other parameters are gathered before the forward pass begins: vectors, which are not worth a message
    of their own, those inside a module that reads them without a call, and those that are tied across layers.
    """
    uses = collections.Counter(id(p) for _, p in model.named_parameters(remove_duplicate=False))
    called = {id(child) for child in _called(model)}

    def tied_beyond(module: nn.Module) -> bool:
        own = collections.Counter(id(p) for _, p in module.named_parameters(remove_duplicate=False))
        return any(uses[key] > count for key, count in own.items())

    found = []
    for module, whole in visit(model):
        alone = id(module) in called and not list(module.children()) and any(p.dim() > 1 for p in module.parameters())
        if (whole or alone) and any(True for _ in module.parameters()) and not tied_beyond(module):
            found.append(module)
    return found


def fit(optimizer: torch.optim.Optimizer) -> None:
    """Have `optimizer` step parameters that are parts: of torch's fused kernels only Adam's knows them."""
    if isinstance(optimizer, torch.optim.Adam):  # AdamW is one, too
        return
    for options in (optimizer.defaults, *optimizer.param_groups):
        if options.get("fused"):
            options |= {"fused": False, "foreach": True}


def check(model: nn.Module) -> None:
    """Raise ConfigError where torch cannot share out the parameters of `model`."""
    for name, parameter in model.named_parameters():
        if parameter.dim() == 0:
            raise ConfigError(
                f"parallel.data.shard: {name} is a single number, which cannot be shared out; make it a vector of one,"
                " or use parallel=ddp"
            )
    dtypes = sorted({str(p.dtype).removeprefix("torch.") for p in model.parameters()})
    if len(dtypes) > 1:
        raise ConfigError(
            f"parallel.data.shard: the parameters are of several dtypes ({', '.join(dtypes)}), which cannot be gathered"
            " together; use one, or parallel=ddp"
        )


def _called(model: nn.Module) -> Iterator[nn.Module]:
    """The children of the model, and those of its containers, which compute nothing themselves."""
    for child in model.children():
        yield child
        if isinstance(child, CONTAINERS):
            yield from _called(child)


def _on_the_host(model: nn.Module, modules: list[nn.Module], names: dict[nn.Module, str], meter: Meter) -> None:
    """Have collectives measured, and parameters gathered one layer ahead.

    A GPU needs neither: its host is ahead of it anyway. Here a gather would keep the training thread otherwise.
    """
    for module in modules:
        assert isinstance(module, FSDPModule)
        of = names[module] or "the whole model"
        module.set_custom_all_gather(AwaitedAllGather(meter, model, f"parameters of {of}"))
        module.set_custom_reduce_scatter(AwaitedReduceScatter(meter, model, f"gradients of {of}"))
    # Named as internal, and the only way to have a gather of the host's not wait for itself.
    model._set_unshard_async_op(True)  # type: ignore[operator]
    for module, following in itertools.pairwise(modules):
        module.set_modules_to_forward_prefetch([following])  # type: ignore[operator]


@contextlib.contextmanager
def _without_reduction(model: FSDPModule) -> Iterator[None]:
    """Backward passes within it add to whole gradients, which every rank holds meanwhile, and send none."""
    model.set_requires_gradient_sync(False)
    try:
        yield
    finally:
        model.set_requires_gradient_sync(True)
