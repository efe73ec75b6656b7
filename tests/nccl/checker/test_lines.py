"""The lines as users read them."""

from __future__ import annotations

import pytest

from tests.nccl.checker.judging import judge, named
from trainer.nccl.checker.check import check
from trainer.nccl.checker.context import Context
from trainer.nccl.checker.finding import Finding
from trainer.nccl.checker.sources import Value


def _lines(variables, **known):
    return [one.line() for one in judge(variables, **known)]


@pytest.mark.parametrize(
    ("variables", "known", "line"),
    [
        (
            "NCCL_IB_DISABLE=1 NCCL_IB_HCA=mlx5_0 NCCL_IB_TC=106",
            {},
            "NCCL_IB_DISABLE=1 (environment): switches off InfiniBand and RoCE, so NCCL_IB_HCA and NCCL_IB_TC can have"
            " no effect; remove NCCL_IB_DISABLE, or the others",
        ),
        (
            "NCCL_IB_DISABLE=1",
            {"net": "roce"},
            "NCCL_IB_DISABLE=1 (environment): switches off RoCE, which nccl=roce is for; remove it",
        ),
        ("NCCL_BUFFSIZE=4M", {}, "NCCL_BUFFSIZE=4M (environment): is read as 4 by NCCL; write 4194304"),
        ("NCCL_NVLS_ENABLE=true", {}, "NCCL_NVLS_ENABLE=true (environment): is read as 0 by NCCL; write 1"),
        ("NCCL_NTHREADS=1e6", {}, "NCCL_NTHREADS=1e6 (environment): is read as 1 by NCCL; write 1000000"),
        ("NCCL_CROSS_NIC=010", {}, "NCCL_CROSS_NIC=010 (environment): is read as 8 by NCCL; write 10"),
        (
            "NCCL_SHM_DISABLE=2",
            {},
            "NCCL_SHM_DISABLE=2 (environment): switches nothing off: only 1 does; write 1",
        ),
        (
            "NCCL_SOCKET_IFNAME=^docker0",
            {"nodes": 2},
            "NCCL_SOCKET_IFNAME=^docker0 (environment): lets loopback in, since an own ^ list replaces NCCL's, which"
            " leaves lo and docker out; write ^docker0,lo, or name the interface",
        ),
        (
            "NCCL_SOCKET_IFNAME=bond0",
            {"interfaces": named("bond0", "bond0.2093")},
            "NCCL_SOCKET_IFNAME=bond0 (environment): bond0 is the beginning of several names: bond0 and bond0.2093;"
            " write =bond0",
        ),
        (
            "NCCL_TIMEOUT=600",
            {},
            "NCCL_TIMEOUT=600 (environment): is read by nobody: no variable sets the timeout of collectives; use"
            " launch.timeout_s or init_process_group(timeout=…)",
        ),
        (
            "NCCL_P2P_LEVEL=pix",
            {},
            "NCCL_P2P_LEVEL=pix (environment): is no level, and NCCL passes it over in silence; write PIX",
        ),
        (
            "NCCL_P2P_LEVEL=NVL",
            {"nccl": (2, 5, 6)},
            "NCCL_P2P_LEVEL=NVL (environment): is a word, which NCCL 2.5.6 reads as 0, that is LOC; remove it, or"
            " update NCCL; words came with 2.6",
        ),
        (
            "",
            {"multicast": False},
            "NCCL_NVLS_ENABLE (unset): is on, and the NVLink switch's multicast does not work, which"
            " fails when a communicator is made; check nvidia-fabricmanager; until it works set NCCL_NVLS_ENABLE=0",
        ),
        (
            "",
            {"memory_lockable": False, "net": "ib"},
            "ulimit -l: is limited, so that registering memory with the card"
            " may fail; start with --ulimit memlock=-1, or set memlock unlimited in /etc/security/limits.conf",
        ),
    ],
)
def test_a_line_says_what_is_wrong_and_what_to_type(variables, known, line):
    assert line in _lines(variables, **known)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("NCCL_SHM_DISBALE", "did you mean NCCL_SHM_DISABLE?"),
        ("NCCL_SOCKET_IFNAMES", "did you mean NCCL_SOCKET_IFNAME?"),
        ("CCL_NET_GDR_LEVEL", "did you mean NCCL_NET_GDR_LEVEL?"),
        ("NCLL_DEBUG", "did you mean NCCL_DEBUG?"),
        ("nccl_ib_hca", "did you mean NCCL_IB_HCA?"),
        ("NCCL_ALGORITHM", "use NCCL_ALGO"),
        ("NCCL_IB_QPS", "use NCCL_IB_QPS_PER_CONNECTION"),
        ("NCCL_IB_NET_LATENCY", "remove it"),
        ("NCCL_QUITE_ANOTHER_THING", "remove it, or correct its name"),
    ],
)
def test_a_name_that_nobody_reads_is_told_from_what_is_meant(name, meant):
    (found,) = check({name: Value("1", "environment")}, Context())
    assert (found.rule, found.instead) == ("unknown", meant)


def test_a_name_with_something_around_it_is_told():
    lines = [one.line() for one in check({"export NCCL_DEBUG": Value("WARN", "/etc/nccl.conf")}, Context())]
    assert lines == [
        "export NCCL_DEBUG=WARN (/etc/nccl.conf): has a name of which 'export ' is a part, so nobody reads it; write"
        " NCCL_DEBUG=…"
    ]


def test_a_line_is_one_line_whatever_the_value():
    found = Finding(
        "a", "error", "NCCL_\x1b[2J", "1\n2\t\x00\u2028" + "x" * 500, "environment", "is\nwrong", "go\r", ""
    )
    assert found.line() == (
        "NCCL_\\x1b[2J=1\\n2\\t\\x00\\u2028" + "x" * 104 + "… (506 characters) (environment): is\\nwrong; go\\r"
    )


@pytest.mark.parametrize(
    ("name", "source", "told"),
    [
        (
            "PATH",
            "nccl.env",
            "is none of the transport's variables (NCCL_, TORCH_NCCL_, GLOO_ …), which alone nccl.env is for; remove"
            " it, or set it in your own environment",
        ),
        (
            "SOCKET_NTHREADS",
            "nccl.env",
            "is none of the transport's variables (NCCL_, TORCH_NCCL_, GLOO_ …), which alone nccl.env is for; did you"
            " mean NCCL_SOCKET_NTHREADS?",
        ),
        (
            "PATH",
            "/etc/nccl.conf",
            "is none of the transport's variables (NCCL_, TORCH_NCCL_, GLOO_ …); remove it, or correct its name",
        ),
    ],
)
def test_a_variable_of_others_is_not_said_to_be_read_by_nobody(name, source, told):
    (found,) = check({name: Value("/nonsense", source)}, Context())
    assert (found.severity, found.line()) == ("warning", f"{name}=/nonsense ({source}): {told}")


def test_of_a_variable_of_others_only_the_beginning_is_shown():
    (theirs,) = check({"PATH": Value("a" * 61, "nccl.env")}, Context())
    assert theirs.line().startswith(f"PATH={'a' * 60}… (61 characters) (nccl.env): ")
    (ours,) = check({"NCCL_TOPO_FILE": Value(f"/{'a' * 99}", "nccl.env")}, Context(local=True))
    assert ours.line().startswith(f"NCCL_TOPO_FILE=/{'a' * 99} (nccl.env): ")


@pytest.mark.parametrize("text", ["4M", "1e3", "-1k"])
def test_what_is_no_number_is_told_once(text):
    assert [one.rule for one in judge(f"NCCL_BUFFSIZE={text}")] == ["C4"]
