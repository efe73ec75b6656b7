"""Compressed training as a user runs it: it learns, resumes bitwise, changes its size, and says who died."""

from __future__ import annotations

import json
import os
import signal

from tests.processes import SMALL, losses, only_run, read_until, run, started, workers_of

# Several buckets, most of whose parameters travel compressed.
DEEP = (*SMALL, "model.depth=4", "parallel.data.bucket_cap_mb=0.3", "log.every=1", "evaluate.every=null")


def test_a_resumed_run_has_bitwise_the_losses_of_an_undisturbed_one(tmp_path):
    arguments = (*DEEP, "comm=topk", "comm.ratio=0.05", "steps=16", "checkpoint.every=8")
    assert run(tmp_path, *arguments, "folder=whole")[0] == 0
    code, output = run(tmp_path, *arguments, "folder=rest", "checkpoint.resume=whole/checkpoints/step_00000008")
    assert code == 0, output
    whole, rest = losses(tmp_path / "whole"), losses(tmp_path / "rest")
    assert rest == {step: whole[step] for step in range(9, 17)}


def test_four_ranks_go_on_as_two_and_say_so(tmp_path):
    arguments = (*DEEP, "comm=topk", "comm.ratio=0.05", "checkpoint.every=6")
    code, output = run(tmp_path, *arguments, "folder=four", "steps=6", "launch.processes=4")
    assert code == 0, output
    code, output = run(tmp_path, *arguments, "folder=two", "steps=12", "checkpoint.resume=four")
    assert code == 0, output
    assert "the number of ranks has changed from 4 to 2" in output
    assert list(losses(tmp_path / "two")) == list(range(7, 13))


def test_two_levels_on_one_machine_work(tmp_path):
    code, output = run(tmp_path, *SMALL, "comm=topk", "comm.ratio=0.1", "comm.hierarchical=true")
    assert code == 0, output
    last = json.loads((only_run(tmp_path) / "metrics.jsonl").read_text().splitlines()[-2])
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
