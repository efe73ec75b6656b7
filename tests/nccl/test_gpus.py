"""NVLink, as NVML tells; NVML itself is played."""

from __future__ import annotations

import sys
import types

import pytest

from trainer.nccl.gpus import have_nvlink


class NVMLError(Exception):
    """NVML's own kind of error."""


def nvml(links: list[list[int]], broken: bool = False) -> types.ModuleType:
    """An NVML of one GPU for each list, whose links have these states."""

    def state(handle: int, link: int) -> int:
        if link >= len(links[handle]):
            raise NVMLError("not supported")
        return links[handle][link]

    def start() -> None:
        if broken:
            raise NVMLError("no driver")

    module = types.ModuleType("pynvml")
    vars(module).update(
        NVMLError=NVMLError,
        NVML_NVLINK_MAX_LINKS=18,
        NVML_FEATURE_ENABLED=1,
        nvmlInit=start,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: len(links),
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetNvLinkState=state,
    )
    return module


@pytest.mark.parametrize(
    ("links", "found"),
    [([[1, 1], [1, 1]], True), ([[], [0, 1]], True), ([[0, 0]], False), ([[], []], False), ([], False)],
)
def test_one_link_that_is_up_is_enough(monkeypatch, links, found):
    monkeypatch.setitem(sys.modules, "pynvml", nvml(links))
    assert have_nvlink() is found


def test_without_the_package_or_the_driver_it_is_unknown(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert have_nvlink() is None
    monkeypatch.setitem(sys.modules, "pynvml", nvml([[1]], broken=True))
    assert have_nvlink() is None
