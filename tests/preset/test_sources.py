"""Where presets are looked for, and what is refused before Hydra takes the wrong file in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer.preset import sources
from trainer.preset.sources import CONF, VARIABLE, Source
from trainer.spec import ConfigError


def _source(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("# @package _global_\n")
    return folder


def _install(place: Path, value: str) -> None:
    """What an installer leaves of a package that is called `ours`."""
    facts = place / "ours-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: ours\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[{sources.ENTRY_POINTS}]\nteam = {value}\n")


def _refusal(variable: str) -> str:
    with pytest.raises(ConfigError) as caught:
        sources.shared({VARIABLE: variable})
    return str(caught.value)


def test_folders_are_taken_in_order_once_and_their_presets_are_named_by_folders(tmp_path: Path):
    one, two = _source(tmp_path / "one", "experiment/team/ib"), _source(tmp_path / "two", "experiment/lab")
    found = sources.shared({VARIABLE: f"{one}:{two}::{one}/:{CONF}"})
    assert found == [Source(VARIABLE, one), Source(VARIABLE, two)]
    assert [preset.name for preset in sources.presets(found)] == ["team/ib", "lab"]


def test_a_relative_folder_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    _source(tmp_path / "one", "experiment/lab")
    monkeypatch.chdir(tmp_path)
    assert sources.shared({VARIABLE: "one"}) == [Source(VARIABLE, tmp_path / "one")]


def test_a_folder_that_is_not_there_or_holds_no_presets_is_refused(tmp_path: Path):
    assert _refusal(f"{tmp_path}/absent") == (
        f"TRAINER_PRESETS: there is no folder {tmp_path}/absent; make it, or take it out of TRAINER_PRESETS"
    )
    assert _refusal(str(tmp_path)) == (
        f"TRAINER_PRESETS: {tmp_path} has no folder experiment, in which presets lie; make it, or take it out of"
        " TRAINER_PRESETS"
    )


def test_a_name_that_two_sources_have_is_refused_with_both_files(tmp_path: Path):
    one, two = _source(tmp_path / "one", "experiment/team/ib"), _source(tmp_path / "two", "experiment/team/ib")
    assert _refusal(f"{one}:{two}") == (
        f"experiment/team/ib: {one}/experiment/team/ib.yaml and {two}/experiment/team/ib.yaml have the same name;"
        " rename one of them"
    )


@pytest.mark.parametrize("name", ["experiment/smoke", "comm/topk"])
def test_a_file_that_the_trainers_own_would_hide_is_refused(name: str, tmp_path: Path):
    source = _source(tmp_path, "experiment/lab", name)
    assert _refusal(str(source)) == (
        f"{name}: {CONF}/{name}.yaml and {source}/{name}.yaml have the same name; rename one of them"
    )


def test_an_installed_package_brings_presets_by_an_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = _source(tmp_path / "our_presets", "experiment/ours/ib")
    (folder / "__init__.py").write_text("raise RuntimeError('is not imported')")
    _install(tmp_path, "our_presets")
    monkeypatch.syspath_prepend(tmp_path)
    assert Source("package ours", folder) in sources.shared({})


def test_an_entry_point_to_no_package_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    _install(tmp_path, "no_such.presets")
    monkeypatch.syspath_prepend(tmp_path)
    assert _refusal("") == (
        "package ours: its entry point trainer.presets names no_such.presets, which is no package here; install it"
        " again, or take it away"
    )
