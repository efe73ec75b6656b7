"""What a run measured, where and with what: the comment at the top of a preset that was made of it."""

from __future__ import annotations

import collections
import datetime

from trainer.doctor.situation import ranks, situation
from trainer.doctor.typical import metric, typical_metric, typical_ms
from trainer.doctor.wording import ms, rate, several, share
from trainer.overlap.evidence import Evidence

# Up to so many hosts are named.
FEW = 4


def title(read: Evidence) -> str:
    """What the run was, for who gave no better reason to use it."""
    chosen = [
        read.component(group)
        for group, usual in (("comm", "allreduce"), ("sync", "strict"))
        if read.component(group) != usual
    ]
    count, hosts = ranks(read), len(set(read.hosts))
    where = f"{count} process{'' if count == 1 else 'es'}" + (f" on {hosts} hosts" if hosts > 1 else "")
    means = f" with {' and '.join(chosen)}" if chosen else ""
    return f"{read.component('model')} on {read.component('data')}{means}: the settings of a run of {where}."


def facts(read: Evidence) -> list[str]:
    """Sentences on when, where and with what it was measured, and what came out."""
    return [f"Measured {_when(read)}{_with(read)}, on {_where(read)}, in {read.folder}.", _results(read)]


def _when(read: Evidence) -> str:
    if read.date:
        return f"on {read.date}"
    # A record of before dates were kept.
    path = read.folder / "metrics.jsonl"
    written = datetime.date.fromtimestamp(path.stat().st_mtime).isoformat() if path.exists() else None
    return f"on {written}" if written else "at an unknown date"


def _with(read: Evidence) -> str:
    torch, nccl = read.software.get("torch"), read.software.get("nccl")
    if torch is None:
        return ""
    return f" with torch {torch} and {f'NCCL {nccl}' if nccl else 'Gloo'}"


def _where(read: Evidence) -> str:
    count = ranks(read)
    devices = collections.Counter(read.devices or [str(read.option("place.device", "cpu")).upper()] * count)
    words = " and ".join(f"{number} x {device}" for device, number in devices.items())
    hosts = list(dict.fromkeys(read.hosts))
    bare = [host.partition(",")[0] for host in hosts]
    # A host is named with its number, which only several on one machine need.
    hosts = bare if len(set(bare)) == len(hosts) else hosts
    if hosts:
        names = f" ({'; '.join(hosts)})" if len(hosts) <= FEW else ""
        words += f" of {several(len(hosts), 'host')}{names}"
    speeds = sorted({speed for speed in read.links_gbit if speed})
    if len(hosts) > 1 and speeds:
        words += f" with links of {' and '.join(rate(speed) for speed in speeds)}"
    return words


def _results(read: Evidence) -> str:
    found: list[str] = []
    accuracy, loss = metric(read, "eval/accuracy"), metric(read, "eval/loss") or metric(read, "train/loss")
    if accuracy:
        found.append(f"accuracy {accuracy[-1]:.2%}".replace("%", " %"))
    elif loss:
        found.append(f"loss {loss[-1]:.4f}")
    step, comm = typical_ms(read, "step", worst=True), typical_metric(read, "overlap/comm_ms")
    if step:
        found.append(f"{ms(step)} a step")
    hidden = typical_metric(read, "overlap/hidden_ratio")
    if comm and hidden is not None:
        found.append(f"{share(hidden)} of {ms(comm)} of communication hidden")
    at = situation(read)
    if at is not None and at.link is not None and at.link.separated and len(set(at.hosts)) > 1:
        found.append(f"{rate(at.link.gbit)} of gradients a rank while they travelled")
    # Without the logger jsonl there is the record of the ranks alone.
    done = max([line.step for line in read.metrics] + [window.step for window in read.windows], default=0)
    if not found:
        return "Nothing was measured."
    return f"After {several(done, 'step')}: {', '.join(found)}."
