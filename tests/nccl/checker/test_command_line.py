"""The command, as it is typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainer.nccl import gpus, machine
from trainer.nccl.checker import sources
from trainer.nccl.checker.command_line import main
from trainer.nccl.checker.table import concerns

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _bare(monkeypatch, tmp_path):
    """Neither the machine's variables nor its files and GPUs."""
    monkeypatch.setattr(gpus, "look", lambda: gpus.UNKNOWN)
    for name in filter(concerns, list(os.environ)):
        monkeypatch.delenv(name)
    monkeypatch.setattr(sources, "ADMINISTRATOR", str(tmp_path / "none.conf"))
    monkeypatch.setattr(sources, "_of_user", str)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "some.env"


def test_an_environment_without_variables_is_right(capsys):
    assert main(["check"]) == 0
    assert capsys.readouterr().out == "0 variables, 0 errors, 0 warnings\n"


def test_the_environment_is_checked(monkeypatch, capsys):
    monkeypatch.setenv("NCCL_IB_RETRY_CNT", "13")
    assert main(["check"]) == 2
    assert capsys.readouterr().out == (
        "error: NCCL_IB_RETRY_CNT=13 (environment): does not fit: the card has three bits for it; remove it; the"
        " default, 7, is also the most\n"
        "  What is cut off is lost in silence, and 8 becomes 0. (B9)\n"
        "1 variable, 1 error, 0 warnings\n"
    )


def test_an_interface_that_this_machine_lacks_is_told(monkeypatch, capsys):
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "=nowhere7")
    assert main(["check"]) == 2
    assert "names no interface of this machine" in capsys.readouterr().out


def test_what_this_machine_has_is_heeded(monkeypatch, capsys):
    asked = []

    def see(nodes, processes, gpu):
        asked.append((nodes, processes, gpu))
        return machine.Machine(plugin="/a/libnccl-net.so", locked_bytes=65536, host_address="127.0.1.1")

    monkeypatch.setattr(machine, "see", see)
    monkeypatch.setenv("NCCL_IB_DISABLE", "1")
    assert main(["check"]) == 1
    assert "does not reach the network plugin /a/libnccl-net.so" in capsys.readouterr().out
    monkeypatch.delenv("NCCL_IB_DISABLE")
    assert main(["check", "--nodes", "2", "--processes", "8", "--net", "ib"]) == 2
    assert {"(I11)", "(B14)"} <= set(capsys.readouterr().out.split())
    assert asked == [(1, 1, None), (2, 8, None)]


def test_the_plugin_is_looked_for_where_a_file_has_its_libraries(file, tmp_path, capsys):
    (tmp_path / "libnccl-net.so").touch()
    file.write_text(f"export LD_LIBRARY_PATH=/nowhere:{tmp_path} NCCL_IB_DISABLE=1\n")
    assert main(["check", str(file)]) == 1
    out = capsys.readouterr().out
    assert f"does not reach the network plugin {tmp_path}/libnccl-net.so" in out
    assert "1 variable, 0 errors, 1 warning" in out


def test_a_file_is_checked_in_place_of_the_environment(monkeypatch, file, capsys):
    monkeypatch.setenv("NCCL_IB_RETRY_CNT", "13")
    file.write_text("NCCL_IB_GID_INDEX=3\n")
    assert main(["check", str(file), "--net", "roce"]) == 1
    assert "B5" in capsys.readouterr().out
    assert main(["check", str(file), "--net", "roce", "--nccl", "2.20"]) == 0
    assert main(["check", str(file), "--net", "ib", "--nccl", "2.20"]) == 1


def test_what_a_shell_exports_is_read_as_a_shell_does(file, capsys):
    file.write_text(
        'export NCCL_DEBUG="WARN"  # enough\nexport NCCL_NET=\'AWS Libfabric\'\nNCCL_SOCKET_IFNAME="eth0"\n'
    )
    assert main(["check", str(file)]) == 2
    out = capsys.readouterr().out
    assert "3 variables, 1 error, 0 warnings" in out
    assert 'NCCL_SOCKET_IFNAME="eth0"' in out


