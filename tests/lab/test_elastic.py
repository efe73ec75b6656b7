"""Hosts that die and come back, under torchrun and under train.py. Needs root on Linux with iproute2."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.processes import SLOW, SMALL, TRAIN, losses, path_with_slow_model, run
from trainer.lab import state
from trainer.lab.command import environment_for
from trainer.lab.command_line import main as netlab
from trainer.lab.layout import Lab

pytestmark = [
    pytest.mark.skipif(
        not sys.platform.startswith("linux") or os.geteuid() != 0 or shutil.which("tc") is None,
        reason="network namespaces need root on Linux, with iproute2",
    ),
    # What three starts of a run need on a machine that is busy otherwise.
    pytest.mark.timeout(300),
]
NAME = f"elastic{os.getpid()}"
# With one thread each, whatever a host is thought to have, sums are the same to the last bit.
RUN = (*SMALL, *SLOW, "launch.threads=1", "steps=60", "log.every=1", "evaluate.every=null", "checkpoint.every=5")
PATIENCE_S = 120.0


@pytest.fixture
def lab(capfd: pytest.CaptureFixture[str]) -> Iterator[Lab]:
    assert netlab(["up", "--name", NAME, "--hosts", "2", "--rate", "none", "--no-check"]) == 0
    try:
        yield state.read(NAME)
    finally:
        netlab(["down", "--name", NAME])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    """The losses of as many ranks on one machine."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path_with_slow_model(folder))
        code, output = run(folder, *RUN, "folder=whole")
    assert code == 0, output
    return losses(folder / "whole")


class Hosts:
    """The two hosts of a lab, on each of which a command runs that may be killed with all its processes."""

    def __init__(self, lab: Lab, folder: Path, stack: contextlib.ExitStack) -> None:
        self.lab, self.folder, self.stack = lab, folder, stack

    def start(self, host: int, command: list[str]) -> subprocess.Popen[bytes]:
        environment = {
            **environment_for(self.lab, host, os.environ, "2026-11-30_12-00-00-000000"),
            "PYTHONPATH": path_with_slow_model(self.folder),
            "PYTHONUNBUFFERED": "1",
        }
        with open(self.folder / f"host{host}.log", "ab") as log:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self.lab.namespace(host), *command],
                cwd=self.folder,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.stack.callback(self.kill, process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """As a power cut does: the agent, its workers and what they started, which is a session of processes."""
        listed = subprocess.run(["ps", "-o", "pid=", "-s", str(process.pid)], capture_output=True, text=True).stdout
        for number in map(int, listed.split()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        process.wait()

    def until(self, what: str, comes: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not comes():
            logs = [path.read_text()[-3000:] for path in sorted(self.folder.glob("host*.log"))]
            assert time.monotonic() < deadline, "\n".join([f"not within {PATIENCE_S} s: {what}", *logs])
            time.sleep(0.1)


def torchrun(lab: Lab, host: int, *arguments: str) -> list[str]:
    heartbeat = "keep_alive_interval=1,keep_alive_max_attempt=3"
    meeting = ["--rdzv_id=it", "--rdzv_backend=c10d", f"--rdzv_endpoint={lab.address(0)}:29500"]
    place = [f"--rdzv_conf=is_host={int(host == 0)},{heartbeat}", f"--local-addr={lab.address(host)}"]
    run = ["--nnodes=2", "--nproc_per_node=1", "--max-restarts=3", *meeting, *place, TRAIN, *arguments]
    return [sys.executable, "-m", "torch.distributed.run", *run]


def train(lab: Lab, host: int, *arguments: str) -> list[str]:
    place = ["launch.nodes=2", f"launch.node_rank={host}", f"launch.rendezvous={lab.address(0)}:29500"]
    return [sys.executable, TRAIN, *arguments, *place, "launch.processes=1", "launch.max_restarts=3"]


@pytest.mark.parametrize("command", [torchrun, train])
def test_a_host_that_dies_and_comes_back_goes_on_from_the_checkpoint(
    lab: Lab,
    undisturbed: dict[int, float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Callable[..., list[str]],
):
    if command is torchrun:
        # train.py sees to that itself.
        monkeypatch.setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    again = (*RUN, "folder=disturbed", "checkpoint.resume=own")
    with contextlib.ExitStack() as stack:
        hosts = Hosts(lab, tmp_path, stack)
        first, second = (hosts.start(host, command(lab, host, *again)) for host in range(2))
        metrics = tmp_path / "disturbed" / "metrics.jsonl"
        hosts.until("the run trains", lambda: metrics.exists() and len(losses(metrics.parent)) > 12)
        hosts.kill(second)
        second = hosts.start(1, command(lab, 1, *again))
        hosts.until("the run has ended", lambda: first.poll() is not None and second.poll() is not None)
        logs = [(tmp_path / f"host{host}.log").read_text() for host in range(2)]
        assert (first.returncode, second.returncode) == (0, 0), "\n".join(logs)
        assert "resumed from disturbed/checkpoints/step_000000" in "".join(logs)
    assert list(losses(tmp_path / "disturbed")) == list(range(1, 61))
    assert losses(tmp_path / "disturbed") == undisturbed
