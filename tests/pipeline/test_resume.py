"""Checkpoints know no layout: saved under one, resumed under another, and bitwise under the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.pipeline import scenario
from tests.pipeline.scenario import SMALL
from trainer import checkpoint_folder

VIT = ("model=vit", "model.width=16", "model.heads=2", "model.depth=3", "model.patch=4")
COMMON = (*SMALL, *VIT, "optimizer=adamw", "optimizer.lr=0.001", "clip.max_norm=0.5")
LAYOUTS = {
    "alone": (1, ("parallel=none",)),
    "replicas": (2, ("parallel=ddp",)),
    "2 x 2": (4, ("parallel=pipeline",)),
    "4 x 1": (4, ("parallel=pipeline", "parallel.pipeline.size=4", "parallel.data.size=1")),
    "2 x 1, interleaved": (2, ("parallel=pipeline", "parallel.pipeline.schedule=interleaved", "parallel.data.size=1")),
}


def _saved(make_run, workers, layout, folder, *extra):
    size, options = LAYOUTS[layout]
    run = make_run(*COMMON, *options, f"launch.processes={size}", "steps=4", "checkpoint.every=2", *extra)
    run = run.model_copy(update={"folder": folder})
    ranks = [rank[0] for rank in workers(size, scenario.train, [run])]
    return ranks, checkpoint_folder.path_of(run.checkpoints, 2)


def _resumed(make_run, workers, layout, path, *extra):
    size, options = LAYOUTS[layout]
    run = make_run(*COMMON, *options, f"launch.processes={size}", "steps=4", f"checkpoint.resume={path}", *extra)
    return [rank[0] for rank in workers(size, scenario.train, [run])]


@pytest.mark.parametrize("before", ["2 x 2", "alone"])
def test_a_run_goes_on_under_any_layout(make_run, workers, tmp_path: Path, before):
    uninterrupted, path = _saved(make_run, workers, before, tmp_path / "before")
    wanted = scenario.merged(uninterrupted)
    for after in LAYOUTS:
        whole = scenario.merged(_resumed(make_run, workers, after, path))
        assert whole.keys() == wanted.keys()
        for name, value in wanted.items():
            torch.testing.assert_close(whole[name], value, atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("comm=topk", "comm.warmup_steps=0", "model.dropout=0.2"), id="topk"),
        pytest.param(("parallel.pipeline.schedule=zero_bubble", "model.dropout=0.2"), id="zero_bubble"),
        pytest.param(
            ("sync=delayed", "sync.warmup_steps=0", "sync.guard=false", "parallel.pipeline.size=2"), id="delayed"
        ),
        pytest.param(("sync=local_sgd", "sync.period=2"), id="local_sgd"),
    ],
)
def test_under_the_same_layout_it_is_bitwise_the_same(make_run, workers, tmp_path: Path, options):
    uninterrupted, path = _saved(make_run, workers, "2 x 2", tmp_path / "before", *options)
    resumed = _resumed(make_run, workers, "2 x 2", path, *options)
    for before, after in zip(uninterrupted, resumed, strict=True):
        assert before.begins == after.begins, "the cut is the checkpoint's, not a newly measured one"
        assert all(torch.equal(before.weights[name], value) for name, value in after.weights.items())
        assert before.losses[2:] == after.losses


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("comm=topk", "comm.warmup_steps=0"), id="topk"),
        pytest.param(("comm=powersgd",), id="powersgd"),
        pytest.param(("sync=delayed", "sync.warmup_steps=0", "sync.guard=false"), id="delayed"),
        pytest.param(("sync=local_sgd", "sync.period=4"), id="local_sgd"),
        pytest.param(("sync=diloco", "sync.period=4"), id="diloco"),
    ],
)
def test_what_ranks_carry_of_their_own_is_shared_out_where_they_hold_other_parts(
    make_run, workers, tmp_path: Path, options
):
    _, path = _saved(make_run, workers, "2 x 2", tmp_path / "before", *options)
    for after in ("replicas", "2 x 2"):
        cut = ("parallel.pipeline.split=[layers.2]",) if after == "2 x 2" else ()
        resumed = _resumed(make_run, workers, after, path, *options, *cut)
        assert all(torch.isfinite(value).all() for value in scenario.merged(resumed).values())
