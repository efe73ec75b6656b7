"""Every YAML file: it composes and resolves, and it lists exactly what its component knows."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import yaml

from trainer.config import COMMANDS, GROUPS, NODES
from trainer.launch import describe
from trainer.run import Run
from trainer.spec import Component, Spec
from trainer.sweep.options import Sweep

CONF = Path(__file__).parent.parent / "conf"
COMPONENTS = sorted(path for group in [*GROUPS, "logger"] for path in (CONF / group).glob("*.yaml"))
EXPERIMENTS = sorted(path.stem for path in (CONF / "experiment").glob("*.yaml"))
# Values that only a user can give, and files that only a user has.
OPEN = {
    # The default model has no plan by which its layers could be shared out.
    "parallel/tensor": ["model=vit"],
    "parallel/hybrid": ["model=vit"],
    "model/custom": ["model.factory=torch.nn:Flatten"],
    "data/custom": ["data.factory=tests.test_yaml:two_data_sets", "batch.size=2"],
    "data/cifar10": None,
    "data/image_folder": None,
    "comm/custom": ["comm.factory=tests.test_yaml:a_hook"],
    "data/text": ["model=gpt"],
    "tune/what_if": ["tune.profile=pyproject.toml"],
    "model/gpt": ["data=text"],
}


def two_data_sets():
    import torch

    data = torch.utils.data.TensorDataset(torch.zeros(4, 1, 8, 8), torch.zeros(4, dtype=torch.long))
    return data, data


def a_hook(group):
    return group, None


def _id(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def _component(path: Path) -> tuple[type[Component], dict]:
    node = yaml.safe_load(path.read_text())
    module, _, name = node.pop("_target_").rpartition(".")
    return getattr(importlib.import_module(module), name), node


@pytest.mark.parametrize("path", COMPONENTS, ids=_id)
def test_it_lists_exactly_the_options_of_its_component(path):
    cls, node = _component(path)
    assert set(node) == set(cls.model_fields)


@pytest.mark.parametrize("path", COMPONENTS, ids=_id)
def test_its_values_are_the_components_own_defaults(path):
    cls, node = _component(path)
    if path.stem != cls.choice():
        return  # a preset is a choice of other values
    for name, field in cls.model_fields.items():
        if field.is_required():
            assert node[name] == "???"
        elif name not in ("workers", "root"):  # sources that read a disk start with more loader processes
            assert cls.model_validate({name: node[name]} | _required(cls)).model_dump()[name] == field.default


def _required(cls: type[Spec]) -> dict:
    return {name: "a.b:c" for name, field in cls.model_fields.items() if field.is_required()}


@pytest.mark.parametrize("path", COMPONENTS, ids=_id)
def test_it_composes_and_resolves(path, make_run):
    extra = OPEN.get(_id(path), [])
    if extra is None:
        pytest.skip("needs files that only a user has; its own test makes them")
    group = path.parent.name
    choice = f"{group}=[{path.stem}]" if group == "logger" else f"{group}={path.stem}"
    run = make_run(choice, *extra)
    made = run.logger[path.stem] if group == "logger" else getattr(run, group)
    assert type(made) is _component(path)[0]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_resolves(name, make_run):
    make_run(f"experiment={name}")


def test_the_root_lists_exactly_what_a_run_knows():
    root = yaml.safe_load((CONF / "config.yaml").read_text())
    assert set(root) - {"defaults", "hydra", *COMMANDS} == set(Run.model_fields) - set(GROUPS) - {"logger", "place"}
    for name, node in NODES.items():
        assert node.model_validate(root[name]) == node()
    assert root["sweep"] == Sweep().model_dump()


def test_an_experiment_wins_over_the_root(make_run):
    assert make_run("experiment=smoke").steps == 20
    assert make_run("experiment=smoke", "steps=3").steps == 3


def test_a_run_with_paths_is_described(make_run, tmp_path):
    text = tmp_path / "text"
    text.write_text("To be, or not to be. " * 2000)
    plain = yaml.safe_load(describe(make_run("model=gpt", "data=text", f"data.path={text}")))
    assert plain["data"]["path"] == str(text)
    assert plain["folder"] == str(tmp_path / "run")
