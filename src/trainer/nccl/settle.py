"""What a run sets: the preset, the user's own variables and the environment put together, checked and reported."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch

from trainer.nccl import facts
from trainer.nccl.checker.abridge import abridged
from trainer.nccl.checker.check import check
from trainer.nccl.checker.context import Context
from trainer.nccl.checker.finding import assignment
from trainer.nccl.checker.sources import gather
from trainer.nccl.machine import Machine
from trainer.spec import ConfigError

if TYPE_CHECKING:
    from trainer.nccl.base import Nccl
    from trainer.run import Run

log = logging.getLogger(__name__)


class Use(NamedTuple):
    """What a run asks of its process groups."""

    timeout_s: float | None = None
    sharding: Literal["fsdp", "tensor"] | None = None
    messages: bool = False
    """whether ranks send to each other, as stages of a pipeline do"""

    @classmethod
    def of(cls, run: Run) -> Use:
        parallel = run.parallel
        sharding: Literal["fsdp", "tensor"] | None = "fsdp" if parallel.data.shard else None
        return cls(run.launch.timeout_s, "tensor" if parallel.tensor.size > 1 else sharding, parallel.pipeline.size > 1)


NO_USE = Use()


def settle(nccl: Nccl, here: Machine, environment: Mapping[str, str] = os.environ, use: Use = NO_USE) -> dict[str, str]:
    """The variables for the workers of the machine `here`: the preset's and `nccl.env`, but none that is set already.

    Raises ConfigError for the first thing that the checker finds wrong in them, in the user's environment or in
    NCCL's own files. Warnings, what was seen and chosen, and what the environment keeps are logged, a line each.
    """
    own: dict[str, str] = type(nccl).model_fields["env"].default
    preset = own | nccl.found(here)
    overrides = {name: value for name, value in nccl.env.items() if own.get(name) != value}
    # A variable of the preset that the user took out of nccl.env stays out.
    preset = {name: value for name, value in preset.items() if name in nccl.env or name not in own}
    values = gather(environment, preset, overrides, preset_name=nccl.choice())
    found = check(values, judged(nccl, here, use))
    for finding in found:
        if finding.severity == "error":
            raise ConfigError(f"nccl: {finding.line()}")
    for line in seen(nccl, here, preset | overrides, environment):
        log.info("nccl: %s", line)
    named = "NCCL_SOCKET_IFNAME" in values or "GLOO_SOCKET_IFNAME" in values
    for line in [*(finding.line() for finding in abridged(found, values)), *here.complaints(named)]:
        log.warning("nccl: %s", line)
    return {name: value for name, value in (preset | overrides).items() if name not in environment}


def judged(nccl: Nccl, here: Machine, use: Use = NO_USE) -> Context:
    """What the checker may know.

    Without a GPU the settings are judged as those of another machine: a rehearsal finds what is wrong anywhere, and is
    not stopped by an adapter that only the cluster has.
    """
    network = nccl.intended(here)
    known: dict[str, Any] = {
        "nodes": here.nodes,
        "processes": here.processes,
        "net": network if network in ("ib", "roce", "ethernet") else None,
        "nccl": version(),
        "torch": tuple(int(part) for part in torch.__version__.split(".")[:2]),
        **use._asdict(),
        "backend": "nccl",
        "diagnosing": nccl.read_back,
    }
    if here.gpu:
        known |= facts.of(here)
    return Context(**known)


def version() -> tuple[int, int, int] | None:
    """NCCL's version; None in a build of torch without it."""
    try:
        major, minor, patch, *_ = torch.cuda.nccl.version()
    except (RuntimeError, AttributeError):
        return None
    return major, minor, patch


def seen(nccl: Nccl, here: Machine, ours: Mapping[str, str], environment: Mapping[str, str]) -> list[str]:
    """A line on what was seen and chosen, and where the user's environment says something, a line on that."""
    name, chosen = nccl.choice(), nccl.chosen(here)
    first = f"{name} sees {here}" + (f" and takes {chosen}" if chosen not in (name, "none") else "")
    set_by_us = [assignment(key, value) for key, value in ours.items() if key not in environment]
    first += f"; sets {' '.join(set_by_us)}" if set_by_us else "; sets nothing"
    if not here.gpu:
        first += "; Gloo carries the gradients on a CPU, where NCCL's settings have no effect"
    kept = [
        assignment(key, value) + (f" (not {ours[key]})" if ours.get(key, value) != value else "")
        for key, value in sorted(environment.items())
        if key in ours or key.startswith("NCCL_")
    ]
    return [first, *([f"your environment has {', '.join(kept)}, which wins"] if kept else [])]
