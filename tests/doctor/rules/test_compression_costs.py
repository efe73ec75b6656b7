from __future__ import annotations

import pytest

from tests.doctor.scene import Queue, config, over
from trainer.doctor.rules.compression_costs import look

TOPK = {
    "config": config(comm___target_="trainer.comm.topk.TopK"),
    "hook": {"sent": 0.015, "encode_ms": 1.2, "starts": 2},
}
LINK = Queue((20, 60), start_ms=0.1, mb_per_s=2000)
BUCKETS: list[tuple[float, float]] = [(25, 30), (25, 40), (25, 50), (25, 60)]


def test_encoding_that_outlasts_the_bytes_is_told_to_stop():
    finding = look(over(LINK, BUCKETS, **TOPK))
    assert finding is not None
    assert finding[:3] == (
        "comm=topk costs more than it saves",
        "A step's buckets take 122 ms with encoding and decoding, of which exchanges are 1.6 ms. In full precision they"
        " would travel for 53.3 ms at the measured 15.9 Gbit/s.",
        "comm=allreduce",
    )
    assert finding.gain_ms == pytest.approx(68, abs=1)


def test_on_a_slow_link_the_same_encoding_pays():
    slow = Queue((200, 600), start_ms=0.5, mb_per_s=117)
    assert look(over(slow, [(25, 300), (25, 400), (25, 500), (22.5, 600)], **TOPK)) is None


def test_without_compression_there_is_nothing_to_stop():
    assert look(over(LINK, BUCKETS)) is None
