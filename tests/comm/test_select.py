"""Selection without a sort."""

from __future__ import annotations

import pytest
import torch

from trainer.comm.select import largest


@pytest.mark.parametrize(("numel", "count"), [(10, 3), (1000, 1), (50_000, 500), (300_000, 300), (7, 7)])
@pytest.mark.parametrize("start", [0, 5])
def test_nearly_all_of_the_largest_are_found_in_ascending_order(numel, count, start):
    flat = torch.randn(numel, generator=torch.Generator().manual_seed(numel))
    indices, values = largest(flat, count, start)
    found = indices[values != 0]
    assert len(indices) == len(values) == count
    assert torch.equal(values[values != 0], flat[found])
    assert torch.equal(found, found.sort().values)
    assert len(set(found.tolist())) == len(found)
    best = set(flat.abs().topk(count).indices.tolist())
    # The threshold comes from a sample: one that is too high by chance leaves a few of the smallest out.
    assert len(best & set(found.tolist())) >= 0.8 * count


def test_zeros_are_not_found():
    flat = torch.zeros(1000)
    flat[[3, 500]] = torch.tensor([1.0, -2.0])
    indices, values = largest(flat, 10, 0)
    assert indices[:2].tolist() == [3, 500]
    assert values.tolist() == [1.0, -2.0] + [0.0] * 8


def test_nothing_is_found_among_zeros_and_values_that_are_no_numbers():
    assert not largest(torch.zeros(1000), 10, 0)[1].any()
    assert not largest(torch.full((1000,), torch.nan), 10, 0)[1].any()


def test_equal_values_give_exactly_as_many_as_wanted():
    indices, values = largest(torch.ones(5000), 50, 0)
    assert values.tolist() == [1.0] * 50
    assert len(set(indices.tolist())) == 50
