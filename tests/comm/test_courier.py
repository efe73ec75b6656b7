"""The courier: order, errors with a name, ranks that stay away, and a clean end."""

from __future__ import annotations

import datetime
import threading

import pytest
import torch
import torch.distributed as dist

from tests.comm import scenario
from trainer.comm.courier import Courier, CourierError
from trainer.comm.topk import TopK
from trainer.mesh import Mesh

CPU = torch.device("cpu")
MINUTE = datetime.timedelta(minutes=1)


def _courier(mesh: Mesh, timeout: datetime.timedelta = MINUTE) -> Courier:
    return Courier(mesh.groups["data"], CPU, timeout)


def _ordered(mesh: Mesh) -> list[int]:
    courier, done = _courier(mesh), []

    def job(number: int) -> torch.Tensor:
        done.append(number)
        return courier.wire.average_(torch.full((3,), float(mesh.rank + number)), "average")

    futures = [courier.submit(f"job {number}", lambda number=number: job(number)) for number in range(20)]
    # The main thread may use every other group at the same time.
    dist.barrier(group=mesh.control)
    means = [int(future.wait()[0].item() - 0.5) for future in futures]
    courier.close()
    assert threading.active_count() < 20
    return means if done == list(range(20)) else []


def test_jobs_run_in_the_order_they_were_submitted(workers):
    assert workers(2, _ordered) == [list(range(20))] * 2


def _failing(mesh: Mesh) -> tuple[str, str]:
    courier = _courier(mesh)

    def job() -> torch.Tensor:
        courier.wire.phase = "packing"
        raise ValueError("no room")

    first = courier.submit("bucket 3", job)
    second = courier.submit("bucket 4", lambda: torch.zeros(1))
    messages = []
    for future in (first, second):
        with pytest.raises(RuntimeError) as caught:
            future.wait()
        messages.append(str(caught.value))
    courier.close()
    return messages[0], messages[1]


def test_a_failure_names_bucket_and_phase_and_no_later_job_runs(workers):
    for first, second in workers(2, _failing):
        assert "CourierError: comm: bucket 3, phase packing: no room" in first
        assert "bucket 3, phase packing" in second


def _in_backward(mesh: Mesh) -> str:
    module = scenario.net()
    ddp, state = scenario.wrap(module, mesh, TopK(ratio=0.05))
    state.codec.reduce = lambda *_: 1 / 0
    with pytest.raises(RuntimeError) as caught:
        scenario.backward(ddp, mesh, 0)
    return str(caught.value)


def test_a_failure_surfaces_in_the_backward_pass(workers):
    assert "bucket 0 of step 0, phase average of small tensors: division by zero" in workers(2, _in_backward)[0]


def _absent(mesh: Mesh) -> str:
    courier = _courier(mesh, datetime.timedelta(seconds=1))
    if mesh.rank == 2:
        dist.barrier(group=mesh.control)  # busy elsewhere until the others have given up
        return ""
    future = courier.submit("bucket 0", lambda: courier.wire.average_(torch.zeros(3), "average"))
    with pytest.raises(RuntimeError) as caught:
        future.wait()
    dist.barrier(group=mesh.control)
    return str(caught.value)


def test_a_rank_that_does_not_arrive_is_named(workers):
    for message in workers(3, _absent)[:2]:
        assert "comm: bucket 0, phase average: " in message
        assert "; rank 2 of the data axis did not arrive" in message


def test_the_error_is_one_that_programs_can_catch():
    assert issubclass(CourierError, RuntimeError)
