"""What every rank measured becomes one set of metrics: means, and the worst rank."""

from __future__ import annotations

import pytest

from trainer.mesh import Mesh
from trainer.overlap.meter import SUMS, PastBucket, PastStep
from trainer.overlap.metrics import Ranks, gather_ranks, summarise


def sums(**values: float) -> dict[str, float]:
    return dict.fromkeys((*SUMS, "peers"), 0.0) | values


def test_times_are_means_over_ranks_beside_the_worst_one():
    metrics = summarise(Ranks([sums(step=0.1, peers=0.02), sums(step=0.3)], [0.0, 0.0], 1))
    assert metrics["speed/step_ms"] == pytest.approx(200)
    assert metrics["speed/step_ms/worst"] == pytest.approx(300)
    assert metrics["overlap/wait_for_peers_ms"] == pytest.approx(10)
    assert metrics["overlap/wait_for_peers_ms/worst"] == pytest.approx(20)


def test_the_rate_is_that_of_moving_bytes_without_the_wait_for_peers():
    one = sums(step=1.0, comm=0.5, exchange=0.4, peers=0.3, exposed=0.1, bytes=1e9 / 8)
    metrics = summarise(Ranks([one, one], [0.0, 0.0], 1))
    assert metrics["comm/wire_gbit_per_s"] == pytest.approx(1 / 0.1)
    assert metrics["overlap/hidden_ratio"] == pytest.approx(0.8)


def test_a_ratio_without_communication_is_left_out():
    metrics = summarise(Ranks([sums(step=1.0)], [0.0], 1))
    assert "overlap/hidden_ratio" not in metrics
    assert "comm/wire_gbit_per_s" not in metrics
    assert metrics["overlap/exposed_share"] == 0


def test_ranks_that_measured_nothing_are_left_out():
    assert summarise(Ranks([{}, {}], [0.0, 0.0], 1)) == {}
    assert summarise(Ranks([sums(step=1.0), {}], [0.0, 0.0], 1))["speed/step_ms"] == 1000


def _late(mesh: Mesh) -> Ranks:
    """Two steps of one bucket; rank 1 comes to each 3 s after rank 0."""
    steps = []
    for number in range(2):
        start = 3.0 * mesh.rank
        totals = dict.fromkeys(SUMS, 0.0) | {"step": 5.0, "comm": 4.0 - start}
        steps.append(PastStep(number, 10.0 * number, totals, [], [PastBucket(number, start, 4.0)]))
    return gather_ranks(steps, mesh.control)


def test_a_window_is_gathered_with_who_waited_for_whom(workers):
    for ranks in workers(2, _late):
        assert [one["peers"] for one in ranks.sums] == [3.0, 0.0]
        assert [one["comm"] for one in ranks.sums] == [4.0, 1.0]
        assert ranks.ahead == [0.0, 0.0]


def _uneven(mesh: Mesh) -> Ranks:
    totals = dict.fromkeys(SUMS, 1.0)
    return gather_ranks(
        [PastStep(n, 0.0, totals, [], [PastBucket(n, 0.0, 1.0)]) for n in range(mesh.rank)], mesh.control
    )


def test_a_rank_that_is_a_step_behind_or_measured_none_does_not_hinder_the_others(workers):
    for ranks in workers(3, _uneven):
        assert ranks.sums[0] == {}
        assert [one["step"] for one in ranks.sums[1:]] == [1.0, 1.0]


def _behind(mesh: Mesh) -> Ranks:
    """Rank 1 has not measured the last step yet; in each it comes to the bucket 3 s late."""
    totals = dict.fromkeys(SUMS, 1.0)
    steps = [PastStep(n, 10.0 * n, totals, [], [PastBucket(n, 3.0 * mesh.rank, 4.0)]) for n in range(3 - mesh.rank)]
    return gather_ranks(steps, mesh.control)


def test_who_waited_is_told_by_the_steps_that_all_have_measured(workers):
    for ranks in workers(2, _behind):
        assert [one["peers"] for one in ranks.sums] == [3.0, 0.0]
        assert ranks.last == 1
