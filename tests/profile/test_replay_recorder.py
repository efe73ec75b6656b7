"""A recorded table has the model's layers, sizes and times."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from trainer import replay_table
from trainer.overlap.clock import HostClock
from trainer.profile.replay_recorder import RECORDED_STEPS, WARMUP_STEPS, WHOLE, ReplayRecorder


class Ticks(HostClock):
    """A clock that moves by one second whenever it is looked at."""

    def __init__(self) -> None:
        self.now = 0.0

    def mark(self) -> float:
        self.now += 1
        return self.now


class Stalls(Ticks):
    """The same where every pass is held up for ten seconds, by turns in each of the three layers of `_record`."""

    LOOKS = 10
    """of a pass: where it begins, at three layers, where forward ends, and at five gradients"""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def mark(self) -> float:
        number, look = divmod(self.looks, self.LOOKS)
        self.looks += 1
        self.now += 10 * (look == 2 + number % 3)
        return super().mark()


def _record(tmp_path, passes: int, clock: type[Ticks] = Ticks) -> tuple[nn.Module, list[replay_table.Row]]:
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.BatchNorm1d(8), nn.Linear(8, 2, bias=False))
    recorder = ReplayRecorder(net, clock(), tmp_path / "replay.csv", "a test")
    for _ in range(passes):
        net(torch.randn(16, 4)).sum().backward()
        with torch.no_grad():
            net(torch.randn(64, 4))
    recorder.close()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())
    if not (tmp_path / "replay.csv").exists():
        return net, []
    return net, replay_table.read(tmp_path / "replay.csv", "test")


def test_layers_come_in_forward_order_with_their_sizes(tmp_path):
    _, rows = _record(tmp_path, WARMUP_STEPS + RECORDED_STEPS + 2)
    assert [(row.layer, row.parameters, row.activation_bytes) for row in rows] == [
        ("0", ((8, 4), (8,)), 16 * 8 * 4),
        ("2", ((8,), (8,)), 16 * 8 * 4),
        ("3", ((2, 8),), 16 * 2 * 4),
    ]


def test_only_what_has_a_gradient_is_listed_and_once(tmp_path):
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    net[0].requires_grad_(False)
    net[2].weight = net[1].weight
    recorder = ReplayRecorder(net, Ticks(), tmp_path / "replay.csv", "a test")
    for _ in range(WARMUP_STEPS + 1):
        net(torch.randn(2, 4)).sum().backward()
    recorder.close()
    rows = replay_table.read(tmp_path / "replay.csv", "test")
    assert [(row.layer, row.parameters) for row in rows] == [("0", ()), ("1", ((4, 4), (4,))), ("2", ((4,),))]


class _Scaled(nn.Module):
    """A model that reads a parameter of its own before its layer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.layer = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x * self.scale)


@pytest.mark.parametrize(
    ("net", "rows"),
    [
        (nn.Linear(4, 2), [(WHOLE, ((2, 4), (2,)))]),
        (_Scaled(), [(WHOLE, ((4,),)), ("layer", ((2, 4), (2,)))]),
    ],
)
def test_what_a_model_itself_reads_is_a_layer_as_well(tmp_path, net, rows):
    recorder = ReplayRecorder(net, Ticks(), tmp_path / "replay.csv", "a test")
    for _ in range(WARMUP_STEPS + 1):
        net(torch.randn(2, 4)).sum().backward()
    recorder.close()
    recorded = replay_table.read(tmp_path / "replay.csv", "test")
    assert [(row.layer, row.parameters) for row in recorded] == rows


def test_times_run_from_layer_to_layer_and_from_gradient_to_gradient(tmp_path):
    _, rows = _record(tmp_path, WARMUP_STEPS + 1)
    assert [row.forward_ms for row in rows] == [1000, 1000, 1000]
    # Each gradient takes one look at the clock, so a layer of two parameters takes two.
    assert [row.backward_ms for row in rows] == [2000, 2000, 1000]


def test_what_holds_up_another_layer_in_every_pass_is_spread_over_all(tmp_path):
    _, rows = _record(tmp_path, WARMUP_STEPS + 9, Stalls)
    # The table has four digits.
    assert [row.forward_ms for row in rows] == [float(f"{1000 * (3 + 10) / 3:.4g}")] * 3
    assert [row.backward_ms for row in rows] == [2000, 2000, 1000]


def test_a_run_that_is_too_short_writes_nothing_and_says_so(tmp_path, caplog):
    assert _record(tmp_path, WARMUP_STEPS)[1] == []
    assert caplog.messages == ["profile.record_replay: no pass after the first 3 was recorded; use more steps"]


def test_what_was_recorded_can_be_replayed(tmp_path, make_run):
    _record(tmp_path, WARMUP_STEPS + 1)
    run = make_run("model=replay", f"model.table={tmp_path / 'replay.csv'}", "model.time_scale=1e-6")
    net = run.model.build(run.data.sample())
    assert sum(p.numel() for p in net.parameters()) == 8 * 4 + 8 + 8 + 8 + 16
