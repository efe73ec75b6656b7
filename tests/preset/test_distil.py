"""Of all options of a run, the few that make it again."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.conftest import CONF
from trainer.launch import describe
from trainer.preset.compose import composed
from trainer.preset.distil import Distilled, differences, distil
from trainer.preset.portable import portable
from trainer.preset.save import _words
from trainer.spec import ConfigError


def _distilled(run) -> Distilled:
    options, _ = portable(yaml.safe_load(describe(run)))
    return distil(options, composed().choices, [CONF], lambda choices: composed(_words(choices)).tree())


RUNS = {
    "": ({}, {}),
    "comm=topk comm.ratio=0.02 steps=7": ({"comm": "topk"}, {"steps": 7, "comm": {"ratio": 0.02}}),
    "parallel=gpipe parallel.pipeline.schedule=1f1b": ({"parallel": "pipeline"}, {}),
    "parallel=gpipe parallel.pipeline.size=3": ({"parallel": "gpipe"}, {"parallel": {"pipeline": {"size": 3}}}),
    "parallel.data.bucket_cap_mb=5": ({}, {"parallel": {"data": {"bucket_cap_mb": 5.0}}}),
    "parallel.data.size=1": ({"parallel": "none"}, {}),
    "logger=[jsonl,console]": ({"logger": ["jsonl", "console"]}, {}),
    "logger=[]": ({"logger": []}, {}),
    "logger.wandb.project=night": ({}, {"logger": {"wandb": {"project": "night"}}}),
    "nccl=debug nccl.env.NCCL_IB_TC='106'": ({"nccl": "debug"}, {"nccl": {"env": {"NCCL_IB_TC": "106"}}}),
    "evaluate.every=null optimizer.nesterov=false": (
        {},
        {"evaluate": {"every": None}, "optimizer": {"nesterov": False}},
    ),
}


@pytest.mark.parametrize("overrides", RUNS)
def test_choices_and_values_are_as_few_as_possible(overrides: str, make_run):
    words = overrides.replace("nccl.env", "+nccl.env").split()
    choices, values = RUNS[overrides]
    assert _distilled(make_run(*words)) == Distilled(choices, values, [])


def test_a_variable_that_the_environment_decided_is_told(make_run, monkeypatch):
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    assert _distilled(make_run()) == Distilled({}, {}, ["NCCL_DEBUG"])


def test_a_component_that_no_choice_names_is_refused(tmp_path: Path):
    (tmp_path / "comm").mkdir()
    (tmp_path / "comm" / "ours.yaml").write_text("_target_: ours.hooks.Ours\n")
    options = {"comm": {"_target_": "theirs.hooks.Theirs"}, "nccl": {}}
    with pytest.raises(ConfigError) as caught:
        distil(options, {"comm": "ours", "logger": []}, [tmp_path], lambda choices: {"nccl": {}})
    assert str(caught.value) == (
        "comm._target_: no file in comm/ names theirs.hooks.Theirs, so no preset can choose it; write comm/<name>.yaml"
        " with this _target_ and its options"
    )


def test_true_differs_from_1_and_a_set_of_options_from_none():
    base = {"hierarchical": True, "ratio": 1, "clip": None, "kwargs": {"a": 1}}
    assert differences(base, {"hierarchical": 1, "ratio": 1.0, "clip": {"norm": 1}, "kwargs": {"a": 1, "b": None}}) == {
        "hierarchical": 1,
        "clip": {"norm": 1},
        "kwargs": {"b": None},
    }
