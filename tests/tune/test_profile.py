"""What a profile holds, and costs between what was measured."""

from __future__ import annotations

import pytest

from tests.tune.made_up import profile
from trainer.spec import ConfigError
from trainer.tune.profile import Point, cost, read, write
from trainer.tune.simulate import Work

CURVE = [Point(100, 1.0, 0.1), Point(200, 1.5, 0.2), Point(400, 3.5, 0.2)]


@pytest.mark.parametrize(
    ("size", "work"),
    [
        (100, Work(1.0, 0.1)),
        (150, Work(1.25, 0.15)),
        (400, Work(3.5, 0.2)),
        (800, Work(7.5, 0.2)),
        (10, Work(1.0, 0.1)),
    ],
)
def test_costs_are_on_the_line_through_their_neighbours(size, work):
    assert cost(CURVE, size) == pytest.approx(work)


def test_one_point_is_all_there_is_to_go_by():
    assert cost(CURVE[:1], 1000) == Work(1.0, 0.1)


def test_a_profile_is_read_as_it_was_written(tmp_path):
    write(tmp_path / "profile.json", profile())
    assert read(tmp_path / "profile.json") == profile()


@pytest.mark.parametrize("text", ["", "{}", "[1, 2]"])
def test_what_is_no_profile_is_told(tmp_path, text):
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"tune: .*profile.json holds no profile \(.*\); make one with tune=advise"):
        read(path)
