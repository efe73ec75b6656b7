"""What every peer gets: the same model, optimizer, data, batch and seed, taken from one resolved run."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from hydra import compose, initialize_config_dir
from torch import nn
from torch.utils.data import Dataset

from trainer.config import resolve
from trainer.control import Control
from trainer.mesh import Mesh
from trainer.run import Run

CONF = Path(__file__).resolve().parents[2] / "conf"
# A run without end that does nothing but train, on the one thread that all peers get.
BARE = (
    "logger=[]",
    "checkpoint.every=null",
    "evaluate.every=null",
    "epochs=null",
    "steps=1000000000",
    "schedule=constant",
    "launch.threads=1",
)


@dataclass(frozen=True)
class Task:
    """One variant's training, on this rank. The process group that is up belongs to all variants."""

    run: Run
    mesh: Mesh
    device: torch.device
    control: Control

    @classmethod
    def make(cls, overrides: Sequence[str], mesh: Mesh, device: torch.device, control: Control) -> Task:
        """The task that `python train.py` would have with these options. Raises ConfigError."""
        return cls(compose_run(overrides), mesh, device, control)

    @property
    def group(self) -> dist.ProcessGroup:
        return self.mesh.groups["data"]

    @property
    def processes(self) -> int:
        """Processes on this host."""
        return self.run.place.processes

    def model(self) -> nn.Module:
        """A fresh model, alike on all ranks and in all peers, on the CPU."""
        torch.manual_seed(self.run.seed)
        return self.run.model.build(self.run.data.sample())

    def dataset(self) -> Dataset:
        return self.run.data.build(self.run.seed).train


def compose_run(overrides: Sequence[str]) -> Run:
    """A run in a folder that goes when the process ends."""
    folder = tempfile.mkdtemp(prefix="bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return resolve(compose("config", [f"folder={folder}", *BARE, *overrides]))
