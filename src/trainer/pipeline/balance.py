"""Where to cut a model: what each of its units costs, measured, and the cuts that make the slowest stage fastest."""

from __future__ import annotations

import copy
import functools
import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from trainer.pipeline.cut import Chain

# Passes through a unit that are measured, after one that is not.
PASSES = 3
# A rank that trains a parameter holds it, its gradient, and about two numbers of its optimizer.
STATES = 4


class Cost(NamedTuple):
    """What a unit costs for one micro-batch."""

    forward_s: float
    backward_s: float
    parameter_bytes: int
    """of its trained parameters and the frozen ones"""
    saved_bytes: int
    """of what its forward pass keeps for the backward pass"""
    output_bytes: int
    """of what leaves it"""

    @property
    def seconds(self) -> float:
        return self.forward_s + self.backward_s


def measure(
    chain: Chain, inputs: Tensor, loss: Callable[[Tensor], Tensor], device: torch.device, autocast: Callable
) -> list[Cost]:
    """Run `inputs`, one micro-batch on the CPU, through each unit in turn; model and random state stay as they are.

    Only one unit is on the device at a time, so a model that no device can hold can be measured.
    """
    costs, number = [], len(chain.units)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        x = inputs.to(device)
        for place in range(number):
            # A copy, since a forward pass may change buffers.
            unit = copy.deepcopy(chain.module(place, place + 1, chain.model)).to(device)
            finish = loss if place == number - 1 else _identity
            cost, x = _measure(unit, x, finish, autocast)
            costs.append(cost)
    return costs


def balance(costs: Sequence[Cost], in_flight: Sequence[float], memory_bytes: float = math.inf) -> list[int]:
    """The units that begin the second and later stages, so that the slowest stage takes as little as possible.

    Stage s holds the activations of `in_flight[s]` micro-batches; one that then needs more than `memory_bytes` is
    avoided. 1. best[n] is the best cut of the first n units into k stages: the fewest that are too large, then the
    least time of the slowest, then stages most alike (least sum of squares). It follows from that for k - 1. As in
    PipeDream (Narayanan et al. 2019), section 3.1, for stages without replicas.
    """
    total = [0.0, *itertools.accumulate(cost.seconds for cost in costs)]

    def stage(number: int, first: int, stop: int) -> tuple[int, float]:
        too_large = stage_bytes(costs[first:stop], in_flight[number]) > memory_bytes
        return int(too_large), total[stop] - total[first]

    best: dict[int, tuple[int, float, float, list[int]]] = {}
    for stop in range(1, len(costs) + 1):
        too_large, own = stage(0, 0, stop)
        best[stop] = too_large, own, own**2, []
    for number in range(1, len(in_flight)):
        following = {}
        for stop in range(number + 1, len(costs) + 1):
            ways = []
            for first in range(number, stop):
                before, slowest, squares, begins = best[first]
                too_large, own = stage(number, first, stop)
                ways.append((before + too_large, max(slowest, own), squares + own**2, [*begins, first]))
            following[stop] = min(ways)
        best = following
    return best[len(costs)][-1]


def stage_bytes(costs: Sequence[Cost], in_flight: float) -> float:
    """The memory that a rank with these units needs while it holds the activations of `in_flight` micro-batches."""
    return sum(STATES * cost.parameter_bytes + in_flight * cost.saved_bytes for cost in costs)


def _measure(unit: nn.Module, x: Tensor, finish: Callable, autocast: Callable) -> tuple[Cost, Tensor]:
    forward, backward = [], []
    saved: dict[int, int] = {}
    own = {parameter.untyped_storage().data_ptr() for parameter in unit.parameters()}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    clock = functools.partial(now, x.device)
    for _ in range(1 + PASSES):
        saved.clear()
        entered = x.detach().requires_grad_(x.is_floating_point())
        began = clock()
        with torch.autograd.graph.saved_tensors_hooks(keep, _identity), autocast():
            left = unit(entered)
            result = finish(left)
        turned = clock()
        if result.requires_grad:
            torch.autograd.backward(result, torch.ones_like(result))
        forward.append(turned - began)
        backward.append(clock() - turned)
        unit.zero_grad(set_to_none=True)
    cost = Cost(
        statistics.median(forward[1:]),
        statistics.median(backward[1:]),
        sum(parameter.nbytes for parameter in unit.parameters()),
        sum(saved.values()),
        left.nbytes,
    )
    return cost, left.detach()


def _identity(tensor: Tensor) -> Tensor:
    return tensor


def now(device: torch.device) -> float:
    """Seconds, when the device has done all it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
