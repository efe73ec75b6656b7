"""Ranks of one stage, apart from those of others."""

from __future__ import annotations

import pytest

from tests.doctor.pipeline_scene import changed, equal, pipeline
from tests.doctor.scene import run, sums, windows
from trainer.doctor.part import mean_ms, only, parts, reducing

TWO = pipeline("1f1b", 2, 4, equal(2), replicas=2)


def test_without_a_pipeline_all_ranks_are_one_part():
    plain = run(windows(sums(exposed=10), sums(exposed=20)))
    assert parts(plain) == [[0, 1]]
    part, cost = reducing(plain)
    assert [len(window.ranks) for window in part.windows] == [2] * 6
    assert cost == pytest.approx(15)
    assert reducing(run([])) == (run([]), None)


def test_a_part_has_its_own_hosts_times_and_spans():
    second = only(TWO._replace(hosts=["a", "b", "c", "d"]), [2, 3])
    assert second.hosts == ["c", "d"]
    assert second.stages() == [(1,), (1,)]
    assert mean_ms(TWO, [2, 3], "await_activations") == pytest.approx(3)
    assert mean_ms(TWO, [0, 1], "forward", "backward") == pytest.approx(12)


def test_what_a_later_stage_exposes_is_free_while_it_waits_for_activations():
    exposes = {rank: {"exposed": 2.0, "comm": 4.0} for rank in (0, 1)}
    later = {rank: {"exposed": 5.0, "comm": 6.0} for rank in (2, 3)}
    part, cost = reducing(changed(TWO, exposes | later))
    assert (part.stages()[0], cost) == ((0,), pytest.approx(2))
    later = {rank: {"exposed": 5.0, "comm": 6.0, "await_activations": 0.1} for rank in (2, 3)}
    part, cost = reducing(changed(TWO, exposes | later))
    assert (part.stages()[0], cost) == ((1,), pytest.approx(5))
