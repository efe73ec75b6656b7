"""The processes that other tests work with."""

from __future__ import annotations

import sys

from trainer import nursery
from trainer.mesh import Mesh


def _loaded(mesh: Mesh) -> bool:
    return "torchvision" in sys.modules


def test_they_have_all_loaded_that_workers_need_whatever_a_trainer_in_this_process_did(workers, monkeypatch):
    for name in nursery.MEMORY:
        monkeypatch.setenv(name, "0")
    monkeypatch.setattr(nursery, "PRELOADED", [])
    nursery.open_early()
    nursery.close()
    # Nothing of what this file imports would load it.
    assert workers(2, _loaded) == [True, True]
