"""What two presets or runs differ in, defaults and all."""

from __future__ import annotations

import pytest

from trainer.preset.difference import Difference, difference, options_of
from trainer.spec import ConfigError


def test_components_and_options_that_differ_are_listed_in_order():
    one = {"steps": 5, "comm": {"_target_": "t.comm.topk.TopK", "ratio": 0.1, "feedback": True}, "shape": [1, None]}
    other = {"steps": 5, "comm": {"_target_": "t.comm.fp16.FP16", "feedback": False}, "shape": [1]}
    assert difference(one, other) == [
        Difference("comm", "topk", "fp16"),
        Difference("comm.ratio", "0.1", "-"),
        Difference("comm.feedback", "true", "false"),
        Difference("shape", "[1, null]", "[1]"),
    ]


def test_a_run_and_the_preset_it_was_made_by_do_not_differ(make_run, record):
    folder = record(make_run("experiment=smoke", "launch.processes=3", "batch.size=63"))
    found = difference(options_of("smoke"), options_of(str(folder)))
    assert found == [Difference("batch.size", "64", "63")]


def test_a_shared_preset_has_its_name(share):
    share(ib="defaults: [/experiment/smoke, _self_]\nsteps: 9")
    assert difference(options_of("smoke"), options_of("team/ib")) == [Difference("steps", "20", "9")]


def test_what_is_neither_is_refused(tmp_path):
    with pytest.raises(ConfigError) as caught:
        options_of("smok")
    assert str(caught.value) == "smok: is neither a run's folder nor a preset; did you mean 'smoke'?"
