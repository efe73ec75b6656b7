"""Cut a model into stages: which parts follow one another, where one tensor alone passes, and what each stage keeps."""

from __future__ import annotations

import copy
import inspect
import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from torch import fx, nn

from trainer.spec import ConfigError, did_you_mean

WHERE = "parallel.pipeline.split"


@dataclass(frozen=True)
class Unit:
    """A stretch of the model's forward pass that begins with a layer and is never cut."""

    layer: str
    """the name of its first module with weights"""
    nodes: list[fx.Node]
    entering: list[fx.Node]
    """what the units before have computed and this or a later one reads; a cut before it needs exactly one"""


class Chain:
    """A model's forward pass as units, one after another.

    1. The pass is traced (torch.fx) through containers and through whatever holds a layer that `split` names; all other
    modules stay whole. 2. Each module with weights begins a unit. 3. Units between which several tensors pass are one,
    unless `split` wants to cut there, which raises ConfigError.
    """

    def __init__(self, model: nn.Module, split: Sequence[str] | str) -> None:
        self.model = model
        names = () if isinstance(split, str) else tuple(split)
        self._check_names(names)
        self.graph = _trace(model, names)
        fine = list(self._units())
        for unit in fine[1:]:
            if unit.layer in names and len(unit.entering) != 1:
                crossing = ", ".join(node.name for node in unit.entering)
                raise ConfigError(
                    f"{WHERE}: {len(unit.entering)} tensors pass into {unit.layer} and beyond ({crossing}), and a stage"
                    " takes one, so a skip connection would be cut; cut before or after what it spans"
                )
        self.units: list[Unit] = []
        for unit in fine:
            if self.units and len(unit.entering) != 1:
                before = self.units[-1]
                self.units[-1] = Unit(before.layer, before.nodes + unit.nodes, before.entering)
            else:
                self.units.append(unit)
        self._check_used()
        begins = {unit.layer: number for number, unit in enumerate(self.units)}
        missing = [name for name in names if name not in begins]
        if missing:
            raise ConfigError(
                f"{WHERE}: no layer begins with {missing[0]}, since it has no weights that are trained or is not"
                f" reached by the forward pass{did_you_mean(missing[0], begins)}"
            )
        self.begins = [begins[name] for name in names]

    def bounds(self, begins: Sequence[int]) -> list[tuple[int, int]]:
        """The units [first, stop) of each stage, where stages after the first begin at the units `begins`."""
        edges = [0, *begins, len(self.units)]
        return list(itertools.pairwise(edges))

    def module(self, first: int, stop: int, root: nn.Module) -> fx.GraphModule:
        """The units [first, stop) as a module from tensor to tensor, made of the layers of `root`, which has them."""
        graph = fx.Graph()
        known: dict[fx.Node, fx.Node] = {}
        nodes = [node for unit in self.units[first:stop] for node in unit.nodes]
        entry = self.units[first].entering[0] if first else next(n for n in self.graph.nodes if n.op == "placeholder")
        known[entry] = graph.placeholder("x")
        for node in nodes:
            if node not in known:
                known[node] = graph.node_copy(node, lambda old: known[old])
        if stop < len(self.units):
            graph.output(known[self.units[stop].entering[0]])
        else:
            result = next(node for node in self.graph.nodes if node.op == "output").args[0]
            graph.output(fx.node.map_arg(result, lambda old: known[old]))
        return fx.GraphModule(root, graph)

    def keep(self, stages: Collection[tuple[int, int]]) -> nn.Module:
        """The model with only what these stages use, everything under its own name; its own forward works no more."""
        used = {name for first, stop in stages for unit in self.units[first:stop] for name in _targets(unit)}
        kept = copy.copy(self.model)
        _prune(kept, "", used)
        return kept

    def _units(self) -> Iterator[Unit]:
        body = [node for node in self.graph.nodes if node.op not in ("placeholder", "output")]
        # A stage with nothing to learn would have no optimizer: frozen layers go with the next that learns.
        weighty = [
            n for n in body if n.op == "call_module" and any(p.requires_grad for p in self._module(n).parameters())
        ]
        if not weighty:
            raise ConfigError(f"{WHERE}: the model calls no layer with weights to train, so there is nothing to cut")
        place = {node: number for number, node in enumerate(self.graph.nodes)}
        for number, node in enumerate(weighty):
            begin = place[node] if number else 0
            end = place[weighty[number + 1]] if number + 1 < len(weighty) else len(place)
            nodes = [other for other in body if begin <= place[other] < end]
            entering = [
                other
                for other in self.graph.nodes
                if place[other] < begin and any(place[user] >= begin for user in other.users)
            ]
            yield Unit(str(node.target), nodes, entering)

    def _module(self, node: fx.Node) -> nn.Module:
        return self.model.get_submodule(str(node.target))

    def _check_names(self, names: Sequence[str]) -> None:
        modules = {name for name, _ in self.model.named_modules() if name}
        for name in names:
            if name not in modules:
                raise ConfigError(f"{WHERE}: the model has no layer {name!r}{did_you_mean(name, modules)}")
        if len(set(names)) < len(names):
            raise ConfigError(f"{WHERE}: a layer is named twice; name each layer that begins a stage once")

    def _check_used(self) -> None:
        """Raise ConfigError for a tensor that no unit has, or that two have: the copies would be trained apart."""
        owners: dict[int, set[int]] = {}
        for number, unit in enumerate(self.units):
            for target in _targets(unit):
                for tensor in _tensors(self.model, target):
                    owners.setdefault(id(tensor), set()).add(number)
        for name, parameter in self.model.named_parameters():
            if id(parameter) not in owners:
                raise ConfigError(
                    f"{WHERE}: {name} is not used by the forward pass, so it belongs to no stage; remove it from the"
                    " model, or use parallel=ddp"
                )
        for name, parameter in self.model.named_parameters():
            # Units that share it must stay together, which `module` cannot promise.
            if len(owners[id(parameter)]) > 1:
                layers = ", ".join(self.units[number].layer for number in sorted(owners[id(parameter)]))
                raise ConfigError(
                    f"{WHERE}: {name} is used by several layers ({layers}), which may lie on several ranks, where its"
                    " copies would be trained apart; untie it, or use parallel=ddp"
                )


