"""The terminal shows a live bar to whoever watches, and plain lines elsewhere."""

from __future__ import annotations

import contextlib
import io
import re

import pytest

from trainer.logger import console
from trainer.logger.base import Writer
from trainer.logger.console import Console

TRAINED = {"train/loss": 0.12345, "speed/samples_per_s": 1234.5, "speed/step_ms": 51.94, "overlap/hidden_ratio": 0.876}
EVALUATED = {"eval/loss": 0.2, "eval/accuracy": 0.97531}


class Clock:
    """Stands for the module `time`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(console, "time", clock)
    return clock


@pytest.fixture(autouse=True)
def _a_hundred_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("TERM", "xterm-256color"), ("COLUMNS", "100"), ("LINES", "24")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)


def build(tmp_path, total_steps: int = 40, first_step: int = 0) -> Writer:
    return Console().build(tmp_path, {}, total_steps, first_step)


def test_elsewhere_each_set_of_metrics_is_a_line_with_the_time_left(tmp_path, capsys, clock: Clock):
    writer = build(tmp_path)
    clock.now += 20
    writer.write(10, TRAINED)
    writer.close()
    assert capsys.readouterr().out == ("step 10/40  loss 0.1235  samples/s 1234  step 51.9 ms  hidden 88%  left 1:00\n")


def test_the_time_left_is_that_of_the_steps_since_the_resume(tmp_path, capsys, clock: Clock):
    writer = build(tmp_path, first_step=20)
    clock.now += 10
    writer.write(30, {"train/loss": 1.0})
    assert capsys.readouterr().out == "step 30/40  loss 1.0000  left 0:10\n"


def test_an_evaluation_is_a_line_without_a_time(tmp_path, capsys, clock: Clock):
    writer = build(tmp_path)
    clock.now += 20
    writer.write(10, EVALUATED)
    assert capsys.readouterr().out == "step 10/40  eval loss 0.2000  accuracy 97.53%\n"


def test_metrics_that_a_person_does_not_read_are_left_out(tmp_path, capsys, clock: Clock):
    build(tmp_path).write(0, {"train/loss": 1.0, "comm/bytes_sent": 4096.0})
    assert capsys.readouterr().out == "step 0/40  loss 1.0000\n"


def watched(tmp_path, *sets: tuple[int, dict], first_step: int = 0) -> str:
    """What a terminal gets to see of a run of 40 steps that writes these sets of metrics."""
    terminal = Terminal()
    # Not a fixture: pytest puts its own standard output in place when a test's body begins.
    with contextlib.redirect_stdout(terminal):
        writer = build(tmp_path, first_step=first_step)
        for step, metrics in sets:
            writer.write(step, metrics)
        writer.close()
    return terminal.getvalue()


def words(written: str) -> str:
    """`written` without control sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written)


def test_on_a_terminal_there_is_one_bar_that_counts_steps(tmp_path):
    written = watched(tmp_path, (10, TRAINED), (40, {"train/loss": 0.05}))
    last = words(written).replace("\r", "\n").strip().splitlines()[-1]
    assert "40/40" in last
    assert "loss 0.0500" in last


def test_the_bar_is_drawn_in_place_and_gives_the_cursor_back(tmp_path):
    written = watched(tmp_path, (40, TRAINED))
    assert "\x1b[2K" in written
    assert 0 <= written.index("\x1b[?25l") < written.index("\x1b[?25h")


def test_the_bar_of_a_resumed_run_starts_where_the_run_does(tmp_path):
    assert "20/40" in words(watched(tmp_path, first_step=20))


def test_evaluations_scroll_past_above_the_bar(tmp_path):
    screen = words(watched(tmp_path, (10, EVALUATED)))
    assert "step 10  eval loss 0.2000  accuracy 97.53%" in screen
    assert "0/40" in screen[screen.index("accuracy") :]
