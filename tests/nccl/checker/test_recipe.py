"""Files as people keep them: what a shell exports, what `env` prints, and what NCCL would read."""

from __future__ import annotations

import subprocess

import pytest

from trainer.nccl.checker import recipe


def _read(folder, text):
    path = folder / "some.env"
    path.write_text(text)
    return {name: value.value for name, value in recipe.read(path).items()}, str(path)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("  \texport NCCL_NET=IB\n", {"NCCL_NET": "IB"}),
        ("export NCCL_NET=IB NCCL_DEBUG='WARN' A=/b # it's\n", {"NCCL_NET": "IB", "NCCL_DEBUG": "WARN", "A": "/b"}),
        ('declare -x NCCL_NET="AWS Libfabric"\ndeclare -x OLDPWD\n', {"NCCL_NET": "AWS Libfabric"}),
        ("typeset -rx NCCL_NET=IB\n", {"NCCL_NET": "IB"}),
        ("export NCCL_ALGO='ring;a:tree'; export NCCL_NET=IB&&a\n", {"NCCL_ALGO": "ring;a:tree", "NCCL_NET": "IB"}),
        ("export NCCL_NET=IB \\\n  NCCL_DEBUG=WARN\n", {"NCCL_NET": "IB", "NCCL_DEBUG": "WARN"}),
        ("export NCCL_NET=IB\nexport NCCL_NET=Socket\n", {"NCCL_NET": "Socket"}),
        ("export NCCL_NET=IB\r\n", {"NCCL_NET": "IB\r"}),
        ("NCCL_NET='IB'\nNCCL_NET=Socket\n", {"NCCL_NET": "'IB'"}),
        ('export NCCL_NET="IB\nNCCL_DEBUG=WARN\n', {"NCCL_NET": '"IB', "NCCL_DEBUG": "WARN"}),
    ],
)
def test_exports_are_read_as_a_shell_does_and_other_lines_as_they_stand(tmp_path, text, values):
    assert _read(tmp_path, text)[0] == values


def test_what_a_shell_prints_of_its_exports_is_what_it_has(tmp_path):
    environment = {
        "PATH": "/usr/bin:/bin",
        "NCCL_NET": "AWS Libfabric",
        "PEM": 'a\n"b" = c\n\\d\'s',
        "NCCL_DEBUG": "WARN",
    }
    done = subprocess.run(
        ["bash", "-c", "export -p"], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    found, _ = _read(tmp_path, done.stdout)
    assert {name: found[name] for name in environment} == environment


def test_a_blank_before_the_sign_is_told_where_it_concerns_the_transport(tmp_path):
    found, path = _read(tmp_path, "export NCCL_NET = IB\nexport OTHER = IB\n")
    assert found == {f"{path}:1": "export NCCL_NET = IB"}


def test_the_rest_of_another_programs_value_is_no_line_without_a_variable(tmp_path):
    found, path = _read(tmp_path, "first\nNCCL_NET=IB\nsecond\nFUNCTION=() {\n  body\n}\nNCCL_DEBUG INFO\n")
    assert found == {
        f"{path}:1": "first",
        "NCCL_NET": "IB",
        f"{path}:3": "second",
        "FUNCTION": "() {",
        f"{path}:7": "NCCL_DEBUG INFO",
    }


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *((name, True) for name in ("NCCL_NET", "NCLL_DEBUG", "nccl_debug", "GLOO_X", "MASTER_ADDR", " # NCCL_NET")),
        *((name, True) for name in ("set NCCL_NET", "NCCL_NET ", "mpirun -x NCLL_NET", '  "NCCL_NET')),
        *((name, False) for name in ("PATH", "TF_CLI_CONFIG_FILE", "OPENCL_NET", "MY_NCCL_NET", "BASH_FUNC_%%", "a b")),
    ],
)
def test_names_of_the_transport_are_told_from_those_of_others(name, meant):
    assert recipe.meant(name) is meant


def test_a_quotation_mark_that_nobody_closes_costs_no_time(tmp_path):
    found, _ = _read(tmp_path, "export A='a\n" + "".join(f"export NCCL_{number}=a\n" for number in range(9999)))
    assert len(found) == 10000
