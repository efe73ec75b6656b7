"""The network plugin that NCCL would load."""

from __future__ import annotations

import pytest

from tests.nccl import trees
from trainer.nccl.plugins import find


@pytest.mark.parametrize(
    ("asked", "files", "found"),
    [
        (None, ["b/libnccl-net.so", "a/libnccl-net-ofi.so"], "b/libnccl-net.so"),
        (None, ["a/libnccl-net.so", "b/libnccl-net.so"], "a/libnccl-net.so"),
        (None, ["a/libnccl-net-ofi.so", "a/libnccl.so"], None),
        ("ofi", ["a/libnccl-net.so", "b/libnccl-net-ofi.so"], "b/libnccl-net-ofi.so"),
        ("libnccl-net-ofi.so", ["b/libnccl-net-ofi.so"], "b/libnccl-net-ofi.so"),
        ("aws,ofi", ["b/libnccl-net-ofi.so"], "b/libnccl-net-ofi.so"),
        ("hpcx", ["a/libnccl-net.so"], None),
        ("none", ["a/libnccl-net.so", "a/none"], None),
    ],
)
def test_the_first_in_the_librarys_path_is_found(tmp_path, asked, files, found):
    for file in files:
        trees.write(tmp_path / file, "")
    environment = {"LD_LIBRARY_PATH": f"{tmp_path}/nowhere::{tmp_path}/a:{tmp_path}/b"}
    environment |= {} if asked is None else {"NCCL_NET_PLUGIN": asked}
    assert find(environment) == (None if found is None else str(tmp_path / found))


def test_a_path_that_is_none_has_none():
    assert find({}) is None
    assert find({"LD_LIBRARY_PATH": f"/{'x' * 5000}:/a\0"}) is None
