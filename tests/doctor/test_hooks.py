"""The doctor's table against what the hooks themselves do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.conftest import CONF
from trainer.comm.allreduce import AllReduce
from trainer.comm.base import CommHook
from trainer.comm.bf16 import BF16
from trainer.comm.fp16 import FP16
from trainer.comm.int8 import Int8
from trainer.comm.onebit import OneBit
from trainer.comm.topk import TopK
from trainer.doctor.hooks import BFLOAT, COMPRESSING, EXACT, HOOKS, candidates, rule_of_thumb
from trainer.mesh import Mesh

SPECS: dict[str, CommHook] = {
    "allreduce": AllReduce(), "fp16": FP16(), "bf16": BF16(), "int8": Int8(), "onebit": OneBit(), "topk": TopK(),
}  # fmt: skip
WIDTH = 1024
SIZE = 4 * WIDTH**2


def _sent(mesh: Mesh) -> dict[str, float]:
    """Bytes that each hook sends for one matrix, in the second step: in the first, signs are agreed upon."""
    found = {}
    for name, spec in SPECS.items():
        state, hook = spec.build(mesh.groups["data"])
        ddp = DistributedDataParallel(nn.Linear(WIDTH, WIDTH, bias=False), process_group=mesh.groups["data"])
        ddp.register_comm_hook(state, hook)
        for _ in range(2):
            ddp(torch.randn(8, WIDTH)).square().mean().backward()
            found[name] = spec.bytes_sent(state, SIZE, mesh.sizes["data"])
        spec.close(state)
    return found


@pytest.mark.parametrize("replicas", [2, 3])
def test_bytes_are_those_that_the_hooks_send(workers: Callable[..., list[Any]], replicas: int):
    sent = workers(replicas, _sent)[0]
    for hook in (EXACT, BFLOAT, *HOOKS):
        assert hook.sent(SIZE, replicas) == pytest.approx(sent[hook.name], rel=0.01), hook.name


def test_every_hook_exists_and_every_compressing_one_is_known():
    there = {path.stem for path in (CONF / "comm").glob("*.yaml")}
    assert there == COMPRESSING | {"allreduce", "noop", "custom"}
    assert {hook.name for hook in (EXACT, BFLOAT, *HOOKS)} <= there


def test_a_residual_is_kept_by_those_that_drop_something_worth_keeping():
    assert [hook.name for hook in HOOKS if hook.residual] == ["int8", "onebit", "topk"]


def test_precision_decides_which_hooks_there_are():
    assert [hook.name for hook in candidates("fp32")] == ["fp16", "int8", "onebit", "topk"]
    assert [hook.name for hook in candidates("bf16")] == ["bf16", "int8", "onebit", "topk"]
    assert [hook.name for hook in candidates("fp16")] == ["bf16"]


def test_the_rule_of_thumb_follows_the_rate():
    assert [rule_of_thumb(gbit) for gbit in (1, 5, 25, 400)] == ["topk", "onebit", "fp16", "allreduce"]
