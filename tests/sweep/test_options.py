"""Which values are good ones, and what only a sweep can heed."""

from __future__ import annotations

import pytest

from trainer.spec import ConfigError
from trainer.sweep.options import Sweep


@pytest.mark.parametrize(
    ("objective", "more"),
    [
        ("speed/samples_per_s", True),
        ("eval/accuracy", True),
        ("overlap/hidden_ratio", True),
        ("comm/wire_gbit_per_s", True),
        ("link/between_bytes_per_s", True),
        ("gpu/utilisation/worst", True),
        ("eval/loss", False),
        ("overlap/exposed_share", False),
        ("speed/step_ms", False),
        ("link/between_alpha_s", False),
        ("comm/bytes_sent", False),
        ("memory/peak_mb", False),
    ],
)
def test_a_metrics_name_says_what_is_better(objective, more):
    assert Sweep(objective=objective).more_is_better == more


def test_a_direction_wins_over_the_name():
    assert not Sweep(objective="eval/accuracy", direction="min").more_is_better


def test_an_unknown_metric_needs_a_direction():
    with pytest.raises(ConfigError, match="whether more or less of mine/score is better is not known"):
        _ = Sweep(objective="mine/score").more_is_better
    assert Sweep(objective="mine/score", direction="max").more_is_better


def test_less_time_to_a_target_is_better_whatever_is_measured():
    options = Sweep(objective="eval/accuracy", target=0.97)
    assert not options.largest_first
    assert options.title == "seconds until eval/accuracy is 0.97"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"resume": "runs/x"}, "sweep.resume: a single run is no sweep; add -m, or use checkpoint.resume"),
        (
            {"prior": "profile.json"},
            "sweep.prior: a single run is no sweep; add -m hydra/sweeper=optuna, or leave it out",
        ),
    ],
)
def test_what_a_single_run_cannot_heed_is_refused(options, line):
    Sweep().refuse_alone()
    with pytest.raises(ConfigError) as caught:
        Sweep(**options).refuse_alone()
    assert str(caught.value) == line
