"""What one run leaves, the next does not find."""

from __future__ import annotations

import os
import signal
from multiprocessing import forkserver
from pathlib import Path

import pytest

from trainer import nursery
from trainer.launch import Stopped
from trainer.sweep.isolation import isolated, stoppable


def test_environment_handlers_and_folder_are_put_back(tmp_path, monkeypatch):
    monkeypatch.setenv("KEPT", "yes")
    before = dict(os.environ), Path.cwd(), signal.getsignal(signal.SIGTERM)

    def leave():
        os.environ["LEFT"] = "behind"
        del os.environ["KEPT"]
        os.chdir(tmp_path)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise ValueError

    with pytest.raises(ValueError), isolated():  # noqa: PT011 - our own
        leave()
    assert (dict(os.environ), Path.cwd(), signal.getsignal(signal.SIGTERM)) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_between_runs_stops(number):
    before = signal.getsignal(number)
    with pytest.raises(Stopped) as stop, stoppable():
        signal.raise_signal(number)
    assert stop.value.number == number
    assert signal.getsignal(number) == before


def test_workers_of_another_environment_come_from_another_process(monkeypatch):
    monkeypatch.setattr(nursery, "PRELOADED", [])
    for name in nursery.MEMORY:
        monkeypatch.setenv(name, "0")

    def server():
        nursery.open_early()
        return forkserver._forkserver._forkserver_pid

    try:
        first = server()
        assert server() == first
        monkeypatch.setenv("OMP_NUM_THREADS", "7")
        assert server() != first
    finally:
        nursery.close()
