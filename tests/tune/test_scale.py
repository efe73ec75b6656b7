"""A profile on other clusters."""

from __future__ import annotations

import pytest

from tests.tune.made_up import MIB, profile
from trainer.doctor.hooks import EXACT
from trainer.tune.profile import Point, cost
from trainer.tune.scale import KNOWN, Cluster, Wire, scaled, travels_s

HERE = Wire(0.0005, 100 * MIB)


def test_a_ring_pays_for_its_messages_and_its_bytes():
    assert travels_s(EXACT, 100 * MIB, 2, HERE) == pytest.approx(2 * 0.0005 + 1.0)
    assert travels_s(EXACT, 100 * MIB, 8, HERE) == pytest.approx(14 * 0.0005 + 1.75)


def test_gathering_grows_with_the_ranks_and_a_ring_does_not():
    few, many = (travels_s(KNOWN["topk"], 100 * MIB, ranks, Wire(0.0, 100 * MIB)) for ranks in (2, 64))
    assert many == pytest.approx(63 * few)
    few, many = (travels_s(KNOWN["int8"], 100 * MIB, ranks, Wire(0.0, 100 * MIB)) for ranks in (2, 64))
    assert many < 2 * few


def test_a_swap_between_all_ranks_shares_a_hosts_link_and_a_ring_passes_it_once():
    wire = Wire(0.0, 100 * MIB)
    for hook in ("allreduce", "fp16", "topk"):
        assert travels_s(KNOWN[hook], MIB, 64, wire, 8) == travels_s(KNOWN[hook], MIB, 64, wire, 1)
    alone, together = (travels_s(KNOWN["onebit"], MIB, 64, wire, each) for each in (1, 8))
    # Half of it is swapped, by eight ranks with 56 outside their host.
    assert together == pytest.approx(alone * (1 + 8 * 56 / 63) / 2)


def test_a_profile_on_its_own_cluster_is_as_it_was():
    own = profile()
    there = scaled(own, Cluster(2, 1, HERE))
    assert cost(there.curves["allreduce"], MIB).wall_s == pytest.approx(0.011)
    assert (there.ranks, there.hosts) == (2, 2)


def test_encoding_takes_there_what_it_took_here():
    sent = travels_s(KNOWN["topk"], MIB, 2, HERE)
    both = profile(topk=[Point(MIB, sent + 0.003, 0.003)])
    fast = scaled(both, Cluster(2, 1, Wire(0.0, 1e15)))
    assert fast.curves["topk"][0].wall_s == pytest.approx(0.003)


def test_a_hook_without_a_closed_form_is_left_out():
    assert set(scaled(profile(mine=[Point(MIB, 1.0, 0.0)]), Cluster(4, 1, HERE)).curves) == {"allreduce"}
