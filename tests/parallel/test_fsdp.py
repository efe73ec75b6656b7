"""A model shared out over its replicas: the weights of one process, checkpoints for any layout, and what is refused."""

from __future__ import annotations

import functools
import math
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.pipeline import scenario
from tests.pipeline.scenario import SMALL, TOKENS
from trainer import checkpoint_folder, loop
from trainer.assemble import assemble
from trainer.checkpoint_parts import own_part
from trainer.compatibility import BY_ELEMENT
from trainer.control import Control
from trainer.doctor.examine import examine
from trainer.loop import steps
from trainer.overlap import evidence
from trainer.parallel import fsdp
from trainer.parallel.fsdp import check, groups_of
from trainer.report import page
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


SETS = [
    GPT,
    VIT,
    MLP,
    (*VIT, "clip.max_norm=0.1"),
    (*GPT, *ADAMW, "batch.microbatches=2"),
    (*GPT, "parallel.activation_checkpointing=full"),
]


@pytest.fixture(scope="module")
def alone(workers, compose_run, tmp_path_factory):
    """`alone(dtype)` is what one process ends with for each of SETS; trained once for all layouts."""

    @functools.cache
    def train(dtype):
        make = functools.partial(compose_run, tmp_path_factory.mktemp("alone") / "run")
        return _trained(workers, make, "alone", SETS, dtype)[0]

    return train


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["fp64", "fp32"])
@pytest.mark.parametrize("layout", ["fsdp", "fsdp of 4"])
def test_it_gives_what_one_process_gives(workers, make_run, alone, layout, dtype):
    ranks = _trained(workers, make_run, layout, SETS, dtype)
    for number, single in enumerate(alone(dtype)):
        _same([rank[number] for rank in ranks], single, 1e-12 if dtype == torch.float64 else 1e-6)


def test_every_rank_keeps_its_part_only(workers, make_run):
    run = make_run(*SMALL, *LAYOUTS["fsdp"], *GPT, *ADAMW)
    whole = sum(p.numel() for p in run.model.skeleton(run.data.sample()).parameters())
    for held, moments in workers(2, _held, run):
        assert held < 0.51 * whole
        assert moments == 2 * held


def _held(mesh, run):
    """The elements of parameters and of Adam's moments that this rank holds after a step."""
    job, batches = _started(mesh, run)
    next(steps(job, batches))
    held = sum(own_part(p).numel() for p in job.checkpoints.module.parameters())
    entries = [own_part(v) for state in job.optimizer.state.values() for v in state.values() if v.dim()]
    return held, sum(entry.numel() for entry in entries)


def _started(mesh, run):
    run.folder.mkdir(exist_ok=True)
    return assemble(run, mesh, scenario.CPU, Control(mesh.control))


def test_evaluation_may_give_ranks_different_numbers_of_batches(workers, make_run):
    # Of 61 samples in batches of 20, the first of four ranks has 16 and the last 15; of batches of 15, two and one.
    sets = [
        (*VIT, "evaluate.every=1", f"evaluate.batch={batch}", "steps=2", f"+data.kwargs.count={count}")
        for batch, count in ((20, 61), (15, 61), (4, 18))
    ]
    alone = _trained(workers, make_run, "alone", sets)[0]
    ranks = _trained(workers, make_run, "fsdp of 4", sets)
    for number, single in enumerate(alone):
        wanted = _evaluations(single)
        assert len(wanted) == 2
        for rank in ranks:
            # Logits are taken to fp32 for the loss.
            assert _evaluations(rank[number]) == [pytest.approx(pair, abs=1e-6) for pair in wanted]


def _evaluations(trained):
    return [(m["eval/loss"], m["eval/accuracy"]) for m in trained.history if "eval/loss" in m]


def test_running_means_are_the_first_ranks_everywhere(workers, make_run):
    options = ("model=custom", "model.factory=tests.parallel.test_fsdp:normed", "evaluate.every=1", "steps=2")
    sharded, ddp = (_trained(workers, make_run, layout, [options]) for layout in ("fsdp", "ddp"))
    whole, wanted = (scenario.merged([rank[0] for rank in ranks]) for ranks in (sharded, ddp))
    for name, value in wanted.items():
        torch.testing.assert_close(whole[name], value, atol=1e-12, rtol=0)
    assert _evaluations(sharded[0][0]) == [pytest.approx(pair, abs=1e-6) for pair in _evaluations(ddp[0][0])]


def normed() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Linear(16, 10))


def test_in_bf16_gradients_are_averaged_in_bf16(workers, make_run):
    options = [(*GPT, "precision=bf16"), (*GPT, "precision=bf16", "batch.microbatches=2")]
    alone = _trained(workers, make_run, "alone", options, torch.float32)[0]
    ranks = _trained(workers, make_run, "fsdp", options, torch.float32)
    for number, single in enumerate(alone):
        _same([rank[number] for rank in ranks], single, 2e-3)
    layers, whole = _elements(make_run)
    gathered = layers + whole
    assert _measured(ranks[0][0])["comm/bytes_sent"] == (4 * gathered + 2 * whole) / 2
    # Sums over micro-batches are kept in what travels, so that is fp32; each micro-batch gathers anew.
    assert _measured(ranks[0][1])["comm/bytes_sent"] == (2 * 4 * gathered + 4 * whole) / 2


