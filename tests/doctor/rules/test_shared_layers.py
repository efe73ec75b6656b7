from __future__ import annotations

import pytest

from tests.doctor.scene import config, run, sums, windows
from trainer.doctor.finding import Finding
from trainer.doctor.rules.shared_layers import look
from trainer.overlap.evidence import Metrics


def shared(exposed: float, hosts: tuple[str, ...] = ("a",) * 4, **options):
    """Four ranks, two of which share each layer of a step of 100 ms."""
    metrics = [
        Metrics.model_validate({"step": step, "overlap/tensor_ms": 40.0, "overlap/exposed_tensor_ms": exposed})
        for step in (10, 20, 30)
    ]
    axis = {f"parallel__tensor__{name}": value for name, value in ({"size": 2} | options).items()}
    changed = config(parallel__pipeline__size=1, place__processes=len(hosts) // len(set(hosts)), **axis)
    return run(windows(*[sums()] * 4), config=changed)._replace(metrics=metrics, hosts=hosts)


def test_what_waits_for_sums_is_told():
    assert look(shared(12.0)) == Finding(
        "12 % of the step waits for sums between the ranks that share layers",
        "12.0 ms of 40.0 ms in which anything passes between them are exposed, in a step of 100 ms. Sums of the forward"
        " pass have nothing beside them. Where a larger part of the model fits, 1 rank computes a layer alone, and the"
        " others become replicas.",
        "parallel.tensor.size=1",
        None,
    )


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"overlap": False}, "parallel.tensor.overlap=true"),
        ({"sequence": True}, "parallel.tensor.sequence=false"),
        ({"size": 4}, "parallel.tensor.size=2"),
        ({"size": 4, "hosts": ("a", "a", "b", "b"), "overlap": False}, "parallel.tensor.size=2"),
        ({"hosts": ("a", "b", "c", "d")}, "parallel.tensor.size=1"),
    ],
)
def test_the_likeliest_cause_is_advised_against(options, advice):
    found = look(shared(12.0, **options))
    assert found is not None
    assert found.advice == advice


def test_little_is_not_worth_a_change_and_whole_layers_wait_for_nobody():
    assert look(shared(4.0)) is None
    assert look(shared(12.0, size=1)) is None
    assert look(run(windows(sums(), sums()), config=config(parallel__tensor__size=2))) is None
