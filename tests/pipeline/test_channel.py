"""Channels: what is sent early waits for nobody, arrives in order and is known by its name."""

from __future__ import annotations

import pytest
import torch

from trainer.mesh import Mesh
from trainer.overlap.clock import HostClock
from trainer.overlap.meter import Meter
from trainer.pipeline.channel import ChannelError, Receiver, Sender, describe, understand

CPU = torch.device("cpu")


def _ends(mesh: Mesh) -> tuple[Meter, Sender | Receiver]:
    meter, group = Meter(HostClock()), mesh.another("data", "test", CPU, torch.distributed.default_pg_timeout)
    return meter, Sender(group, 1, CPU, meter, "send_onward") if mesh.rank == 0 else Receiver(group, 0, CPU)


def _talk(mesh: Mesh) -> list:
    meter, end = _ends(mesh)
    meter.begin_step()
    wide = [torch.full((2, 3), float(n)) for n in range(5)]
    narrow = [torch.full((4,), -float(n), dtype=torch.float64) for n in range(5)]
    if isinstance(end, Sender):
        for number in range(5):
            end.send(wide[number], f"wide {number}", described=number == 0)
            end.send(narrow[number], f"narrow {number}", described=number == 0)
        end.drain()
        meter.end_step()
        (step,) = meter.read()
        end.close()
        return [(span.lane, span.name, span.bytes) for span in step.spans]
    end.expect([(kind, (kind, number)) for number in range(5) for kind in ("wide", "narrow")])
    # Not in the order in which they come.
    taken = [end.take(("narrow", 4)), *(end.take(("wide", number)) for number in range(5)), end.take(("narrow", 0))]
    assert [tuple(value.shape) for value in taken] == [(4,), *[(2, 3)] * 5, (4,)]
    return [value.flatten()[0].item() for value in taken]


def test_messages_are_taken_by_name_in_any_order(workers):
    sent, taken = workers(2, _talk)
    assert taken == [-4.0, 0.0, 1.0, 2.0, 3.0, 4.0, -0.0]
    assert sent == [
        ("send_onward", f"{kind} {number}", nbytes)
        for number in range(5)
        for kind, nbytes in (("wide", 24), ("narrow", 32))
    ]


def _uneven(mesh: Mesh) -> list:
    _, end = _ends(mesh)
    if isinstance(end, Sender):
        for size in (5, 1, 3):
            end.send(torch.arange(size), "batch", described=True)
        end.drain()
        end.close()
        return []
    return [end.take_described().tolist() for _ in range(3)]


def test_messages_that_describe_themselves_may_be_uneven(workers):
    assert workers(2, _uneven)[1] == [[0, 1, 2, 3, 4], [0], [0, 1, 2]]


def _known(mesh: Mesh) -> list:
    _, end = _ends(mesh)
    if isinstance(end, Sender):
        end.send(torch.ones(2, 2), "gradient", described=False)
        end.drain()
        end.close()
        return []
    end.expect([("gradient", 0)])
    end.know("gradient", torch.empty(2, 2))
    return end.take(0).tolist()


def test_what_is_known_needs_no_description(workers):
    assert workers(2, _known)[1] == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize("shape", [(), (3,), (1, 2, 3, 4, 5, 6, 7, 8)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_a_description_tells_shape_and_dtype(shape, dtype):
    assert understand(describe(torch.zeros(shape, dtype=dtype))) == (torch.Size(shape), dtype)


def test_what_cannot_travel_is_refused():
    with pytest.raises(ChannelError) as refused:
        describe(torch.zeros(2, dtype=torch.complex64))
    assert str(refused.value) == (
        "a torch.complex64 tensor of 1 dims cannot travel between stages, only real numbers in up to 8 dims; cut"
        " elsewhere with parallel.pipeline.split"
    )


def _left_alone(mesh: Mesh) -> str:
    _, end = _ends(mesh)
    if isinstance(end, Sender):
        end.close()
        torch.distributed.destroy_process_group(end.group)
        return ""
    end.expect([("wide", 0)])
    try:
        end.take(0)
    except ChannelError as error:
        return str(error)
    return "something came"


def test_a_neighbour_that_is_gone_is_an_error_with_its_rank(workers):
    assert workers(2, _left_alone)[1].startswith("nothing came from rank 0: ")
