"""A run becomes a preset that makes the same run again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import CONF
from trainer.launch import describe
from trainer.preset import save
from trainer.preset.sources import VARIABLE
from trainer.spec import ConfigError

RUNS = [
    "",
    "experiment=text_gpt seed=3 data.length=32",
    "experiment=ceiling logger=[]",
    "comm=powersgd comm.rank=2 sync=diloco sync.period=20 optimizer=by_name +optimizer.options.momentum=0.5",
    "parallel=hybrid model=vit model.heads=8 parallel.pipeline.microbatches=4",
    "parallel=pipeline parallel.pipeline.split=[layer3.0,layer4.0] parallel.pipeline.size=3 name=a/b",
    "nccl=roce +nccl.env.NCCL_IB_TC='106' profile=window profile.ranks=all",
    "model=custom model.factory=tests.preset.test_save:net data=synthetic data.shape=[1,8,8]"
    " +model.kwargs={text:'1e3',flag:'yes',home:'\\${x}',deep:{list:[1,null]}}",
]


def net(text: str, flag: str, home: str, deep: dict):
    from torch import nn

    assert (text, flag, home, deep) == ("1e3", "yes", "${x}", {"list": [1, None]})
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


@pytest.mark.parametrize("overrides", RUNS)
def test_the_preset_makes_the_same_run(overrides: str, make_run, record, share, tmp_path: Path):
    source = share()
    run = make_run(*overrides.split())
    save.save(record(run), "team/same", source)
    assert describe(make_run("experiment=team/same")) == describe(run)


def test_the_file_says_when_to_use_it_and_what_was_measured(make_run, record, tmp_path: Path):
    folder = record(make_run("model=mlp", "comm=topk", "comm.ratio=0.02", "launch.processes=4", "steps=40"))
    path = save.save(folder, "lab", tmp_path, "Two hosts on 1 Gbit/s.")
    assert path == tmp_path / "experiment" / "lab.yaml"
    assert path.read_text() == (
        "# @package _global_\n"
        "# Two hosts on 1 Gbit/s.\n"
        "# Measured on 2026-11-30 with torch 2.14.1 and Gloo, on 2 x x86_64 CPU of 2 hosts (n0; n1), in\n"
        f"#   {folder}.\n"
        "# After 40 steps: accuracy 98.61 %, 210 ms a step, 75 % of 70.0 ms of communication hidden.\n"
        "# It was started with launch.processes=4, which is not part of it.\n"
        "defaults:\n"
        "- override /comm: topk\n"
        "- override /model: mlp\n"
        "steps: 40\n"
        "comm:\n"
        "  ratio: 0.02\n"
    )


def test_a_choice_that_a_team_shares_is_taken_where_it_is_nearest(make_run, record, share, tmp_path: Path):
    source = share()
    (source / "comm" / "team").mkdir(parents=True)
    (source / "comm" / "team" / "ours.yaml").write_text(
        (CONF / "comm" / "topk.yaml").read_text().replace("0.01", "0.25")
    )
    path = save.save(record(make_run("comm=topk", "comm.ratio=0.25", "comm.ramp_steps=5")), "lab", tmp_path)
    assert path.read_text().endswith("defaults:\n- override /comm: team/ours\ncomm:\n  ramp_steps: 5\n")


def test_a_run_of_defaults_is_a_comment(make_run, record, tmp_path: Path):
    path = save.save(record(make_run()), "plain", tmp_path)
    assert all(line.startswith("#") for line in path.read_text().splitlines())


def test_what_was_found_on_the_machine_is_told_and_left_out(make_run, record, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    words = ("+nccl.env.GLOO_SOCKET_IFNAME=lo", "+nccl.env.NCCL_SOCKET_IFNAME=lo")
    text = save.save(record(make_run(*words)), "plain", tmp_path).read_text()
    assert "# Found on that machine, and looked up anew on every other: " in text
    assert "NCCL_SOCKET_IFNAME=lo" in text
    assert "# The environment of the run, and not nccl.env, decided NCCL_DEBUG.\n" in text
    assert "\nnccl:" not in text


def test_a_run_of_several_machines_is_made_again_where_they_are(make_run, record, share, tmp_path: Path):
    source = share()
    place = ("launch.nodes=2", "launch.rendezvous=127.0.0.1:29500", "launch.processes=1", "launch.threads=1")
    run = make_run("nccl=ethernet", "nccl.link_gbit=25", *place)
    assert run.nccl.env["NCCL_SOCKET_NTHREADS"] == "2"
    text = save.save(record(run), "team/same", source).read_text()
    assert "# It was started with launch.nodes=2 launch.threads=1, which is not part of it.\n" in text
    assert "SOCKET" not in text.partition("\ndefaults:")[2]
    assert describe(make_run("experiment=team/same", *place)) == describe(run)


def _refusal(*arguments) -> str:
    with pytest.raises(ConfigError) as caught:
        save.save(*arguments)
    return str(caught.value)


def test_a_folder_without_a_run_is_refused(tmp_path: Path):
    assert _refusal(tmp_path / "absent", "lab") == (
        f"{tmp_path}/absent: there is no run.yaml of a run in it; name a run's folder, which a run prints at its end"
    )


def test_a_run_yaml_that_was_cut_is_refused(make_run, record, tmp_path: Path):
    folder = record(make_run())
    (folder / "run.yaml").write_text((folder / "run.yaml").read_text().partition("sync:")[0])
    assert _refusal(folder, "lab", tmp_path) == (
        f"{folder}/run.yaml: names no nccl, so it is not whole; save a run that has one"
    )


def test_a_name_that_is_taken_is_refused(make_run, record, share, monkeypatch):
    folder, source = record(make_run()), share(ib="steps: 5")
    assert _refusal(folder, "smoke") == (
        f"name: there is a preset smoke already, {CONF}/experiment/smoke.yaml; choose another name"
    )
    file = f"{source}/experiment/team/ib.yaml"
    assert _refusal(folder, "team/ib") == f"name: there is a preset team/ib already, {file}; choose another name"
    monkeypatch.delenv(VARIABLE)
    assert _refusal(folder, "team/ib", source) == (
        f"name: there is a preset team/ib already, {file}; choose another name"
    )


@pytest.mark.parametrize("name", ["", "a b", "../up", "a/", "/a", "a.yaml", "a=b"])
def test_a_name_that_hydra_would_read_otherwise_is_refused(name: str, tmp_path: Path):
    assert _refusal(tmp_path, name) == (
        f"name: {name!r} is no name of a preset; use letters, digits, '_' and '-', and '/' for folders"
    )


def test_a_place_that_cannot_be_written_leaves_nothing(make_run, record, tmp_path: Path):
    (tmp_path / "file").write_text("")
    assert _refusal(record(make_run()), "lab", tmp_path / "file") == (
        f"{tmp_path}/file/experiment/lab.yaml: cannot be written (Not a directory); choose another place with --to DIR"
    )
