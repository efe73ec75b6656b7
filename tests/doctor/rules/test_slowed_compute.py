from __future__ import annotations

import pytest

from tests.doctor.scene import config, run, sums, windows
from trainer.doctor.finding import Finding
from trainer.doctor.rules.slowed_compute import look

STEPS = windows(sums(), sums())
SLOWED = [{"overlap/slowdown": 1.3, "overlap/ablation_exposed_ms": 40, "overlap/exposed_ms": 12}] * 3


def test_on_a_gpu_fewer_channels_are_named():
    assert look(run(STEPS, metrics=SLOWED, config=config(place__device="cuda"))) == Finding(
        "Computing takes 30 % longer beside communication",
        "Steps repeated without communication tell. Communication adds 40.0 ms to a step, of which 12.0 ms stand as"
        " exposed. NCCL's kernels take multiprocessors from the model's; fewer channels take fewer.",
        "nccl.env.NCCL_MAX_CTAS=4",
        None,
    )


@pytest.mark.parametrize(
    ("threads", "advice"),
    [(4, "launch.threads=3"), (1, "profile=window"), ("auto", "launch.threads=<cores of a worker, less one>")],
)
def test_on_a_cpu_a_core_is_left_free_where_there_are_several(threads: object, advice: str):
    finding = look(run(STEPS, metrics=[{"overlap/slowdown": 1.3}], config=config(launch__threads=threads)))
    assert finding is not None
    assert finding.advice == advice


@pytest.mark.parametrize("metrics", [[{"overlap/slowdown": 1.05}], []])
def test_noise_and_runs_without_repeated_steps_are_left_alone(metrics: list[dict[str, float]]):
    assert look(run(STEPS, metrics=metrics)) is None
