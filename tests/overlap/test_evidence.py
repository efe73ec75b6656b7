"""What can be read of a run's folder, whatever state it is in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainer.overlap import evidence
from trainer.overlap.evidence import Event, Evidence, Metrics, Window

HEADER = {"step": 0, "version": 1, "hosts": ["a"], "links_gbit": [None]}


def window(step: int, seconds: float, timeline: bool = True) -> dict:
    spans = [[["forward", "", 0.0, 1.0, 0, 0]]] if timeline else None
    return {"step": step, "steps": 10, "ranks": [{"step": seconds}], "timeline": spans}


def write(path: Path, *lines: object) -> None:
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run.yaml").write_text("comm: {_target_: trainer.comm.topk.TopK, ratio: 0.01}\n")
    write(tmp_path / "metrics.jsonl", {"step": 10, "train/loss": 2.0}, {"step": 20, "train/loss": 1.0})
    write(tmp_path / "ranks.jsonl", HEADER, window(10, 9.0), window(20, 2.0), window(30, 1.0), window(40, 4.0))
    return tmp_path


def test_a_whole_folder_lacks_nothing(folder: Path):
    read = evidence.read(folder)
    assert read.lacks == []
    assert read.component("comm") == "topk"
    assert (read.option("comm.ratio"), read.option("comm.rank"), read.option("a.b", 3)) == (0.01, None, 3)
    assert read.series("train/loss") == [(10, 2.0), (20, 1.0)]
    assert list(read.hosts) == ["a"]


def test_the_typical_step_is_the_median_without_the_first_which_warms_up(folder: Path):
    timeline = evidence.read(folder).timeline()
    assert timeline is not None
    assert timeline.step == 20
    write(folder / "ranks.jsonl", HEADER, window(10, 9.0), window(20, 1.0, timeline=False))
    alone = evidence.read(folder).timeline()
    assert alone is not None
    assert alone.step == 10


def test_a_typical_value_leaves_the_first_one_out():
    lines = [Metrics.model_validate({"step": step, "x": value}) for step, value in ((1, 100.0), (2, 1.0), (3, 3.0))]
    assert Evidence(Path(), metrics=lines).typical("x") == 2.0
    assert Evidence(Path(), metrics=lines[:1]).typical("x") == 100.0
    assert Evidence(Path()).typical("x") is None


def test_a_folder_that_is_not_there_or_empty_is_told_as_such(tmp_path: Path):
    nothing = evidence.read(tmp_path)
    assert nothing.lacks == [
        "run.yaml is missing: the options of the run are not known.",
        "metrics.jsonl is missing.",
        "ranks.jsonl is missing.",
    ]
    assert nothing.timeline() is None
    absent = tmp_path / "absent"
    assert evidence.read(absent).lacks[0] == f"{absent} is no folder."


def test_a_line_that_is_cut_is_left_out_and_told(folder: Path):
    with open(folder / "metrics.jsonl", "a") as stream:
        stream.write('{"step": 30, "train/lo')
    read = evidence.read(folder)
    assert [step for step, _ in read.series("train/loss")] == [10, 20]
    assert read.lacks == ["metrics.jsonl has 1 lines that cannot be read, such as one cut half-way; they are left out."]


def test_another_version_is_told_and_what_can_be_read_is_read(folder: Path):
    write(folder / "ranks.jsonl", HEADER | {"version": 2}, window(10, 1.0), {"step": 20, "new": 1})
    read = evidence.read(folder)
    assert [w.step for w in read.windows] == [10]
    assert "ranks.jsonl is of version 2, this program reads 1." in read.lacks


@pytest.mark.parametrize("text", ["[1, 2", "just words", "\x00"])
def test_a_run_yaml_that_is_no_mapping_leaves_no_options(folder: Path, text: str):
    (folder / "run.yaml").write_text(text)
    assert evidence.read(folder).component("comm") == ""


def test_windows_know_the_slowest_rank():
    assert Window(step=1, steps=1, ranks=[{"step": 1.0}, {}, {"step": 3.0}]).step_seconds() == 3.0


def test_a_recorded_step_tells_which_stages_each_rank_has():
    def span(stage: int) -> Event:
        return Event("forward", f"stage {stage}, micro-batch 0", 0, 1, 0, 0)

    recorded = Window(step=1, steps=1, ranks=[{}] * 3, timeline=[[span(0), span(2)], [span(1)]])
    first = Window(step=1, steps=1, ranks=[{}] * 3)
    assert Evidence(Path(), windows=[first, recorded]).stages() == [(0, 2), (1,), ()]
    assert Evidence(Path(), windows=[first]).stages() == [()] * 3
    assert Evidence(Path(), hosts=["a", "b"]).stages() == [(), ()]
