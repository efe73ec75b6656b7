"""A model shared out over its replicas: the weights of one process, checkpoints for any layout, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.pipeline import scenario
from tests.pipeline.scenario import SMALL, TOKENS
from trainer import checkpoint_folder
from trainer.parallel.fsdp import check, groups_of
from trainer.spec import ConfigError

GPT = ("model=gpt", "model.width=16", "model.heads=4", "model.depth=2", *TOKENS)
VIT = ("model=vit", "model.width=16", "model.heads=4", "model.depth=2", "model.patch=4")
# On four ranks some have nothing of a vector of three, and of ten classes the last has one.
MLP = ("model=mlp", "model.width=3")
ADAMW = ("optimizer=adamw", "optimizer.lr=0.001")
LAYOUTS = {
    "alone": ("parallel=none", "launch.processes=1"),
    "ddp": ("parallel=ddp", "launch.processes=2"),
    "fsdp": ("parallel=fsdp", "launch.processes=2"),
    "fsdp of 4": ("parallel=fsdp", "launch.processes=4"),
    "tensor": ("parallel=tensor", "launch.processes=2"),
    "pipeline": ("parallel=pipeline", "launch.processes=2"),
}


def _trained(workers, make_run, layout, sets, dtype=torch.float64):
    """What every rank of `layout` has after a run for each set of options, one after another: [rank][set]."""
    kind = f"+data.kwargs.dtype={str(dtype).removeprefix('torch.')}"
    runs = [make_run(*SMALL, kind, *LAYOUTS[layout], *options) for options in sets]
    return workers(runs[0].place.world, scenario.train, runs, dtype)


def _same(ranks, alone, tolerance=1e-12):
    whole = scenario.merged(ranks)
    assert whole.keys() == alone.weights.keys()
    for name, value in alone.weights.items():
        torch.testing.assert_close(whole[name], value, atol=tolerance, rtol=0)
    for rank in ranks:
        assert rank.losses == pytest.approx(alone.losses, abs=tolerance)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["fp64", "fp32"])
@pytest.mark.parametrize("layout", ["fsdp", "fsdp of 4"])
def test_it_gives_what_one_process_gives(workers, make_run, layout, dtype):
    sets = [
        GPT,
        VIT,
        MLP,
        (*VIT, "clip.max_norm=0.1"),
        (*GPT, *ADAMW, "batch.microbatches=2"),
        (*GPT, "parallel.activation_checkpointing=full"),
    ]
    alone = _trained(workers, make_run, "alone", sets, dtype)[0]
    ranks = _trained(workers, make_run, layout, sets, dtype)
    for number, single in enumerate(alone):
        _same([rank[number] for rank in ranks], single, 1e-12 if dtype == torch.float64 else 1e-6)
