"""Fixtures that many tests share: a resolved run, and worker processes that cost a tenth of a second."""

from __future__ import annotations

import functools
import multiprocessing
import os
import pickle
import traceback
from collections.abc import Callable, Iterator
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.forkserver import ForkServer
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException

from trainer.config import resolve
from trainer.mesh import Mesh
from trainer.run import Run

ROOT = Path(__file__).parent.parent
CONF = ROOT / "conf"
# A test that needs longer than this in its workers hangs.
WORKERS_S = 60


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture(scope="session")
def compose_run() -> Iterator[Callable[..., Run]]:
    """`compose_run(folder, "model=vit", "steps=3")` composes and resolves as train.py does; for what tests share."""

    def make(folder: Path, *overrides: str) -> Run:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            cfg = compose("config", [f"folder={folder}", *overrides])
        return resolve(cfg)

    with pytest.MonkeyPatch.context() as patch:
        # What a launcher around the tests may have set must not decide what they see.
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"):
            patch.delenv(name, raising=False)
        yield make


@pytest.fixture
def make_run(compose_run: Callable[..., Run], tmp_path: Path) -> Callable[..., Run]:
    """`make_run("model=vit", "steps=3")` is a run that has tmp_path / "run" as its folder."""
    return functools.partial(compose_run, tmp_path / "run")


@pytest.fixture
def compose_error() -> Callable[..., Exception]:
    """The error Hydra raises for overrides that do not compose."""

    def error(*overrides: str) -> Exception:
        refused = pytest.raises((HydraException, ValueError))
        with initialize_config_dir(str(CONF), version_base="1.3"), refused as caught:
            compose("config", list(overrides))
        return caught.value

    return error


@pytest.fixture(scope="session")
def _fork_server() -> ForkServer:
    # One of its own: train.py, where a test has it in this process, ends the standard library's and sets another up.
    server = ForkServer()
    # All that a worker of any test imports before it begins: what is missing here every one of them imports by itself.
    server.set_forkserver_preload(["torchvision", "trainer.worker", "tests.conftest"])
    return server


@pytest.fixture(scope="session")
def workers(_fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[Any]]:
    """`workers(2, function, *arguments)` calls `function(mesh, *arguments)` on every rank of a data axis of two.

    Returns what the ranks returned, in order. The function must be a module's own. Processes are forked from a server
    that has torch loaded; they meet through a file. A rank's exception is raised here with its traceback.
    """
    context = multiprocessing.get_context("forkserver")

    def run(size: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        meeting = str(tmp_path_factory.mktemp("workers") / "store")
        pipes = [context.Pipe(duplex=False) for _ in range(size)]
        processes = [
            context.Process(target=_work, args=(rank, size, meeting, pipes[rank][1], function, arguments))
            for rank in range(size)
        ]
        with mock.patch.object(forkserver, "connect_to_new_process", _fork_server.connect_to_new_process):
            for process in processes:
                process.start()
        for _, theirs in pipes:
            theirs.close()
        try:
            return [_receive(rank, ours) for rank, (ours, _) in enumerate(pipes)]
        finally:
            for process in processes:
                process.join(1)
                if process.is_alive():
                    process.kill()
                    process.join()

    return run


def _receive(rank: int, pipe: Connection) -> Any:
    if not pipe.poll(WORKERS_S):
        raise TimeoutError(f"rank {rank} gave no result within {WORKERS_S} s")
    try:
        good, value = pickle.loads(pipe.recv_bytes())
    except EOFError:
        raise RuntimeError(f"rank {rank} died") from None
    if not good:
        raise RuntimeError(f"rank {rank} failed:\n{value}")
    return value


def _work(rank: int, size: int, meeting: str, pipe: Connection, function: Callable, arguments: tuple) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank))
    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
        sizes = {"pipeline": 1, "data": size, "tensor": 1}
        mesh = Mesh.join(sizes, torch.device("cpu"), dist.default_pg_timeout)
        result = function(mesh, *arguments)
        dist.barrier()
        # Plain pickle copies tensors; the pipe's own would share their memory with a process that is about to end.
        pipe.send_bytes(pickle.dumps((True, result)))
        dist.destroy_process_group()
    except BaseException:
        pipe.send_bytes(pickle.dumps((False, traceback.format_exc())))
