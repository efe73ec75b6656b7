from __future__ import annotations

import pytest

from tests.doctor.pipeline_scene import staged
from tests.doctor.scene import Queue, config, over
from trainer.doctor.rules.slow_fabric import look

GIGABIT = Queue((200, 600), start_ms=0.5, mb_per_s=117)
BUCKETS: list[tuple[float, float]] = [(25, 300), (25, 400), (25, 500), (22.5, 600)]


def test_a_link_that_moves_a_tenth_of_its_rate_is_named():
    finding = look(over(GIGABIT, BUCKETS, hosts=["a", "b"], links_gbit=[10, 10]))
    assert finding is not None
    assert finding[:3] == (
        "The network moves 0.936 Gbit/s a rank over a link of 10 Gbit/s",
        "That is 9 % of what the interface says, in large transfers and without the time that ranks wait for each"
        " other. Another, slower interface may be in use, or the link is shared or limited. Gloo takes the one that"
        " the host's name resolves to.",
        "nccl.env.GLOO_SOCKET_IFNAME=<the fast interface>",
    )
    assert finding.gain_ms == pytest.approx(554, abs=1)


def test_on_gpus_nccl_is_asked_and_the_slowest_link_counts():
    finding = look(over(GIGABIT, BUCKETS, hosts=["a", "b"], links_gbit=[100, 25], config=config(place__device="cuda")))
    assert finding is not None
    assert finding.title.endswith("over a link of 25 Gbit/s")
    assert finding.advice == "nccl.read_back=true"


@pytest.mark.parametrize(
    ("hosts", "links"),
    [
        (["a", "b"], [1, 1]),  # as fast as the link
        (["a", "a"], [10, 10]),  # nothing passes the link
        (["a", "b"], [None, None]),  # its rate is not known
        (["a", "b"], []),  # an older record
    ],
)
def test_what_cannot_be_said_is_not_said(hosts: list[str], links: list[float | None]):
    assert look(over(GIGABIT, BUCKETS, hosts=hosts, links_gbit=links)) is None


def test_a_link_that_costs_nothing_is_left_alone():
    assert look(over(GIGABIT, BUCKETS, {"exposed": 10}, hosts=["a", "b"], links_gbit=[10, 10])) is None


def test_replicas_of_a_stage_on_one_host_send_nothing_through_its_interface():
    apart = [over(GIGABIT, BUCKETS, hosts=["a", "b"], links_gbit=[10, 10]) for _ in range(2)]
    assert look(staged(*apart)) is not None
    together = [over(GIGABIT, BUCKETS, hosts=[host] * 2, links_gbit=[10, 10]) for host in "ab"]
    assert look(staged(*together)) is None
