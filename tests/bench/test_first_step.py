"""From Enter to the first step, of commands that do nothing else."""

from __future__ import annotations

import sys

import pytest

from scripts.bench.first_step import interleave
from scripts.bench.lab import BenchError


def _python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def test_the_clock_stops_at_the_first_step_and_the_process_is_ended():
    endless = "import time; print('hello'); time.sleep({}); print('step 1', flush=True); time.sleep(1000)"
    seconds = interleave({"slow": _python(endless.format(0.3)), "quick": _python(endless.format(0))}, 2)
    assert [len(turns) for turns in seconds.values()] == [2, 2]
    assert all(0.3 <= turn < 100 for turn in seconds["slow"])


def test_a_command_that_fails_is_told_with_its_words():
    with pytest.raises(BenchError, match=r"(?s)broken: .* ended without a step: .*what a pity"):
        interleave({"broken": _python("import sys; sys.exit('what a pity')")}, 1)
