"""Buckets are cut as torch cuts them."""

from __future__ import annotations

import random

import pytest
import torch
import torch.distributed as dist

from trainer.tune.bucket_plan import MIB, OWN_CAPS_MB, bucket_plan


@pytest.mark.parametrize("cap", [None, 0.5, 1.0, 25.0])
@pytest.mark.parametrize("seed", range(5))
def test_they_are_torchs_own(cap, seed):
    sizes = [random.Random(seed * 100 + number).choice((16, 4096, 200_000, 3_000_000)) * 4 for number in range(60)]
    tensors = [torch.empty(size // 4, device="meta") for size in sizes]
    caps = [int(one * MIB) for one in (OWN_CAPS_MB if cap is None else (cap,))]
    order = list(range(len(tensors)))
    theirs, _ = dist._compute_bucket_assignment_by_size(tensors, caps, [False] * len(tensors), order)
    assert bucket_plan(sizes, cap) == theirs


def test_no_gradient_makes_no_bucket():
    assert bucket_plan([], 25.0) == []
