"""Every schedule at every mesh ends with the weights and losses of one process."""

from __future__ import annotations

import functools
import itertools

import pytest
import torch

from tests.pipeline import scenario
from tests.pipeline.scenario import SMALL, TOKENS

MODELS = {
    "mlp": ("model=mlp", "model.width=24", "model.depth=9"),
    "vit": ("model=vit", "model.width=16", "model.heads=2", "model.depth=7", "model.patch=4"),
    "gpt": ("model=gpt", "model.width=16", "model.heads=2", "model.depth=7", *TOKENS),
}
SCHEDULES = ("1f1b", "gpipe", "eager_1f1b", "interleaved", "zero_bubble")
# Sums in another order, over three steps.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6}


def _overrides(pipeline: int, data: int, schedule: str) -> tuple[str, ...]:
    return (
        "parallel=pipeline",
        f"parallel.pipeline.size={pipeline}",
        f"parallel.data.size={data}",
        f"parallel.pipeline.schedule={schedule}",
        # Several buckets a stage.
        "parallel.data.bucket_cap_mb=0.005",
    )


def _same(ranks, alone, dtype):
    whole = scenario.merged(ranks)
    assert whole.keys() == alone.weights.keys()
    for name, value in alone.weights.items():
        torch.testing.assert_close(whole[name], value, atol=TOLERANCE[dtype], rtol=0)
    for rank in ranks:
        assert rank.losses == pytest.approx(alone.losses, abs=TOLERANCE[dtype])


@pytest.fixture(scope="module")
def alone(workers, compose_run, tmp_path_factory):
    """`alone(dtype)` gives, by model, what one process ends with: it has neither stages nor a schedule."""

    @functools.cache
    def train(dtype):
        folder = tmp_path_factory.mktemp("alone") / "run"
        options = (f"+data.kwargs.dtype={str(dtype).removeprefix('torch.')}", "parallel=none", "launch.processes=1")
        runs = [compose_run(folder, *SMALL, *model, *options) for model in MODELS.values()]
        return dict(zip(MODELS, workers(1, scenario.train, runs, dtype)[0], strict=True))

    return train


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["fp64", "fp32"])
@pytest.mark.parametrize(("pipeline", "data"), [(2, 1), (4, 1), (2, 2), (4, 2)])
def test_every_schedule_gives_what_one_process_gives(workers, make_run, alone, pipeline, data, dtype):
    # In fp32 the same code adds in the same order: one model is enough to see its size of error.
    cases = list(itertools.product(MODELS if dtype == torch.float64 else ["vit"], SCHEDULES))
    kind = f"+data.kwargs.dtype={str(dtype).removeprefix('torch.')}"
    runs = [
        make_run(
            *SMALL,
            *MODELS[model],
            kind,
            *_overrides(pipeline, data, schedule),
            f"launch.processes={pipeline * data}",
        )
        for model, schedule in cases
    ]
    ranks = workers(pipeline * data, scenario.train, runs, dtype)
    for number, (model, _) in enumerate(cases):
        _same([rank[number] for rank in ranks], alone(dtype)[model], dtype)
