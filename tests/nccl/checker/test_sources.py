"""Who set what: precedence, and files that are not as they should be."""

from __future__ import annotations

import os

import pytest

from trainer.nccl.checker import sources
from trainer.nccl.checker.check import check
from trainer.nccl.checker.context import Context
from trainer.nccl.checker.sources import Value, gather


@pytest.fixture
def files(tmp_path, monkeypatch):
    """An administrator's and a user's file, by name; each is there once it is written."""
    monkeypatch.setattr(sources, "ADMINISTRATOR", str(tmp_path / "etc.conf"))
    monkeypatch.setattr(sources, "_of_user", lambda: str(tmp_path / "home.conf"))
    return tmp_path


def _read(folder, content):
    path = folder / "some.conf"
    path.write_bytes(content)
    return {name: value.value for name, value in sources.read(str(path)).items()}, str(path)


def test_the_environment_wins_over_settings_over_the_preset_over_files(files):
    for name, value in (("etc.conf", "e"), ("home.conf", "h")):
        (files / name).write_text("".join(f"NCCL_{letter}={value}\n" for letter in "ABCDE"[: {"e": 5, "h": 4}[value]]))
    found = gather(
        {"NCCL_A": "1"},
        dict.fromkeys(("NCCL_A", "NCCL_B", "NCCL_C"), "3"),
        dict.fromkeys(("NCCL_A", "NCCL_B"), "2"),
        preset_name="ib",
    )
    home, etc = str(files / "home.conf"), str(files / "etc.conf")
    assert found == {
        "NCCL_A": Value("1", "environment"),
        "NCCL_B": Value("2", "nccl.env"),
        "NCCL_C": Value("3", "preset ib"),
        "NCCL_D": Value("h", home),
        "NCCL_E": Value("e", etc),
    }
    assert [one.source for one in found["NCCL_A"].over] == ["nccl.env", "preset ib", home, etc]


def test_a_preset_needs_no_name():
    assert gather({}, {"NCCL_NET": "IB"}, {}, files=False)["NCCL_NET"].source == "preset"


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_named_file_takes_the_place_of_the_users_but_not_of_the_administrators(files, layer):
    for name in ("etc.conf", "home.conf", "own.conf"):
        (files / name).write_text(f"NCCL_NET={name}\nNCCL_{name[0].upper()}=1\n")
    layers: list[dict[str, str]] = [{}, {}, {}]
    layers[layer]["NCCL_CONF_FILE"] = str(files / "own.conf")
    found = gather(*layers)
    assert {name for name in found if len(name) == 6} == {"NCCL_O", "NCCL_E"}
    assert found["NCCL_NET"].value == "own.conf"


def test_a_file_that_names_a_file_is_not_followed(files):
    (files / "etc.conf").write_text(f"NCCL_CONF_FILE={files}/own.conf\n")
    (files / "own.conf").write_text("NCCL_NET=IB\n")
    assert "NCCL_NET" not in gather({}, {}, {})


def test_only_what_concerns_the_transport_is_taken_from_the_environment():
    names = [
        "PATH",
        "HOME",
        "TORCH_HOME",
        "CCL_WORKER_COUNT",
        "XNCCL_A",
        "nccl_debug",
        "CCL_IB_HCA",
        "NCLL_DEBUG",
        "NCCL_FOO",
        "TORCH_NCCL_FOO",
        "GLOO_FOO",
        "OFI_NCCL_FOO",
        "MASTER_ADDR",
    ]
    assert list(gather(dict.fromkeys(names, "1"), {}, {}, files=False)) == names[5:]


def test_lines_are_taken_as_they_stand(tmp_path):
    content = b'#NCCL_A=1\n #NCCL_B=1\nNCCL_C="x"\nNCCL_D= 1 \nNCCL_E=a=b\nNCCL_F=1\r\nNCCL_F=2\n\nNCCL_G=last'
    assert _read(tmp_path, content)[0] == {
        " #NCCL_B": "1",
        "NCCL_C": '"x"',
        "NCCL_D": " 1 ",
        "NCCL_E": "a=b",
        "NCCL_F": "1\r",
        "NCCL_G": "last",
    }


def test_lines_without_a_variable_are_told(tmp_path):
    found, path = _read(tmp_path, b"NCCL_DEBUG WARN\n=1\n\x00\x01\xff\nNCCL_NET=IB\x00=x\n   \n")
    assert found == {f"{path}:1": "NCCL_DEBUG WARN", f"{path}:2": "=1", f"{path}:3": "", "NCCL_NET": "IB"}
    lines = [one.line() for one in check(sources.read(path), Context()) if one.rule == "file"]
    assert len(lines) == 3
    assert lines[0] == (
        f"{path}:1: has no variable and '=', so NCCL skips the line; write <NAME>=<value> without quotes and blanks,"
        " and let every user read the file"
    )


def test_binary_junk_is_read_and_said_in_a_line(tmp_path):
    path = tmp_path / "junk.conf"
    path.write_bytes(os.urandom(20000) + b"\nNCCL_\xff\xfe=\x1b[31m\x07\n")
    for one in check(sources.read(str(path)), Context()):
        assert one.line().isprintable()


def test_a_file_that_cannot_be_read_is_told(files, monkeypatch):
    (files / "home.conf").mkdir()
    found = gather({}, {}, {})
    (line,) = [one.line() for one in check(found, Context())]
    assert line.startswith(f"{files}/home.conf: cannot be read (Is a directory), so NCCL skips it; ")


def test_what_wins_over_an_administrator_is_told(files):
    (files / "etc.conf").write_text("NCCL_IB_TC=96\nNCCL_IB_SL=3\nNCCL_CROSS_NIC=0\nNCCL_IB_HCAS=a\n")
    found = check(
        gather({"NCCL_CROSS_NIC": "1"}, {"NCCL_IB_TC": "106", "NCCL_IB_SL": "3"}, {}, preset_name="roce"), Context()
    )
    assert [one.line() for one in found] == [
        f"NCCL_IB_HCAS=a ({files}/etc.conf): is no variable that anybody reads; did you mean NCCL_IB_HCA?",
        f"NCCL_IB_TC=106 (preset roce): wins over 96 in {files}/etc.conf; ask who wrote that file, and set nccl.env if"
        " this value shall stay",
    ]


@pytest.mark.parametrize("name", ["NCCL_NOTHING_{}", "nccl_debug_{}", "SOMETHING_{}", "NCCL_IB_HCA {}", "NCCL_{}\t"])
def test_ten_thousand_variables_are_no_matter(name):
    environment = {name.format(number): "a\tb\nc" for number in range(10000)}
    values = gather(environment, {}, {}, files=False)
    assert len(values) == (0 if name.startswith("SOMETHING") else 10000)
    assert len(check(values, Context())) == len(values)
