"""Sizes of meshes with a tensor axis, and what cannot be shared out."""

from __future__ import annotations

import pytest
from torch import nn

from trainer.parallel.base import DataAxis, Parallel
from trainer.parallel.pipeline import PipelineAxis
from trainer.parallel.tensor import TensorAxis
from trainer.spec import ConfigError
from trainer.tensor.check import check
from trainer.tensor_plan import Region, TensorPlan


def test_any_sizes_that_multiply_to_the_world():
    parallel = Parallel(pipeline=PipelineAxis(size=2), tensor=TensorAxis(size=2))
    assert parallel.sizes(8) == {"pipeline": 2, "data": 2, "tensor": 2}
    assert Parallel(tensor=TensorAxis(size=4)).sizes(4) == {"pipeline": 1, "data": 1, "tensor": 4}


@pytest.mark.parametrize(
    ("parallel", "message"),
    [
        (
            Parallel(tensor=TensorAxis(size=3)),
            "parallel.tensor.size: 3 ranks a layer do not divide 8 processes; use a divisor, or 6 or 9 processes",
        ),
        (
            Parallel(pipeline=PipelineAxis(size=3), tensor=TensorAxis(size=2)),
            "parallel.pipeline.size: 3 stages x 2 ranks a layer do not divide 8 processes; use a divisor, or 6 or 12"
            " processes",
        ),
        (
            Parallel(data=DataAxis(size=3), tensor=TensorAxis(size=2)),
            "parallel.data.size: 3 replicas of 2 ranks each do not fill 8 processes; set parallel.data.size=-1, or"
            " start 6 processes in all",
        ),
    ],
)
def test_sizes_that_do_not_multiply_are_refused(parallel, message):
    with pytest.raises(ConfigError) as refused:
        parallel.sizes(8)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ("model=mlp",),
            "parallel.tensor.size: Sequential does not say how its layers can be shared out; give the module an"
            " attribute tensor_plan (a trainer.tensor_plan.TensorPlan), or use parallel=pipeline",
        ),
        (
            ("model=vit", "parallel.tensor.size=8"),
            "parallel.tensor.size: 8 ranks cannot share 4 attention heads evenly; use a divisor, or change model.heads",
        ),
        (
            ("model=vit", "compile=true"),
            "compile: a compiled model cannot compute weights' gradients while the sums of layers that are shared out"
            " travel; use compile=false, or parallel=ddp",
        ),
        (
            ("model=vit", "sync=next_forward"),
            "sync: which module reads a weight first is not seen through layers that are shared out; use sync=strict,"
            " or sync=partitioned",
        ),
    ],
)
def test_it_is_refused(make_run, overrides, message):
    with pytest.raises(ConfigError) as refused:
        make_run("parallel=tensor", *overrides)
    assert str(refused.value) == message


PAIR = Region("pair", ("up",), ("down",))


@pytest.mark.parametrize(
    ("plan", "size", "message"),
    [
        (
            TensorPlan((Region("block", ("up",), ("down",)),)),
            4,
            "parallel.tensor.size: 4 ranks cannot share the 6 outputs of block.up evenly; use a divisor",
        ),
        (
            TensorPlan((Region("block", ("up", "norm"), ("down",)),)),
            2,
            "parallel.tensor.size: the tensor_plan names block.norm as a linear layer, and it is LayerNorm; correct the"
            " plan",
        ),
        (
            TensorPlan((Region("blocks", ("up",), ("down",)),)),
            2,
            "parallel.tensor.size: the tensor_plan matches no module of the model; correct its names",
        ),
        (
            TensorPlan((Region("block", ("up",), ("down",)),)),
            2,
            "parallel.tensor.size: the tensor_plan's region block holds norm.weight beside the layers that are cut,"
            " whose gradient each rank would know a part of only; put the cut layers into a module of their own",
        ),
        (
            TensorPlan((PAIR,), embeddings=("tokens",)),
            2,
            "parallel.tensor.size: the tensor_plan names tokens as an embedding, and there is none of that name;"
            " correct the plan",
        ),
        (
            TensorPlan((PAIR,), head="block.norm"),
            2,
            "parallel.tensor.size: the tensor_plan names block.norm as the last linear layer, and it is LayerNorm;"
            " correct the plan",
        ),
        (
            TensorPlan((PAIR,), embeddings=("token",), head="head"),
            2,
            "parallel.tensor.size: token.weight and head.weight are one parameter, and the tensor_plan cuts it, which"
            " would make two of it; leave both out of the plan, or untie them",
        ),
    ],
)
def test_a_users_plan_that_does_not_fit_is_refused(plan, size, message):
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.norm, self.down = nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 4)

    model = nn.Module()
    model.block, model.pair = Block(), nn.ModuleDict({"up": nn.Linear(4, 6), "down": nn.Linear(6, 4)})
    model.token, model.head = nn.Embedding(8, 4), nn.Linear(4, 8, bias=False)
    model.head.weight = model.token.weight
    model.tensor_plan = plan
    with pytest.raises(ConfigError) as refused:
        check(model, size, sequence=False)
    assert str(refused.value) == message


def test_a_sequence_is_shared_out_only_where_the_plan_names_a_stretch():
    model = nn.Module()
    model.tensor_plan = TensorPlan(())
    with pytest.raises(ConfigError) as refused:
        check(model, 2, sequence=True)
    assert str(refused.value) == (
        "parallel.tensor.sequence: the tensor_plan of Module names no stretch in which positions are treated by"
        " themselves; use sequence=false"
    )
