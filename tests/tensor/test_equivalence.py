"""Layers shared out at every mesh end with the weights and losses of one process."""

from __future__ import annotations

import functools
import itertools

import pytest
import torch

from tests.pipeline import scenario
from tests.pipeline.scenario import SMALL, TOKENS

MODELS = {
    "vit": ("model=vit", "model.width=16", "model.heads=4", "model.depth=2", "model.patch=4"),
    "gpt": ("model=gpt", "model.width=16", "model.heads=4", "model.depth=2", *TOKENS),
}
# Sums in another order, over three steps.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6}


def _overrides(pipeline: int, data: int, tensor: int, *more: str) -> tuple[str, ...]:
    return (
        "parallel=hybrid",
        f"parallel.pipeline.size={pipeline}",
        f"parallel.data.size={data}",
        f"parallel.tensor.size={tensor}",
        f"launch.processes={pipeline * data * tensor}",
        "parallel.data.bucket_cap_mb=0.005",
        *more,
    )


def _kind(dtype: torch.dtype) -> tuple[str, ...]:
    return (f"+data.kwargs.dtype={str(dtype).removeprefix('torch.')}",)


@pytest.fixture(scope="module")
def alone(workers, compose_run, tmp_path_factory):
    """`alone(dtype)` gives, by model, what one process ends with, whatever the mesh."""

    @functools.cache
    def train(dtype):
        folder = tmp_path_factory.mktemp("alone") / "run"
        runs = [
            compose_run(folder, *SMALL, *_kind(dtype), *model, "parallel=none", "launch.processes=1")
            for model in MODELS.values()
        ]
        return dict(zip(MODELS, workers(1, scenario.train, runs, dtype)[0], strict=True))

    return train


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["fp64", "fp32"])
@pytest.mark.parametrize("mesh", [(1, 1, 2), (1, 2, 2), (2, 1, 2), (2, 2, 2), (1, 1, 4)], ids=str)
def test_every_mesh_gives_what_one_process_gives(workers, make_run, alone, mesh, dtype):
    # In fp32 the same code adds in the same order: one model is enough to see its size of error.
    cases = list(itertools.product(MODELS if dtype == torch.float64 else ["gpt"], ("false", "true")))
    runs = [
        make_run(*SMALL, *_kind(dtype), *MODELS[model], *_overrides(*mesh, f"parallel.tensor.sequence={sequence}"))
        for model, sequence in cases
    ]
    ranks = workers(runs[0].place.world, scenario.train, runs, dtype)
    for number, (model, _) in enumerate(cases):
        single, whole = alone(dtype)[model], scenario.merged([rank[number] for rank in ranks])
        assert whole.keys() == single.weights.keys()
        for name, value in single.weights.items():
            torch.testing.assert_close(whole[name], value, atol=TOLERANCE[dtype], rtol=0)
        for rank in ranks:
            assert rank[number].losses == pytest.approx(single.losses, abs=TOLERANCE[dtype])
