"""How processes find each other, in a job that was started again and has left its traces in the store."""

from __future__ import annotations

import datetime
import threading

import pytest
import torch.distributed as dist

from trainer import meeting
from trainer.errors import LostPeer

TIMEOUT = datetime.timedelta(seconds=30)


def attempt(store: dist.Store, ranks: int) -> list[str]:
    """The names that ranks, each a thread, agree on."""
    names: dict[int, str] = {}

    def join(rank: int) -> None:
        names[rank] = meeting.name_attempt(store, rank, ranks, TIMEOUT)

    threads = [threading.Thread(target=join, args=[rank]) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return [names[rank] for rank in range(ranks)]


def test_all_ranks_learn_one_name_and_the_next_attempt_has_another():
    store = dist.HashStore()
    # Ranks of attempts that failed: one died when it had asked, one when it had come.
    store.set("asks/1", "dead")
    first, second = attempt(store, 3), attempt(store, 3)
    assert len(set(first)) == len(set(second)) == 1
    assert first != second


def test_a_rank_that_does_not_come_is_named():
    store = dist.HashStore()
    store.set("asks/1", "dead")
    with pytest.raises(LostPeer, match=r"launch.timeout_s: ranks 1, 2 of 3 did not come in time; see their logs"):
        meeting.name_attempt(store, 0, 3, datetime.timedelta(seconds=0.1))


def test_slurm_counts_restarts_too(monkeypatch):
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    assert meeting.restarts() == 3
