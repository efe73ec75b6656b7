"""Check a lab against what was asked of it: a real transfer from host 1 to host 0."""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

from trainer.lab import transfer
from trainer.lab.layout import Lab

# The part by which a measured rate may differ from the asked one. TCP's own headers take 4 % of it.
TOLERANCE = 0.1


class Link(NamedTuple):
    """What the link between two hosts does."""

    bytes_per_s: float
    round_trip_us: float


def measure(lab: Lab) -> Link | None:
    """Measure the link from host 1 to host 0, in about 1.5 s; None if nothing came across."""
    receiver = _start(lab, 0, "receive")
    try:
        assert receiver.stdout is not None
        receiver.stdout.readline()  # It listens.
        sender = _start(lab, 1, "send")
        try:
            trip, _ = sender.communicate(timeout=3 * transfer.TIMEOUT_S)
            rate, _ = receiver.communicate(timeout=transfer.TIMEOUT_S)
            return Link(float(rate), float(trip))
        finally:
            sender.kill()
            sender.wait()
    except (subprocess.TimeoutExpired, ValueError):
        return None
    finally:
        receiver.kill()
        receiver.wait()


def verdict(lab: Lab, link: Link | None) -> str:
    """One sentence on what was measured, which warns if that is not what was asked."""
    if link is None:
        return "warning: nothing came from host 1 to host 0; see netlab status, or make the lab afresh"
    got = f"host 1 to host 0: {_spell(link.bytes_per_s)}, round trip {link.round_trip_us:.0f} us"
    if lab.bytes_per_s is None:
        return got
    part = link.bytes_per_s / lab.bytes_per_s
    if abs(part - 1) <= TOLERANCE:
        return f"{got}; {part:.0%} of {lab.rate}"
    return f"warning: {got}; that is {part:.0%} of {lab.rate}: this machine is too slow or too busy for it"


def _start(lab: Lab, host: int, role: str) -> subprocess.Popen[str]:
    program = [sys.executable, "-I", transfer.__file__, role, lab.address(0)]
    # In a session of its own: Ctrl-C is for us to handle.
    return subprocess.Popen(
        ["ip", "netns", "exec", lab.namespace(host), *program],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def _spell(bytes_per_s: float) -> str:
    bits = bytes_per_s * 8
    return f"{bits / 1e9:.2f} Gbit/s" if bits >= 1e9 else f"{bits / 1e6:.1f} Mbit/s"