def _measured(trained):
    """The metrics of the last step."""
    return next(metrics for metrics in reversed(trained.history) if "speed/step_ms" in metrics)


def _elements(make_run) -> tuple[int, int]:
    """The parameters of GPT that are gathered layer by layer, and all."""
    run = make_run(*SMALL, *GPT)
    model = run.model.skeleton(run.data.sample())
    layers = {p for layer in groups_of(model) for p in layer.parameters()}
    return sum(p.numel() for p in layers), sum(p.numel() for p in model.parameters())


def test_what_travels_is_measured(workers, make_run):
    metrics = _measured(_trained(workers, make_run, "fsdp", [GPT], torch.float32)[0][0])
    layers, whole = _elements(make_run)
    # Layers are gathered in both passes, the rest once; every gradient travels once; a rank sends one half of each.
    assert metrics["comm/bytes_sent"] == 4 * (2 * layers + (whole - layers) + whole) / 2
    assert 0 < metrics["overlap/exposed_ms"] <= metrics["overlap/comm_ms"]
    # The passes without what they waited for are no part of what hides it.
    parts = sum(metrics[f"speed/{part}_ms"] for part in ("forward", "backward", "optimizer"))
    assert parts + metrics["overlap/exposed_ms"] <= metrics["speed/step_ms"] * 1.001


def test_where_it_is_not_measured_nothing_says_that_there_was_none(workers, make_run):
    run = make_run(*SMALL, *LAYOUTS["fsdp"], *GPT)
    for metrics in workers(2, _unmeasured, run):
        assert "speed/step_ms" in metrics
        assert not [name for name in metrics if name.startswith(("overlap/", "comm/"))]
    read = evidence.read(run.folder)
    assert [sorted(set(sums) & set(loop.OF_COMM)) for window in read.windows for sums in window.ranks] == [[]] * 6
    assert examine(read) == []
    page.write(read, [])


def _unmeasured(mesh, run):
    """The last metrics of a run on a device like a GPU, whose streams do not tell when they wait."""
    fsdp.measured = loop.measured = lambda device: False
    return _measured(scenario.train(mesh, [run], torch.float32)[0])


def test_layers_are_gathered_by_themselves_and_what_is_tied_with_the_whole():
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.norm, self.head = nn.Embedding(8, 4), nn.LayerNorm(4), nn.Linear(4, 8, bias=False)
            self.blocks = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
            self.attention = nn.MultiheadAttention(4, 2)

    model = Tied()
    assert groups_of(model) == [model.token, model.head, *model.blocks]
    model.head.weight = model.token.weight
    assert groups_of(model) == [*model.blocks]


def test_tied_weights_are_those_of_one_process(workers, make_run):
    options = [("model=custom", "model.factory=tests.parallel.test_fsdp:tied", *TOKENS)]
    alone = _trained(workers, make_run, "alone", options)[0]
    _same([rank[0] for rank in _trained(workers, make_run, "fsdp", options)], alone[0])


def tied() -> nn.Module:
    model = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 32, bias=False))
    model[3].weight = model[0].weight
    return model


@pytest.mark.parametrize("before", ["fsdp", "fsdp of 4", "alone", "tensor", "pipeline"])
def test_a_checkpoint_moves_to_any_layout(workers, make_run, tmp_path: Path, before):
    options = (*GPT, *ADAMW, "data.classes=37", "steps=4")
    run = make_run(*SMALL, *LAYOUTS[before], *options, "checkpoint.every=2", "evaluate.every=2")
    run = run.model_copy(update={"folder": tmp_path / "before"})
    whole = scenario.merged([rank[0] for rank in workers(run.place.world, scenario.train, [run])])
    path = checkpoint_folder.path_of(run.checkpoints, 2)
    moments = [name for name in checkpoint_folder.tensors_in(path) if name.endswith(".exp_avg")]
    assert set(checkpoint_folder.tensors_in(path)) >= {f"model.{name}" for name in whole}
    assert {name.split(".", 1)[1].removesuffix(".exp_avg") for name in moments} == whole.keys()
    # Between the others their own tests move it.
    for after in LAYOUTS if before.startswith("fsdp") else ("fsdp", "fsdp of 4"):
        ranks = _trained(workers, make_run, after, [(*options, f"checkpoint.resume='{path}'")])
        resumed = scenario.merged([rank[0] for rank in ranks])
        assert resumed.keys() == whole.keys()
        for name, value in whole.items():
            torch.testing.assert_close(resumed[name], value, atol=1e-12, rtol=0)


