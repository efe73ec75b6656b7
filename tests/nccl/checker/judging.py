"""Checks written in a line: variables as a shell has them, and what is known of the machine."""

from __future__ import annotations

import shlex
from typing import Any

from trainer.nccl.checker.check import check
from trainer.nccl.checker.context import Context, Device, Gid, Interface
from trainer.nccl.checker.finding import Finding
from trainer.nccl.checker.sources import gather

ETH0 = Interface("eth0", addresses=("10.0.0.5/24",))
LO = Interface("lo", addresses=("127.0.0.1/8",))


def judge(variables: str, **known: Any) -> list[Finding]:
    """What the checker says of `variables`, separated and quoted as in a shell, where `known` is known."""
    environment = dict(word.split("=", 1) for word in shlex.split(variables))
    return check(gather(environment, {}, {}, files=False), Context(**known))


def rules(variables: str, **known: Any) -> set[str]:
    return {finding.rule for finding in judge(variables, **known)}


def named(*names: str) -> tuple[Interface, ...]:
    """Interfaces that are up, each in a subnet of its own, besides loopback."""
    return (LO, *(Interface(name, addresses=(f"10.0.{number}.5/24",)) for number, name in enumerate(names)))


def roce(name: str, *gids: str) -> Device:
    """A RoCE device; each address is one of v2, or of v1 where it begins with v1:."""
    rows = (Gid(number, gid.removeprefix("v1="), 1 if gid.startswith("v1=") else 2) for number, gid in enumerate(gids))
    return Device(name, "ethernet", gids=tuple(rows))


def infiniband(*names: str) -> tuple[Device, ...]:
    return tuple(Device(name) for name in names)
