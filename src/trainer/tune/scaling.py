"""Tables and curves of a measured step on clusters that are not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import vl_convert
from rich.console import Console
from rich.table import Table

from trainer.run import Run
from trainer.spec import ConfigError
from trainer.tune import space
from trainer.tune.advice import Advice, advise, overrides
from trainer.tune.cases import CASES
from trainer.tune.profile import Profile, read
from trainer.tune.scale import KNOWN, Cluster, Wire, scaled
from trainer.tune.what_if import WhatIf, bytes_per_s

PLOT = "what_if.png"


class Place(NamedTuple):
    """A point of the plot."""

    rate: str
    hosts: int
    advice: Advice


def places(tune: WhatIf, run: Run, profile: Profile) -> Iterator[Place]:
    """The advice at every number of hosts and every rate; the present settings are those of `run`."""
    # The closed forms are those of the hooks' defaults.
    hooks = space.hooks(run, tune.allow).items()
    allowed = {name: hook for name, hook in hooks if name in KNOWN and hook == type(hook)()}
    there = run.model_copy(update={"place": run.place._replace(nodes=2, processes=1)})
    if run.comm.choice() not in allowed or run.comm.choice() not in profile.curves:
        raise ConfigError(
            f"comm: {run.comm.choice()} with these options has no closed form, or was not measured; use comm=allreduce,"
            " or a hook that the profile has, with its defaults"
        )
    for rate in tune.rates:
        for hosts in tune.hosts:
            wire = Wire(profile.wire[0], bytes_per_s(rate))
            moved = scaled(profile, Cluster(hosts, tune.ranks_per_host, wire))
            choices = [choice for choice in space.choices(there, tune.allow, allowed) if choice.comm in moved.curves]
            yield Place(rate, hosts, advise(moved, space.present(run), choices))


def assumptions(tune: WhatIf, profile: Profile) -> list[str]:
    """What the curves take for granted, a line each."""
    return [
        f"Every rank computes what it did on {profile.ranks} ranks: the batch grows with the cluster.",
        f"A message costs {profile.wire[0] * 1e6:.3g} us to start, as in the profile, and then each host's link carries"
        f" its rate; {tune.ranks_per_host} ranks a host pass one ring through it.",
        "All ranks are alike and none is late; switches carry all links at full rate.",
        f"What the simulation missed of the profile's step, a factor of {profile.unexplained:.3g}, it misses of all.",
    ]


def show(tune: WhatIf, run: Run) -> None:
    """Print table and assumptions, and write the plot into the current folder."""
    made = CASES.get(tune.profile)
    profile = made() if made else read(Path(tune.profile))
    found = list(places(tune, run, profile))
    console = Console()
    floor = found[0].advice.floor_s
    table = Table(title=f"Predicted steps; {floor * 1000:.1f} ms without communication", title_justify="left")
    for column in ("rate", "hosts", "ranks", "step", "efficiency", "best allowed", "its efficiency"):
        words = column in ("rate", "best allowed")
        table.add_column(column, justify="left" if words else "right", overflow="fold" if words else "ellipsis")
    for rate, hosts, advice in found:
        best, now = advice.best[0], advice.present
        table.add_row(
            rate,
            str(hosts),
            str(hosts * tune.ranks_per_host),
            f"{now.outcome.step_s * 1000:.1f} ms",
            f"{floor / now.outcome.step_s:.0%}",
            overrides(best.choice, now.choice),
            f"{floor / best.outcome.step_s:.0%}",
        )
    console.print(table)
    for line in assumptions(tune, profile):
        console.print(line, soft_wrap=True)
    Path(PLOT).write_bytes(vl_convert.vegalite_to_png(spec(found, tune.ranks_per_host), scale=2))
    console.print(f"plot: {PLOT}", soft_wrap=True)


def spec(found: list[Place], ranks_per_host: int) -> dict[str, Any]:
    """Efficiency over ranks, a line a rate: of the present settings, and dashed of the best."""
    values = [
        {
            "ranks": place.hosts * ranks_per_host,
            "rate": place.rate,
            "settings": name,
            "efficiency": place.advice.floor_s / one.outcome.step_s,
        }
        for place in found
        for name, one in (("present", place.advice.present), ("best allowed", place.advice.best[0]))
    ]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": 480,
        "height": 300,
        "data": {"values": values},
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {"field": "ranks", "type": "quantitative", "scale": {"type": "log", "base": 2}},
            "y": {"field": "efficiency", "type": "quantitative", "axis": {"format": "%"}, "scale": {"domain": [0, 1]}},
            "color": {"field": "rate", "type": "nominal", "sort": None},
            "strokeDash": {"field": "settings", "type": "nominal", "sort": None},
        },
    }
