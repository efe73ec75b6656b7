"""Shared presets on Hydra's search path, and what is wrong with one in a line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hydra.errors import HydraException
from omegaconf import OmegaConf

from tests.conftest import CONF
from tests.processes import TRAIN
from trainer.config import explain
from trainer.preset.compose import as_yaml, composed
from trainer.spec import ConfigError

WRONG = {
    "defaults: [override /update: strict]": "experiment/team/wrong: there is no group 'update'; did you mean 'data'?",
    "defaults: [override /comm: topkk]": "comm: there is no comm 'topkk'; did you mean 'topk'?",
    "defaults: [/comm: topk]": "comm: is chosen twice; in a preset write 'override /comm: topk'",
    "defaults: [/experiment/smok]": "experiment/team/wrong: includes 'smok', which does not exist; did you mean"
    " 'smoke'?",
    "defaults: [fine]": "experiment/team/wrong: includes 'fine', which does not exist; write '/experiment/team/fine'",
    "steps: [": "{folder}/experiment/team/wrong.yaml: line 3 is no YAML (expected the node content, but found"
    " '<stream end>'); write option: value",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_with_a_preset_is_told_in_a_line(text: str, share):
    folder = share(wrong=text, fine="steps: 5")
    with pytest.raises((HydraException, yaml.YAMLError)) as caught:
        composed(["experiment=team/wrong"])
    assert explain(caught.value, ["experiment=team/wrong"], CONF) == WRONG[text].format(folder=folder)


@pytest.mark.parametrize("text", ["steps: 5", "defaults:\n  - override /comm: topk"])
def test_a_preset_without_its_first_line_is_told_so(text: str, share, make_run):
    folder = share()
    (folder / "experiment" / "team" / "bare.yaml").write_text(text)
    with pytest.raises((HydraException, ConfigError)) as caught:
        make_run("experiment=team/bare")
    told = str(caught.value) if isinstance(caught.value, ConfigError) else explain(caught.value, [], CONF)
    assert told == (
        "experiment: its file's first line must be '# @package _global_', or its values are no options of a run"
    )


def test_a_name_that_no_preset_has_is_compared_with_all_of_them(share, compose_error):
    share(h100_ib="steps: 5")
    words = ["experiment=team/h100"]
    assert explain(compose_error(*words), words, CONF) == (
        "experiment: there is no experiment 'team/h100'; did you mean 'team/h100_ib'?"
    )


def test_a_shared_preset_runs_and_is_on_the_search_path(share, tmp_path: Path):
    folder = share(h100_ib="defaults: [override /comm: topk]\ncomm: {ratio: 0.5}")
    words = [sys.executable, TRAIN, "experiment=team/h100_ib", "--info", "all"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert f"| TRAINER_PRESETS | file://{folder} |" in lines
    config = yaml.safe_load(done.stdout.partition("Config\n******\n")[2])
    assert (config["comm"]["_target_"], config["comm"]["ratio"]) == ("trainer.comm.topk.TopK", 0.5)


def test_a_source_that_is_missing_stops_train_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRAINER_PRESETS", str(tmp_path / "absent"))
    done = subprocess.run([sys.executable, TRAIN, "dry_run=true"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"TRAINER_PRESETS: there is no folder {tmp_path}/absent; make it, or take it out of TRAINER_PRESETS\n"
    )


def test_what_is_written_is_read_as_it_was():
    values = {
        "text": ["1e3", "012", "yes", "null", "1_000", "0x1F", "-", "a: b # c", "", " x", "=eth0", "1:30", "~", "é"],
        "interpolated": ["${x}", r"\${x}", r"\\${x}", "a${oc.env:HOME}b", "$x", r"C:\new"],
        "numbers": [1, 1.0, 1e-08, 1e22, -0.5],
        "others": [True, None, [], {}, [[1], {"a": [None]}]],
    }
    assert OmegaConf.to_container(OmegaConf.create(as_yaml(values)), resolve=True) == values
