"""The network plugin that NCCL would load in place of its own networks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path


def find(environment: Mapping[str, str]) -> str | None:
    """The path of the plugin in a folder of `LD_LIBRARY_PATH`; None where there is none, or it is switched off.

    A plugin in the system's own folders is not found: only the linker's cache knows them.
    """
    folders = [Path(folder) for folder in environment.get("LD_LIBRARY_PATH", "").split(":") if folder]
    for name in _names(environment.get("NCCL_NET_PLUGIN", "")):
        for folder in folders:
            try:
                if (folder / name).is_file():
                    return str(folder / name)
            except OSError:  # a folder that may not be searched, or no name of one
                continue
    return None


def _names(asked: str) -> Iterator[str]:
    """The files that NCCL looks for, in its order."""
    if not asked:
        yield "libnccl-net.so"
    for name in asked.split(","):
        if name and name.lower() != "none":
            yield name
            yield f"libnccl-net-{name}.so"