@pytest.mark.parametrize("optimizer", [ADAMW, ()], ids=["adamw", "sgd"])
def test_under_the_same_layout_a_resumed_run_is_bitwise_the_same(workers, make_run, tmp_path: Path, optimizer):
    options = (*GPT, *optimizer, "model.dropout=0.2", "clip.max_norm=1.0", "steps=4")
    run = make_run(*SMALL, *LAYOUTS["fsdp of 4"], *options, "checkpoint.every=2")
    run = run.model_copy(update={"folder": tmp_path / "before"})
    before = [rank[0] for rank in workers(4, scenario.train, [run])]
    path = checkpoint_folder.path_of(run.checkpoints, 2)
    after = _trained(workers, make_run, "fsdp of 4", [(*options, f"checkpoint.resume={path}")])
    for one, (other,) in zip(before, after, strict=True):
        assert all(torch.equal(one.weights[name], value) for name, value in other.weights.items())
        assert one.losses[2:] == other.losses


def test_weights_that_are_not_finite_are_not_kept(workers, make_run, tmp_path: Path, caplog):
    run = make_run(*SMALL, *LAYOUTS["fsdp"], *MLP, "checkpoint.every=1", "log.every=100")
    run = run.model_copy(update={"folder": tmp_path / "run"})
    workers(2, _broken, run)
    assert checkpoint_folder.checkpoints_in(run.checkpoints) == [checkpoint_folder.path_of(run.checkpoints, 1)]


def _broken(mesh, run):
    """Save a good state, and one in which the last rank's part of one parameter holds no number."""
    job, _ = _started(mesh, run)
    job.checkpoints.save(1)
    if mesh.rank == 1:
        own_part(next(job.checkpoints.module.parameters())).data.fill_(math.nan)
    job.checkpoints.save(2)
    job.checkpoints.close()


@pytest.mark.parametrize("options", ["{}", "{fused: true}", "{foreach: true}"])
def test_optimizers_step_parts_as_they_step_wholes(workers, make_run, options):
    by_name = (*MLP, "optimizer=by_name", "optimizer.lr=0.001", f"+optimizer.options={options}")
    sets = [
        (*by_name, f"optimizer.class_name={name}")
        for name in sorted(BY_ELEMENT)
        if options == "{}" or (name == "Adagrad" if "fused" in options else name in ("NAdam", "RMSprop"))
    ]
    alone = _trained(workers, make_run, "alone", sets)[0]
    ranks = _trained(workers, make_run, "fsdp", sets)
    for number, single in enumerate(alone):
        _same([rank[number] for rank in ranks], single)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ("comm=topk",),
            "comm: a hook averages whole gradients, and fully_shard leaves each rank its part of them; use"
            " comm=allreduce, or parallel=ddp",
        ),
        (
            ("sync=partitioned",),
            "sync: this sync rule moves the gradients itself, and fully_shard has moved them already; use sync=strict,"
            " or parallel=ddp",
        ),
        (
            ("parallel.pipeline.size=2",),
            "parallel.data.shard: the ranks of a replica share its model out already, by stages or within layers; use"
            " parallel.data.shard=false, or sizes of 1",
        ),
        (
            ("parallel.tensor.size=2",),
            "parallel.data.shard: the ranks of a replica share its model out already, by stages or within layers; use"
            " parallel.data.shard=false, or sizes of 1",
        ),
        (
            ("parallel.data.find_unused_parameters=true",),
            "parallel.data.find_unused_parameters: gathering a layer takes all ranks, so that no batch may pass one by;"
            " use false, or parallel=ddp",
        ),
        (
            ("optimizer=by_name", "optimizer.class_name=Rprop"),
            "optimizer.class_name: torch's implementation cannot update parts of a parameter; use another, such as"
            " RMSprop, or parallel=ddp",
        ),
        (
            ("compile=true",),
            "compile: a compiled model cannot gather its parameters between its layers; use compile=false, or"
            " parallel=ddp",
        ),
        (
            ("profile.ablation_every=2",),
            "profile.ablation_every: there is no step without communication, since no rank has all parameters; use"
            " null, or parallel=ddp",
        ),
        (
            ("model=custom", "model.factory=tests.parallel.test_fsdp:scaled"),
            "parallel.data.shard: scale is a single number, which cannot be shared out; make it a vector of one, or use"
            " parallel=ddp",
        ),
    ],
)
def test_it_is_refused(make_run, overrides, message):
    with pytest.raises(ConfigError) as refused:
        make_run("parallel=fsdp", "launch.processes=4", *overrides)
    assert str(refused.value) == message


def scaled() -> nn.Module:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    model.scale = nn.Parameter(torch.ones(()))
    return model


def test_parameters_of_several_dtypes_are_refused():
    with pytest.raises(ConfigError) as refused:
        check(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).to(torch.float64)))
    assert str(refused.value) == (
        "parallel.data.shard: the parameters are of several dtypes (float32, float64), which cannot be gathered"
        " together; use one, or parallel=ddp"
    )
