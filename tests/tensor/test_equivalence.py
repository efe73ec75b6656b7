"""Layers shared out at every mesh end with the weights and losses of one process."""

from __future__ import annotations

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


def _compare(workers, make_run, layout, common, dtype=torch.float64):
    """Runs under `layout` and alone with the same options, one pair for each set of `common` options."""
    kind = f"+data.kwargs.dtype={str(dtype).removeprefix('torch.')}"
    runs = [make_run(*SMALL, kind, *options, *layout) for options in common]
    alone = [make_run(*SMALL, kind, *options, "parallel=none", "launch.processes=1") for options in common]
    ranks = workers(runs[0].place.world, scenario.train, runs, dtype)
    singles = workers(1, scenario.train, alone, dtype)[0]
    for number, single in enumerate(singles):
        whole = scenario.merged([rank[number] for rank in ranks])
        assert whole.keys() == single.weights.keys()
        for name, value in single.weights.items():
            torch.testing.assert_close(whole[name], value, atol=TOLERANCE[dtype], rtol=0)
        for rank in ranks:
            assert rank[number].losses == pytest.approx(single.losses, abs=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["fp64", "fp32"])
@pytest.mark.parametrize("mesh", [(1, 1, 2), (1, 2, 2), (2, 1, 2), (2, 2, 2), (1, 1, 4)], ids=str)
def test_every_mesh_gives_what_one_process_gives(workers, make_run, mesh, dtype):
    for sequence in ("false", "true"):
        layout = _overrides(*mesh, f"parallel.tensor.sequence={sequence}")
        # In fp32 the same code adds in the same order: one model is enough to see its size of error.
        models = list(MODELS.values()) if dtype == torch.float64 else [MODELS["gpt"]]
        _compare(workers, make_run, layout, models, dtype)
