"""The Slurm of a test session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.slurm import cluster
from tests.slurm.cluster import Cluster


@pytest.fixture(scope="session")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if (reason := cluster.missing()) is not None:
        pytest.skip(reason)
    with cluster.running(tmp_path_factory.mktemp("slurm")) as running:
        yield running


@pytest.fixture
def slurm(_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A cluster of two nodes without jobs; this process and what it starts see it."""
    for name, value in _cluster.variables.items():
        monkeypatch.setenv(name, value)
    _cluster.until("all jobs have ended", lambda: not _cluster.tell("squeue", "--noheader"))
    yield _cluster
    # What a test that failed has left would hold up the next one.
    _cluster.tell("scancel", "--user=root")