def test_a_recipe_as_they_are_found_in_public_is_taken_apart(capsys):
    recipe = Path(__file__).parent / "public_recipe.env"
    assert main(["check", "--nodes", "4", "--net", "roce", str(recipe)]) == 2
    told = capsys.readouterr().out
    assert told.endswith("11 variables, 6 errors, 5 warnings\n")
    assert "NCCL_NTHREADS (CUDA threads a block) or NCCL_SOCKET_NTHREADS (threads of a TCP connection)" in told


def test_nodes_and_processes_are_heeded(file, capsys):
    file.write_text("NCCL_SOCKET_IFNAME=lo\nNCCL_P2P_DISABLE=1\nNCCL_SHM_DISABLE=1\n")
    main(["check", str(file), "--nodes", "1", "--processes", "1"])
    assert not {"(I1)", "(T9)"} & set(capsys.readouterr().out.split())
    main(["check", str(file), "--nodes", "2", "--processes", "8"])
    assert {"(I1)", "(T9)"} <= set(capsys.readouterr().out.split())


def test_findings_are_told_to_programs(file, capsys):
    file.write_text("NCCL_DEBUG=DEBUG\n")
    assert main(["check", "--json", str(file)]) == 2
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["rule"], found["severity"], found["variable"], found["value"]) == (
        "L1",
        "error",
        "NCCL_DEBUG",
        "DEBUG",
    )
    assert found["source"] == str(file)
    assert found["line"].startswith(f"NCCL_DEBUG=DEBUG ({file}): is no level of the log")


def test_a_file_that_is_not_there_is_told(capsys):
    assert main(["check", "/nowhere.env"]) == 2
    assert capsys.readouterr().err == "nccl: there is no file /nowhere.env; name a file of <NAME>=<value> lines\n"


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/nowhere\0.env", "there is no file /nowhere\\x00.env"),
        ("/", "/ is a folder"),
        ("/dev/null/a", "/dev/null/a cannot be read (Not a directory)"),
        ("x" * 5000, f"{'x' * 120}… (5000 characters) cannot be read (File name too long)"),
        # It can be opened, and then not be read.
        ("/proc/self/mem", "/proc/self/mem cannot be read (Input/output error)"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(path, line, capsys):
    assert main(["check", path]) == 2
    assert capsys.readouterr() == ("", f"nccl: {line}; name a file of <NAME>=<value> lines\n")


def test_a_file_that_nobody_lets_in_is_told(file, monkeypatch, capsys):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert main(["check", str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"nccl: {file} cannot be read (Permission denied); name a file")


def test_a_whole_environment_as_a_file_has_only_the_transports_variables(file, capsys):
    file.write_text("PATH=/bin\nTF_CLI_CONFIG_FILE=/a\nTORCH_HOME=/b\nLD_LIBRARY_PATH=/c\nF=() {\n  a\n}\n")
    assert main(["check", str(file)]) == 0
    assert capsys.readouterr().out == "0 variables, 0 errors, 0 warnings\n"


@pytest.mark.parametrize(("name", "code"), [("NCLL_DEBUG", 1), ("nccl_debug", 2), ("NCCL_DEBGU", 2)])
def test_a_misspelt_name_in_a_file_is_told_as_severely_as_it_is_written(name, code, file, capsys):
    file.write_text(f"PATH=/bin\n{name}=INFO\n")
    assert main(["check", str(file)]) == code
    assert "is no variable that anybody reads; did you mean NCCL_DEBUG?" in capsys.readouterr().out


def test_a_file_of_nonsense_is_told_in_a_few_lines_and_counted_as_a_whole(file, capsys):
    file.write_bytes(b"\x7f\x00\xff\n" * 50)
    assert main(["check", str(file)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3].startswith(f"warning: {file}: has 40 more of this kind; ")
    assert lines[-1] == "50 variables, 0 errors, 50 warnings"
    assert len(lines) == 23


@pytest.mark.parametrize("option", ["--nodes", "--processes"])
@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "9" * 5000])
def test_what_is_no_count_is_refused(option, text, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["check", f"{option}={text}"])
    assert caught.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"nccl check: error: argument {option}: ")
    assert last.endswith(" is no count; write 1 or more")


