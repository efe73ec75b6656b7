"""Shared layers with everything else a run has, and checkpoints that move between any two meshes."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import torch

from tests.pipeline import scenario
from tests.pipeline.scenario import SMALL, TOKENS
from trainer import checkpoint_folder

GPT = ("model=gpt", "model.width=16", "model.heads=4", "model.depth=3", *TOKENS)
VIT = ("model=vit", "model.width=16", "model.heads=4", "model.depth=3", "model.patch=4")
# As many processes as the sizes need.
MESHES = {
    "alone": ("parallel=none", "launch.processes=1"),
    "replicas": ("parallel=ddp", "launch.processes=2"),
    "1 x 1 x 2": ("parallel=tensor", "parallel.data.size=1"),
    "1 x 2 x 2": ("parallel=tensor", "parallel.data.size=2"),
    "2 x 1 x 2": ("parallel=hybrid", "parallel.data.size=1"),
    "2 x 2 x 2": ("parallel=hybrid", "parallel.data.size=2"),
    "4 x 1 x 1": ("parallel=pipeline", "parallel.pipeline.size=4", "parallel.data.size=1"),
}


def _trained(workers, make_run, mesh, *options):
    run = make_run(*SMALL, *MESHES[mesh], "parallel.data.bucket_cap_mb=0.005", *options)
    return [rank[0] for rank in workers(run.place.world, scenario.train, [run])]


@pytest.fixture(scope="module")
def alone(workers, compose_run, tmp_path_factory):
    """`alone(*options)` is what one process ends with; trained once for all meshes that are held against it."""

    @functools.cache
    def train(*options):
        run = compose_run(tmp_path_factory.mktemp("alone") / "run", *SMALL, *MESHES["alone"], *options)
        return workers(1, scenario.train, [run])[0][0]

    return train


def _same(ranks, alone, tolerance=1e-12):
    whole = scenario.merged(ranks)
    assert whole.keys() == alone.weights.keys()
    for name, value in alone.weights.items():
        torch.testing.assert_close(whole[name], value, atol=tolerance, rtol=0)


@pytest.mark.parametrize(
    ("mesh", "layout", "common"),
    [
        pytest.param("1 x 2 x 2", (), ("clip.max_norm=0.1",), id="clipping"),
        pytest.param("2 x 1 x 2", (), ("clip.max_norm=0.1", "batch.microbatches=2"), id="clipping over two axes"),
        pytest.param("1 x 2 x 2", ("parallel.tensor.sequence=true",), ("clip.max_norm=0.1",), id="clipping, sequence"),
        pytest.param("1 x 2 x 2", ("parallel.tensor.overlap=false",), (), id="without overlap"),
        pytest.param("2 x 1 x 2", ("parallel.pipeline.schedule=zero_bubble",), (), id="zero_bubble"),
        pytest.param(
            "2 x 2 x 2",
            ("parallel.pipeline.schedule=interleaved", "parallel.tensor.sequence=true"),
            (),
            id="interleaved, sequence",
        ),
        pytest.param("1 x 1 x 2", ("parallel.activation_checkpointing=full",), (), id="recomputed"),
        pytest.param("1 x 2 x 2", ("sync=partitioned",), ("optimizer=adamw", "optimizer.lr=0.001"), id="partitioned"),
        pytest.param(
            "1 x 2 x 2", (), ("sync=delayed", "sync.warmup_steps=1", "sync.guard=false", "steps=4"), id="delayed"
        ),
    ],
)
def test_it_gives_what_one_process_gives(workers, make_run, alone, mesh, layout, common):
    options = (*GPT, *common)
    ranks = _trained(workers, make_run, mesh, *options, *layout)
    _same(ranks, alone(*options))
    for rank in ranks:
        assert rank.losses == pytest.approx(alone(*options).losses, abs=1e-12)


@pytest.mark.parametrize("model", [GPT, VIT], ids=["gpt", "vit"])
def test_evaluation_sees_whole_logits(workers, make_run, alone, model):
    options = (*model, "evaluate.every=1", "evaluate.batch=10", "steps=2")
    wanted = [(m["eval/loss"], m["eval/accuracy"]) for m in alone(*options).history if "eval/loss" in m]
    for mesh in ("1 x 2 x 2", "2 x 1 x 2"):
        for rank in _trained(workers, make_run, mesh, *options):
            found = [(m["eval/loss"], m["eval/accuracy"]) for m in rank.history if "eval/loss" in m]
            # Logits are taken to fp32 for the loss.
            assert found == [pytest.approx(pair, abs=1e-6) for pair in wanted]


def test_a_vocabulary_that_does_not_divide_is_shared_out_unevenly(workers, make_run, alone):
    options = (*GPT, "data.classes=37")
    _same(_trained(workers, make_run, "1 x 2 x 2", *options), alone(*options))


@pytest.mark.parametrize("hook", ["topk", "onebit", "powersgd", "int8"])
def test_hooks_act_on_the_data_axis_on_each_part(workers, make_run, hook):
    warm = ("comm.warmup_steps=0",) if hook != "powersgd" else ()
    ranks = _trained(workers, make_run, "1 x 2 x 2", *GPT, f"comm={hook}", *warm, "steps=6")
    scenario.merged(ranks)  # replicas are equal bit by bit, and so is what all tensor ranks have


@pytest.mark.parametrize("sequence", ["false", "true"])
def test_replicated_activations_have_the_same_masks_and_shared_ones_different(workers, make_run, sequence):
    options = (*GPT, "model.dropout=0.3", f"parallel.tensor.sequence={sequence}")
    # What all tensor ranks have stays alike only if they drop the same activations of it.
    scenario.merged(_trained(workers, make_run, "1 x 2 x 2", *options))


MOVED = (*GPT, "optimizer=adamw", "optimizer.lr=0.001", "data.classes=37", "steps=4")
# Ranks, stages and tensor ranks become fewer and more, one at a time and together.
MOVES = [
    *(("2 x 2 x 2", after) for after in MESHES if after != "2 x 2 x 2"),
    *(("alone", after) for after in ("1 x 1 x 2", "4 x 1 x 1", "2 x 2 x 2")),
]


@pytest.fixture(scope="module")
def left(request, workers, compose_run, tmp_path_factory):
    """The weights that an uninterrupted run ends with, and the checkpoint that it left on the way."""
    folder = tmp_path_factory.mktemp("left")
    run = compose_run(folder, *SMALL, *MESHES[request.param], *MOVED, "checkpoint.every=2")
    ranks = [rank[0] for rank in workers(run.place.world, scenario.train, [run])]
    return scenario.merged(ranks), checkpoint_folder.path_of(run.checkpoints, 2)


@pytest.mark.parametrize(("left", "after"), MOVES, indirect=["left"], scope="module")
def test_a_checkpoint_moves_from_mesh_to_mesh(workers, make_run, left, after):
    whole, path = left
    resumed = scenario.merged(_trained(workers, make_run, after, *MOVED, f"checkpoint.resume='{path}'"))
    assert resumed.keys() == whole.keys()
    for name, value in whole.items():
        torch.testing.assert_close(resumed[name], value, atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("model.dropout=0.2", "comm=topk", "comm.warmup_steps=0"), id="topk and dropout"),
        pytest.param(("model.dropout=0.2", "parallel.tensor.sequence=true"), id="sequence and dropout"),
    ],
)
def test_under_the_same_mesh_it_is_bitwise_the_same(workers, make_run, tmp_path: Path, options):
    common = (*GPT, "steps=4", *options)
    run = make_run(*SMALL, *MESHES["1 x 2 x 2"], "parallel.data.bucket_cap_mb=0.005", *common, "checkpoint.every=2")
    run = run.model_copy(update={"folder": tmp_path / "before"})
    before = [rank[0] for rank in workers(4, scenario.train, [run])]
    path = checkpoint_folder.path_of(run.checkpoints, 2)
    after = _trained(workers, make_run, "1 x 2 x 2", *common, f"checkpoint.resume={path}")
    for one, other in zip(before, after, strict=True):
        assert all(torch.equal(one.weights[name], value) for name, value in other.weights.items())
        assert one.losses[2:] == other.losses


def test_what_a_hook_had_pending_of_other_parts_is_dropped(workers, make_run, tmp_path: Path):
    options = (*GPT, "comm=topk", "comm.warmup_steps=0", "steps=4")
    run = make_run(*SMALL, *MESHES["1 x 2 x 2"], *options, "checkpoint.every=2")
    run = run.model_copy(update={"folder": tmp_path / "before"})
    workers(4, scenario.train, [run])
    path = checkpoint_folder.path_of(run.checkpoints, 2)
    resumed = scenario.merged(_trained(workers, make_run, "replicas", *options, f"checkpoint.resume={path}"))
    assert all(torch.isfinite(value).all() for value in resumed.values())
