"""What ip and tc do and say, in Python values."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network
from typing import Any

from trainer.lab.layout import LabError


class Refused(Exception):
    """ip or tc said no; the message is its reason."""


def check_tools() -> None:
    """Raise LabError if ip or tc is missing."""
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            raise LabError(f"netlab: there is no {tool} on the PATH; apt install iproute2")


def call(command: Sequence[str], lines: Iterable[str] | None = None) -> str:
    """Run ip or tc and return its output; with `lines`, as a batch of commands. Raises Refused."""
    batch = None if lines is None else "".join(f"{line}\n" for line in lines)
    # In a session of its own: Ctrl-C must not end it half-way.
    done = subprocess.run(
        [*command, *([] if batch is None else ["-batch", "-"])],
        input=batch,
        stdin=subprocess.DEVNULL if batch is None else None,
        capture_output=True,
        text=True,
        start_new_session=True,
    )
    if done.returncode:
        raise Refused(_reason(done.stderr) or f"{' '.join(command)} ended with {done.returncode}")
    return done.stdout


def _reason(output: str) -> str:
    first = output.strip().partition("\n")[0]
    for noise in ("RTNETLINK answers: ", "Error: "):
        first = first.removeprefix(noise)
    return first.rstrip(".")


def namespaces() -> list[str]:
    """The names of all network namespaces."""
    # A line is a name, or a name and "(id: 3)".
    return [line.split()[0] for line in call(["ip", "netns", "list"]).splitlines() if line]


def processes(namespace: str) -> list[int]:
    """The ids of the processes in a namespace; none if it is gone."""
    try:
        return [int(line) for line in call(["ip", "netns", "pids", namespace]).split()]
    except Refused:
        return []


def links(namespace: str) -> dict[str, dict[str, Any]]:
    """The interfaces of a namespace by name, as `ip -j address` describes them."""
    return {link["ifname"]: link for link in json.loads(call(["ip", "-j", "-n", namespace, "address"]) or "[]")}


def rates(namespace: str) -> dict[str, int]:
    """The rate in bytes per second of each shaped interface of a namespace."""
    queues = json.loads(call(["tc", "-j", "-n", namespace, "qdisc", "show"]) or "[]")
    return {queue["dev"]: queue["options"]["rate"] for queue in queues if queue["kind"] == "tbf"}


def networks() -> list[IPv4Network]:
    """The IPv4 networks that this machine itself is in or knows a way to, without the default route."""
    routes = json.loads(call(["ip", "-j", "-4", "route", "show", "table", "all"]) or "[]")
    return [IPv4Network(route["dst"]) for route in routes if route["dst"] != "default"]
