"""Numbers as people read them."""

from __future__ import annotations

import math


def short(value: float, digits: int = 3) -> str:
    """`value` to so many significant digits, all of those before the point, and never with an exponent."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{value:,.{max(0, places)}f}"


def size(count: float) -> str:
    """Bytes, in powers of 1000 as links are rated."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        # Buckets are spoken of in MB, so 0.34 MB it is, and kB only far below.
        if count >= factor / (10 if unit == "MB" else 1):
            return f"{short(count / factor)} {unit}"
    return f"{count:,.0f} bytes"


def rate(gbit_per_s: float) -> str:
    if gbit_per_s >= 0.1:
        return f"{short(gbit_per_s, 2)} Gbit/s"
    return f"{short(gbit_per_s * 1000, 2)} Mbit/s"


def milliseconds(value: float) -> str:
    return f"{short(value)} ms"


def share(value: float) -> str:
    return f"{value * 100:.0f}%" if value == 0 or abs(value) >= 0.1 else f"{value * 100:.1f}%"
