"""A sweep that W&B's agent leads: what of it needs no server."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import yaml
from wandb.sdk.launch.sweeps.utils import create_sweep_command_args

from trainer.logger import wandb_process

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "sweeps.md"


def test_what_the_agent_gives_train_py_is_a_run(make_run):
    sweep = yaml.safe_load(DOCUMENT.read_text().partition("```yaml\n")[2].partition("```")[0])
    chosen = {key: {"value": choice["values"][-1]} for key, choice in sweep["parameters"].items()}
    given = create_sweep_command_args({"args": chosen})
    assert sweep["command"][-1] == "${args_no_hyphens}"
    run = make_run(*given["args_no_hyphens"])
    assert run.parallel.data.bucket_cap_mb == 60
    assert type(run.comm).__name__ == "TopK"


def test_the_run_is_the_one_that_the_agent_began(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, value in {"WANDB_SWEEP_ID": "sweep1", "WANDB_RUN_ID": "run4711", "WANDB_SILENT": "true"}.items():
        monkeypatch.setenv(name, value)
    told = io.StringIO()
    init = {
        "project": "ours",
        "entity": None,
        "group": None,
        "name": "x",
        "id": "of-the-folder",
        "dir": ".",
        "config": {},
    }
    line = json.dumps({"step": 1, "metrics": {"speed/samples_per_s": 1.0}})
    wandb_process.send("offline", init, [line], told)
    assert "-run4711" in told.getvalue()
    assert [path.suffix for path in tmp_path.glob("wandb/offline-run-*-run4711/*.wandb")] == [".wandb"]


@pytest.fixture(autouse=True)
def _no_account(monkeypatch, tmp_path):
    """Nothing of whoever runs the tests."""
    for name in ("HOME", "WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
