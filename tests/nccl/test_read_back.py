"""NCCL is made to speak, and to be quiet again: with the real library, which needs no GPU for its first words."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from trainer.nccl.read_back import LOGGED, ReadBack
from trainer.nccl.settle import version

VARIABLES = (*LOGGED, "NCCL_DEBUG_FILE")

SPEAK = """
import ctypes, os
import torch
from trainer.nccl.read_back import LIBRARY, ReadBack

speaks = ReadBack()
library = ctypes.CDLL(LIBRARY, mode=os.RTLD_NOLOAD)
assert library.ncclGetUniqueId(ctypes.create_string_buffer(128)) == 0
assert "NCCL INFO" in speaks.text(), speaks.text()
assert speaks.close()
assert "NCCL_DEBUG_FILE" not in os.environ
assert library.ncclGetUniqueId(ctypes.create_string_buffer(128)) == 0
print("done")
"""


def test_the_users_variables_come_back(monkeypatch):
    monkeypatch.setenv("NCCL_DEBUG", "VERSION")
    monkeypatch.delenv("NCCL_DEBUG_SUBSYS", raising=False)
    monkeypatch.setenv("NCCL_DEBUG_FILE", "/tmp/mine")
    before = {name: os.environ.get(name) for name in VARIABLES}
    read_back = ReadBack()
    assert os.environ["NCCL_DEBUG"] == "INFO"
    assert os.environ["NCCL_DEBUG_FILE"] == str(read_back.file)
    read_back.close()
    assert {name: os.environ.get(name) for name in VARIABLES} == before
    assert not read_back.file.exists()


@pytest.mark.skipif(version() is None, reason="this build of torch has no NCCL")
def test_nccl_speaks_into_the_file_and_is_then_quiet():
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NCCL_")}
    done = subprocess.run(
        [sys.executable, "-c", SPEAK], env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    # What NCCL said after `close` would be on standard output.
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


def test_a_library_that_is_not_there_cannot_be_told(monkeypatch):
    monkeypatch.setattr("trainer.nccl.read_back.LIBRARY", "libnothing.so.0")
    assert ReadBack().close() is False


@pytest.mark.gpu
def test_a_group_of_gpus_tells_its_algorithm(tmp_path):
    import torch.distributed as dist

    device = torch.device("cuda", 0)
    read_back = ReadBack()
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("nccl", store=store, rank=0, world_size=1, device_id=device)
    try:
        choice = read_back.choose(dist.group.WORLD, device)
    finally:
        read_back.close()
        dist.destroy_process_group()
    assert choice.version is not None
    assert choice.channels > 0
