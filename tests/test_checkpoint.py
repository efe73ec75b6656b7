"""Saving and resuming: whole or not at all, nothing is run by reading, and everything comes back."""

from __future__ import annotations

import io
import json
import logging
import math
import os
import pickle
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from trainer import checkpoint_folder
from trainer.checkpoint import Checkpoints
from trainer.mesh import Mesh
from trainer.spec import ConfigError, dump

DISABLED = torch.amp.GradScaler("cpu", enabled=False)


def _net(seed: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    return net, torch.optim.AdamW(net.parameters())


def _step(net: nn.Module, optimizer: torch.optim.Optimizer) -> list[float]:
    """Train as every replica does, alike; the loss, and a number from the rank's own stream."""
    loss = net(torch.linspace(-1, 1, 32).sin().reshape(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return [loss.item(), torch.rand(()).item()]


def _checkpoints(folder: Path, mesh: Mesh, net: nn.Module, optimizer: torch.optim.Optimizer, keep: int = 2):
    return Checkpoints(folder, keep, mesh, net, optimizer, DISABLED, {})


def _save_and_go_on(mesh: Mesh, folder: Path) -> list[list[float]]:
    net, optimizer = _net(0)
    torch.manual_seed(mesh.rank)
    checkpoints = _checkpoints(folder, mesh, net, optimizer)
    for step in range(1, 6):
        _step(net, optimizer)
        checkpoints.save(step)
    checkpoints.close()
    return [_step(net, optimizer) for _ in range(3)]


def _load_and_go_on(mesh: Mesh, folder: Path) -> list[list[float]]:
    net, optimizer = _net(99)
    checkpoints = _checkpoints(folder, mesh, net, optimizer)
    assert checkpoints.load(checkpoints.newest()) == 5
    return [_step(net, optimizer) for _ in range(3)]


class _Pending:
    """Stands for a hook with something not yet sent."""

    def __init__(self) -> None:
        self.resumed: list = []

    def carried(self) -> dict[str, torch.Tensor]:
        return {"0.weight/residual": torch.ones(2)}

    def resume(self, stored, mine) -> None:
        self.resumed = [(sorted(rank), mine) for rank in stored]


def _carry_over(mesh: Mesh, folder: Path, now: str) -> list:
    net, optimizer = _net(0)
    hook = _Pending()
    before = Checkpoints(folder, 2, mesh, net, optimizer, DISABLED, {"comm": hook}, travels="gradients")
    before.save(1)
    before.close()
    # The first rank makes it a whole one.
    dist.barrier(group=mesh.control)
    after = Checkpoints(folder, 2, mesh, net, optimizer, DISABLED, {"comm": hook}, travels=now)
    after.load(after.newest())
    return hook.resumed


def test_what_was_pending_of_gradients_is_not_added_to_differences_of_parameters(workers, tmp_path):
    # Each rank reads its own part only.
    assert workers(2, _carry_over, tmp_path, "gradients")[1] == [([], 1), (["0.weight/residual"], 1)]
    assert workers(2, _carry_over, tmp_path, "differences")[1] == [([], 1), ([], 1)]


@pytest.fixture
def saved(workers, tmp_path) -> Path:
    workers(1, _save_and_go_on, tmp_path)
    return tmp_path


def test_what_follows_a_resume_is_bitwise_what_would_have_followed(workers, tmp_path):
    assert workers(2, _save_and_go_on, tmp_path) == workers(2, _load_and_go_on, tmp_path)


def test_the_last_k_are_kept_and_nothing_half_written(saved):
    assert sorted(entry.name for entry in saved.iterdir()) == ["step_00000004", "step_00000005"]


def test_another_number_of_ranks_can_load(workers, saved):
    losses = workers(2, _load_and_go_on, saved)
    assert all(math.isfinite(loss) for rank in losses for loss, _ in rank)


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (lambda path: (path / "manifest.json").unlink(), "its file manifest.json is missing"),
        (lambda path: (path / "__0_0.distcp").unlink(), "its file __0_0.distcp is missing"),
        (lambda path: os.truncate(path / "__0_0.distcp", 10), "its file __0_0.distcp has 10 bytes instead of"),
        (lambda path: (path / "manifest.json").write_text("{"), "it cannot be read (JSONDecodeError"),
    ],
)
def test_damage_is_seen_and_the_newest_whole_one_is_taken(saved, break_it, reason):
    broken = saved / "step_00000005"
    break_it(broken)
    assert checkpoint_folder.damage(broken).startswith(reason)
    found, passed_over = checkpoint_folder.newest_whole(checkpoint_folder.checkpoints_in(saved))
    assert found == saved / "step_00000004"
    assert passed_over[0].startswith(f"checkpoint {broken} is damaged: {reason}")


def test_a_half_written_one_is_never_taken_for_whole(saved):
    (saved / "step_00000005").rename(saved / "step_00000009.partial")
    assert checkpoint_folder.checkpoints_in(saved) == [saved / "step_00000004"]


class _Evil:
    def __reduce__(self):
        return os.system, ("touch hacked",)


def test_an_index_that_names_other_code_is_not_run(saved, monkeypatch, tmp_path):
    path = saved / "step_00000005"
    (path / ".metadata").write_bytes(pickle.dumps(_Evil()))
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["files"][".metadata"] = (path / ".metadata").stat().st_size
    (path / "manifest.json").write_text(json.dumps(manifest))
    monkeypatch.chdir(tmp_path)
    assert "posix.system" in checkpoint_folder.damage(path)
    assert not (tmp_path / "hacked").exists()


def _save_infinite(mesh: Mesh, folder: Path) -> None:
    net, optimizer = _net(0)
    checkpoints = _checkpoints(folder, mesh, net, optimizer)
    checkpoints.save(1)
    with torch.no_grad():
        net[0].weight[0, 0] = float("inf")
    checkpoints.save(2)
    checkpoints.close()


def test_weights_that_are_not_finite_are_not_kept(workers, tmp_path):
    workers(1, _save_infinite, tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["step_00000001"]


def _save_where_nothing_can_be_written(mesh: Mesh, folder: Path) -> str:
    heard = io.StringIO()
    logging.getLogger("trainer").addHandler(logging.StreamHandler(heard))
    net, optimizer = _net(0)
    (folder / "file").touch()
    checkpoints = _checkpoints(folder / "file", mesh, net, optimizer)
    checkpoints.save(1)
    checkpoints.close()
    return heard.getvalue()


def test_a_save_that_fails_is_reported_and_does_not_stop_the_training(workers, tmp_path):
    for heard in workers(2, _save_where_nothing_can_be_written, tmp_path):
        assert heard.startswith("checkpoint: saving step 1 failed on rank ")
        assert heard.endswith(
            "Not a directory: '" + str(tmp_path / "file" / "step_00000001.partial") + "'); training goes on\n"
        )


def _save_model(mesh: Mesh, run_node: dict, folder: Path) -> None:
    from trainer.model.base import Model
    from trainer.sample import Sample
    from trainer.spec import make

    net = make(run_node, Model, "model").build(Sample("image", (1, 8, 8), 10))
    checkpoints = _checkpoints(folder, mesh, net, torch.optim.SGD(net.parameters()))
    checkpoints.save(7)
    checkpoints.close()


def test_another_models_checkpoint_is_refused_with_the_tensors_that_differ(workers, tmp_path, make_run):
    run = make_run("model=mlp", "model.depth=1", "model.width=8")
    workers(1, _save_model, dump(run.model), tmp_path / "old" / "checkpoints")
    path = tmp_path / "old" / "checkpoints" / "step_00000007"
    assert make_run(
        "model=mlp", "model.depth=1", "model.width=8", f"checkpoint.resume={path}"
    ).checkpoint.resume == str(path)
    with pytest.raises(ConfigError) as caught:
        make_run("model=mlp", "model.depth=1", "model.width=9", f"checkpoint.resume={path}")
    assert str(caught.value) == (
        f"checkpoint.resume: {path} holds another model: 1.bias is (8,) there and (9,) here, 1.weight is (8, 64) there"
        " and (9, 64) here, 3.weight is (10, 8) there and (10, 9) here; choose the model it was saved with, or start"
        " afresh with checkpoint.resume=null"
    )


def test_auto_takes_the_newest_run_of_the_same_name(workers, tmp_path, make_run):
    run = make_run("model=mlp")
    for name in ("2026-01-02", "2026-01-01"):
        workers(1, _save_model, dump(run.model), tmp_path / name / "checkpoints")
        (tmp_path / name / "run.yaml").write_text("name: digits\n")
    (tmp_path / "2026-01-02" / "run.yaml").write_text("name: another\n")
    found = make_run("model=mlp", "checkpoint.resume=auto").checkpoint.resume
    assert found == str(tmp_path / "2026-01-01" / "checkpoints" / "step_00000007")


@pytest.mark.parametrize("resume", ["auto", "own"])
def test_without_any_checkpoint_it_starts_afresh(make_run, resume):
    assert make_run("model=mlp", f"checkpoint.resume={resume}").checkpoint.resume is None


def test_own_takes_the_newest_of_the_runs_folder_and_passes_over_a_damaged_one(workers, tmp_path, make_run):
    run = make_run("model=mlp")
    workers(1, _save_model, dump(run.model), tmp_path / "run" / "checkpoints")
    (tmp_path / "run" / "checkpoints" / "step_00000009").mkdir()
    found = make_run("model=mlp", "checkpoint.resume=own").checkpoint.resume
    assert found == str(tmp_path / "run" / "checkpoints" / "step_00000007")
