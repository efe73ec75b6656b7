"""Cross-entropy of logits of which each tensor rank has a part of the classes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.tensor.axis import Axis
from trainer.tensor.collectives import Total

# torch's own default of what is not a target, such as padding.
IGNORED = -100


class _CrossEntropy(torch.autograd.Function):
    """Mean over targets, as in Megatron-LM (Shoeybi et al. 2019), section 3.

    1. The largest logit, over the ranks. 2. The sum of exponentials, the target's logit, which one rank has, and who
    has it, over the ranks. 3. The gradient is each rank's own: softmax less one at the target. As in torch a target of
    IGNORED counts for nothing; one that no rank has makes the loss NaN, for looking would make the host wait.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, first: int, axis: Axis) -> Tensor:
        rows = logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
        empty = rows.shape[-1] == 0
        largest = rows.new_full(rows.shape[:1], -torch.inf) if empty else rows.max(-1).values
        sent = 2 * (axis.size - 1) / axis.size * largest.nbytes
        with axis.travels("largest logits", sent), axis.waits("largest logits"):
            dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=axis.group)
        exponentials = (rows - largest.unsqueeze(-1)).exp()
        own, counted = targets - first, targets != IGNORED
        mine = (own >= 0) & (own < rows.shape[-1]) & counted
        place = own.masked_fill(~mine, 0)
        at_target = rows.new_zeros(rows.shape[0])
        if not empty:
            at_target = (rows.gather(-1, place.unsqueeze(-1)).squeeze(-1) - largest).masked_fill(~mine, 0)
        sums = torch.stack([exponentials.sum(-1), at_target, mine.to(rows.dtype)])
        total, at_target, owners = Total(sums, axis, "sum of exponentials").wait()
        each = counted / counted.sum()
        ctx.save_for_backward(exponentials.div_(total.unsqueeze(-1)), place, mine, each.to(rows.dtype))
        ctx.dtype = logits.dtype
        losses = (total.log() - at_target).masked_fill(owners == 0, torch.nan).masked_fill(~counted, 0)
        return (losses * each).sum()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        softmax, place, mine, each = ctx.saved_tensors
        own = softmax.clone()
        if own.shape[-1]:
            own.scatter_add_(-1, place.unsqueeze(-1), -mine.to(own.dtype).unsqueeze(-1))
        return (own * (gradients[0] * each).unsqueeze(-1)).to(ctx.dtype), None, None, None


def cross_entropy(logits: Tensor, targets: Tensor, first: int, axis: Axis) -> Tensor:
    """Mean cross-entropy of logits (…, own classes), the first of which is class `first`, against targets (…)."""
    return _CrossEntropy.apply(logits.flatten(0, -2), targets.flatten(), first, axis)
