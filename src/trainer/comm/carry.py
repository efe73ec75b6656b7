"""What a compressing hook carries from step to step, as named tensors for a checkpoint."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from trainer.comm.layout import Memory

STEP, AVERAGED = "step", "averaged"
# These hold gradient that was not sent yet, each rank its own; all others are alike on all ranks.
OWN = ("residual", "momentum")
# These are true once any rank has found it; in a hierarchy a rank knows its own shard only.
FOUND = ("live", "dense")


def pack(module: nn.Module, memory: Memory, step: int, averaged: int) -> dict[str, Tensor]:
    """Everything in `memory` as `<parameter>/<entry>`, with the step and the number of ranks that are averaged over."""
    state = {STEP: torch.tensor(step), AVERAGED: torch.tensor(averaged)}
    for name, parameter in module.named_parameters():
        state |= {f"{name}/{entry}": value for entry, value in memory.of(parameter).items()}
    return state


def unpack(module: nn.Module, memory: Memory, stored: Sequence[dict[str, Tensor]], mine: int | None) -> int:
    """Replace `memory` by what the ranks of an earlier run stored, and return the step that they had reached.

    -1 where they stored nothing, having used another hook.

    The same number of ranks go on with their own, bitwise. With another number each rank gets the mean of what was
    pending, so that the mean over ranks, which is what an update sees, is conserved.
    """
    memory.clear()
    source = stored[mine or 0]
    if not source:
        return -1
    for name, parameter in module.named_parameters():
        for key, value in source.items():
            owner, _, entry = key.partition("/")
            if owner != name or not entry:
                continue
            if mine is None and entry in OWN:
                value = torch.stack([rank[key] for rank in stored]).sum(0).div_(int(source[AVERAGED]))
            if mine is None and entry in FOUND:
                value = torch.stack([rank[key] for rank in stored]).any(0)
            memory.put(parameter, entry, value.to(parameter.device))
    return int(source[STEP])
