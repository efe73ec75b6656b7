"""The options of profile=window, and a run with it."""

from __future__ import annotations

import gzip
import json

import pytest
from torch import nn

from tests.processes import SMALL, only_run, run
from trainer.overlap.clock import HostClock
from trainer.overlap.meter import Meter
from trainer.profile.replay_recorder import ReplayRecorder
from trainer.profile.window_recorder import WindowRecorder
from trainer.spec import ConfigError


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["steps=4"], "profile.steps: 5 are more than the run's 4 steps; use fewer"),
        (
            ["steps=14"],
            "profile.first_step: steps 11 to 15 are not all among the run's 14; use profile.first_step=10 or an earlier"
            " one",
        ),
        (
            ["profile.ranks=[0,2]"],
            "profile.ranks: there is no rank 2, for the run has 2; use ranks from 0 to 1, or profile.ranks=all",
        ),
    ],
)
def test_a_window_that_is_not_in_the_run_is_refused(make_run, overrides, message):
    with pytest.raises(ConfigError) as refused:
        make_run("profile=window", *overrides)
    assert str(refused.value) == message


@pytest.mark.parametrize("wrong", ["ranks=[]", "ranks=[-1]", "ranks=some", "first_step=0", "steps=0"])
def test_a_value_that_names_no_window_is_refused(make_run, wrong):
    with pytest.raises(ConfigError, match=f"^profile.{wrong.partition('=')[0]}"):
        make_run("profile=window", f"profile.{wrong}")


def test_a_window_may_be_the_whole_run_on_all_ranks(make_run):
    run = make_run("profile=window", "steps=5", "profile.first_step=1", "profile.ranks=all")
    assert run.profile.ranks == "all"


def _recordings(run, rank: int, done: int = 0) -> list[type]:
    return [type(one) for one in run.profile.recordings(run, rank, nn.Linear(1, 1), Meter(HostClock()), done)]


def test_only_the_chosen_ranks_record(make_run):
    run = make_run("profile=window", "profile.ranks=[1]")
    assert _recordings(run, 0) == []
    assert _recordings(run, 1) == [WindowRecorder]


def test_a_replay_table_can_be_recorded_as_well(make_run):
    run = make_run("profile=window", "profile.record_replay=true")
    assert _recordings(run, 0) == [ReplayRecorder, WindowRecorder]


def test_nothing_is_recorded_unless_asked_for(make_run):
    assert _recordings(make_run(), 0) == []


def test_a_resumed_run_that_is_past_the_window_says_so(make_run, caplog):
    run = make_run("profile=window")
    assert _recordings(run, 0, done=10) == [WindowRecorder]
    assert _recordings(run, 0, done=11) == []
    assert caplog.messages == ["profile.first_step: step 11 is past, 11 are done; no trace is written"]


def test_a_run_leaves_every_recording_and_says_where(tmp_path):
    recorded = ("profile=window", "profile.ranks=all", "profile.record_replay=true", "profile.ablation_every=12")
    code, output = run(tmp_path, *SMALL, "comm=onebit", *recorded)
    assert code == 0, output
    folder = only_run(tmp_path)
    names = [f"rank{rank}.{kind}" for rank in (0, 1) for kind in ("json.gz", "overlap.json")]
    assert sorted(path.name for path in (folder / "trace").iterdir()) == names
    assert "profile: trace/rank0.json.gz; hidden " in output
    assert f"profile.record_replay: wrote {folder.relative_to(tmp_path) / 'replay.csv'}" in output
    # Nothing of what Kineto says to itself.
    assert not [line for line in output.splitlines() if "profiler_" in line or "Kineto" in line]
    for rank in (0, 1):
        compared = json.loads((folder / "trace" / f"rank{rank}.overlap.json").read_text())
        assert [entry["step"] for entry in compared["steps"]] == [11, 12, 13, 14, 15]
        packed = (folder / "trace" / f"rank{rank}.json.gz").read_bytes()
        names = {event["name"] for event in json.loads(gzip.decompress(packed))["traceEvents"]}
        # Collectives of the courier's thread among them.
        assert {"aten::mm", "gloo:all_reduce", "step 11", "step 15", "bucket 0"} <= names
