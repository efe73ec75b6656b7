"""`pcie`: one node, where NCCL needs nothing."""

from __future__ import annotations

import pytest

from trainer.nccl.machine import Machine
from trainer.nccl.pcie import Pcie
from trainer.spec import ConfigError


def test_nothing_is_looked_up_and_only_errors_are_asked_for():
    assert Pcie().env == {"NCCL_DEBUG": "WARN"}
    assert Pcie().found(Machine(gpu=True, processes=8)) == {}


def test_several_nodes_are_refused(make_run):
    with pytest.raises(ConfigError) as caught:
        make_run("nccl=pcie", "launch.nodes=2", "launch.rendezvous=10.0.0.1:29500")
    assert str(caught.value) == (
        "nccl: pcie is for one node, and this run has 2; choose nccl=auto, nccl=ib, nccl=roce or nccl=ethernet"
    )
