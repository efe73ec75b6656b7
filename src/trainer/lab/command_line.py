"""What the command `netlab` does, what it says and with which code it ends."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from trainer.lab import build, hosts, kernel, measure, state
from trainer.lab.arguments import NAME, parse
from trainer.lab.layout import Lab, LabError
from trainer.lab.stop import Stop


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; the exit code: a host's, 2 where it cannot be done, 128 + n after signal n."""
    try:
        options, command = parse(sys.argv[1:] if arguments is None else arguments)
        _check_machine()
        with Stop() as stop:
            return _do(options, command, stop) or stop.code()
    except LabError as error:
        print(error, file=sys.stderr)
    except kernel.Refused as error:
        print(f"netlab: the kernel refused ({error}); netlab status tells what is there", file=sys.stderr)
    return 2


def _check_machine() -> None:
    if not sys.platform.startswith("linux"):
        raise LabError(f"netlab: this is {sys.platform}, which has no network namespaces; use Linux, or a VM with it")
    if os.geteuid() != 0:
        raise LabError(f"netlab: user {os.geteuid()} may not make network namespaces; run it as root, with sudo")
    kernel.check_tools()


def _do(options: argparse.Namespace, command: list[str], stop: Stop) -> int:
    name = options.name or NAME
    if options.verb == "up":
        lab, new = _make(name, options)
        if new:
            _check(lab, options, stop)
    elif options.verb == "run" and options.hosts is not None:
        return _run_once(name, options, command, stop)
    elif options.verb == "run":
        return _run(_find(name, "run"), command, stop)
    elif options.verb == "rate":
        with state.lock():
            lab = build.shape(_find(name, "rate"), options.new_rate)
        _say(f"lab '{name}' is changed: {lab}")
        _check(lab, options, stop)
    elif options.verb == "status":
        _show(options.name)
    else:
        _remove(state.names() if options.all else [name])
    return 0


def _make(name: str, options: argparse.Namespace) -> tuple[Lab, bool]:
    """The lab as asked for, and whether it is new."""
    with state.lock():
        lab, done = build.up(name, options.hosts, options.ranks_per_host, options.rate, options.subnet)
    _say(f"lab '{name}' is {done}: {lab}")
    return lab, done != build.FOUND


def _run_once(name: str, options: argparse.Namespace, command: list[str], stop: Stop) -> int:
    if state.read(name) is not None:
        raise LabError(
            f"run: lab '{name}' is there already; use it with netlab run -- ..., or netlab down --name {name}"
        )
    lab, new = _make(name, options)
    if not new:
        raise LabError(f"run: lab '{name}' was made by another netlab just now; take another --name")
    try:
        _check(lab, options, stop)
        return 0 if stop.number else _run(lab, command, stop)
    finally:
        _remove([name])


def _run(lab: Lab, command: list[str], stop: Stop) -> int:
    with state.running(lab):
        _say(f"host 0 writes to this terminal, the others to {state.log_path(lab.name, 1).with_name('host*.log')}")
        return hosts.run(lab, command, stop)


def _show(only: str | None) -> None:
    names = [name for name in state.names() if only in (None, name)]
    if not names:
        print("there is no lab" if only is None else f"there is no lab '{only}'")
    for name in names:
        lab = state.read(name)
        wrong = build.faults(lab) if lab else ["it was left half-made"]
        print(f"lab '{name}': {'; '.join(wrong) + '; netlab up makes it afresh, down removes it' if wrong else lab}")
        if lab and not wrong:
            for host in range(lab.hosts):
                count = len(kernel.processes(lab.namespace(host)))
                print(f"  host {host:<2}  {lab.address(host)}  namespace {lab.namespace(host)}  {count} processes")


def _remove(names: Sequence[str]) -> None:
    with state.lock():
        gone = [name for name in names if build.down(name)]
    for name in gone:
        _say(f"lab '{name}' is removed")
    if not gone:
        _say("there is no lab" + "".join(f" '{name}'" for name in names))


def _find(name: str, verb: str) -> Lab:
    """The lab of that name, which must be there and whole."""
    lab = state.read(name)
    if lab is None:
        others = f" (there is {', '.join(state.names())})" if state.names() else ""
        raise LabError(f"{verb}: there is no lab '{name}'{others}; make it with netlab up --hosts 2 --rate 1gbit")
    wrong = build.faults(lab)
    if wrong:
        raise LabError(f"{verb}: in lab '{name}' {wrong[0]}; netlab down --name {name}, then up again")
    return lab


def _check(lab: Lab, options: argparse.Namespace, stop: Stop) -> None:
    if not options.no_check and stop.number is None:
        _say(measure.verdict(lab, measure.measure(lab)))


def _say(text: str) -> None:
    """Tell something on stderr: stdout belongs to the command that runs on host 0."""
    print(f"netlab: {text}", file=sys.stderr)
