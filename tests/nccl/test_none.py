"""`none`: nothing is set but what the user names."""

from __future__ import annotations

from trainer.nccl.machine import Machine
from trainer.nccl.none import Nothing


def test_nothing_is_set_even_between_nodes(make_run):
    assert Nothing().found(Machine(nodes=2, gpu=True, interface="ens5")) == {}
    assert make_run("nccl=none").nccl.environment() == {}


def test_the_users_own_is(make_run):
    assert make_run("nccl=none", "+nccl.env.NCCL_NTHREADS='256'").nccl.environment() == {"NCCL_NTHREADS": "256"}
