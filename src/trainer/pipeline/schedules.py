"""The schedules: in which order a rank runs the forward and backward passes of its micro-batches.

In all of them `ranks` is the number of ranks in the pipeline, `stages` the number of stages on each, and a backward
pass of a micro-batch comes as soon as the schedule's number of forward passes is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trainer.pipeline.actions import Action, Kind, Plan


def gpipe(ranks: int, stages: int, microbatches: int) -> Plan:
    """All forward passes, then all backward passes (GPipe, Huang et al. 2019); holds the activations of all."""
    return _by_warmup(ranks, stages, microbatches, lambda rank: stages * microbatches)


def one_f_one_b(ranks: int, stages: int, microbatches: int) -> Plan:
    """One forward, one backward (PipeDream-Flush, Narayanan et al. 2021); holds the activations of ranks - rank."""
    return _by_warmup(ranks, stages, microbatches, lambda rank: ranks - rank)


def eager_1f1b(ranks: int, stages: int, microbatches: int) -> Plan:
    """As 1F1B, with 2 (ranks - rank) - 1 micro-batches under way: nobody waits for the round trip of one.

    The idea is Megatron-LM's warm-up of interleaved stages, and Zhuang et al. (2023), "On optimizing the communication
    of model parallelism", section 4; it holds about twice the activations.
    """
    return _by_warmup(ranks, stages, microbatches, lambda rank: 2 * (ranks - rank) - 1)


def interleaved(ranks: int, stages: int, microbatches: int) -> Plan:
    """1F1B over several stages a rank (Narayanan et al. 2021, section 2.2): the bubble shrinks by their number.

    Micro-batches pass in rounds of `ranks`, each through all of a rank's stages, so `ranks` must divide their number.
    """
    return _by_warmup(
        ranks, stages, microbatches, lambda rank: 2 * (ranks - rank - 1) + (stages - 1) * ranks + 1, rounds=True
    )


def zero_bubble(ranks: int, stages: int, microbatches: int) -> Plan:
    """ZB-H1 (Qi et al. 2023): gradients of weights wait and fill the bubble; holds no more activations than 1F1B.

    1. As 1F1B, with I for B. 2. A rank is `rank` micro-batches behind with its W, so that gradients of activations,
    which others wait for, go first. 3. What is owed at the end fills the time in which 1F1B would have ended early.
    """
    plan = []
    for rank in range(ranks):
        forwards, weights = _passes("F", rank, microbatches), _passes("W", rank, microbatches)
        warmup = min(ranks - rank, microbatches)
        actions, coming = forwards[:warmup], forwards[warmup:]
        for backward in _passes("I", rank, microbatches):
            actions.append(backward)
            if backward.microbatch >= rank:
                actions.append(weights.pop(0))
            if coming:
                actions.append(coming.pop(0))
        plan.append(actions + weights)
    return plan


def _passes(kind: Kind, stage: int, microbatches: int) -> list[Action]:
    return [Action(kind, stage, microbatch) for microbatch in range(microbatches)]


def _by_warmup(ranks: int, stages: int, microbatches: int, warmup: Callable[[int], int], rounds: bool = False) -> Plan:
    """`warmup(rank)` forward passes, then one backward and one forward in turn, then the remaining backward passes."""
    size = ranks if rounds else microbatches
    groups = [range(first, min(first + size, microbatches)) for first in range(0, microbatches, size)]
    plan = []
    for rank in range(ranks):
        own = [rank + number * ranks for number in range(stages)]
        forwards = [Action("F", stage, m) for group in groups for stage in own for m in group]
        backwards = [Action("B", stage, m) for group in groups for stage in reversed(own) for m in group]
        plan.append(_alternate(forwards, backwards, warmup(rank)))
    return plan


def _alternate(forwards: Sequence[Action], backwards: Sequence[Action], warmup: int) -> list[Action]:
    warmup = min(warmup, len(forwards))
    steady = zip(backwards, forwards[warmup:], strict=False)
    return [*forwards[:warmup], *(action for pair in steady for action in pair), *backwards[len(forwards) - warmup :]]


SCHEDULES: dict[str, Callable[[int, int, int], Plan]] = {
    "gpipe": gpipe,
    "1f1b": one_f_one_b,
    "eager_1f1b": eager_1f1b,
    "interleaved": interleaved,
    "zero_bubble": zero_bubble,
}
