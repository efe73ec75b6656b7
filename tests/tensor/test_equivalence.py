"""Layers shared out at every mesh end with the weights and losses of one process."""

from __future__ import annotations

import pytest
import torch

from tests.pipeline import scenario
from tests.pipeline.scenario import SMALL, TOKENS

MODELS = (
    ("model=vit", "model.width=16", "model.heads=4", "model.depth=2", "model.patch=4"),
    ("model=gpt", "model.width=16", "model.heads=4", "model.depth=2", *TOKENS),
)
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


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["fp64", "fp32"])
@pytest.mark.parametrize("mesh", [(1, 1, 2), (1, 2, 2), (2, 1, 2), (2, 2, 2), (1, 1, 4)], ids=str)
def test_every_mesh_gives_what_one_process_gives(workers, make_run, mesh, dtype):
    kind, tolerance = f"+data.kwargs.dtype={str(dtype).removeprefix('torch.')}", TOLERANCE[dtype]
    layouts = [_overrides(*mesh, f"parallel.tensor.sequence={sequence}") for sequence in ("false", "true")]
    runs = [make_run(*SMALL, kind, *model, *layout) for layout in layouts for model in MODELS]
    alone = [make_run(*SMALL, kind, *model, "parallel=none", "launch.processes=1") for model in MODELS]
    ranks = workers(runs[0].place.world, scenario.train, runs, dtype)
    singles = workers(1, scenario.train, alone, dtype)[0] * len(layouts)
    for number, single in enumerate(singles):
        whole = scenario.merged([rank[number] for rank in ranks])
        assert whole.keys() == single.weights.keys()
        for name, value in single.weights.items():
            torch.testing.assert_close(whole[name], value, atol=tolerance, rtol=0)
        for rank in ranks:
            assert rank[number].losses == pytest.approx(single.losses, abs=tolerance)
