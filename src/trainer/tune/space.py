"""The settings that may be chosen: what the compatibility table allows and the user, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainer import compatibility
from trainer.comm.allreduce import AllReduce
from trainer.comm.base import CommHook
from trainer.comm.bf16 import BF16
from trainer.comm.fp16 import FP16
from trainer.comm.int8 import Int8
from trainer.comm.onebit import OneBit
from trainer.comm.topk import TopK
from trainer.run import Run
from trainer.spec import ConfigError
from trainer.sync.base import Sync
from trainer.sync.delayed import Delayed
from trainer.sync.local_sgd import LocalSGD
from trainer.sync.next_forward import NextForward
from trainer.sync.partitioned import Partitioned
from trainer.sync.strict import Strict
from trainer.tune.advise import Allow
from trainer.tune.program import BUCKETED, Choice

SIZES_MB = (None, 1.0, 5.0, 10.0, 25.0, 50.0, 100.0)
EXACT: tuple[type[Sync], ...] = (Strict, Partitioned, NextForward)
STALE: tuple[type[Sync], ...] = (Delayed, LocalSGD)
RULES = (*EXACT, *STALE)
LOSSY: tuple[type[CommHook], ...] = (FP16, BF16, Int8, OneBit, TopK)


def hooks(run: Run, allow: Allow) -> dict[str, CommHook]:
    """The hooks by name: the exact one, the run's own with its options, and where it is allowed all that compress."""
    kinds: tuple[type[CommHook], ...] = (AllReduce,) if allow == "exact" else (AllReduce, *LOSSY)
    return {kind.choice(): kind() for kind in kinds} | {run.comm.choice(): run.comm}


def choices(run: Run, allow: Allow, allowed: Mapping[str, CommHook]) -> Iterator[Choice]:
    """All settings that work together."""
    for name, hook in allowed.items():
        for rule in (*EXACT, *(STALE if allow == "stale" else ())):
            sync = _rule(run, rule.choice())
            if not _works(run.model_copy(update={"comm": hook, "sync": sync})):
                continue
            if isinstance(sync, NextForward):
                yield Choice(name, "next_forward", chunk_mb=sync.chunk_mb)
            elif isinstance(sync, LocalSGD):
                yield Choice(name, "local_sgd", period=sync.period)
            else:
                yield from (Choice(name, sync.choice(), size) for size in SIZES_MB)


def present(run: Run) -> Choice:
    """The run's own settings."""
    cap = run.parallel.data.bucket_cap_mb
    if isinstance(run.sync, NextForward):
        return Choice(run.comm.choice(), "next_forward", chunk_mb=run.sync.chunk_mb)
    assert cap != "auto", "refused"
    return Choice(run.comm.choice(), run.sync.choice(), cap)


def is_alike(choice: Choice, run: Run) -> bool:
    """Whether `choice` changes no result, or only as the hook of `run` does anyway."""
    stale = [rule.choice() for rule in STALE]
    return choice.comm in (AllReduce.choice(), run.comm.choice()) and choice.sync not in stale


def under(run: Run, choice: Choice, allowed: Mapping[str, CommHook]) -> Run:
    """`run` with the settings of `choice`."""
    if choice == present(run):
        return run
    update: dict[str, object] = {"comm": allowed[choice.comm], "sync": _rule(run, choice.sync)}
    if choice.sync in BUCKETED:
        data = run.parallel.data.model_copy(update={"bucket_cap_mb": choice.bucket_cap_mb})
        update["parallel"] = run.parallel.model_copy(update={"data": data})
    return run.model_copy(update=update)


def exact(run: Run) -> Run:
    """`run` with the exact average after every step: what other settings are compared with."""
    return run if isinstance(run.comm, AllReduce) else run.model_copy(update={"comm": AllReduce(), "sync": Strict()})


def _rule(run: Run, name: str) -> Sync:
    """The run's own rule, with its options, where it is of that name."""
    if run.sync.choice() == name:
        return run.sync
    # A warm-up would be all that a few steps see.
    return Delayed(warmup_steps=0) if name == Delayed.choice() else {rule.choice(): rule for rule in RULES}[name]()


def _works(run: Run) -> bool:
    try:
        run.comm.check(run)
        run.sync.check(run)
        compatibility.check(run)
    except ConfigError:
        return False
    return True
