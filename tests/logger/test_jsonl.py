"""Metrics become lines of JSON that survive a kill and a restart."""

from __future__ import annotations

import json
from pathlib import Path

from trainer.logger.jsonl import Jsonl


def lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_each_set_of_metrics_is_a_line_that_can_be_read_at_once(tmp_path: Path):
    writer = Jsonl().build(tmp_path, {}, total_steps=20, first_step=0)
    writer.write(10, {"train/loss": 0.1, "speed/step_ms": 3.0})
    assert lines(tmp_path) == [{"step": 10, "train/loss": 0.1, "speed/step_ms": 3.0}]
    writer.write(10, {"eval/accuracy": 0.5})
    writer.close()
    assert lines(tmp_path)[1:] == [{"step": 10, "eval/accuracy": 0.5}]


def test_numbers_come_back_bit_by_bit(tmp_path: Path):
    writer = Jsonl().build(tmp_path, {}, total_steps=1, first_step=0)
    writer.write(1, {"train/loss": 0.1 + 0.2, "speed/step_ms": 1 / 3e17})
    writer.close()
    assert lines(tmp_path) == [{"step": 1, "train/loss": 0.1 + 0.2, "speed/step_ms": 1 / 3e17}]


def test_a_resumed_run_keeps_the_lines_up_to_its_checkpoint_and_writes_the_others_anew(tmp_path: Path):
    killed = Jsonl().build(tmp_path, {}, total_steps=50, first_step=0)
    for step in (10, 20, 30):
        killed.write(step, {"train/loss": float(step)})
    resumed = Jsonl().build(tmp_path, {}, total_steps=50, first_step=20)
    resumed.write(30, {"train/loss": 31.0})
    resumed.close()
    assert [(line["step"], line["train/loss"]) for line in lines(tmp_path)] == [(10, 10.0), (20, 20.0), (30, 31.0)]


def test_half_a_line_of_a_killed_run_is_dropped(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 10, "train/loss": 1.0}\n{"step": 20, "trai')
    writer = Jsonl().build(tmp_path, {}, total_steps=50, first_step=20)
    writer.write(30, {"train/loss": 0.5})
    writer.close()
    assert [line["step"] for line in lines(tmp_path)] == [10, 30]


def test_a_run_that_starts_afresh_in_a_used_folder_keeps_nothing(tmp_path: Path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 10, "train/loss": 1.0}\n')
    Jsonl().build(tmp_path, {}, total_steps=50, first_step=0).close()
    assert lines(tmp_path) == []
