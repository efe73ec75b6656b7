"""GPUs and what joins them, as NVML tells; NVML itself is played."""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping

import pytest

from trainer.nccl.gpus import UNKNOWN, look

PIX, PXB, PHB, SYS = 10, 20, 30, 50
BRIDGED, REFUSED, NOT_TOLD = 0, 5, 6


class NVMLError(Exception):
    """NVML's own kind of error."""


def nvml(
    links: list[list[int]],
    ancestors: Mapping[tuple[int, int], int] | None = None,
    reads: Mapping[tuple[int, int], int] | None = None,
    joined: frozenset[tuple[int, int]] = frozenset(),
    broken: bool = False,
) -> types.ModuleType:
    """An NVML of one GPU for each list, whose links have these states; what is not given it refuses to tell."""
    open_ = []

    def state(handle: int, link: int) -> int:
        if link >= len(links[handle]):
            raise NVMLError("not supported")
        return links[handle][link]

    def ancestor(one: int, other: int) -> int:
        if ancestors is None:
            raise NVMLError("not supported")
        return ancestors[one, other]

    def status(one: int, other: int, what: int) -> int:
        # As the C library, which a tuple does not reach.
        assert isinstance(what, int)
        if what == 2:
            return BRIDGED if (one, other) in joined else REFUSED
        if reads is None:
            raise NVMLError("not supported")
        return reads[one, other]

    def start() -> None:
        if broken:
            raise NVMLError("no driver")
        open_.append(True)

    module = types.ModuleType("pynvml")
    vars(module).update(
        NVMLError=NVMLError,
        NVML_NVLINK_MAX_LINKS=18,
        NVML_FEATURE_ENABLED=1,
        NVML_P2P_CAPS_INDEX_READ=(0,),
        nvmlInit=start,
        nvmlShutdown=open_.clear,
        nvmlDeviceGetCount=lambda: len(links),
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetNvLinkState=state,
        nvmlDeviceGetTopologyCommonAncestor=ancestor,
        nvmlDeviceGetP2PStatus=status,
        open=open_,
    )
    return module


@pytest.fixture
def play(monkeypatch):
    def played(module):
        monkeypatch.setitem(sys.modules, "pynvml", module)
        found = look()
        assert not module.open
        return found

    return played


@pytest.mark.parametrize(
    ("links", "found"),
    [([[1, 1], [1, 1]], True), ([[], [0, 1]], True), ([[0, 0]], False), ([[], []], False), ([], False)],
)
def test_one_link_that_is_up_is_enough(play, links, found):
    assert play(nvml(links)).nvlink is found


def test_gpus_are_counted(play):
    assert play(nvml([[], [], []])).number == 3


PAIRS = ((0, 1), (0, 2), (1, 2))


@pytest.mark.parametrize(
    ("ancestors", "joined", "paths"),
    [
        ((PIX, PHB, PHB), (), {"PIX", "PHB"}),
        ((PIX, PXB, SYS), ((0, 1),), {"NV", "PXB", "SYS"}),
        # NVLink joins what is near by PCIe, too.
        ((PIX, PIX, PIX), PAIRS, {"NV"}),
        # A distance of a library to come.
        ((PIX, 60, PIX), (), None),
    ],
)
def test_a_path_has_the_word_of_what_joins_the_pair(play, ancestors, joined, paths):
    module = nvml([[]] * 3, dict(zip(PAIRS, ancestors, strict=True)), joined=frozenset(joined))
    assert play(module).paths == paths


@pytest.mark.parametrize(
    ("reads", "found"),
    [
        ((0, 0, 0), True),
        ((REFUSED, 2, 3), False),
        ((0, 0, REFUSED), None),
        ((NOT_TOLD, REFUSED, REFUSED), None),
    ],
)
def test_gpus_reach_each_other_all_or_none_or_it_is_not_said(play, reads, found):
    assert play(nvml([[]] * 3, reads=dict(zip(PAIRS, reads, strict=True)))).peer_access is found


def test_what_is_not_told_of_pairs_leaves_the_rest(play):
    found = play(nvml([[1], [1]]))
    assert (found.number, found.nvlink, found.paths, found.peer_access) == (2, True, None, None)
    assert play(nvml([[1]])).peer_access is None


def test_without_the_package_or_the_driver_it_is_unknown(monkeypatch, play):
    assert play(nvml([[1]], broken=True)) == UNKNOWN
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert look() == UNKNOWN