class _Tracer(fx.Tracer):
    def __init__(self, ancestors: Collection[str]) -> None:
        super().__init__()
        self.ancestors = ancestors

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return not (type(m) is nn.Sequential or module_qualified_name in self.ancestors)


def _trace(model: nn.Module, names: Sequence[str]) -> fx.Graph:
    """The graph of the model's forward pass. Raises ConfigError where it cannot be told from one pass."""
    ancestors = {name.rsplit(".", level)[0] for name in names for level in range(1, name.count(".") + 1)}
    # Arguments with a default, such as a mask, are left at it.
    parameters = list(inspect.signature(model.forward).parameters.values())[1:]
    defaults = {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}
    training = model.training
    graphs = []
    for mode in (True, False):
        _set_mode(model, mode)
        try:
            graphs.append(_Tracer(ancestors).trace(model, concrete_args=defaults))
        except Exception as error:  # the user's code may not bear symbolic values, in many ways
            reason = (str(error).strip() or type(error).__name__).splitlines()[0].partition(". ")[0]
            raise ConfigError(
                f"{WHERE}: {type(model).__name__}.forward cannot be cut, since it does not run the same way for every"
                f" input ({reason}); move what depends on the input into layers, or write it as a torch.nn.Sequential"
            ) from None
        finally:
            _set_mode(model, training)
    if str(graphs[0]) != str(graphs[1]):
        raise ConfigError(
            f"{WHERE}: {type(model).__name__}.forward does not do the same in training and in evaluation; move what"
            " depends on self.training into a layer, such as torch.nn.Dropout"
        )
    return graphs[0]


def _set_mode(model: nn.Module, training: bool) -> None:
    """Of the model alone, and of the containers that are traced through."""
    for module in model.modules():
        if module is model or type(module) is nn.Sequential:
            module.training = training


def _targets(unit: Unit) -> list[str]:
    return [str(node.target) for node in unit.nodes if node.op in ("call_module", "get_attr")]


def _tensors(model: nn.Module, target: str) -> list[nn.Parameter]:
    parent, _, name = target.rpartition(".")
    found = getattr(model.get_submodule(parent), name)
    if isinstance(found, nn.Module):
        return list(found.parameters())
    return [found] if isinstance(found, nn.Parameter) else []


def _prune(module: nn.Module, prefix: str, used: Collection[str]) -> None:
    """Leave in `module`, which is a copy, what `used` names; children on the way to it are copied, not changed."""
    module._parameters = {name: p for name, p in module._parameters.items() if f"{prefix}{name}" in used}
    module._buffers = {name: b for name, b in module._buffers.items() if f"{prefix}{name}" in used}
    children = dict(module._modules)
    module._modules = {}
    for name, child in children.items():
        path = f"{prefix}{name}"
        if path in used:
            module._modules[name] = child
        elif child is not None and any(other.startswith(f"{path}.") for other in used):
            module._modules[name] = copy.copy(child)
            _prune(module._modules[name], f"{path}.", used)  # type: ignore[arg-type]
