"""What values are errors, variable by variable."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.nccl.checker.values import TABLE
from trainer.nccl.checker.check import check
from trainer.nccl.checker.context import Context
from trainer.nccl.checker.sources import Value
from trainer.nccl.checker.table import variables


def _cases():
    for line in TABLE.strip().splitlines():
        name, *rest = shlex.split(line)
        bar = rest.index("|")
        yield from ((name, value, True) for value in rest[:bar])
        yield from ((name, value, False) for value in rest[bar + 1 :])


CASES = list(_cases())


@pytest.mark.parametrize(("name", "value", "right"), CASES)
def test_a_wrong_value_is_an_error_and_a_right_one_is_not(name, value, right):
    errors = [one.line() for one in check({name: Value(value, "environment")}, Context()) if one.severity == "error"]
    assert (not errors) is right, errors


def test_the_table_is_as_large_as_it_is_said_to_be():
    names = {name for name, _, _ in CASES}
    assert len(names) >= 60
    assert names <= set(variables())
    assert sum(right for _, _, right in CASES) >= 100
    assert sum(not right for _, _, right in CASES) >= 100


def _defaults():
    for row in variables().values():
        default = re.match(r"-?\d+(?=$|,| \()|[A-Z]+$", row.default)
        if default and row.reader in ("nccl", "torch") and not row.ended:
            yield row.name, default.group()


DEFAULTS = list(_defaults())


@pytest.mark.parametrize(("name", "default"), DEFAULTS)
def test_a_default_is_right(name, default):
    assert not [one for one in check({name: Value(default, "environment")}, Context()) if one.severity == "error"]


def test_most_variables_have_a_default_that_can_be_typed():
    assert len(DEFAULTS) > 200
