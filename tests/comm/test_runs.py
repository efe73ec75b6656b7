"""Compressed training as a user runs it: it resumes bitwise, changes its size, and says who died."""

from __future__ import annotations

import logging
import os
import signal

import pytest
import torch

from tests.pipeline import scenario
from tests.processes import SMALL, only_run, read_until, started, workers_of
from trainer import checkpoint_folder

# Several buckets, most of whose parameters travel compressed.
DEEP = (
    *scenario.SMALL,
    *("model=mlp", "model.width=256", "model.depth=4", "parallel.data.bucket_cap_mb=0.3"),
    "+data.kwargs.dtype=float32",
)


@pytest.fixture
def topk(make_run, tmp_path):
    """`topk("whole", 2, "steps=16")` is a run of two processes in a folder of that name."""

    def make(name, processes, *options):
        run = make_run(*DEEP, "comm=topk", "comm.ratio=0.05", f"launch.processes={processes}", *options)
        return run.model_copy(update={"folder": tmp_path / name})

    return make


def test_a_resumed_run_has_bitwise_the_losses_of_an_undisturbed_one(workers, topk):
    whole = topk("whole", 2, "steps=16", "checkpoint.every=8")
    undisturbed = workers(2, scenario.train, [whole], torch.float32)
    rest = topk("rest", 2, "steps=16", f"checkpoint.resume={checkpoint_folder.path_of(whole.checkpoints, 8)}")
    for (one,), (other,) in zip(undisturbed, workers(2, scenario.train, [rest], torch.float32), strict=True):
        assert len(one.losses) == 16
        assert other.losses == one.losses[8:]


def _told(mesh, run):
    """What a run says, and its losses."""
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda entry: said.append(entry.getMessage())
    logging.getLogger("trainer").addHandler(handler)
    (trained,) = scenario.train(mesh, [run], torch.float32)
    return "\n".join(said), trained.losses


def test_four_ranks_go_on_as_two_and_say_so(workers, topk):
    four = topk("four", 4, "steps=6", "checkpoint.every=6")
    workers(4, scenario.train, [four], torch.float32)
    two = topk("two", 2, "steps=12", f"checkpoint.resume={four.folder}")
    (said, losses), _ = workers(2, _told, two)
    assert "the number of ranks has changed from 4 to 2" in said
    assert len(losses) == 6


def test_two_levels_on_one_machine_work(workers, topk):
    # Long enough for a step in which norms are taken.
    run = topk("levels", 2, "comm.hierarchical=true", "steps=20")
    ((trained,), _) = workers(2, scenario.train, [run], torch.float32)
    last = [metrics for metrics in trained.history if "train/loss" in metrics][-1]
    assert {"comm/contraction", "comm/residual_norm", "comm/encode_ms", "comm/compression_ratio"} <= set(last)


def test_a_rank_that_dies_in_an_exchange_is_named(tmp_path):
    with started(tmp_path, *SMALL, "comm=int8", "steps=1000000") as process:
        read_until(process, lambda line: line.startswith("step "))
        os.kill(workers_of(process.pid)[1], signal.SIGKILL)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 1
        assert "rank 1 was killed by SIGKILL" in output
        assert "Traceback" not in output
        log = (only_run(tmp_path) / "logs" / "rank0.log").read_text()
        assert "comm: bucket " in log
        assert "; rank 1 of the data axis did not arrive" in log
