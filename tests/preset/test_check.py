"""A team's presets, checked as its CI does."""

from __future__ import annotations

import os

import pytest
import torch

from trainer.preset.check import Complaint, check
from trainer.spec import ConfigError


def test_every_wrong_preset_is_in_the_list_with_its_file(share):
    folder = share(
        fine="defaults: [override /comm: topk]",
        typo="optimizer: {lrr: 3}",
        clash="defaults: [override /sync: next_forward]\nclip: {max_norm: 1.0}",
        itself="defaults: [/experiment/team/itself]",
        torn="steps: [",
    )
    (folder / "experiment" / "unread.yml").write_text("steps: 5")
    found, wrong = check(folder)
    assert [preset.name for preset in found] == ["team/clash", "team/fine", "team/itself", "team/torn", "team/typo"]
    team = folder / "experiment" / "team"
    assert wrong == [
        Complaint(
            team / "clash.yaml",
            "clip.mode: the norm of the gradient is known when all of it is there, and this sync rule updates before;"
            " use clip.mode=previous_norm, which clips by the norm of the step before, or sync=strict",
        ),
        Complaint(
            team / "itself.yaml",
            "experiment/team/itself: includes itself; take '/experiment/team/itself' out of its defaults",
        ),
        Complaint(
            team / "torn.yaml",
            f"{team}/torn.yaml: line 3 is no YAML (expected the node content, but found '<stream end>'); write option:"
            " value",
        ),
        Complaint(team / "typo.yaml", "optimizer.lrr: unknown option; did you mean 'lr'?"),
        Complaint(folder / "experiment" / "unread.yml", "is not read; let its name end in .yaml"),
    ]


def test_what_only_a_user_has_is_given_for_all(share):
    folder = share(ours="defaults: [override /data: image_folder]")
    (complaint,) = check(folder)[1]
    assert complaint.line == "data.root: no value is given; set data.root=<value>"
    assert check(folder, ["data=digits"])[1] == []


def test_it_is_judged_without_gpus_and_nothing_stays_behind(share, monkeypatch: pytest.MonkeyPatch):
    folder = share(eight="parallel: {data: {size: 8}}")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0 if os.environ["CUDA_VISIBLE_DEVICES"] == "" else 1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.delenv("TRAINER_PRESETS")
    assert check(folder)[1] == []
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"
    assert "TRAINER_PRESETS" not in os.environ


def test_a_folder_without_presets_is_refused(tmp_path, share):
    with pytest.raises(ConfigError) as caught:
        check(tmp_path / "absent")
    assert str(caught.value) == (
        f"TRAINER_PRESETS: there is no folder {tmp_path}/absent; make it, or take it out of TRAINER_PRESETS"
    )
    (tmp_path / "empty" / "experiment").mkdir(parents=True)
    with pytest.raises(ConfigError) as caught:
        check(tmp_path / "empty")
    assert str(caught.value) == (
        f"{tmp_path}/empty: there is no preset in its folder experiment; put one there as experiment/<name>.yaml"
    )
