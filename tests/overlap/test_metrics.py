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


def test_a_pipeline_says_what_it_waits_and_sends():
    first = sums(step=1.0, await_gradients=0.2, stage_bytes=100.0)
    last = sums(step=1.0, await_activations=0.3, await_gradients=0.1, stage_bytes=300.0)
    metrics = summarise(Ranks([first, last], [0.0, 0.0], 1))
    assert metrics["overlap/bubble_share"] == pytest.approx(0.3)
    assert metrics["overlap/bubble_share/worst"] == pytest.approx(0.4)
    assert metrics["overlap/wait_activations_ms"] == pytest.approx(150)
    assert metrics["overlap/wait_gradients_ms/worst"] == pytest.approx(200)
    assert metrics["pipeline/bytes_sent"] == 200
    plain = summarise(Ranks([sums(step=1.0)], [0.0], 1))
    assert {name for name in metrics if name not in plain} == {
        "overlap/bubble_share",
        "overlap/bubble_share/worst",
        "overlap/wait_activations_ms",
        "overlap/wait_activations_ms/worst",
        "overlap/wait_gradients_ms",
        "overlap/wait_gradients_ms/worst",
        "pipeline/bytes_sent",
    }


def test_a_stage_without_gradients_to_reduce_does_not_hide_what_others_hide():
    ranks = [sums(step=1.0, comm=0.5, exchange=0.5, exposed=0.1, bytes=1e6), sums(step=1.0)]
    metrics = summarise(Ranks(ranks, [0.0, 0.0], 1))
    assert metrics["overlap/hidden_ratio"] == metrics["overlap/hidden_ratio/worst"] == pytest.approx(0.8)


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


def _stages(mesh: Mesh) -> Ranks:
    """Two stages of two ranks; the second has two buckets a step, and in each stage the first rank is a second late."""
    part, late = divmod(mesh.rank, 2)
    buckets = [PastBucket(n, 1.0 - late, 4.0) for n in range(part + 1)]
    return gather_ranks([PastStep(0, 0.0, dict.fromkeys(SUMS, 1.0), [], buckets)], mesh.control, part)


def test_ranks_wait_for_those_of_their_own_stage(workers):
    for ranks in workers(4, _stages):
        assert [one["peers"] for one in ranks.sums] == [0.0, 1.0, 0.0, 1.0]
        assert ranks.ahead == [0.0] * 4
