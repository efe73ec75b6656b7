"""Samples of the GPU's utilisation, and what becomes of them."""

from __future__ import annotations

import threading

import pytest
import torch

from trainer.overlap import utilisation
from trainer.overlap.utilisation import Utilisation, summarise


def test_ranks_are_summed_up_and_the_lowest_sample_is_kept():
    assert summarise([[2, 150, 60], [2, 100, 0]]) == {"gpu/utilisation": 62.5, "gpu/utilisation/worst": 0}


def test_without_samples_nothing_is_said():
    assert summarise([[0, 0, 100]]) == {}


def test_a_cpu_has_no_samples_and_no_thread():
    sampler = Utilisation(torch.device("cpu"))
    sampler.close()
    assert sampler.numbers() == [0, 0, 100]


def _sampler(monkeypatch: pytest.MonkeyPatch, answers: list, done: threading.Event) -> Utilisation:
    def answer(device: torch.device) -> int:
        if not answers:
            done.set()
            raise RuntimeError("no more")
        value = answers.pop(0)
        if isinstance(value, Exception):
            done.set()
            raise value
        return value

    monkeypatch.setattr(utilisation, "PERIOD_S", 0.001)
    monkeypatch.setattr(torch.cuda, "utilization", answer)
    return Utilisation(torch.device("cuda"))


def test_samples_are_taken_until_closed_and_read_once(monkeypatch: pytest.MonkeyPatch):
    done = threading.Event()
    sampler = _sampler(monkeypatch, [80, 0, 40], done)
    assert done.wait(10)
    sampler.close()
    assert sampler.numbers() == [3, 120, 0]
    assert sampler.numbers() == [0, 0, 100]


def test_a_driver_that_does_not_answer_is_told_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    done = threading.Event()
    sampler = _sampler(monkeypatch, [ModuleNotFoundError("pynvml does not seem to be installed")], done)
    assert done.wait(10)
    sampler.close()
    assert sampler.numbers() == [0, 0, 100]
    assert caplog.messages == ["gpu/utilisation: not sampled: pynvml does not seem to be installed"]


@pytest.mark.gpu
def test_a_busy_gpu_is_seen():
    device = torch.device("cuda")
    sampler = Utilisation(device)
    matrix = torch.rand(4096, 4096, device=device)
    until = threading.Event()
    for _ in range(30):
        for _ in range(20):
            matrix = (matrix @ matrix).softmax(0)
        torch.cuda.synchronize()
        until.wait(0.01)
    sampler.close()
    count, total, _ = sampler.numbers()
    assert count > 0
    assert total / count > 30
