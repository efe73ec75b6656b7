"""The resolved run: everything a worker needs, frozen, typed and picklable."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SkipValidation

from trainer.comm.base import CommHook
from trainer.data.base import Data
from trainer.logger.base import Logger
from trainer.model.base import Model
from trainer.nccl.base import Nccl
from trainer.optimizer.base import Optimizer
from trainer.parallel.base import Parallel
from trainer.place import Place
from trainer.profile.base import Profile
from trainer.schedule.base import Schedule
from trainer.spec import Spec
from trainer.sync.base import Sync
from trainer.tune.base import Tune

Count = Annotated[int, Field(ge=1)]


class Batch(Spec):
    size: Count = 64
    """the number of samples in one optimizer step, over all ranks"""
    microbatches: Count = 1
    """the number of pieces each rank's share is cut into; their gradients are accumulated before one reduction"""


class Clip(Spec):
    max_norm: Annotated[float, Field(gt=0)] | None = None
    """the largest global L2 norm of the gradient; null does not clip"""
    mode: Literal["global_norm", "previous_norm"] = "global_norm"
    """global_norm: the gradient's own; previous_norm: the step before's, for rules that update before all is there"""


class Evaluate(Spec):
    every: Count | None = 100
    """the number of steps between evaluations; null evaluates only at the end"""
    batch: Count = 256
    """the number of samples a rank evaluates at once"""


class Checkpoint(Spec):
    every: Count | None = 100
    """the number of steps between checkpoints; null keeps none"""
    keep: Count = 2
    """the number of newest checkpoints that stay on disk"""
    resume: str | None = None
    """null (start afresh), auto (newest whole checkpoint of another run with this name), own (of this run's own folder,
    if it has one) or the path of a checkpoint"""


class Log(Spec):
    every: Count = 10
    """the number of steps between lines of metrics"""
    report: bool = True
    """whether to write report.html at the end of the run, and give its timeline to the loggers"""


class Launch(Spec):
    processes: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    """the number of worker processes on each node; auto takes one a GPU, or without GPUs what the mesh needs"""
    nodes: Count = 1
    """the number of machines"""
    node_rank: Annotated[int, Field(ge=0)] = 0
    """this machine's number, from 0"""
    rendezvous: str | None = None
    """host:port on node 0 where several nodes meet"""
    max_restarts: Annotated[int, Field(ge=0)] = 0
    """the number of times the workers are started again, from the last checkpoint, after one of them died"""
    timeout_s: Annotated[float, Field(gt=0)] = 600.0
    """seconds after which a collective that some rank never joined becomes an error"""
    threads: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    """the number of CPU threads a worker computes with; auto divides the cores between the workers"""


class Run(Spec):
    """One training run. Made by `config.resolve`, written to `run.yaml`, and handed to every worker."""

    name: Annotated[str, Field(pattern=r"^[\w.-]+(/[\w.-]+)*$")]
    """the name that runs of one kind share; letters, digits, '_', '-', '.' and '/'"""
    folder: Path = Field(strict=False)
    """the folder that this run writes to"""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    """the seed of initial weights, shuffling, augmentation and dropout"""
    steps: Count | None = None
    """the number of optimizer steps; null trains for `epochs`"""
    epochs: Count | None = None
    """the number of passes over the training data, where `steps` is null"""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """the dtype of matrix products: fp32, or autocast to bf16 or fp16 with fp32 weights"""
    compile: bool = False
    """whether torch.compile optimises the model"""

    batch: Batch = Batch()
    clip: Clip = Clip()
    evaluate: Evaluate = Evaluate()
    checkpoint: Checkpoint = Checkpoint()
    log: Log = Log()
    launch: Launch = Launch()

    parallel: Parallel
    comm: CommHook
    sync: Sync
    nccl: Nccl
    optimizer: Optimizer
    schedule: Schedule
    model: Model
    data: Data
    logger: dict[str, Logger]
    profile: Profile
    tune: Tune = Tune()

    place: SkipValidation[Place]
    """where the processes are: who starts them, how many there are, on which device"""

    @property
    def data_size(self) -> int:
        """The number of ranks on the data axis."""
        return self.parallel.sizes(self.place.world)["data"]

    @property
    def total_steps(self) -> int:
        """The number of optimizer steps; an epoch's last samples that fill no batch wait for the next shuffle."""
        if self.steps is not None:
            return self.steps
        assert self.epochs is not None, "resolve demands steps or epochs"
        return self.epochs * (self.data.count() // self.batch.size)

    @property
    def share(self) -> int:
        """The number of samples of a step that one data rank computes."""
        return self.batch.size // self.data_size

    @property
    def microbatches(self) -> int:
        """The number of forward passes that a data rank's share of a step is cut into."""
        accumulated = self.batch.microbatches
        return accumulated * self.parallel.pipeline.microbatches_of(self.share // accumulated)

    @property
    def loss_scale(self) -> float:
        """The factor on the loss of each forward pass, which makes gradients, averaged over replicas, the batch's."""
        return 1 / self.microbatches if self.model.reduction == "mean" else float(self.data_size)

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def timeout(self) -> datetime.timedelta:
        return datetime.timedelta(seconds=self.launch.timeout_s)
