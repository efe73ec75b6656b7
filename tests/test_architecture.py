"""The rules of the architecture, checked on the source itself."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "trainer"
# Hydra takes plugins from modules of this namespace only.
PLUGINS = ROOT / "src" / "hydra_plugins"
FILES = sorted([*SOURCE.rglob("*.py"), *PLUGINS.rglob("*.py")])
GROUPS = ("parallel", "comm", "sync", "nccl", "optimizer", "schedule", "model", "data", "logger", "profile")
# What a group may know of the rest of the package, besides itself.
COMMON = (
    "trainer.spec",
    "trainer.sample",
    "trainer.generators",
    "trainer.signals",
    "trainer.replay_table",
    "trainer.json_lines",
    "trainer.layers",
    "trainer.tensor_plan",
)
# Experiments and the search space are presets of nothing that has a file of its own.
PRESETS = {"parallel": {"none", "gpipe", "hybrid"}, "profile": {"none"}}
COLLECTIVES = {
    "all_reduce",
    "all_gather",
    "all_gather_into_tensor",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "reduce_scatter_tensor",
    "send",
    "recv",
    "isend",
    "irecv",
}


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def _imports(path: Path) -> tuple[str, ...]:
    """Modules that a file imports when it runs: what stands under TYPE_CHECKING is left out."""
    return tuple(_names(path, _tree(path)))


def _names(path: Path, tree: ast.Module) -> Iterator[str]:
    hidden = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in ast.walk(branch)
    }
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{_name(path)} has a relative import"
            yield node.module or ""


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_a_file_holds_one_idea_of_at_most_300_lines(path):
    assert len(path.read_text().splitlines()) <= 300


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_hydra_ends_at_resolve(path):
    # preset/compose.py tells Hydra where shared presets lie, and composes them for scripts/preset.
    if path in (SOURCE / "config.py", SOURCE / "preset" / "compose.py") or PLUGINS in path.parents:
        return
    assert not [name for name in _imports(path) if name.split(".")[0] in ("hydra", "omegaconf")]


@pytest.mark.parametrize("path", [p for p in FILES if p.parent.name in GROUPS], ids=_name)
def test_groups_know_only_themselves_and_what_is_common(path):
    # What measures a step takes the meter's clock.
    measures = path.name == "executor.py" or path.parent.name == "profile"
    allowed = (*COMMON, f"trainer.{path.parent.name}", *(["trainer.overlap"] if measures else []))
    foreign = [name for name in _imports(path) if name.startswith("trainer") and not name.startswith(allowed)]
    assert not foreign


@pytest.mark.parametrize("path", [*(SOURCE / "comm").glob("*.py"), SOURCE / "overlap" / "timed_hook.py"], ids=_name)
def test_hooks_keep_real_annotations_which_ddp_inspects(path):
    assert "__future__" not in set(_imports(path))


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_every_collective_names_its_group(path):
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {f"dist.{name}" for name in COLLECTIVES}:
            groups = [keyword.value for keyword in node.keywords if keyword.arg == "group"]
            assert groups, f"{_name(path)}:{node.lineno} leaves its group to chance"
            assert ast.unparse(groups[0]) != "None"


@pytest.mark.parametrize("package", ["comm", "sync", "parallel", "pipeline", "overlap", "profile"])
def test_nothing_in_a_step_waits_for_the_device(package):
    for path in (SOURCE / package).glob("*.py"):
        if path.name == "metrics.py":  # called at log steps only
            continue
        tree = _tree(path)
        # At log steps, or before the first step.
        outside = {
            id(node)
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef) and function.name in ("numbers", "anchor", "now")
            for node in ast.walk(function)
        }
        for node in ast.walk(tree):
            if id(node) in outside:
                continue
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                assert node.func.attr not in ("item", "synchronize", "barrier"), f"{_name(path)}:{node.lineno}"


@pytest.mark.parametrize("group", GROUPS)
def test_yaml_source_and_test_mirror_each_other(group):
    files = {path.stem for path in (ROOT / "conf" / group).glob("*.yaml")} - PRESETS.get(group, set())
    for name in files:
        assert (SOURCE / group / f"{name}.py").exists(), f"conf/{group}/{name}.yaml has no source of its name"
        assert (ROOT / "tests" / group / f"test_{name}.py").exists(), f"{group}/{name} has no test of its name"
