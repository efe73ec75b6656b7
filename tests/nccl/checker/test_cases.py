"""What went wrong for others is found before it goes wrong here."""

from __future__ import annotations

import pytest

from tests.nccl.checker.cases import CASES
from tests.nccl.checker.judging import judge

FOUR = b"<system>" + b"".join(b'<gpu dev="%d" sm="80"/>' % number for number in range(4)) + b"</system>"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.thread)
def test_a_case_is_found(case, tmp_path):
    for name in ("topology.xml", "graph.xml"):
        (tmp_path / name).write_bytes(FOUR)
    found = judge(case.variables.replace("{folder}", str(tmp_path)), **case.known)
    assert case.rules <= {one.rule for one in found}
    assert (found[0].severity if found else None) == case.worst


def test_there_are_58_cases_of_58_threads():
    assert len({case.thread for case in CASES}) == len(CASES) == 58


def test_files_of_this_kind_of_machine_are_right(tmp_path):
    (tmp_path / "topology.xml").write_bytes(FOUR)
    assert not judge(f"NCCL_TOPO_FILE={tmp_path}/topology.xml", local=True, gpus=4)
    (found,) = judge(f"NCCL_TOPO_FILE={tmp_path}/topology.xml", local=True, gpus=1)
    assert found.line() == (
        f"NCCL_TOPO_FILE={tmp_path}/topology.xml (environment): describes 4 GPUs, and this machine has 1; remove it, or"
        " use the file of this kind of machine"
    )
