"""The settings that may be chosen: what the compatibility table allows and the user, too."""

from __future__ import annotations

from collections.abc import Iterator

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
from trainer.sync.next_forward import NextForward
from trainer.sync.strict import Strict
from trainer.tune.program import Choice

SIZES_MB = (None, 1.0, 5.0, 10.0, 25.0, 50.0, 100.0)
LOSSY: tuple[type[CommHook], ...] = (FP16, BF16, Int8, OneBit, TopK)


def hooks(run: Run, allow: str) -> dict[str, CommHook]:
    """The hooks by name: the exact one, the run's own with its options, and where it is allowed all that compress."""
    kinds: tuple[type[CommHook], ...] = (AllReduce, *LOSSY) if allow == "lossy" else (AllReduce,)
    return {kind.choice(): kind() for kind in kinds} | {run.comm.choice(): run.comm}


def choices(run: Run, allowed: dict[str, CommHook]) -> Iterator[Choice]:
    """All settings that work together."""
    for name, hook in allowed.items():
        if _works(run.model_copy(update={"comm": hook, "sync": Strict()})):
            yield from (Choice(name, "strict", size) for size in SIZES_MB)
        lazy = _lazy(run)
        if _works(run.model_copy(update={"comm": hook, "sync": lazy})):
            yield Choice(name, "next_forward", chunk_mb=lazy.chunk_mb)


def present(run: Run) -> Choice:
    """The run's own settings."""
    cap = run.parallel.data.bucket_cap_mb
    if isinstance(run.sync, NextForward):
        return Choice(run.comm.choice(), "next_forward", chunk_mb=run.sync.chunk_mb)
    assert cap != "auto", "refused"
    return Choice(run.comm.choice(), "strict", cap)


def under(run: Run, choice: Choice, allowed: dict[str, CommHook]) -> Run:
    """`run` with the settings of `choice`."""
    if choice == present(run):
        return run
    update: dict[str, object] = {"comm": allowed[choice.comm]}
    if choice.sync == "strict":
        data = run.parallel.data.model_copy(update={"bucket_cap_mb": choice.bucket_cap_mb})
        update |= {"sync": Strict(), "parallel": run.parallel.model_copy(update={"data": data})}
    else:
        update["sync"] = _lazy(run)
    return run.model_copy(update=update)


def exact(run: Run) -> Run:
    """`run` with the exact average, after every step: what lossy settings are compared with."""
    if isinstance(run.comm, AllReduce) and isinstance(run.sync, (Strict, NextForward)):
        return run
    return run.model_copy(update={"comm": AllReduce(), "sync": Strict()})


def _lazy(run: Run) -> NextForward:
    return run.sync if isinstance(run.sync, NextForward) else NextForward()


def _works(run: Run) -> bool:
    try:
        run.comm.check(run)
        run.sync.check(run)
        compatibility.check(run)
    except ConfigError:
        return False
    return True
