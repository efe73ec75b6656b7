"""The courier of chunks: who travels first."""

from __future__ import annotations

import threading

import torch

from trainer.mesh import Mesh
from trainer.sync.by_priority import Load, PriorityCourier
from trainer.sync.chunks import Chunk, Chunks


def _carried(mesh: Mesh, steps: list[list[int]]) -> list[int]:
    """The places in the order in which they travel, each step's being added in the order given."""
    chunks = Chunks([torch.nn.Parameter(torch.zeros(4)) for _ in range(4)], 16, divisible=True).all
    travelled: list[int] = []
    landed = threading.Semaphore(0)

    def reduce(chunk: Chunk) -> torch.futures.Future:
        travelled.append(chunk.place)
        future: torch.futures.Future = torch.futures.Future()
        future.set_result(chunk.buffer())
        return future

    def land(_: object) -> None:
        landed.release()

    courier = PriorityCourier(mesh.groups["data"], torch.device("cpu"), reduce, land, land)
    for places in steps:
        for place in places:
            courier.add(Load(chunks[place], [], None))
        for _ in places:
            assert landed.acquire(timeout=30)
    courier.close()
    return travelled


def test_a_step_begins_with_the_chunk_at_which_hooks_count_it(workers):
    assert workers(1, _carried, [[1, 0, 2, 3], [0, 1, 2, 3]]) == [[3, 0, 1, 2, 3, 0, 1, 2]]
