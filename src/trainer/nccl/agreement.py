"""Whether all ranks have the same variables where NCCL needs that: a job without it may hang and not say why."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch.distributed as dist

from trainer.nccl.checker.context import Rank
from trainer.nccl.checker.rules import ranks
from trainer.nccl.checker.sources import gather
from trainer.nccl.machine import node_name
from trainer.spec import ConfigError

# Seconds that rank 0, which may host the store, gives the others to read why nobody starts.
READING = datetime.timedelta(seconds=10)


class Told(NamedTuple):
    """What a rank tells the others."""

    node: str
    values: dict[str, str]
    """NCCL's and torch's variables as they reached the process, from its environment or NCCL's own files"""


def compare(
    store: dist.Store,
    rank: int,
    world: int,
    timeout: datetime.timedelta,
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Raise the same ConfigError on all ranks where a variable differs between two of them that must have it alike.

    Two round trips to `store`, which holds nothing of another job. Call before any communicator is made.
    """
    store.set(f"nccl/{rank}", json.dumps(_tell(environment)))
    if rank == 0:
        keys = [f"nccl/{other}" for other in range(world)]
        store.wait(keys, timeout)
        verdict = difference([Told(*json.loads(told)) for told in store.multi_get(keys)])
        store.set("nccl/verdict", json.dumps(verdict))
    else:
        store.wait(["nccl/verdict"], timeout)
        verdict = json.loads(store.get("nccl/verdict"))
    if verdict is None:
        return
    store.set(f"nccl/read/{rank}", "")
    if rank == 0:
        with contextlib.suppress(RuntimeError):  # whoever has gone already has its own reason
            store.wait([f"nccl/read/{other}" for other in range(world)], READING)
    raise ConfigError(verdict)


def difference(told: Sequence[Told]) -> str | None:
    """The first variable, by name, that is not alike where it must be, as a line for a ConfigError."""
    seen = [Rank(rank, one.node, one.values) for rank, one in enumerate(told)]
    for name in ranks.compared(seen):
        same = ranks.scope(name)
        pair = ranks.differing(name, seen) if same in ("job", "node") else None
        if pair is not None:
            where = "on all ranks" if same == "job" else "on all ranks of a node"
            return (
                f"nccl: {name} is {_shown(pair[0], name)} and {_shown(pair[1], name)}, but must be the same {where};"
                f" set it alike in every node's environment, or in none and by nccl.env.{name}=<value>"
            )
    return None


def _shown(rank: Rank, name: str) -> str:
    return f"{repr(rank.values[name]) if name in rank.values else 'not set'} on rank {rank.rank}"


def _tell(environment: Mapping[str, str]) -> Told:
    values = gather(environment, {}, {})
    return Told(node_name(), {name: value.value for name, value in values.items() if name.startswith(ranks.COMPARED)})
