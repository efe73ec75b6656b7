"""The moment of a start, of which the folder of a run is named."""

from __future__ import annotations

import datetime

VARIABLE = "TRAINER_STARTED"


def now() -> str:
    """With microseconds, since two runs may start in one second."""
    return datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")
