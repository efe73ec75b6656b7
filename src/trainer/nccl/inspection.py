"""Before the first step: what NCCL chose, and what the links do, in the log, in link.yaml and for the loggers."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.distributed as dist
import yaml

from trainer.nccl import machine, verdict
from trainer.nccl.log_lines import Choice
from trainer.nccl.probe import LEVELS, Level, Link, hosts_of, levels_of, probe, slowest
from trainer.nccl.read_back import ReadBack

if TYPE_CHECKING:
    from trainer.mesh import Mesh
    from trainer.run import Run

log = logging.getLogger(__name__)

FILE = "link.yaml"
PLACES: dict[Level, str] = {"inside": "inside a host", "between": "between hosts"}


class Links(NamedTuple):
    """What the links of a job do."""

    every: Mapping[Level, Link]
    """of each level that the job's ranks have between them"""
    data: Link | None
    """the slowest that replicas' sums take; None without replicas"""


def inspect(run: Run, read_back: ReadBack | None, mesh: Mesh, device: torch.device) -> Links:
    """Report, on rank 0, what was chosen and what the links do, and return the links on all ranks; collective.

    `read_back` has listened since before the first communicator, and is closed here; without one only the links are
    looked at. What is looked at is the axis that gradients take, or without replicas the next one that the mesh has;
    a level that this axis does not have is measured on all ranks.
    """
    control = mesh.control
    axis = next((axis for axis in ("data", "pipeline", "tensor") if mesh.sizes[axis] > 1), "data")
    group = mesh.groups[axis]
    everyone = hosts_of(control)
    hosts = [everyone[rank] for rank in dist.get_process_group_ranks(group)]
    told: list[str] = []
    if read_back is not None:
        told = _read_back(run, read_back, group, control, device, hosts)
    elif run.nccl.read_back:
        told = ["Gloo carries the gradients here, so NCCL has chosen nothing"]
        log.info("read-back: %s", told[0])
    found = probe(group, control, hosts, device)
    data = slowest(found) if axis == "data" and found else None
    if missing := levels_of(everyone) - found.keys():
        found |= probe(_everyone(), control, everyone, device, missing)
    links = {level: found[level] for level in LEVELS if level in found}
    if not links:
        log.info("link: one process sends nothing")
    for level, link in links.items():
        log.info(
            "link %s: %.3g us to start a transfer, then %.3g GB/s",
            PLACES[level],
            link.alpha_s * 1e6,
            link.bytes_per_s / 1e9,
        )
    if dist.get_rank(control) == 0:
        written: dict[str, Any] = {level: link._asdict() for level, link in links.items()}
        (run.folder / FILE).write_text(yaml.safe_dump(written | {"nccl": told}, sort_keys=False))
    return Links(links, data)


def metrics(links: Mapping[Level, Link]) -> dict[str, float]:
    """The links under the loggers' names: `link/between_alpha_s` and the like."""
    return {f"link/{level}_{name}": value for level, link in links.items() for name, value in link._asdict().items()}


def _everyone() -> dist.ProcessGroup:
    group = dist.group.WORLD
    assert group is not None, "the mesh has joined it"
    return group


def _read_back(
    run: Run,
    read_back: ReadBack,
    group: dist.ProcessGroup,
    control: dist.ProcessGroup,
    device: torch.device,
    hosts: Sequence[str],
) -> list[str]:
    """What NCCL chose, in lines that are also logged, with a warning for each that the preset did not mean."""
    path = run.folder / "logs" / f"nccl.rank{dist.get_rank(control)}.log"
    try:
        choice = read_back.choose(group, device)
        path.write_text(read_back.text())
    finally:
        quiet = read_back.close()
    # Groups are many where the mesh has several axes; all report, and the first rank's is shown.
    every: list[Any] = [None] * dist.get_world_size(control)
    dist.all_gather_object(every, choice, group=control)
    return report(
        run.nccl.intended(machine.look(run)),
        [every[rank] for rank in dist.get_process_group_ranks(group)],
        hosts,
        path,
        quiet,
    )


def report(intended: str | None, choices: Sequence[Choice], hosts: Sequence[str], path: Path, quiet: bool) -> list[str]:
    """Log what the ranks of a communicator on `hosts` chose, which `path` holds in NCCL's words, and return it."""
    whole = verdict.merge(choices)
    told, wrong = verdict.lines(whole, hosts), verdict.differences(intended, whole, hosts)
    for line in told:
        log.info("read-back: %s", line)
    for line in wrong:
        log.warning("read-back: %s; all of it is in %s", line, path)
    if not quiet:
        log.warning("read-back: this NCCL cannot be told to be quiet again, and goes on into a file that is gone")
    return [*told, *wrong]
