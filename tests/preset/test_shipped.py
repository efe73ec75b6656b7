"""The presets that come along: each says when to use it, and trains."""

from __future__ import annotations

import math

import pytest
import torch

from tests.conftest import ROOT
from tests.pipeline.scenario import SMALL, TOKENS, train
from trainer.mesh import Mesh
from trainer.nccl import routes
from trainer.preset import sources
from trainer.preset.catalogue import when
from trainer.preset.sources import own

PRESETS = {preset.name: preset for preset in sources.presets([own()])}
# As many processes as the machines of tests have; data and models are small, and the rest is the preset's own.
MOST = 4
TWO_STEPS = (*SMALL, "+data.kwargs.dtype=float32", "schedule.warmup_steps=0", "steps=2")
EXTRA = {
    "text_gpt": (*TOKENS, "model.depth=1", "model.width=16", "model.heads=2"),
    "hybrid_3d": ("model.depth=2", "model.width=32"),
    # Within two steps nothing but the warm-up would be seen.
    "diloco": ("sync.warmup_steps=0", "sync.period=2"),
    "ethernet_1g": ("comm.warmup_steps=0",),
    "debug": ("profile.first_step=2", "profile.steps=1"),
}


@pytest.mark.parametrize("name", PRESETS)
def test_it_says_when_to_use_it(name: str):
    line = when(PRESETS[name].path)
    assert line[:1].isupper()
    assert len(line) > 20
    assert f"`{name}`" in (ROOT / "docs" / "presets.md").read_text()


@pytest.mark.parametrize("name", PRESETS)
def test_it_resolves_on_eight_gpus(name: str, make_run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    run = make_run(f"experiment={name}")
    assert run.place.device == "cuda"
    assert run.place.processes == (1 if name == "one_gpu" else 8)


@pytest.mark.parametrize(
    "name", ["ib", "roce", "ethernet_10g", "ethernet_1g", "pipeline_ethernet", "hybrid_3d", "diloco"]
)
def test_it_resolves_on_two_machines(name: str, make_run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    # Two machines that the others reach by their names, whatever this one's stands for.
    monkeypatch.setattr(routes, "own_address", lambda: "10.0.0.2")
    run = make_run(f"experiment={name}", "launch.nodes=2", "launch.rendezvous=127.0.0.1:29500")
    assert run.place.world == 16


def _steps(mesh: Mesh, run) -> list[float]:
    (trained,) = train(mesh, [run], torch.float32)
    return trained.losses


@pytest.mark.parametrize("name", PRESETS)
def test_it_trains_two_steps(name: str, make_run, workers):
    words = (f"experiment={name}", *TWO_STEPS, *EXTRA.get(name, ()))
    run = make_run(*words)
    if run.place.world > MOST:
        run = make_run(*words, f"launch.processes={MOST}")
    losses = workers(run.place.world, _steps, run)[0]
    assert len(losses) == 2
    assert all(math.isfinite(loss) for loss in losses)