@pytest.mark.parametrize("text", ["2", "2.x", "two", "2.27.3.1", "-2.27"])
def test_what_is_no_release_is_refused(text, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["check", f"--nccl={text}"])
    assert caught.value.code == 2
    assert f"'{text}' is no release of NCCL; write it as 2.27 or 2.27.5" in capsys.readouterr().err


def test_a_variable_is_explained(capsys):
    assert main(["explain", "NCCL_IB_RETRY_CNT"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:6] == [
        "NCCL_IB_RETRY_CNT: how often a lost packet is sent again; three bits",
        "  read by: NCCL",
        "  values: a number: 0 to 7",
        "  default: 7",
        "  since: NCCL 2.1.15",
        "  equal: on all ranks",
    ]
    assert [line.split()[0] for line in lines[6:]] == ["T1", "T3", "B13", "B8b", "B9"]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("NCCL_IB_HC", "NCCL_IB_HC: is no variable that anybody reads; did you mean NCCL_IB_HCA?"),
        (
            "NCCL_TIMEOUT",
            "NCCL_TIMEOUT: is read by nobody, no variable sets the timeout of collectives; use launch.timeout_s or"
            " init_process_group(timeout=…)",
        ),
        ("nonsense", "nonsense: is no variable that anybody reads; correct its name"),
    ],
)
def test_a_name_that_nobody_reads_is_not_explained(name, line, capsys):
    assert main(["explain", name]) == 2
    assert capsys.readouterr().err == f"{line}\n"


def test_a_preset_is_shown_with_its_reasons(capsys):
    assert main(["show", "ethernet"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("ethernet: ")
    assert "\n  NCCL_NET=Socket\n    rules out RDMA" in out


def test_a_preset_that_sets_nothing_says_so(capsys):
    assert main(["show", "none"]) == 0
    assert "sets nothing" in capsys.readouterr().out


def test_a_preset_that_there_is_not_is_told(capsys):
    assert main(["show", "ethernt"]) == 2
    assert main(["show", "x"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "nccl: there is no preset ethernt; did you mean ethernet?"
    assert lines[1].startswith("nccl: there is no preset x; choose from: auto, ")


def test_the_script_runs_on_a_bare_python():
    done = subprocess.run(
        [sys.executable, "-S", ROOT / "scripts" / "nccl", "explain", "NCCL_NET"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("NCCL_NET: the network by name")


def _script(command, **given):
    script = f"{sys.executable} -S {ROOT / 'scripts' / 'nccl'}"
    words = ["bash", "-c", command.replace("NCCL", script)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, **given)


def test_what_is_no_plain_file_is_read():
    done = _script("NCCL check <(echo A=1); NCCL check /dev/stdin", input="MASTER_ADDR=n0\n")
    assert (done.stdout.splitlines(), done.stderr) == (
        ["0 variables, 0 errors, 0 warnings", "1 variable, 0 errors, 0 warnings"],
        "",
    )


def test_who_reads_no_further_hears_no_complaint_and_the_code_is_that_of_the_check(file):
    # More than a pipe holds, so that the check is still writing when its reader ends.
    file.write_text("".join(f"NCCL_NOTHING_{number}=1\n" for number in range(2000)))
    done = _script(f"NCCL check --json {file} | head -1; echo ${{PIPESTATUS[0]}}")
    assert (done.stdout, done.stderr) == ("[\n2\n", "")
