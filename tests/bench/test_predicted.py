"""What is said of predictions: their errors, and whether they rank settings as measurements do."""

from __future__ import annotations

import pytest

from scripts.bench.predicted import Point, by_rounds, errors, picture, regret, summary, table, tau

# In the order of their measured steps; the predictions swap the last two.
POINTS = [
    Point("a", [0.9, 1.0, 1.1], 1.1),
    Point("b", [1.9, 2.0, 2.1], 2.0),
    Point("c", [2.0, 2.2, 2.05], 2.5625),
    Point("d", [4.0, 4.0, 4.0], 2.5),
]


def test_errors_are_shares_of_what_was_measured():
    assert [point.error for point in POINTS] == pytest.approx([0.1, 0.0, 0.25, 0.375])
    assert errors(POINTS) == "median 17.5%, worst 37.5%"


def test_tau_counts_pairs_in_the_same_order_less_the_others():
    assert tau(POINTS) == pytest.approx((5 - 1) / 6)
    assert tau(POINTS[:3]) == 1
    assert tau([one._replace(predicted=-one.predicted) for one in POINTS[:3]]) == -1


def test_pairs_that_rounds_do_not_agree_on_are_not_clear():
    close = [POINTS[1]._replace(predicted=3.0), POINTS[2]]
    assert tau(close) == -1
    assert tau(close, clear=True) == 1
    assert tau([close[0], POINTS[3]], clear=True) == -1


def test_regret_is_what_the_choice_costs():
    assert regret(POINTS) == 0
    assert regret([*POINTS, Point("e", [1.2, 1.2, 1.2], 0.1)]) == pytest.approx(0.2)


def test_a_round_is_judged_as_a_prediction_of_the_others():
    first, second, last = by_rounds(POINTS[1:3])
    assert first == [Point("b", [2.0, 2.1], 1.9), Point("c", [2.2, 2.05], 2.0)]
    assert (tau(first), tau(second), tau(last)) == (1, 1, -1)
    assert regret(last) == pytest.approx(2.1 / 1.95 - 1)


def test_the_summary_has_a_row_a_cell_and_one_of_all():
    found = summary("", {"one": POINTS[:2], "other": POINTS[2:]}, {"other": POINTS[:1]})
    assert [row[:2] for row in found.rows] == [
        ["one", "median 5.0%, worst 10.0%"],
        ["other", "median 31.3%, worst 37.5%"],
        ["all", "median 17.5%, worst 37.5%"],
    ]
    assert [row[-1] for row in found.rows] == ["", "median 10.0%, worst 10.0%", "median 10.0%, worst 10.0%"]


def test_the_picture_has_every_point_of_every_table():
    drawn = picture([table("one", "", POINTS[:2]), table("other", "", POINTS[2:])])
    assert [(at["cell"], at["measured"]) for at in drawn["layer"][1]["data"]["values"]] == [
        ("one", 1.0),
        ("one", 2.0),
        ("other", 2.05),
        ("other", 4.0),
    ]
