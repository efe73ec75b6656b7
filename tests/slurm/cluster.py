"""A Slurm of our own: a controller and two nodes on this machine, in a folder, which leaves nothing when it ends."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

NODES = ("n1", "n2")
# A busy machine may need long for what takes a second on an idle one.
PATIENCE_S = 90.0
# The jobs of one partition give way to the other's, and have a minute to save. A node has more cores than the machine.
# There is no accounting and nobody to hide from: neither a database nor a key is needed. A job that is queued again
# waits until its old credential has expired, at least 5 s.
CONFIGURATION = """
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port0}
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
KillWait=30
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,defer_batch
NodeName=n1 NodeAddr=127.0.0.1 NodeHostname={host} Port={port1} CPUs=4 State=UNKNOWN
NodeName=n2 NodeAddr=127.0.0.1 NodeHostname={host} Port={port2} CPUs=4 State=UNKNOWN
PartitionName=normal Nodes=n1,n2 Default=YES MaxTime=60 PriorityTier=1 GraceTime=60 State=UP
PartitionName=urgent Nodes=n1,n2 MaxTime=60 PriorityTier=2 PreemptMode=OFF State=UP
"""


def missing() -> str | None:
    """Why there can be no Slurm here; None where there can."""
    if os.geteuid() != 0:
        return "a Slurm of our own needs root"
    absent = [name for name in ("slurmctld", "slurmd", "sbatch", "srun", "setpriv") if shutil.which(name) is None]
    return f"Slurm is not installed ({', '.join(absent)}): apt-get install slurm-wlm" if absent else None


class Cluster:
    """`variables` are for the environment of whoever is to see it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.variables = {"SLURM_CONF": str(folder / "slurm.conf")}

    def tell(self, *command: str) -> str:
        """What a command of Slurm's prints."""
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **self.variables}, timeout=60)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout.strip()

    def job(self, number: str) -> dict[str, str]:
        """What the controller knows of a job, by its own names, such as JobState."""
        words = self.tell("scontrol", "--oneliner", "show", "job", number).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def until(self, what: str, comes: Callable[[], bool]) -> None:
        """Wait until it `comes`; what the daemons said is shown where it does not."""
        deadline = time.monotonic() + PATIENCE_S
        while not comes():
            assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}\n{self.logs()}"
            time.sleep(0.1)

    def until_done(self, number: str) -> None:
        """Wait until the job has ended well; what it said is shown where it has not."""

        def done() -> bool:
            job = self.job(number)
            ended_badly = job["JobState"] not in (
                "PENDING",
                "RUNNING",
                "COMPLETING",
                "COMPLETED",
                "REQUEUED",
                "PREEMPTED",
            )
            assert not ended_badly, f"{job['JobState']}: {_end_of(self._said(number))}"
            return job["JobState"] == "COMPLETED"

        self.until(f"job {number} is done", done)

    def _said(self, number: str) -> Path:
        """The file that holds what the job said; its name may hold spaces."""
        shown = self.tell("scontrol", "show", "job", number)
        return Path(re.search(r"StdOut=(.*)", shown)[1])  # type: ignore[index]

    def logs(self) -> str:
        """The ends of the daemons' logs, and the state of all jobs."""
        ends = [f"{path.name}:\n{_end_of(path)}" for path in sorted(self.folder.glob("slurm*.log"))]
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            ends.append(self.tell("scontrol", "show", "job"))
        return "\n".join(ends)

    def processes(self) -> list[int]:
        """All processes of the daemons and the jobs: each has the path of the configuration in its environment."""
        wanted = f"SLURM_CONF={self.variables['SLURM_CONF']}".encode()
        return [process for process in _all_processes() if wanted in _environment(process).split(b"\0")]


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """A cluster with both nodes idle, and afterwards no process of it, whatever happened."""
    cluster, host = Cluster(folder), socket.gethostname().partition(".")[0]
    ports = {f"port{number}": port for number, port in enumerate(_free_ports(1 + len(NODES)))}
    (folder / "state").mkdir()
    Path(cluster.variables["SLURM_CONF"]).write_text(CONFIGURATION.format(host=host, folder=folder, **ports))
    commands = [["slurmctld", "-D"], *(["slurmd", "-D", "-N", node] for node in NODES)]
    daemons = [_start(command, folder, cluster.variables) for command in commands]
    try:
        cluster.until("both nodes are idle", lambda: _idle(cluster.variables) == len(NODES))
        yield cluster
    finally:
        # Children before the daemons, which would start jobs again.
        for signals in (signal.SIGTERM, signal.SIGKILL):
            _end(cluster, signals)
        for daemon in daemons:
            daemon.wait(10)


def _end_of(path: Path) -> str:
    return path.read_text()[-3000:] if path.exists() else "(nothing)"


def _start(command: list[str], folder: Path, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with open(folder / "daemons.out", "ab") as log:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        # Tests that are killed end nothing themselves; the kernel does it for them.
        bound = ["setpriv", "--pdeathsig", "KILL", *command]
        return subprocess.Popen(bound, stdout=log, stderr=log, env={**environment, **variables})


def _idle(variables: Mapping[str, str]) -> int:
    """The number of nodes that wait for work; a controller that does not answer yet knows of none."""
    command = ["sinfo", "--noheader", "--Node", "--partition=normal", "--format=%T"]
    said = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables}, timeout=60)
    return said.stdout.split().count("idle")


def _end(cluster: Cluster, number: signal.Signals) -> None:
    deadline = time.monotonic() + 5
    while (left := cluster.processes()) and time.monotonic() < deadline:
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)
        time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


def _all_processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _environment(process: int) -> bytes:
    """As it was started; empty for one that is gone or is only waited for."""
    try:
        return Path(f"/proc/{process}/environ").read_bytes()
    except OSError:
        return b""
