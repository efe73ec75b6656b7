"""Variables on the command line: any name, and every value as it was typed."""

from __future__ import annotations

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from trainer.nccl.command_line import as_text


def parsed(*arguments: str) -> list[tuple[str, object]]:
    overrides = OverridesParser.create().parse_overrides(as_text(arguments))
    return [(override.input_line.partition("=")[0], override.value()) for override in overrides]


@pytest.mark.parametrize(
    "value",
    ["22", "012", "false", "null", "", "=eth0", "^docker0,lo", "a b", "a'b", "a\\", "a\\'b", "allreduce:tree;^ring"],
)
@pytest.mark.parametrize("plus", ["", "+", "++"])
def test_a_value_is_the_text_that_was_typed(plus, value):
    assert parsed(f"{plus}nccl.env.NCCL_X={value}") == [("++nccl.env.NCCL_X", value)]


def test_quotes_that_are_there_are_left():
    assert parsed("nccl.env.NCCL_X='1,2'", 'nccl.env.NCCL_Y="3"') == [
        ("++nccl.env.NCCL_X", "1,2"),
        ("++nccl.env.NCCL_Y", "3"),
    ]


def test_other_arguments_are_left():
    others = ["nccl=ib", "steps=5", "~nccl.env.NCCL_DEBUG", "nccl.read_back=true", "--help", "nccl.env={}"]
    assert as_text(others) == others


@pytest.mark.parametrize("sweep", ["-m", "--multirun"])
def test_a_sweep_parts_values_by_commas(sweep):
    assert as_text([sweep, "nccl.env.NCCL_ALGO=Ring,Tree", "nccl.env.NCCL_NTHREADS=256"]) == [
        sweep,
        "++nccl.env.NCCL_ALGO=Ring,Tree",
        "++nccl.env.NCCL_NTHREADS='256'",
    ]
