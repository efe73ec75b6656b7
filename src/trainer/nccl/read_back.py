"""Make NCCL say what it decides for a first collective, and be quiet again."""

from __future__ import annotations

import contextlib
import ctypes
import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

from trainer.nccl.log_lines import Choice, read

LOGGED = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,GRAPH,ENV,TUNING"}
# A loss and a full bucket: NCCL does both in ways of their own.
SIZES = (4, 25 * 2**20)
LIBRARY = "libnccl.so.2"


class ReadBack:
    """From its making, before the first communicator, until `close` NCCL of this process logs into a file."""

    def __init__(self) -> None:
        handle, name = tempfile.mkstemp(prefix="nccl-", suffix=".log")
        os.close(handle)
        self.file = Path(name)
        self._before = {variable: os.environ.get(variable) for variable in (*LOGGED, "NCCL_DEBUG_FILE")}
        os.environ.update(LOGGED, NCCL_DEBUG_FILE=name)

    def choose(self, group: dist.ProcessGroup, device: torch.device) -> Choice:
        """Have NCCL reduce something in `group`, which makes it connect, and read what it chose; collective."""
        began = len(self.text())
        for size in SIZES:
            dist.all_reduce(torch.zeros(size // 4, device=device), group=group)
        torch.cuda.synchronize(device)
        text = self.text()
        choice, fresh = read(text), read(text[began:])
        # Ranks connect at the first collective, so what came before was of other groups.
        choice.pairs = fresh.pairs or choice.pairs
        choice.collectives = fresh.collectives
        return choice

    def text(self) -> str:
        """What NCCL has logged so far."""
        return self.file.read_text(errors="replace")

    def close(self) -> bool:
        """Give the variables back what they had; whether NCCL obeys, which it can since 2.24."""
        for variable, value in self._before.items():
            if value is None:
                os.environ.pop(variable, None)
            else:
                os.environ[variable] = value
        obeys = False
        with contextlib.suppress(OSError, AttributeError):
            # Only the library that torch has loaded; the call makes it read its variables again.
            ctypes.CDLL(LIBRARY, mode=os.RTLD_NOLOAD).ncclResetDebugInit()
            obeys = True
        self.file.unlink()
        return obeys
