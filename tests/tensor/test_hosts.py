"""Ranks that share layers on several hosts are warned of."""

from __future__ import annotations

import dataclasses
import logging
import re

import torch

from trainer.mesh import Mesh
from trainer.nccl import machine
from trainer.tensor.hosts import warn_of_hosts


def warned(mesh: Mesh, ranks_per_host: int) -> list[str]:
    """What is said where a layer's two ranks are those of `mesh`'s data axis."""
    machine.node_name = lambda: f"n{mesh.rank // ranks_per_host}"
    told: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda entry: told.append(entry.getMessage())
    logging.getLogger("trainer.tensor.hosts").addHandler(handler)
    shared = dataclasses.replace(
        mesh, sizes={**mesh.sizes, "tensor": 2, "data": 1}, groups={**mesh.groups, "tensor": mesh.groups["data"]}
    )
    warn_of_hosts(shared, torch.device("cpu"))
    return told


def test_a_layer_on_two_hosts_is_warned_of_with_the_rate(workers):
    for (line,) in workers(2, warned, 1):
        assert re.fullmatch(
            r"parallel.tensor.size: the 2 ranks that share a layer are on several hosts, with \d[\d.e+]* Gbit/s between"
            r" them, and every layer sums its activations over that in both passes; use a size that divides the"
            r" processes of a host",
            line,
        )


def test_a_layer_inside_a_host_is_not(workers):
    assert workers(2, warned, 2) == [[], []]
