"""The meter's lanes drawn into a trace."""

from __future__ import annotations

import gzip
import itertools
import json

from tests.overlap.past import past_step
from trainer.overlap.kernels import Anchor
from trainer.overlap.trace import FIRST_PID, lanes, write

ANCHOR = Anchor(thread=7, ts=5_000_000.0, moment=100.0)
STEP = past_step(
    100.5,
    0.010,
    ("data", 0.0, 0.001),
    ("forward", 0.001, 0.003),
    ("backward", 0.003, 0.006),
    ("comm", 0.004, 0.007, "bucket 0", 4096.0, 2048.0),
    ("comm", 0.005, 0.008, "bucket 1", 64.0, 32.0),
    ("comm", 0.007, 0.009, "bucket 2", 64.0, 32.0),
    ("exchange", 0.004, 0.0045, "average", 0.0, 8.0),
    ("wait", 0.006, 0.009, "gradients", 0.0, 0.0),
    ("optimizer", 0.009, 0.010),
)


def tracks(events: list[dict]) -> dict[str, list[dict]]:
    """The bars of each named track, in the order of the tracks."""
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    places = {event["tid"]: event["args"]["sort_index"] for event in events if event["name"] == "thread_sort_index"}
    bars = [event for event in events if event["ph"] == "X"]
    return {names[tid]: [bar for bar in bars if bar["tid"] == tid] for tid in sorted(names, key=places.__getitem__)}


def test_every_lane_is_a_named_track_and_buckets_side_by_side_get_rows():
    drawn = tracks(list(lanes({11: STEP}, ANCHOR, rank=2)))
    assert {name: [bar["name"] for bar in bars] for name, bars in drawn.items()} == {
        "steps": ["step 11"],
        "compute": ["forward", "backward", "optimizer"],
        "communication": ["bucket 0", "bucket 2"],
        "communication (2)": ["bucket 1"],
        "exchanges": ["average"],
        "waits": ["gradients"],
        "data": ["data"],
    }


def test_a_pipelines_waits_and_messages_have_tracks_too():
    step = past_step(
        100.5,
        0.010,
        ("await_activations", 0.0, 0.002, "stage 1, micro-batch 0", 0.0, 0.0),
        ("await_gradients", 0.004, 0.005, "stage 1, micro-batch 0", 0.0, 0.0),
        ("send_onward", 0.003, 0.006, "activations of micro-batch 0 to stage 2", 64.0, 64.0),
    )
    drawn = tracks(list(lanes({11: step}, ANCHOR, rank=2)))
    assert {name: len(bars) for name, bars in drawn.items()} == {"steps": 1, "waits": 2, "sends": 1}


def test_a_bucket_stands_where_it_was_with_its_bytes():
    bar = next(event for event in lanes({11: STEP}, ANCHOR, rank=2) if event["name"] == "bucket 0")
    assert bar["args"] == {"step": 11, "bucket_bytes": 4096, "sent_bytes": 2048}
    # Half a second after the anchor the step begins.
    assert (bar["ts"], bar["dur"]) == (5_504_000, 3_000)


def test_the_tracks_are_a_process_of_their_own_for_each_rank():
    for rank in (0, 5):
        events = list(lanes({11: STEP}, ANCHOR, rank))
        assert {event["pid"] for event in events} == {FIRST_PID + rank}
        names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
        assert names == [f"overlap-trainer, rank {rank}"]


def test_no_bars_of_one_track_overlap_although_clocks_are_read_in_fractions():
    """Touching spans late in a long run, where a float holds no more than a few digits after the point."""
    anchor = Anchor(7, 5_129_486_590_781.681, 11_815.123456789)
    edges = [index / 7000 for index in range(60)]
    spans = [("forward", start, end) for start, end in itertools.pairwise(edges)]
    drawn = tracks(list(lanes({1: past_step(11_816.1, 1.0, *spans)}, anchor, 0)))
    assert list(drawn) == ["steps", "compute"]
    nanoseconds = [(round(bar["ts"] * 1000), round(bar["dur"] * 1000)) for bar in drawn["compute"]]
    assert all(start + lasted <= after for (start, lasted), (after, _) in itertools.pairwise(nanoseconds))


def test_a_trace_is_written_compressed_and_whole(tmp_path):
    write(tmp_path / "rank0.json.gz", {"traceEvents": [{"ph": "X"}]})
    assert json.loads(gzip.decompress((tmp_path / "rank0.json.gz").read_bytes())) == {"traceEvents": [{"ph": "X"}]}
    assert [path.name for path in tmp_path.iterdir()] == ["rank0.json.gz"]
