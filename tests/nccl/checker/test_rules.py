"""Every rule speaks where it should, is silent beside it, and says so in a line."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.nccl.checker.firings import FIRINGS
from tests.nccl.checker.judging import judge
from tests.nccl.checker.more_firings import MORE_FIRINGS
from trainer.nccl.checker.catalogue import RULES
from trainer.nccl.checker.check import check
from trainer.nccl.checker.context import Context
from trainer.nccl.checker.sources import Value
from trainer.nccl.checker.table import find

ALL = (*FIRINGS, *MORE_FIRINGS)
# What only a file can do is tested with files: tests of sources.
WITH_FILES = {"file", "L5"}


def _name(firing):
    return f"{firing.rule} {firing.variables}"


@pytest.mark.parametrize("firing", ALL, ids=_name)
def test_a_rule_speaks_where_it_should(firing):
    found = [one for one in judge(firing.variables, **firing.known) if one.rule == firing.rule]
    assert found
    assert found[0].severity == firing.severity
    for one in found:
        assert len(one.line().splitlines()) == 1
        assert "{" not in one.line()
        assert one.wrong
        assert one.instead
        assert one.reason.endswith(".")


@pytest.mark.parametrize("firing", ALL, ids=_name)
def test_and_is_silent_beside_it(firing):
    known = firing.known if firing.silent_known is None else firing.silent_known
    assert firing.rule not in {one.rule for one in judge(firing.silent, **known)}


def test_every_rule_has_a_name_of_its_own_and_a_setting_at_which_it_speaks():
    names = Counter(rule.name for rule in RULES)
    assert max(names.values()) == 1
    assert set(names) == {firing.rule for firing in ALL} | WITH_FILES


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_looks_at_variables_that_there_are(rule):
    for name in rule.variables:
        assert name.endswith("*") or name == "ulimit -l" or find(name)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_no_rule_speaks_of_an_empty_environment(rule):
    contexts = [
        Context(),
        Context(2, 8, "roce", True, (2, 30, 7), "nccl"),
        Context(1, 8, "ib", True, (2, 5, 6), "gloo"),
    ]
    assert not [one for context in contexts for one in check({}, context) if one.rule == rule.name]


def test_errors_come_before_warnings():
    severities = [one.severity for one in judge("NCCL_DEBUG=INFO NCCL_ALGO=Tree NCCL_IB_TIMEOUT=50 NCCL_NTHREADS=64")]
    assert sorted(severities) == severities
    assert {"error", "warning"} == set(severities)


def test_under_gloo_nothing_of_nccl_stops_a_run():
    variables = "NCCL_DEBUG=DEBUG NCCL_NOTHING=1 GLOO_SOCKET_IFNAME=^lo"
    found = {one.variable: one.severity for one in judge(variables, backend="gloo")}
    assert found == {"NCCL_DEBUG": "warning", "NCCL_NOTHING": "warning", "GLOO_SOCKET_IFNAME": "error"}


def test_a_value_is_a_mapping_of_anybody():
    (found,) = check({"NCCL_IB_RETRY_CNT": Value("15", "preset ib")}, Context())
    assert (found.variable, found.value, found.source, found.rule) == ("NCCL_IB_RETRY_CNT", "15", "preset ib", "B9")
