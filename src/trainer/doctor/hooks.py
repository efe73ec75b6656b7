"""What each communication hook would send, and what its encoding costs: the doctor's table."""

from __future__ import annotations

from typing import NamedTuple

# Bytes of gradient that are copied in a millisecond. On a CPU: one core of the machine behind docs/benchmarks.md. On a
# GPU: half of what the memory of an A100 does, since codecs are chains of small kernels.
COPY_BYTES_PER_MS = {"cpu": 9.3e6, "cuda": 350e6}
# Bytes of a parameter's gradient.
DENSE = 4


class Hook(NamedTuple):
    """A value of `comm` with the bytes a parameter that the closed form gives, and costs from docs/benchmarks.md."""

    name: str
    allreduced: float
    """bytes a parameter that take part in an exchange of which a rank sends 2 (N - 1) / N"""
    gathered: float
    """bytes a parameter that a rank sends to each of the N - 1 others"""
    copies: float
    """encoding and decoding, in multiples of the time of copying the bucket"""
    starts: int
    """collectives a bucket, with the one for small tensors"""
    residual: bool
    """whether what was not sent is kept, in 4 bytes a parameter"""

    def sent(self, size: float, replicas: int) -> float:
        """The bytes that a rank sends for a bucket of `size` bytes of gradient."""
        ring = 2 * (replicas - 1) / replicas
        return size / DENSE * (ring * self.allreduced + (replicas - 1) * self.gathered)

    def encode_ms(self, size: float, device: str) -> float:
        return self.copies * size / COPY_BYTES_PER_MS.get(device, COPY_BYTES_PER_MS["cpu"])


EXACT = Hook("allreduce", 4, 0, 0, 1, residual=False)
# From the gentlest to the harshest, as training notices them. `powersgd` is not here: what it sends depends on the
# shapes of the matrices, which no record of a run tells. `randomk` is not: it learned worse than the others.
HOOKS = (
    Hook("fp16", 2, 0, 2, 1, residual=False),
    Hook("int8", 1 + 4 / 256, 0, 7.6, 3, residual=True),
    Hook("onebit", 1 / 8 + 4 / 1024, 0, 9.5, 3, residual=True),
    Hook("topk", 0, 0.01 * 6, 8.1, 2, residual=True),
)
BFLOAT = Hook("bf16", 2, 0, 2, 1, residual=False)
COMPRESSING = frozenset({"fp16", "bf16", "int8", "onebit", "topk", "randomk", "powersgd"})


def candidates(precision: str) -> tuple[Hook, ...]:
    """The hooks that a run of this precision may use.

    A loss scale lifts gradients beyond fp16's range now and then, and residuals would keep an old scale.
    """
    if precision == "fp16":
        return (BFLOAT,)
    return (BFLOAT, *HOOKS[1:]) if precision == "bf16" else HOOKS


def rule_of_thumb(gbit: float) -> str:
    """What is commonly recommended for a link of this rate; a starting point where nothing is measured."""
    if gbit <= 1.5:  # gigabit Ethernet
        return "topk"
    if gbit < 10:
        return "onebit"
    return "fp16" if gbit < 200 else "allreduce"  # one port of NDR or two of HDR InfiniBand carry 200 and more
