"""Ratios taken round by round, and the refusal to print one."""

from __future__ import annotations

import pytest

from scripts.bench.pairs import FEWEST, LIMIT, Spread, is_clear, ratio, spell_ms, spell_ratio, spread


def test_a_spread_is_the_median_and_the_quartiles():
    assert spread([5.0, 1.0, 3.0, 2.0, 4.0]) == Spread(3.0, 2.0, 4.0, 5)


def test_one_round_has_no_width():
    assert spread([2.0]) == Spread(2.0, 2.0, 2.0, 1)


def test_too_few_rounds_make_no_ratio():
    assert spell_ratio(ratio([2.0, 2.0], [1.0, 1.0])).startswith("unclear")
    assert spell_ratio(ratio([2.0] * FEWEST, [1.0] * FEWEST)) == "2.000 ± 0.000"


def test_what_slows_a_whole_round_down_cancels_in_the_ratio():
    disturbance = [1.0, 3.0, 1.0, 7.0]
    ours, theirs = [2.0 * d for d in disturbance], [1.0 * d for d in disturbance]
    assert ratio(ours, theirs) == Spread(2.0, 2.0, 2.0, 4)
    # The ratio of medians of independent runs would have said otherwise.
    assert spread(ours).half > 0


def test_rounds_must_match():
    with pytest.raises(ValueError, match="zip"):
        ratio([1.0, 2.0], [1.0])


def test_a_clear_ratio_is_printed_with_half_its_interquartile_range():
    assert spell_ratio(Spread(1.5, 1.45, 1.55)) == "1.500 ± 0.050"


def test_a_ratio_whose_spread_makes_it_meaningless_is_refused():
    just, over = Spread(1.0, 1.0, 1.0 + LIMIT), Spread(1.0, 0.99, 1.0 + LIMIT)
    assert is_clear(just)
    assert not is_clear(over)
    assert spell_ratio(over) == "unclear (1.000 ± 0.080)"


def test_the_limit_is_a_part_of_the_ratio():
    assert is_clear(Spread(10.0, 9.5, 10.5))
    assert not is_clear(Spread(0.1, 0.09, 0.11))


def test_times_are_milliseconds():
    assert spell_ms(Spread(0.2, 0.19, 0.21)) == "200.0 ± 10.0"
