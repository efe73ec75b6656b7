"""Save and resume: everything that decides the rest of a run, as tensors, written beside the training."""

from __future__ import annotations

import concurrent.futures
import itertools
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint import CheckpointException

from trainer import checkpoint_folder, generators
from trainer.checkpoint_parts import Cut, Parts, like, own_part
from trainer.mesh import Mesh
from trainer.spec import ConfigError

log = logging.getLogger(__name__)


class Carrier(Protocol):
    """What has state of its own on every rank: a communication hook, a sync rule."""

    def carried(self) -> dict[str, Tensor]:
        """This rank's state, by name."""

    def resume(self, stored: Sequence[dict[str, Tensor]], mine: int | None) -> None:
        """Take over what the ranks of an earlier run carried, nothing of which may be there.

        `mine` is this rank's own, or None if their number has changed. Anything that came before is forgotten.
        """


class Checkpoints:
    """The checkpoints of one run.

    A save copies the state to host memory, which is all that training waits for; a thread writes the copy. Names are
    those of the model alone, whatever wraps it: `model.<name>`, `optimizer.<name>.<entry>`, and `rank<r>.<entry>` for
    what every rank has of its own; what a carrier holds lies under `rank<r>.<carrier>.`.
    """

    def __init__(
        self,
        folder: Path,
        keep: int,
        mesh: Mesh,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        scaler: torch.amp.GradScaler,
        carriers: Mapping[str, Carrier],
        cuts: Mapping[str, Cut] | None = None,
        axis: str = "tensor",
        begins: Sequence[str] = (),
        travels: Literal["gradients", "differences"] = "gradients",
    ) -> None:
        """`cuts` are those of the parameters of which the ranks of `axis` have parts.

        `begins` are the layers that begin the second and later stages of a pipeline.

        `travels` says of what the hook's pending parts are: of gradients, or of differences of parameters.
        """
        self.carriers, self.begins, self.travels = carriers, tuple(begins), travels
        self.parts = Parts(cuts or {}, mesh, axis)
        self.folder, self.keep, self.mesh = folder, keep, mesh
        self.module, self.optimizer, self.scaler = module, optimizer, scaler
        self._writer = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._writing: concurrent.futures.Future[None] | None = None
        self._saved: int | None = None

    def save(self, step: int) -> None:
        """Save the state after `step` steps; collective over all ranks. Waits for the previous save to be on disk."""
        if step == self._saved:
            return
        self.wait()
        self._saved = step
        copy = {name: value.detach().to("cpu", copy=True) for name, value in self._state().items()}
        self._writing = self._writer.submit(self._write, copy, step)

    def wait(self) -> None:
        """Wait until the last save is on disk. A save that failed is reported and does not stop the training."""
        if self._writing is None:
            return
        # A full disk, a lost mount: the run is worth more than one checkpoint.
        try:
            self._writing.result()
        except CheckpointException as error:  # no Exception by birth; it holds what each rank ran into
            rank, (reason, _) = next(iter(error.failures.items()))
            log.warning(
                "checkpoint: saving step %s failed on rank %d (%s); training goes on", self._saved, rank, reason
            )
        except Exception as error:
            log.warning("checkpoint: saving step %s failed (%s); training goes on", self._saved, error)
        self._writing = None

    def close(self) -> None:
        self.wait()
        self._writer.shutdown()

    def newest(self) -> Path | None:
        """This run's newest whole checkpoint."""
        return checkpoint_folder.newest_whole(checkpoint_folder.checkpoints_in(self.folder))[0]

    def load(self, path: Path) -> int:
        """Bring model, optimizer, scaler and random generators to the state in `path`; the number of steps it has seen.

        Collective over all ranks. What a rank had of its own is taken only where all ranks have the same part of the
        model as then.
        """
        stored = checkpoint_folder.tensors_in(path)
        mine = f"rank{self.mesh.rank}."
        manifest = checkpoint_folder.manifest_of(path)
        world = manifest["world"]
        same_world = manifest["sizes"] == self.mesh.sizes and tuple(manifest["begins"]) == self.begins
        names = {f"optimizer.{name}" for name, _ in self.module.named_parameters()}
        wanted = {
            name: self.parts.wrapped(name, torch.empty_like(own_part(value), device="cpu"))
            for name, value in _named("model.", self.module.state_dict()).items()
        }
        # With another number of ranks each reads what all of the earlier ones carried, to share it out.
        carried = {kind: [f"rank{rank}.{kind}." for rank in range(world)] for kind in self.carriers}
        prefixes = ("optimizer.", "scaler.", *([mine] if same_world else itertools.chain(*carried.values())))
        for name, entry in stored.items():
            # Of the optimizer's state, what belongs to this rank's part of the model.
            foreign = name.startswith("optimizer.") and name.rpartition(".")[0] not in names
            if name.startswith(prefixes) and not foreign:
                wanted[name] = self.parts.empty(name, entry.size, entry.properties.dtype)
        dcp.load(
            wanted,
            storage_reader=checkpoint_folder.TensorReader(path),
            planner=checkpoint_folder.TensorPlanner(),
            process_group=self.mesh.storage,
        )
        wanted = {name: own_part(value) for name, value in wanted.items()}
        whole = self.module.state_dict()
        self.module.load_state_dict({name: like(own, whole[name]) for name, own in _under("model.", wanted).items()})
        self._load_optimizer(_under("optimizer.", wanted))
        if self.scaler.is_enabled():
            scaling = self.scaler.state_dict()
            self.scaler.load_state_dict({k: type(v)(wanted[f"scaler.{k}"].item()) for k, v in scaling.items()})
        for kind, carrier in self.carriers.items():
            ranks = [_under(prefix, wanted) for prefix in carried[kind]]
            if kind == "comm" and manifest["travels"] != self.travels:
                if self.mesh.rank == 0 and any(ranks):
                    log.warning(
                        "checkpoint: what the hook had not sent was of %s, and %s travel now, so it is dropped",
                        manifest["travels"],
                        self.travels,
                    )
                ranks = [{} for _ in ranks]
            if not same_world and max(manifest["sizes"]["tensor"], self.mesh.sizes["tensor"]) > 1:
                if self.mesh.rank == 0 and any(ranks):
                    log.warning("checkpoint: what %s carried was of other parts of the layers, so it is dropped", kind)
                ranks = [{} for _ in ranks]
            if same_world:
                carrier.resume(ranks, self.mesh.rank)
            else:
                carrier.resume(_replicas(ranks, manifest["sizes"]), None)
        if same_world:
            generators.go_on(_under(mine, wanted))
        elif self.mesh.rank == 0:
            log.warning(
                "checkpoint: %s: dropout draws from a fresh stream, and what a hook had not sent is shared out",
                f"the number of ranks has changed from {world} to {self.mesh.world}"
                if world != self.mesh.world
                else "the ranks hold other parts of the model than before",
            )
        return manifest["step"]

    def _state(self) -> dict[str, Tensor]:
        state = _named("model.", self.module.state_dict())
        names = {id(p): name for name, p in self.module.named_parameters()}
        for parameter, entries in self.optimizer.state.items():
            for entry, value in entries.items():
                if value is None:
                    continue
                if not isinstance(value, Tensor):
                    raise ConfigError(
                        f"checkpoint: {type(self.optimizer).__name__} keeps {entry} as a {type(value).__name__}, which"
                        " a checkpoint cannot hold; choose another optimizer or checkpoint.every=null"
                    )
                state[f"optimizer.{names[id(parameter)]}.{entry}"] = value
        if self.scaler.is_enabled():
            state |= {f"scaler.{k}": torch.tensor(v, dtype=torch.float64) for k, v in self.scaler.state_dict().items()}
        own = generators.states()
        for kind, carrier in self.carriers.items():
            own |= {f"{kind}.{name}": value for name, value in carrier.carried().items()}
        state |= {f"rank{self.mesh.rank}.{name}": value for name, value in own.items()}
        return {name: own_part(value) for name, value in state.items()}

    def _write(self, state: dict[str, Tensor], step: int) -> None:
        final = checkpoint_folder.path_of(self.folder, step)
        partial = checkpoint_folder.partial_of(final)
        wrapped = {name: self.parts.wrapped(name, value) for name, value in state.items()}
        dcp.save(wrapped, storage_writer=dcp.FileSystemWriter(partial), process_group=self.mesh.storage)
        finite = all(value.isfinite().all() for name, value in state.items() if name.startswith("model."))
        everywhere = torch.tensor(finite, dtype=torch.int32)
        dist.all_reduce(everywhere, op=dist.ReduceOp.MIN, group=self.mesh.storage)
        if self.mesh.rank != 0:
            return
        facts = {
            "step": step,
            "world": self.mesh.world,
            "sizes": self.mesh.sizes,
            "begins": self.begins,
            "travels": self.travels,
            "optimizer": type(self.optimizer).__name__,
            "torch": torch.__version__,
        }
        if everywhere:
            checkpoint_folder.commit(final, facts)
        else:
            log.warning("checkpoint: weights are not finite after step %d, so it is not kept", step)
        checkpoint_folder.prune(self.folder, self.keep)

    def _load_optimizer(self, flat: dict[str, Tensor]) -> None:
        parameters = dict(self.module.named_parameters())
        names = {id(p): name for name, p in parameters.items()}
        order = [names[id(p)] for group in self.optimizer.param_groups for p in group["params"]]
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in flat.items():
            parameter, _, entry = name.rpartition(".")
            state.setdefault(order.index(parameter), {})[entry] = like(value, parameters[parameter])
        # torch's own loader knows which entries live on the parameter's device and which stay on the host.
        self.optimizer.load_state_dict({"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]})


def _replicas(ranks: Sequence[dict[str, Tensor]], sizes: Mapping[str, int]) -> list[dict[str, Tensor]]:
    """What the ranks of each replica of the model carried, together: parameters have names of their own in each."""
    replicas: list[dict[str, Tensor]] = [{} for _ in range(sizes["data"])]
    # Ranks that hold the same part are neighbours, since "data" comes after "pipeline" in the mesh.
    for number, rank in enumerate(ranks):
        replicas[number % sizes["data"]] |= rank
    return replicas


def _named(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}{name}": value for name, value in tensors.items()}


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names start with `prefix`, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
