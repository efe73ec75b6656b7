"""The two-phase average in pieces: what overlaps, and that cutting loses and adds nothing."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator

import pytest
import torch

from tests.comm import scenario
from tests.comm.scenario import COMPRESSED
from trainer.comm import twophase
from trainer.comm.courier import Courier
from trainer.comm.int8 import Levels
from trainer.mesh import Mesh

# Several pieces of what one bucket of the scenario holds, of which the last is not whole blocks.
PIECE = 1200
SPECS = {name: COMPRESSED[name] for name in ("int8", "onebit")}


def _in_pieces(mesh: Mesh) -> dict[str, tuple[list, tuple[float, float]]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(twophase, "PIECE", PIECE)
        return {
            name: (scenario.mass(mesh, spec, 5), scenario.bytes_of_a_step(mesh, spec)) for name, spec in SPECS.items()
        }


@pytest.mark.parametrize("size", [2, 3])
def test_in_pieces_no_gradient_is_lost_and_results_and_bytes_are_alike_on_all_ranks(workers, size):
    ranks = workers(size, _in_pieces)
    for name in SPECS:
        masses = [rank[name][0] for rank in ranks]
        scenario.assert_conserved(masses, f"{name}, {size} ranks")
        for step in zip(*masses, strict=True):
            for parameter in step[0]:
                first, *others = (rank[parameter][-1] for rank in step)
                assert all(torch.equal(first, other) for other in others)
        for reported, sent in (rank[name][1] for rank in ranks):
            assert reported == pytest.approx(sent)


def _exchanges(mesh: Mesh, pieces: int) -> list[str]:
    """When the exchanges of an average in so many pieces began and ended."""
    courier = Courier(mesh.groups["data"], torch.device("cpu"), datetime.timedelta(minutes=1))
    wire, seen, numbers = courier.wire, [], {"exchange": 0, "all-gather": 0}

    @contextlib.contextmanager
    def observer(phase: str, sent: float) -> Iterator[None]:
        kind = phase.split(" ")[0]
        name = f"{kind} {numbers[kind]}"
        numbers[kind] += 1
        seen.append(f"{name} begins")
        yield
        seen.append(f"{name} ends")

    wire.observer = observer
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(twophase, "PIECE", 512)
        twophase.average(torch.randn(512 * pieces), torch.empty(512 * pieces), Levels(), wire)
    courier.close()
    return seen


def test_the_next_piece_is_under_way_before_the_last_one_is_waited_for(workers):
    assert workers(2, _exchanges, 3)[0] == [
        "exchange 0 begins",
        "exchange 1 begins",
        "exchange 0 ends",
        "all-gather 0 begins",
        "exchange 2 begins",
        "exchange 1 ends",
        "all-gather 1 begins",
        "all-gather 0 ends",
        "exchange 2 ends",
        "all-gather 2 begins",
        "all-gather 1 ends",
        "all-gather 2 ends",
    ]
