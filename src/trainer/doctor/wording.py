"""Quantities in plain words, with as many digits as a measurement deserves."""

from __future__ import annotations


def ms(value: float) -> str:
    """870 ms, 5.3 ms, 0.12 ms, 31.5 s."""
    if value >= 9999.5:
        return f"{value / 1000:,.1f} s"
    if value >= 99.5:
        return f"{value:,.0f} ms"
    return f"{value:.1f} ms" if value >= 0.95 else f"{value:.2g} ms"


def size(count: float) -> str:
    """97.5 MiB, 340 KiB."""
    return f"{count / 2**20:,.1f} MiB" if count >= 0.95 * 2**20 else f"{count / 2**10:,.0f} KiB"


def rate(gbit: float) -> str:
    """940 Gbit/s, 25 Gbit/s, 0.94 Gbit/s."""
    return f"{gbit:.3g} Gbit/s" if gbit < 999.5 else f"{gbit:,.0f} Gbit/s"


def share(part: float) -> str:
    """12 %."""
    return f"{part:.0%}".replace("%", " %")


def several(count: int, one: str) -> str:
    """1 bucket, 3 buckets."""
    return f"{count} {one}" if count == 1 else f"{count} {one}s"
