"""What the profiler sees of real steps is what the meter says of them."""

from __future__ import annotations

import gzip
import json
import logging
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.processes import SMALL, only_run, run
from trainer.comm.allreduce import AllReduce
from trainer.comm.base import CommHook
from trainer.comm.topk import TopK
from trainer.mesh import Mesh
from trainer.overlap.clock import HostClock, clock_for
from trainer.overlap.interval import Interval, length, subtract
from trainer.overlap.meter import Meter
from trainer.overlap.timed_hook import Timed, timed_hook
from trainer.parallel.base import DataAxis
from trainer.parallel.ddp import replicate
from trainer.profile.window_recorder import WindowRecorder

FIRST, STEPS = 4, 20
# In points of the ratio: where little is hidden, a tenth of it would be finer than what runs differ by.
AGREE = 0.1


def _net() -> nn.Module:
    """Buckets of 16 MiB, one a layer."""
    return nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(2048, 2048), nn.ReLU())))


def _record(mesh: Mesh, comm: CommHook, folder: Path) -> None:
    torch.manual_seed(0)
    net, meter, group = _net(), Meter(HostClock()), mesh.groups["data"]
    state, hook = comm.build(group)
    comm.observe(state, meter.exchange)
    timed = Timed(meter, state, hook, lambda nbytes: comm.bytes_sent(state, nbytes, 2))
    module = replicate(net, DataAxis(bucket_cap_mb=16), group, timed, timed_hook)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    recorder = WindowRecorder(meter, "cpu", folder, mesh.rank, FIRST, STEPS)
    # Steps of some 100 ms, of which what Python does between two marks is a small part.
    inputs = torch.randn(96, 2048)
    for step in range(1, FIRST + STEPS + 1):
        recorder.begin_step(step)
        meter.begin_step()
        with meter.span("forward"):
            loss = module(inputs).square().mean()
        with meter.span("backward"):
            loss.backward()
        with meter.span("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
        meter.end_step()
        recorder.measured(meter.read())
    recorder.close()
    comm.close(state)


@pytest.mark.parametrize("comm", [AllReduce(), TopK(ratio=0.05)], ids=["allreduce", "on a courier"])
def test_profiler_and_meter_agree(workers, tmp_path, comm):
    workers(2, _record, comm, tmp_path)
    for rank in (0, 1):
        compared = json.loads((tmp_path / f"rank{rank}.overlap.json").read_text())
        assert len(compared["steps"]) == STEPS
        # Both views of the same step, and the median over the steps: steps differ by far more than the views do, and
        # one in which other work took the cores may look like anything.
        views = [(step["profiler"], step["meter"]) for step in compared["steps"]]
        # Gloo's threads end a span before the training thread comes to mark it, which busy cores draw out.
        assert abs(statistics.median(one["comm_ms"] / other["comm_ms"] for one, other in views) - 1) < 0.25, compared
        apart = statistics.median(one["hidden_ratio"] - other["hidden_ratio"] for one, other in views)
        assert abs(apart) < AGREE, compared


def _alone(folder: Path, steps: int, first_step: int = 3, window: int = 2, repeated: int | None = None) -> Meter:
    """Steps of one process, one of which, `repeated`, is followed by a start of the meter that is no step."""
    net, meter = nn.Linear(64, 64), Meter(HostClock())
    recorder = WindowRecorder(meter, "cpu", folder, 0, first_step, window)
    for step in range(1, steps + 1):
        recorder.begin_step(step)
        meter.begin_step()
        with meter.span("forward"):
            net(torch.ones(8, 64))
        meter.end_step()
        if step == repeated:
            meter.begin_step()
        recorder.measured(meter.read())
    recorder.close()
    return meter


def _events(folder: Path) -> list[dict]:
    return json.loads(gzip.decompress((folder / "rank0.json.gz").read_bytes()))["traceEvents"]


def _steps(folder: Path) -> list[int]:
    return [entry["step"] for entry in json.loads((folder / "rank0.overlap.json").read_text())["steps"]]


def test_the_lanes_lie_where_the_operators_are(tmp_path):
    _alone(tmp_path, steps=8)
    events = _events(tmp_path)
    lanes = [event for event in events if event.get("cat") == "overlap" and event["name"] == "forward"]
    layers = [event for event in events if event["name"] == "aten::linear"]
    assert len(lanes) == len(layers) == 2
    for lane, layer in zip(lanes, layers, strict=True):
        # The clocks are tied to some µs; without that they are apart by years.
        assert lane["ts"] - 100 <= layer["ts"] <= layer["ts"] + layer["dur"] <= lane["ts"] + lane["dur"] + 100


def test_without_communication_it_says_so(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    _alone(tmp_path / "trace", steps=8)
    assert caplog.messages == ["profile: trace/rank0.json.gz; no communication seen by the profiler and the meter"]


@pytest.mark.parametrize("first_step", [1, 2])
def test_a_window_may_begin_with_the_run(tmp_path, first_step):
    _alone(tmp_path, steps=6, first_step=first_step)
    assert _steps(tmp_path) == [first_step, first_step + 1]


@pytest.mark.parametrize("repeated", [1, 2, 3, 4])
def test_a_step_that_is_repeated_for_the_ablation_shifts_nothing(tmp_path, repeated):
    meter = _alone(tmp_path, steps=6, repeated=repeated)
    assert meter.number == 7
    assert _steps(tmp_path) == [3, 4]


def test_a_run_that_ends_within_the_window_leaves_what_it_did(tmp_path):
    _alone(tmp_path, steps=4, window=10)
    assert _steps(tmp_path) == [3, 4]


def test_a_run_that_ends_before_the_window_leaves_nothing(tmp_path, caplog):
    for steps in (1, 2):
        _alone(tmp_path, steps=steps)
    assert list(tmp_path.iterdir()) == []
    assert caplog.messages == []


def test_steps_that_are_known_late_are_waited_for(tmp_path):
    """As on a GPU, whose marks pass some steps later."""
    meter = Meter(HostClock())
    recorder = WindowRecorder(meter, "cpu", tmp_path, 0, 1, 2)
    late = []
    for step in range(1, 6):
        recorder.begin_step(step)
        meter.begin_step()
        meter.end_step()
        late += meter.read()
        recorder.measured([late.pop(0)] if step > 2 else [])
        assert (tmp_path / "rank0.json.gz").exists() == (step >= 4)
    assert _steps(tmp_path) == [1, 2]


@pytest.mark.parametrize("when", ["prepare_trace", "start_trace", "stop_trace", "export_chrome_trace"])
def test_a_profiler_that_fails_costs_one_line(tmp_path, monkeypatch, caplog, when):
    def fail(*_):
        raise RuntimeError("another profiler\nis at work")

    monkeypatch.setattr(torch.profiler.profile, when, fail)
    _alone(tmp_path, steps=8)
    assert caplog.messages == ["profile: another profiler is at work; the training goes on without a trace"]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_costs_one_line(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    _alone(tmp_path / "file", steps=8)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].endswith("; the training goes on without a trace")


@pytest.mark.gpu
def test_on_a_gpu_the_steps_kernels_lie_within_the_compute_lanes(tmp_path):
    """The profiler's clock, the host's and the events' are three; tied together they may be off by little of a step."""
    device = torch.device("cuda")
    net, meter = _net().to(device), Meter(clock_for(device))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    recorder = WindowRecorder(meter, "cuda", tmp_path, 0, 11, 20)
    inputs = torch.randn(1024, 2048, device=device)
    for step in range(1, 51):
        recorder.begin_step(step)
        meter.begin_step()
        with meter.span("forward"):
            loss = net(inputs).square().mean()
        with meter.span("backward"):
            loss.backward()
        with meter.span("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
        meter.end_step()
        if step % 10 == 0:
            loss.item()  # as the loop does at a log step
            meter.clock.anchor()
        recorder.measured(meter.read())
    recorder.close()
    events = _events(tmp_path)

    def intervals(wanted: Callable[[dict], bool]) -> list[Interval]:
        return [(event["ts"], event["ts"] + event["dur"]) for event in events if event["ph"] == "X" and wanted(event)]

    steps = intervals(lambda event: event["name"].startswith("step "))
    lanes = intervals(lambda event: event["name"] in ("forward", "backward", "optimizer"))
    assert (len(steps), len(lanes)) == (20, 60)
    kernels = intervals(lambda event: event.get("cat") == "kernel")
    kernels = [kernel for kernel in kernels if any(start <= kernel[0] < end for start, end in steps)]
    assert length(kernels) > 0.5 * length(lanes)
    assert length(subtract(kernels, lanes)) < AGREE * length(kernels)


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="NCCL sends nothing within one GPU")
def test_on_gpus_profiler_and_meter_agree(tmp_path):
    """A gradient of half a GB in buckets of 64 MB, beside products that take some milliseconds."""
    model = ("model.width=4096", "model.depth=8", "parallel.data.bucket_cap_mb=64", "batch.size=1024")
    window = ("profile=window", "profile.steps=30", "profile.ranks=all", "steps=60", "checkpoint.every=null")
    code, output = run(tmp_path, *SMALL, *model, *window)
    assert code == 0, output
    for path in (only_run(tmp_path) / "trace").glob("*.overlap.json"):
        compared = json.loads(path.read_text())
        assert len(compared["steps"]) == 30
        assert abs(compared["profiler"]["hidden_ratio"] - compared["meter"]["hidden_ratio"]) < AGREE, compared
