"""ranks.jsonl, as ranks write it and as the report reads it back."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import torch

from trainer.mesh import Mesh
from trainer.overlap import evidence, record
from trainer.overlap.meter import SUMS, PastSpan, PastStep
from trainer.overlap.metrics import Ranks
from trainer.overlap.record import TIMELINES, Record

TOTALS = dict.fromkeys(SUMS, 1.0) | {"peers": 0.0}


def past(number: int, moment: float = 0.0) -> PastStep:
    return PastStep(number, moment, TOTALS, [PastSpan("comm", "bucket 0", 0.5, 0.75, 64.0, 32.0)], [])


def _write(mesh: Mesh, folder: Path) -> None:
    record = Record(folder / "ranks.jsonl", mesh.control, f"host{mesh.rank}", 0, 20)
    # Rank 1 begins its step a second later, by a clock that is 100 s ahead.
    window = [past(9), past(10, 50.0 + 101.0 * mesh.rank)]
    record.write(10, window, Ranks([TOTALS, TOTALS], [0.0, 100.0], 10))
    # No step was measured by both.
    record.write(20, [past(20 - mesh.rank)], Ranks([TOTALS, TOTALS], [0.0, 100.0], None))
    record.close()


def test_every_rank_is_in_the_record_on_one_clock(workers, tmp_path: Path):
    workers(2, _write, tmp_path)
    read = evidence.read(tmp_path)
    assert list(read.hosts) == ["host0", "host1"]
    assert len(read.devices) == 2
    assert read.software["torch"] == torch.__version__
    assert datetime.date.fromisoformat(read.date) <= datetime.date.today()
    assert [(window.step, window.steps) for window in read.windows] == [(10, 2), (20, 1)]
    assert read.windows[0].ranks == [TOTALS, TOTALS]
    assert read.windows[0].timeline == [
        [("comm", "bucket 0", 500.0, 750.0, 64.0, 32.0)],
        [("comm", "bucket 0", 1500.0, 1750.0, 64.0, 32.0)],
    ]


def test_nccl_is_named_where_it_carries_the_gradients(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert record._software() == {"torch": torch.__version__}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    monkeypatch.setattr(torch.cuda.nccl, "version", lambda: (2, 30, 7))
    assert record._software()["nccl"] == "2.30.7"


def test_a_step_that_not_all_ranks_have_measured_has_no_timeline(workers, tmp_path: Path):
    workers(2, _write, tmp_path)
    assert evidence.read(tmp_path).windows[1].timeline is None


def _long(mesh: Mesh, folder: Path, first: int) -> None:
    record = Record(folder / "ranks.jsonl", mesh.control, "host", first, 6400)
    for step in range(first + 10, 6401, 10):
        record.write(step, [past(step)], Ranks([TOTALS], [0.0], step))
    record.close()


def test_a_long_run_keeps_a_bounded_number_of_timelines(workers, tmp_path: Path):
    workers(1, _long, tmp_path, 0)
    windows = evidence.read(tmp_path).windows
    assert len(windows) == 640
    assert sum(window.timeline is not None for window in windows) == TIMELINES


def test_a_restart_goes_on_where_the_checkpoint_was(workers, tmp_path: Path):
    workers(1, _long, tmp_path, 0)
    workers(1, _long, tmp_path, 6000)
    lines = [json.loads(line) for line in (tmp_path / "ranks.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(0, 6401, 10))
