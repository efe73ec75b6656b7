"""Every sample goes to the right rank at the right step, however many ranks and loader processes there are."""

from __future__ import annotations

import itertools
import random

import numpy
import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

from trainer.data.loader import Seeded, TrainingOrder, evaluation_batches, training_batches

CPU = torch.device("cpu")
LENGTH, BATCH = 22, 4
STEPS_AN_EPOCH = 5


class Noisy(Dataset):
    """Samples that come with a draw from each generator that a transform may use."""

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.cat([torch.rand(2), torch.tensor([random.random(), numpy.random.random()])]), torch.tensor(index)


def indices(steps: int, rank: int = 0, ranks: int = 1, seed: int = 0, first: int = 0) -> list[list[int]]:
    order = TrainingOrder(LENGTH, BATCH, rank, ranks, seed, first)
    return [[index for _, index in batch] for batch in itertools.islice(order, steps)]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_the_ranks_together_see_the_batch_of_a_single_process(ranks: int):
    shares = [indices(12, rank, ranks) for rank in range(ranks)]
    together = [list(itertools.chain(*parts)) for parts in zip(*shares, strict=True)]
    assert together == indices(12)
    assert all(len(part) == BATCH // ranks for share in shares for part in share)


def test_an_epoch_shows_no_sample_twice_and_leaves_out_what_fills_no_batch():
    batches = indices(2 * STEPS_AN_EPOCH)
    for epoch in (batches[:STEPS_AN_EPOCH], batches[STEPS_AN_EPOCH:]):
        seen = list(itertools.chain(*epoch))
        assert len(seen) == len(set(seen)) == 20
        assert set(seen) <= set(range(LENGTH))


def test_the_order_changes_with_the_epoch_and_with_the_seed():
    batches = indices(2 * STEPS_AN_EPOCH)
    assert batches[:STEPS_AN_EPOCH] != batches[STEPS_AN_EPOCH:]
    assert batches != indices(2 * STEPS_AN_EPOCH, seed=1)
    assert batches == indices(2 * STEPS_AN_EPOCH)


@pytest.mark.parametrize("first", [0, 3, STEPS_AN_EPOCH, 7])
def test_an_order_that_starts_later_goes_on_with_the_same_batches(first: int):
    assert indices(12 - first, first=first) == indices(12)[first:]


def test_each_sample_is_asked_for_with_its_epoch():
    order = TrainingOrder(LENGTH, BATCH, 0, 1, 0, step=4)
    epochs = [{epoch for epoch, _ in batch} for batch in itertools.islice(order, 3)]
    assert epochs == [{0}, {1}, {1}]


def take(steps: int, workers: int, first: int = 0, seed: int = 0) -> list[tuple[torch.Tensor, torch.Tensor]]:
    order = TrainingOrder(LENGTH, BATCH, 0, 1, seed, first)
    return list(itertools.islice(training_batches(Noisy(), order, workers, 2, CPU), steps))


def same(some: list, others: list) -> bool:
    pairs = zip(itertools.chain(*some), itertools.chain(*others), strict=True)
    return all(torch.equal(one, other) for one, other in pairs)


def test_batches_and_their_augmentation_do_not_depend_on_the_number_of_loader_processes():
    alone = take(8, workers=0)
    assert [targets.tolist() for _, targets in alone] == indices(8)
    assert same(alone, take(8, workers=2))


def test_a_resumed_run_draws_the_augmentation_of_an_uninterrupted_one():
    assert same(take(4, workers=0, first=4), take(8, workers=0)[4:])


def test_a_sample_is_augmented_anew_in_every_epoch_and_for_every_seed():
    sample = Seeded(Noisy(), seed=0)
    drawn = [sample[0, 3][0], sample[1, 3][0], sample[0, 4][0], Seeded(Noisy(), seed=1)[0, 3][0]]
    for one, other in itertools.combinations(drawn, 2):
        assert not (one == other).any()
    assert torch.equal(sample[0, 3][0], drawn[0])


@pytest.mark.parametrize("workers", [0, 2])
def test_loading_leaves_the_models_own_generators_alone(workers: int):
    state, python_state = torch.get_rng_state(), random.getstate()
    take(3, workers)
    list(evaluation_batches(TensorDataset(torch.arange(5), torch.arange(5)), 2, 0, 1, workers, CPU))
    assert torch.equal(torch.get_rng_state(), state)
    assert random.getstate() == python_state


def test_the_generators_are_restored_after_a_sample_that_cannot_be_read():
    class Broken(Noisy):
        def __getitem__(self, index: int):
            raise OSError(f"sample {index}")

    state, python_state = torch.get_rng_state(), random.getstate()
    with pytest.raises(OSError, match="sample 3"):
        Seeded(Broken(), 0)[0, 3]
    assert torch.equal(torch.get_rng_state(), state)
    assert random.getstate() == python_state


@pytest.mark.parametrize("length", [1, 2, 7, 12])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_evaluation_shows_every_sample_once_even_to_more_ranks_than_samples(length: int, ranks: int):
    numbers = torch.arange(length)
    seen = []
    for rank in range(ranks):
        for inputs, targets in evaluation_batches(TensorDataset(numbers, -numbers), 2, rank, ranks, 0, CPU):
            assert len(inputs) <= 2
            assert torch.equal(targets, -inputs)
            seen += inputs.tolist()
    assert sorted(seen) == list(range(length))


def test_evaluation_with_loader_processes_shows_the_same():
    numbers = TensorDataset(torch.arange(9), torch.arange(9))
    for rank in (0, 1):
        alone, helped = (list(evaluation_batches(numbers, 2, rank, 2, workers, CPU)) for workers in (0, 2))
        assert same(alone, helped)


@pytest.mark.gpu
def test_batches_are_copied_ahead_to_the_gpu():
    order = TrainingOrder(LENGTH, BATCH, 0, 1, 0, 0)
    ahead = list(itertools.islice(training_batches(Noisy(), order, 0, 2, torch.device("cuda")), 8))
    assert all(part.is_cuda for batch in ahead for part in batch)
    assert same([(inputs.cpu(), targets.cpu()) for inputs, targets in ahead], take(8, workers=0))
