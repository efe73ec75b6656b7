"""Whether a model can be shared out between tensor ranks as its plan says, found out before a process starts."""

from __future__ import annotations

import collections
import fnmatch
from collections.abc import Iterator

from torch import nn

from trainer.spec import ConfigError
from trainer.tensor_plan import Region, TensorPlan

WHERE = "parallel.tensor.size"


def plan_of(model: nn.Module) -> TensorPlan:
    """What `model` says of itself. Raises ConfigError where it says nothing."""
    plan = getattr(model, "tensor_plan", None)
    if not isinstance(plan, TensorPlan):
        raise ConfigError(
            f"{WHERE}: {type(model).__name__} does not say how its layers can be shared out; give the module an"
            " attribute tensor_plan (a trainer.tensor_plan.TensorPlan), or use parallel=pipeline"
        )
    return plan


def check(model: nn.Module, size: int, sequence: bool) -> None:
    """Raise ConfigError where `size` ranks cannot share `model` out."""
    plan = plan_of(model)
    if plan.heads is not None and plan.heads % size:
        raise ConfigError(
            f"{WHERE}: {size} ranks cannot share {plan.heads} attention heads evenly; use a divisor, or change"
            " model.heads"
        )
    if sequence and plan.sequence is None:
        raise ConfigError(
            f"parallel.tensor.sequence: the tensor_plan of {type(model).__name__} names no stretch in which positions"
            " are treated by themselves; use sequence=false"
        )
    found = [one for region in plan.regions for one in matching(model, region.module)]
    if not found:
        raise ConfigError(f"{WHERE}: the tensor_plan matches no module of the model; correct its names")
    cut = {layer for region in plan.regions for layer in _region(model, region, size)}
    cut |= {layer for pattern in plan.embeddings for layer in _named(model, pattern, nn.Embedding, "an embedding")}
    cut |= {layer for layer in [plan.head] if layer and _named(model, layer, nn.Linear, "the last linear layer")}
    for name in plan.sequence or () if sequence else ():
        _named(model, name, nn.Module, "an end of the sequence")
    _check_ties(model, cut)


def matching(model: nn.Module, pattern: str) -> Iterator[tuple[str, nn.Module]]:
    """The modules of `model` with names like `pattern`, in which * stands for one part of a name."""
    for name, module in model.named_modules():
        if name.count(".") == pattern.count(".") and fnmatch.fnmatchcase(name, pattern):
            yield name, module


def _region(model: nn.Module, region: Region, size: int) -> Iterator[str]:
    """The names of the layers of a region that are cut."""
    for path, module in matching(model, region.module):
        for name, dim in [*((n, 0) for n in region.columns), *((n, 1) for n in region.rows)]:
            layer = getattr(module, name, None)
            if not isinstance(layer, nn.Linear):
                raise ConfigError(
                    f"{WHERE}: the tensor_plan names {region.module}.{name} as a linear layer, and it is"
                    f" {type(layer).__name__}; correct the plan"
                )
            if layer.weight.shape[dim] % size:
                raise ConfigError(
                    f"{WHERE}: {size} ranks cannot share the {layer.weight.shape[dim]}"
                    f" {'outputs' if dim == 0 else 'inputs'} of {region.module}.{name} evenly; use a divisor"
                )
            yield f"{path}.{name}"
        known = (*region.columns, *region.rows)
        others = [name for name, _ in module.named_parameters() if name.partition(".")[0] not in known]
        if others:
            raise ConfigError(
                f"{WHERE}: the tensor_plan's region {region.module} holds {others[0]} beside the layers that are cut,"
                " whose gradient each rank would know a part of only; put the cut layers into a module of their own"
            )


def _named(model: nn.Module, pattern: str, kind: type[nn.Module], what: str) -> list[str]:
    """The names of the modules that a plan calls `what`."""
    found = list(matching(model, pattern))
    wrong = next((module for _, module in found if not isinstance(module, kind)), None)
    if not found or wrong is not None:
        is_it = "there is none of that name" if wrong is None else f"it is {type(wrong).__name__}"
        raise ConfigError(f"{WHERE}: the tensor_plan names {pattern} as {what}, and {is_it}; correct the plan")
    return [name for name, _ in found]


def _check_ties(model: nn.Module, cut: set[str]) -> None:
    """Each rank's part of a layer is a parameter of its own, so one that two layers share would become two."""
    names = collections.defaultdict(list)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names[id(parameter)].append(name)
    for shared in names.values():
        if len(shared) > 1 and any(name.rpartition(".")[0] in cut for name in shared):
            raise ConfigError(
                f"{WHERE}: {shared[0]} and {shared[1]} are one parameter, and the tensor_plan cuts it, which would make"
                " two of it; leave both out of the plan, or untie them"
            )
