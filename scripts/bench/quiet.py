"""Silence for frameworks that greet on every rank."""

from __future__ import annotations

import logging
import warnings


def quieten(package: str) -> None:
    """Only errors of a package's loggers from now on, and none of its hints."""
    for name in [package, *(name for name in logging.root.manager.loggerDict if name.startswith(package))]:
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=rf"{package}\b")
