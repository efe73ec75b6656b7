"""The timeline as chart, image and table."""

from __future__ import annotations

import subprocess
import sys

from tests.report.scene import HOSTILE, pipeline, pipeline_run, run, step
from trainer.overlap.evidence import Window
from trainer.report import lanes, timeline


def layers(drawn) -> dict[str, dict]:
    return {layer["name"]: layer for layer in drawn.spec["layer"]}


def rows(drawn, layer: str) -> list[dict]:
    return layers(drawn)[layer]["data"]["values"]


def test_each_kind_of_bar_is_drawn_and_explained():
    drawn = timeline.draw(run())
    assert [len(rows(drawn, name)) for name in ("spans", "buckets", "moves", "exposed")] == [10, 4, 4, 2]
    assert {kind for kind, _ in drawn.legend} == {
        "data", "forward", "backward", "wait", "optimizer", "comm", "moves", "exposed",
    }  # fmt: skip


def test_a_bucket_says_what_it_is():
    said = rows(timeline.draw(run()), "buckets")[0]["said"]
    assert said == "rank 0: bucket 0\n30.0 to 50.0 ms, 20.0 ms\n20.0 MB · 8.0 Gbit/s"


def test_of_many_ranks_a_choice_is_shown_and_named():
    drawn = timeline.draw(run(ranks=40))
    assert len(rows(drawn, "spans")) == lanes.FEW * 5
    assert f"Of 40 ranks, {lanes.FEW} are shown" in drawn.says
    assert len(drawn.spec["params"][0]["value"]) == lanes.FEW


def test_nccl_sends_one_bucket_at_a_time():
    late = [event._replace(start_ms=30.0) if event.name == "bucket 1" else event for event in step()]
    windows = [Window(step=1, steps=1, ranks=[{"step": 0.08}], timeline=[late])]
    on_cpu, on_gpu = (run(windows=windows, config={"place": {"device": device}}) for device in ("cpu", "cuda"))
    assert [len(rows(timeline.draw(evidence), "queues")) for evidence in (on_cpu, on_gpu)] == [0, 1]


def test_a_step_without_spans_is_not_drawn():
    empty = Window(step=1, steps=1, ranks=[{"step": 0.08}], timeline=[[]])
    assert timeline.image(run(windows=[empty])) is None


def test_the_image_is_a_png_of_any_names():
    hostile = [step(), [event._replace(name=HOSTILE) for event in step()]]
    windows = [Window(step=1, steps=1, ranks=[{"step": 0.08}] * 2, timeline=hostile)]
    assert timeline.image(run(windows=windows, config={"name": HOSTILE})).startswith(b"\x89PNG")


def test_the_table_has_all_ranks_with_a_value_for_each_column():
    columns, found = timeline.table(run(ranks=40))
    assert columns[:3] == ["rank", "lane", "name"]
    assert {len(row) for row in found} == {len(columns)}
    assert len(found) == 40 * 9
    bucket = dict(zip(columns, next(row for row in found if row[1] == "comm"), strict=True))
    assert (bucket["size_mb"], bucket["start_ms"], bucket["gbit_per_s"]) == (20.0, 30.0, 8.0)


def test_without_a_recorded_step_there_is_nothing():
    for windows in ([], [Window(step=1, steps=1, ranks=[{"step": 0.1}])]):
        evidence = run(windows=windows)
        assert timeline.draw(evidence) is timeline.image(evidence) is timeline.table(evidence) is None


def test_what_a_training_imports_brings_no_javascript_engine():
    code = "import sys, trainer.report.timeline; sys.exit('vl_convert' in sys.modules or 'jinja2' in sys.modules)"
    # PyTorch imports jinja2 for its compiler only.
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_pipeline_shows_its_stages_bubbles_and_messages():
    drawn = timeline.draw(pipeline_run())
    assert drawn.spec["params"][0]["value"] == [f"rank {rank} · stage {rank // 2}" for rank in (0, 2, 1, 3)]
    assert [len(rows(drawn, name)) for name in ("buckets", "moves", "sends")] == [6, 6, 8]
    assert {"bubble", "send"} <= {kind for kind, _ in drawn.legend}
    # 5 ms of 100 in the first stage, 10 in the second.
    assert "The bubble takes 7.5% of the ranks' time." in drawn.says
    assert timeline.image(pipeline_run()).startswith(b"\x89PNG")


def test_letters_of_bars_are_explained_where_they_stand():
    plain = timeline.draw(pipeline_run())
    assert "B3 its backward pass. " in plain.says
    split = [
        [event._replace(name=f"weights of {event.name}") if event.lane == "backward" else event for event in events]
        for events in pipeline()
    ]
    window = Window(step=1, steps=1, ranks=[{"step": 0.1}] * 4, timeline=split)
    assert "and W3 the second part of that." in timeline.draw(run(windows=[window])).says
    both = [pipeline()[0] + pipeline()[2]]
    window = Window(step=1, steps=1, ranks=[{"step": 0.1}], timeline=both)
    assert "s1 is stage 1" in timeline.draw(run(windows=[window])).says
