"""What a sweep says on its way."""

from __future__ import annotations

from tests.sweep.scene import result
from trainer.sweep.progress import Progress


def test_a_line_says_which_run_the_best_and_the_time_left():
    progress = Progress(3, refused=1, keys=["comm"])
    assert progress.starts("0", ["model=mlp", "comm=fp16"]) == "sweep: run 1 of 3, 0: comm=fp16"
    assert progress.ended("0", result("comm=fp16", value=5.0), 60.0) == (
        "sweep: run 1 of 3, 0: done in 60.0 s; speed/samples_per_s 5.000; best so far 5.000 (0); about 0:01:00 left"
    )
    # A refused run takes no time, and the next may take as long as the first.
    assert progress.ended("1", result("comm=topk", status="refused", reason="no"), 0.01) == (
        "sweep: run 2 of 3, 1: refused in 0.0 s; best so far 5.000 (0); about 0:01:00 left"
    )
    assert progress.ended("2", result("comm=int8", value=4.0), 100.0) == (
        "sweep: run 3 of 3, 2: done in 100.0 s; speed/samples_per_s 4.000; best so far 5.000 (0)"
    )


def test_runs_of_before_count_for_the_best_and_not_for_the_time():
    progress = Progress(2, before={"7": result("comm=fp16", value=9.0, seconds=1000.0)})
    assert progress.ended("8", result("comm=topk", reason="no metric"), 10.0) == (
        "sweep: run 1 of 2, 8: done in 10.0 s; no metric; best so far 9.000 (7); about 0:00:10 left"
    )
