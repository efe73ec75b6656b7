"""What is reported before the first step, and where it can be read afterwards."""

from __future__ import annotations

import json
import logging
import os
import re
from pathlib import Path

import pytest
import torch
import yaml

from tests.processes import SMALL, only_run, run
from trainer.mesh import Mesh
from trainer.nccl import inspection
from trainer.nccl.inspection import inspect, metrics, report
from trainer.nccl.log_lines import Choice
from trainer.nccl.probe import Link

CPU = torch.device("cpu")
SOCKET = Choice("2.30.7", "Socket", ("eth0:10.0.0.1<0>",), {(0, 1): "NET/Socket/0"}, 2)


def test_links_have_metrics_of_their_own():
    assert metrics({"between": Link(1e-4, 1e8)}) == {"link/between_alpha_s": 1e-4, "link/between_bytes_per_s": 1e8}


def test_what_was_not_meant_is_a_warning_that_names_the_log(caplog):
    path = Path("logs/nccl.rank0.log")
    with caplog.at_level(logging.INFO, "trainer"):
        told = report("ib", [SOCKET, SOCKET], ["n0", "n1"], path, quiet=True)
    (warning,) = [entry.getMessage() for entry in caplog.records if entry.levelno == logging.WARNING]
    assert warning.startswith("read-back: ib was meant, but NCCL took NET/Socket; ")
    assert warning.endswith("; all of it is in logs/nccl.rank0.log")
    assert told[1] == "between hosts: 1 pairs by NET/Socket, by eth0:10.0.0.1<0>"


def test_an_nccl_that_goes_on_talking_is_a_warning(caplog):
    report(None, [SOCKET], ["n0", "n1"], Path("log"), quiet=False)
    assert "cannot be told to be quiet" in caplog.text


def inspected(mesh, job, sizes=None, nodes=None):
    if nodes is not None:
        # As torch's agent tells a worker which node it is on.
        os.environ["GROUP_RANK"] = nodes[mesh.rank]
    own = mesh if sizes is None else Mesh.join(sizes, CPU, job.timeout)
    return inspect(job, None, own, CPU), (job.folder / inspection.FILE).exists()


def test_links_are_written_once_and_known_to_all(workers, make_run):
    job = make_run("nccl.read_back=true")
    job.folder.mkdir()
    first, second = workers(2, inspected, job)
    links = first[0]
    assert set(links.every) == {"inside"}
    assert links.data == links.every["inside"]
    assert links == second[0]
    written = yaml.safe_load((job.folder / inspection.FILE).read_text())
    assert written["inside"] == links.every["inside"]._asdict()
    assert written["nccl"] == ["Gloo carries the gradients here, so NCCL has chosen nothing"]


@pytest.mark.parametrize(
    ("nodes", "level"), [("0011", "between"), ("0101", "inside")], ids=["replicas between hosts", "replicas inside"]
)
def test_every_level_is_looked_at_and_replicas_know_which_is_theirs(workers, make_run, nodes, level):
    job = make_run("nccl.read_back=true")
    job.folder.mkdir()
    sizes = {"pipeline": 1, "data": 2, "tensor": 2}
    first, *others = (links for links, _ in workers(4, inspected, job, sizes, nodes))
    assert set(first.every) == {"inside", "between"}
    assert first.data == first.every[level]
    assert all(other == first for other in others)


def test_one_process_has_no_link_and_says_so(workers, make_run):
    job = make_run("nccl.read_back=true")
    job.folder.mkdir()
    ((links, _),) = workers(1, inspected, job)
    assert links == ({}, None)
    assert yaml.safe_load((job.folder / inspection.FILE).read_text()) == {
        "nccl": ["Gloo carries the gradients here, so NCCL has chosen nothing"]
    }


def test_a_run_writes_its_links_before_the_first_step_and_may_size_its_buckets_by_them(tmp_path):
    code, output = run(tmp_path, *SMALL, "nccl.read_back=true", "parallel.data.bucket_cap_mb=auto")
    assert code == 0, output
    folder = only_run(tmp_path)
    first = json.loads((folder / "metrics.jsonl").read_text().splitlines()[0])
    inside = yaml.safe_load((folder / "link.yaml").read_text())["inside"]
    chosen = re.search(r"parallel\.data\.bucket_cap_mb=(\S+): sqrt\(2 ranks x .* MiB\) = ", output)
    assert chosen is not None, output
    assert first == {
        "step": 0,
        "link/inside_alpha_s": inside["alpha_s"],
        "link/inside_bytes_per_s": inside["bytes_per_s"],
        "link/bucket_cap_mb": float(chosen[1]),
    }
    assert "link inside a host: " in output
