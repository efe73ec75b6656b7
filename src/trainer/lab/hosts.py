"""Run one command on all hosts of a lab: start, wait, end those that are left, and tell how it went."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from trainer import stamp
from trainer.lab import ending, state
from trainer.lab.command import command_for, environment_for
from trainer.lab.layout import Lab
from trainer.lab.stop import Stop

# Seconds that the other hosts have to end by themselves after one has failed, and then to obey SIGTERM.
FAILED_S, OBEY_S = 15.0, 15.0
# Seconds that hosts have to end after netlab was told to stop: train.py takes up to 60 to save a checkpoint.
STOPPED_S = 75.0
# Of how many failed hosts the log's end is shown, and how many lines of it: the first to fail knows why.
SHOWN_HOSTS, SHOWN_LINES = 3, 20


@dataclass
class _Host:
    index: int
    process: subprocess.Popen[bytes]
    descriptor: int
    """readable when the process has ended"""
    code: int | None = None

    def signal(self, number: int) -> None:
        """Send to all that the host's command started and that stayed in its group."""
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def reap(self) -> None:
        code = self.process.wait()
        self.code = code if code >= 0 else 128 - code


@dataclass
class _Schedule:
    """Signals that all hosts will get, each at a monotonic time in seconds."""

    entries: list[tuple[float, int]] = field(default_factory=list)

    def left_s(self) -> float | None:
        return max(0.0, self.entries[0][0] - time.monotonic()) if self.entries else None

    def due(self) -> list[int]:
        now = time.monotonic()
        due = [number for at, number in self.entries if at <= now]
        self.entries = [(at, number) for at, number in self.entries if at > now]
        return due

    def put(self, *entries: tuple[float, int]) -> None:
        """Replace what was planned; times in seconds from now."""
        self.entries = [(time.monotonic() + after_s, number) for after_s, number in entries]


def run(lab: Lab, command: Sequence[str], stop: Stop) -> int:
    """Run the command on every host at once; the code of the host that failed first, or 0. Leaves no process of it."""
    # Somebody's shell in a namespace, say, is not ours to end.
    before = ending.processes_in(lab.namespaces)
    started = stamp.now()
    state.log_path(lab.name, 0).parent.mkdir(exist_ok=True)
    hosts: list[_Host] = []
    try:
        for index in range(lab.hosts):
            hosts.append(_start(lab, index, command, started))
        ended = _wait(hosts, stop)
    finally:
        for host in hosts:
            host.signal(signal.SIGKILL)
            host.reap()
            os.close(host.descriptor)
        ending.empty(lab.namespaces, spared=before)
    # Those that were told to stop and did have nothing to explain.
    _tell(lab, [host for host in ended if host.code not in (0, stop.code())])
    return next((host.code for host in ended if host.code), 0)


def _start(lab: Lab, index: int, command: Sequence[str], started: str) -> _Host:
    with contextlib.ExitStack() as stack:
        # Host 0 has the terminal as it is, so that a live display works; but not to read from.
        log = None if index == 0 else stack.enter_context(state.log_path(lab.name, index).open("wb"))
        process = subprocess.Popen(
            ["ip", "netns", "exec", lab.namespace(index), *command_for(lab, index, command)],
            stdin=None if index == 0 else subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment_for(lab, index, os.environ, started),
            preexec_fn=_step_back,
        )
    return _Host(index, process, os.pidfd_open(process.pid))


def _step_back() -> None:
    """In a host's process: leave the terminal's foreground, where Ctrl-C is for netlab to handle.

    Not its session: of these Linux (autogroup) makes shares of the cores, in which what carries gradients waits half a
    second for another host's computing.
    """
    os.setpgrp()
    # From the background, who reads from the terminal or sets it up would be stopped.
    for number in (signal.SIGTTIN, signal.SIGTTOU):
        signal.signal(number, signal.SIG_IGN)


def _wait(hosts: Sequence[_Host], stop: Stop) -> list[_Host]:
    """Wait until all hosts have ended, pressing them where one failed or netlab is told to stop; in order of ending."""
    schedule, stopping = _Schedule(), False
    ended: list[_Host] = []
    with selectors.DefaultSelector() as selector:
        selector.register(stop, selectors.EVENT_READ)
        for host in hosts:
            selector.register(host.descriptor, selectors.EVENT_READ, host)
        while len(ended) < len(hosts):
            for key, _ in selector.select(schedule.left_s()):
                if key.data is None:
                    continue
                selector.unregister(key.fd)
                key.data.reap()
                ended.append(key.data)
                if key.data.code and not schedule.entries and not stopping:
                    schedule.put((FAILED_S, signal.SIGTERM), (FAILED_S + OBEY_S, signal.SIGKILL))
            for number in stop.take():
                if stopping:
                    schedule.put((0, signal.SIGKILL))
                else:
                    name = signal.Signals(number).name
                    print(f"netlab: passed {name} on to all hosts; once more kills them", file=sys.stderr)
                    schedule.put((0, number), (STOPPED_S, signal.SIGKILL))
                stopping = True
            for number in schedule.due():
                for host in hosts:
                    host.signal(number)
    return ended


def _tell(lab: Lab, failed: Sequence[_Host]) -> None:
    shown = 0
    for host in failed:
        what = f"netlab: host {host.index} ended with code {host.code}"
        log = state.log_path(lab.name, host.index)
        if host.index == 0:
            print(what, file=sys.stderr)
        elif shown == SHOWN_HOSTS:
            print(f"{what}; its log is {log}", file=sys.stderr)
        else:
            shown += 1
            print(f"{what}; the end of {log}:", file=sys.stderr)
            for line in log.read_text(errors="replace").splitlines()[-SHOWN_LINES:]:
                print(f"  {line}", file=sys.stderr)
