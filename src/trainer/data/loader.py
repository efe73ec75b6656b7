"""Batches of a data set: which sample goes to which rank at which step, loaded and copied ahead.

The order is a function of seed, epoch and step alone, so a run goes on after a restart exactly where it was, with any
number of loader processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from trainer.generators import kept, seed_host
from trainer.signals import ignore_stopping

Pair = tuple[Tensor, Tensor]


class TrainingOrder(Sampler):
    """Endless batches of (epoch, index) for one rank, from `step` on.

    1. An epoch is a permutation drawn from (seed, epoch). 2. Step s of it takes the s-th slice of `batch` samples; what
    fills no whole batch is left out of this epoch. 3. A rank takes the `rank`-th of `ranks` equal parts of that slice,
    so that the ranks together see the batch a single process would see.
    """

    def __init__(self, length: int, batch: int, rank: int, ranks: int, seed: int, step: int) -> None:
        self.length, self.batch, self.rank, self.ranks, self.seed, self.step = length, batch, rank, ranks, seed, step

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        steps, share = self.length // self.batch, self.batch // self.ranks
        epoch, first = divmod(self.step, steps)
        while True:
            order = torch.randperm(self.length, generator=torch.Generator().manual_seed(self.seed + 7919 * epoch))
            for step in range(first, steps):
                start = step * self.batch + self.rank * share
                yield [(epoch, index) for index in order[start : start + share].tolist()]
            epoch, first = epoch + 1, 0


class Seeded(Dataset):
    """Draws each sample's random transforms from (seed, epoch, index), whichever process loads it."""

    def __init__(self, dataset: Dataset, seed: int) -> None:
        self.dataset, self.seed = dataset, seed

    def __getitem__(self, key: tuple[int, int]) -> Any:
        epoch, index = key
        # With no loader process these are the model's own generators, whose streams must not depend on the data.
        with kept():
            seed_host(hash((self.seed, epoch, index)) & (2**62 - 1))
            return self.dataset[index]


def training_batches(
    dataset: Dataset, order: TrainingOrder, workers: int, prefetch: int, device: torch.device
) -> Iterator[Pair]:
    """Endless (inputs, targets) on `device`."""
    loader = DataLoader(
        Seeded(dataset, order.seed),
        batch_sampler=order,
        num_workers=workers,
        prefetch_factor=prefetch if workers else None,
        persistent_workers=workers > 0,
        **_processes(workers),
        pin_memory=device.type == "cuda",
        # A loader takes its own seed from the global generator, which belongs to the model.
        generator=torch.Generator().manual_seed(order.seed),
    )
    return _ahead(iter(loader), device)


def evaluation_batches(
    dataset: Dataset, batch: int, rank: int, ranks: int, workers: int, device: torch.device, even: bool = False
) -> Iterator[Pair]:
    """Every sample once over all ranks, in order; ranks may get different numbers of samples, or none.

    With `even` all get as many batches as the first rank, where forward passes are collective: what is missing is made
    up by batches of one sample and no targets.
    """
    count: int = len(dataset)  # type: ignore[arg-type]
    mine = range(rank, count, ranks)
    batches = [list(mine[start : start + batch]) for start in range(0, len(mine), batch)]
    own, most = len(batches), -(-len(range(0, count, ranks)) // batch)
    if even:
        batches += [[0]] * (most - own)
    loader = DataLoader(
        dataset,
        batch_sampler=batches,
        num_workers=workers,
        **_processes(workers),
        pin_memory=device.type == "cuda",
        generator=torch.Generator().manual_seed(0),
    )
    pairs = ((x, y if number < own else y[:0]) for number, (x, y) in enumerate(loader))
    return _ahead(pairs, device)


def _processes(workers: int) -> dict[str, Any]:
    """How loader processes are made: forked, for they would load torch anew otherwise, and deaf to what tells the
    trainer to stop: it ends them when it has saved."""
    return {"multiprocessing_context": "fork", "worker_init_fn": _ignore_signals} if workers else {}


def _ignore_signals(_: int) -> None:
    ignore_stopping()


def _ahead(batches: Iterator[Pair], device: torch.device) -> Iterator[Pair]:
    """On a GPU, copy the next batch on a stream of its own while the present one is computed with."""
    if device.type != "cuda":
        yield from batches
        return
    stream = torch.cuda.Stream(device)

    def copy() -> Pair | None:
        batch = next(batches, None)
        if batch is None:
            return None
        with torch.cuda.stream(stream):
            return batch[0].to(device, non_blocking=True), batch[1].to(device, non_blocking=True)

    following = copy()
    while following is not None:
        current = torch.cuda.current_stream(device)
        current.wait_stream(stream)
        for part in following:
            # The allocator must not hand this memory to the copy stream while the compute stream still reads it.
            part.record_stream(current)
        ready, following = following, copy()
        yield ready
