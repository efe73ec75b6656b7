"""Texts are read as the libraries read them."""

from __future__ import annotations

import ctypes
import itertools
import random

import pytest

from trainer.nccl.checker import reading


def _strtoll(text: str) -> int:
    library = ctypes.CDLL(None)
    library.strtoll.restype = ctypes.c_longlong
    return int(library.strtoll(text.encode(), None, 0))


WRITTEN = [
    "true",
    "yes",
    "PCI",
    '"1"',
    "4M",
    "8MB",
    "1e6",
    "1,2",
    "010",
    "08",
    "0x10",
    "0x",
    "0xg",
    " 7",
    "\t-3x",
    "+5",
]


@pytest.mark.parametrize(
    "text", [*WRITTEN, "--1", "- 1", "9223372036854775807", "-9223372036854775808", "00x1", "\n2\n"]
)
def test_a_number_is_what_the_c_library_makes_of_it(text):
    assert reading.number(text) == _strtoll(text)


def test_any_text_of_such_characters_is_read_as_the_c_library_does():
    chosen = random.Random(0)
    alphabet = "0123789aAfFxX+- \tM.\"'"
    for text in ("".join(chosen.choices(alphabet, k=chosen.randint(1, 6))) for _ in range(5000)):
        assert reading.number(text) == _strtoll(text), text


def test_what_is_empty_or_too_large_is_the_default():
    assert reading.number("") is None
    assert reading.number("9223372036854775808") is None
    assert reading.number("9" * 5000) is None
    assert reading.stoi("9" * 5000) is None


def test_a_number_that_means_what_it_seems_to():
    assert all(map(reading.is_number, ["0", "7", "-1", "+3", "0x1F", " 5", "5 "]))
    assert not any(map(reading.is_number, ["", "010", "4M", "1.0", "true", "0x", "1 2", "5\n", "--1", "\u0663"]))


@pytest.mark.parametrize(
    ("text", "words", "level"),
    [("PIX", True, "PIX"), ("pix", True, None), ("PCI", True, None), ("NVL", False, "LOC"), ("PIX", False, "LOC")]
    + list(zip("012345", itertools.repeat(True), ["LOC", "PIX", "PXB", "PHB", "SYS", "SYS"])),
)
def test_a_level_is_a_word_or_an_old_number(text, words, level):
    assert reading.level(text, words) == level


def test_torch_reads_numbers_and_switches_its_own_way():
    assert [reading.stoi(text) for text in ("4M", " 2", "0x1", "ten", "")] == [4, 2, 0, None, None]
    assert [reading.truth(text) for text in ("Y", "1", "No", "f", "on", "")] == [True, True, False, False, None, None]


@pytest.mark.parametrize(
    ("text", "taken", "left"),
    [
        ("eth", ["eth0", "eth10"], ["ens3"]),
        ("=eth1", ["eth1"], ["eth10", "eth"]),
        ("^docker,lo", ["eth0"], ["docker0", "lo"]),
        ("^=eth1", ["eth10"], ["eth1"]),
        ("mlx5_1:1,mlx5_2:1:0", ["mlx5_1", "mlx5_10", "mlx5_2"], ["mlx5_0"]),
    ],
)
def test_a_list_takes_beginnings_unless_it_says_otherwise(text, taken, left):
    names = reading.names(text)
    assert names.text() == text
    assert all(map(names.selects, taken))
    assert not any(map(names.selects, left))


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("=^eth0", "^=eth0"),
        ("eth0, eth1", "eth0,eth1"),
        ("'eth0'", "eth0"),
        ("eth0,,eth1,", "eth0,eth1"),
        ("=a,=b", "=a,b"),
        ("a,^b", "=a,b"),
        ("^", ""),
        (",", ""),
    ],
)
def test_a_list_that_is_written_wrong_can_be_written_right(text, right):
    fault = reading.fault(text)
    assert fault is not None
    assert fault[1] == right
    assert not right or reading.fault(right) is None


def test_numbers_that_are_allowed_can_be_said():
    assert reading.spoken("-1|1..64|100..") == "-1, 1 to 64, 100 and more"
    assert [reading.within(value, "-1|1..64|100..") for value in (-1, 0, 1, 64, 65, 100)] == [
        True,
        False,
        True,
        True,
        False,
        True,
    ]
