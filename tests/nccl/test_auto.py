"""The transport's own choice, and the variables a user adds to it."""

from __future__ import annotations

import pytest

from trainer.nccl.auto import Auto
from trainer.spec import ConfigError


def test_nothing_is_set_of_its_own():
    assert Auto().environment() == {}


def test_a_users_variable_is_handed_to_the_workers(make_run):
    assert make_run("+nccl.env.NCCL_DEBUG=INFO").nccl.environment() == {"NCCL_DEBUG": "INFO"}


def test_a_value_that_is_no_text_is_refused(make_run):
    with pytest.raises(ConfigError) as caught:
        make_run("+nccl.env.NCCL_DEBUG=false")
    assert str(caught.value) == "nccl.env.NCCL_DEBUG: False is not allowed: input should be a valid string"


def test_a_name_that_is_no_variable_is_refused(make_run):
    with pytest.raises(ConfigError) as caught:
        make_run("+nccl.env.nccl_debug=INFO")
    assert str(caught.value) == ("nccl.env: 'nccl_debug' is no name of an environment variable; write it in capitals")
