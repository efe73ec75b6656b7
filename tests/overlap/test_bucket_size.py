"""The bucket size that a link asks for."""

from __future__ import annotations

import math

import pytest

from trainer.overlap.bucket_size import LARGEST_MB, MIB, SMALLEST_MB, bucket_size

RESNET18 = 11.2e6 * 4


def cost(size: float, alpha: float, rate: float, gradient: float, ranks: int) -> float:
    """What buckets cost by the docstring: every start, and the last bucket's bytes."""
    return gradient / size * 2 * (ranks - 1) * alpha + 2 * (ranks - 1) * size / (ranks * rate)


@pytest.mark.parametrize("ranks", [2, 8, 64])
def test_no_other_size_costs_less(ranks):
    link = (50e-6, 12e9, 1e8, ranks)
    best = bucket_size(*link[:2], gradient_bytes=link[2], ranks=ranks).mb * MIB
    assert SMALLEST_MB * MIB < best < LARGEST_MB * MIB
    tried = [best * factor for factor in (0.5, 0.8, 0.95, 1.05, 1.25, 2)]
    assert all(cost(best, *link) < cost(size, *link) for size in tried)


def test_a_link_that_starts_slowly_or_carries_fast_wants_larger_buckets():
    usual = bucket_size(100e-6, 1e9, 1e9, 4).mb
    assert bucket_size(400e-6, 1e9, 1e9, 4).mb == pytest.approx(2 * usual, rel=0.01)
    assert bucket_size(100e-6, 4e9, 1e9, 4).mb == pytest.approx(2 * usual, rel=0.01)


def test_a_gigabit_link_gets_the_small_bucket_that_was_measured_best():
    # ResNet-18 between two hosts at 1 Gbit/s: 1 MB 0.838 s a step, 5 MB 0.849 s, 25 MB 1.001 s.
    assert bucket_size(92e-6, 1.2e8, RESNET18, 2).mb < 2


@pytest.mark.parametrize(
    ("alpha", "rate", "gradient", "mb"),
    [(1e-6, 1e6, 1e9, SMALLEST_MB), (0.01, 1e12, 1e12, LARGEST_MB), (0.01, 1e9, 8 * MIB, 8.0)],
)
def test_the_size_stays_within_reason_and_within_the_gradient(alpha, rate, gradient, mb):
    size = bucket_size(alpha, rate, gradient, 2)
    assert size.mb == mb
    assert size.why.endswith(f"MiB, kept at {mb:g} MiB")


def test_the_arithmetic_is_shown():
    size = bucket_size(100e-6, 1e9, 100 * MIB, 2)
    assert size.why == "sqrt(2 ranks x 100 us x 1 GB/s x 100 MiB) = 4.37 MiB"
    assert size.mb == 4.37
    assert math.isclose(size.mb * MIB, math.sqrt(2 * 100e-6 * 1e9 * 100 * MIB), rel_tol=0.01)
