"""A pipeline with everything else a run has: hooks, sync rules, clipping, accumulation, precision, evaluation."""

from __future__ import annotations

import functools

import pytest
import torch

from tests.pipeline import scenario
from tests.pipeline.scenario import SMALL

MLP = ("model=mlp", "model.width=24", "model.depth=5")
VIT = ("model=vit", "model.width=16", "model.heads=2", "model.depth=3", "model.patch=4")
PIPELINE = ("parallel=pipeline", "parallel.data.bucket_cap_mb=0.005")


@pytest.fixture(scope="module")
def alone(workers, compose_run, tmp_path_factory):
    """`alone(*options)` is what one process ends with; trained once for all pipelines that are held against it."""

    @functools.cache
    def train(*options):
        folder = tmp_path_factory.mktemp("alone") / "run"
        run = compose_run(folder, *SMALL, *options, "parallel=none", "launch.processes=1")
        return workers(1, scenario.train, [run])[0][0]

    return train


def _piped(workers, make_run, layout, common):
    """The ranks of two pipelines of two stages."""
    run = make_run(*SMALL, *common, *PIPELINE, *layout, "launch.processes=4")
    return [rank[0] for rank in workers(4, scenario.train, [run])]


def _same(ranks, alone, tolerance=1e-12):
    whole = scenario.merged(ranks)
    assert whole.keys() == alone.weights.keys()
    for name, value in alone.weights.items():
        torch.testing.assert_close(whole[name], value, atol=tolerance, rtol=0)


@pytest.mark.parametrize(
    ("layout", "common"),
    [
        pytest.param((), ("clip.max_norm=0.1",), id="clipping"),
        pytest.param((), ("batch.microbatches=2", "clip.max_norm=0.1"), id="accumulation"),
        pytest.param(("sync=partitioned",), ("optimizer=adamw", "optimizer.lr=0.001"), id="partitioned"),
        pytest.param(
            ("sync=partitioned", "parallel.pipeline.schedule=interleaved"),
            ("optimizer=adamw", "optimizer.lr=0.001"),
            id="partitioned-interleaved",
        ),
        pytest.param(
            ("sync=partitioned", "parallel.pipeline.schedule=zero_bubble"), ("schedule=linear",), id="partitioned-split"
        ),
        pytest.param((), ("sync=delayed", "sync.steps=1", "sync.warmup_steps=1", "sync.guard=false"), id="delayed"),
        pytest.param(("comm=int8", "comm.warmup_steps=100"), (), id="hook in its dense warm-up"),
        pytest.param(
            ("parallel.pipeline.schedule=zero_bubble", "parallel.activation_checkpointing=full"), (), id="recomputed"
        ),
        pytest.param(
            ("parallel.activation_checkpointing=2", "parallel.pipeline.schedule=gpipe", "parallel.pipeline.stages=2"),
            (),
            id="recomputed-gpipe-of-two-stages",
        ),
        pytest.param(("parallel.pipeline.split=[layers.1]",), (), id="cut by hand"),
        pytest.param(("parallel.pipeline.schedule=auto",), (), id="auto"),
        pytest.param(("parallel.pipeline.microbatches=1",), (), id="one micro-batch"),
    ],
)
def test_it_gives_what_one_process_gives(workers, make_run, alone, layout, common):
    # Long enough for a delay to show.
    options = (*VIT, "steps=4", *common)
    ranks = _piped(workers, make_run, layout, options)
    _same(ranks, alone(*options))
    assert ranks[0].losses == pytest.approx(alone(*options).losses, abs=1e-12)


@pytest.mark.parametrize("schedule", ["1f1b", "zero_bubble"])
def test_a_loss_that_is_a_sum(workers, make_run, alone, schedule):
    common = (
        "model=custom",
        "model.factory=tests.pipeline.scenario:net",
        "model.loss_function=tests.pipeline.scenario:summed",
        "model.loss_reduction=sum",
        "batch.size=16",
    )
    ranks = _piped(workers, make_run, (f"parallel.pipeline.schedule={schedule}",), common)
    _same(ranks, alone(*common))
    assert ranks[3].losses == pytest.approx(alone(*common).losses, abs=1e-12)


def test_batch_norm_is_that_of_one_process_with_the_same_microbatches(workers, make_run):
    common = ("model=resnet", "steps=2")
    run = make_run(*SMALL, *common, *PIPELINE, "parallel.data.size=1", "parallel.pipeline.microbatches=4")
    single = make_run(*SMALL, *common, "parallel=none", "launch.processes=1", "batch.microbatches=4")
    ranks = [rank[0] for rank in workers(2, scenario.train, [run])]
    _same(ranks, workers(1, scenario.train, [single])[0][0])


def test_evaluation_counts_every_sample_once_on_every_layout(workers, make_run, alone):
    common = (*VIT, "evaluate.every=1", "evaluate.batch=10", "steps=2")
    wanted = [(m["eval/loss"], m["eval/accuracy"]) for m in alone(*common).history if "eval/loss" in m]
    for layout in ((), ("parallel.pipeline.schedule=interleaved",)):
        for rank in _piped(workers, make_run, layout, common):
            found = [(m["eval/loss"], m["eval/accuracy"]) for m in rank.history if "eval/loss" in m]
            # Logits are taken to fp32 for the loss.
            assert found == [pytest.approx(pair, abs=1e-6) for pair in wanted]


def test_bf16_activations_travel_as_bf16_and_agree_with_one_process(workers, make_run):
    common = (*VIT, "precision=bf16", "+data.kwargs.dtype=float32")
    run = make_run(*SMALL, *common, *PIPELINE, "launch.processes=4")
    single = make_run(*SMALL, *common, "parallel=none", "launch.processes=1", "batch.microbatches=4")
    ranks = [rank[0] for rank in workers(4, scenario.train, [run], torch.float32)]
    # Products of 8 bits of mantissa, averaged in another order.
    _same(ranks, workers(1, scenario.train, [single], torch.float32)[0][0], tolerance=2e-3)


@pytest.mark.parametrize("hook", ["topk", "onebit", "powersgd", "randomk", "fp16"])
def test_hooks_act_between_the_replicas_of_a_stage(workers, make_run, hook):
    warm = ("comm.warmup_steps=0",) if hook in ("topk", "onebit") else ()
    run = make_run(*SMALL, *VIT, *PIPELINE, f"comm={hook}", *warm, "steps=6", "launch.processes=4")
    ranks = [rank[0] for rank in workers(4, scenario.train, [run])]
    scenario.merged(ranks)  # replicas are equal bit by bit
    sent = [metrics["comm/bytes_sent"] for metrics in ranks[0].history if "comm/bytes_sent" in metrics]
    assert len(sent) == 6
    assert min(sent) > 0


@pytest.mark.parametrize("rule", ["local_sgd", "diloco"])
def test_replicas_of_stages_that_take_steps_of_their_own_are_replicas_of_whole_models(workers, make_run, rule):
    common = (*VIT, f"sync={rule}", "sync.period=2", "steps=4", "optimizer=adamw", "optimizer.lr=0.001")
    run = make_run(*SMALL, *common, *PIPELINE, "launch.processes=4")
    whole = make_run(*SMALL, *common, "parallel=ddp", "launch.processes=2")
    ranks = [rank[0] for rank in workers(4, scenario.train, [run])]
    _same(ranks, workers(2, scenario.train, [whole])[0][0])
