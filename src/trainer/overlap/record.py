"""`ranks.jsonl`: what each rank measured, and now and then all spans of one step, for the report and the doctor."""

from __future__ import annotations

import datetime
import logging
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from trainer.json_lines import JsonLines
from trainer.overlap import link
from trainer.overlap.meter import PastStep
from trainer.overlap.metrics import Ranks

log = logging.getLogger(__name__)

# Of a long run, so many steps are kept span by span.
TIMELINES = 64
VERSION = 1


class Record:
    """Written by rank 0, which asks the others for their spans; collective over `group`."""

    def __init__(self, path: Path, group: dist.ProcessGroup, node: str, first_step: int, total: int) -> None:
        """`node` names this rank's machine."""
        self.group, self._spacing, self._next = group, max(1, total // TIMELINES), 0
        hosts, links = _to_first(node, group), _to_first(link.speed_gbit(), group)
        devices = _to_first(_device(), group)
        self._lines = None if hosts is None else JsonLines(path, first_step)
        if self._lines is not None and self._lines.fresh:
            where = {"hosts": hosts, "links_gbit": links, "devices": devices}
            self._lines.write({"step": 0, "version": VERSION, **where, "software": _software(), "date": _today()})

    def write(self, step: int, window: Sequence[PastStep], ranks: Ranks) -> None:
        """Write a window of steps that ends with `step`; one of them span by span, where it is time for that."""
        entry: dict[str, Any] = {"step": step, "steps": len(window), "ranks": ranks.sums}
        if step >= self._next:
            self._next = step + self._spacing
            latest = next((past for past in window if past.number == ranks.last), None)
            everyone = _to_first(latest, self.group)
            if everyone is not None and all(everyone):
                entry["timeline"] = _timeline(everyone, ranks.ahead)
        if self._lines is not None:
            try:
                self._lines.write(entry)
            except OSError as error:  # a full disk must not end the training
                log.warning("ranks.jsonl: %s; nothing more is written to it", error)
                self._lines = None

    def close(self) -> None:
        if self._lines is not None:
            self._lines.close()


def _device() -> str:
    """What this rank computes with."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else f"{platform.machine()} CPU"


def _software() -> dict[str, str]:
    """The releases that decide how fast a step is; NCCL only where it carries the gradients."""
    found: dict[str, str] = {"torch": torch.__version__}
    if torch.cuda.is_available() and dist.is_nccl_available():
        found["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    return found


def _today() -> str:
    return datetime.date.today().isoformat()


def _timeline(everyone: list[PastStep], ahead: Sequence[float]) -> list[list[list[Any]]]:
    """The spans of all ranks, times in ms from where the first of them began the step, on the clock of rank 0."""
    moments = [past.moment - seconds for past, seconds in zip(everyone, ahead, strict=True)]
    origin = min(moments)
    return [
        [
            [lane, name, _ms(moment - origin + start), _ms(moment - origin + end), size, sent]
            for lane, name, start, end, size, sent in past.spans
        ]
        for moment, past in zip(moments, everyone, strict=True)
    ]


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _to_first(value: Any, group: dist.ProcessGroup) -> list[Any] | None:
    """The values of all ranks on the first one, None on the others."""
    first = dist.get_rank(group) == 0
    everyone = [None] * dist.get_world_size(group) if first else None
    dist.gather_object(value, everyone, dst=dist.get_process_group_ranks(group)[0], group=group)
    return everyone
