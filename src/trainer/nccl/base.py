"""`nccl`: how the transport under the collectives is set up."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from trainer.nccl import machine
from trainer.nccl.machine import Machine
from trainer.nccl.settle import Use, settle
from trainer.spec import Component, ConfigError

if TYPE_CHECKING:
    from trainer.run import Run

Network = Literal["nvlink", "pcie", "ib", "roce", "ethernet"]


class Nccl(Component):
    """Environment variables for the workers, which NCCL and Gloo read when a communicator is made.

    A preset's `env` holds what is the same everywhere; what depends on the machine is looked up by `found`.
    """

    network: ClassVar[Network | None] = None
    """what the preset means to carry gradients; None leaves it open"""

    env: dict[str, str] = {}
    """the variables to set in every worker, name to value, both text"""
    read_back: bool = False
    """whether to report what NCCL chose, and what the links do, before the first step"""

    def intended(self, here: Machine) -> Network | None:
        """What is to carry gradients on the machine `here`."""
        return self.network

    def found(self, here: Machine) -> dict[str, str]:
        """The variables that this preset sets for the machine `here`: interfaces are found, never guessed."""
        if here.interface is None:
            return {}
        # "=" is NCCL's sign for this very name; without it eth1 would mean eth10 as well. Gloo takes plain names.
        return {"NCCL_SOCKET_IFNAME": f"={here.interface}", "GLOO_SOCKET_IFNAME": here.interface}

    def chosen(self, here: Machine) -> str:
        """The preset in a word, and what it chose where it chooses."""
        return type(self).__name__.lower()

    def environment(self) -> dict[str, str]:
        """What a worker adds to its environment; a variable that is there already wins over it."""
        return dict(self.env)

    def check(self, run: Run) -> None:
        for name, value in self.env.items():
            if not name.isupper() or "=" in name or "\0" in name + value:
                raise ConfigError(f"nccl.env: {name!r} is no name of an environment variable; write it in capitals")
        if self.network in ("nvlink", "pcie") and run.place.nodes > 1:
            raise ConfigError(
                f"nccl: {self.chosen(Machine())} is for one node, and this run has {run.place.nodes}; choose nccl=auto,"
                " nccl=ib, nccl=roce or nccl=ethernet"
            )

    def settle(self, run: Run) -> Nccl:
        """This component with all that it sets in `env`, checked together with what the user's environment holds.

        Raises ConfigError for the first setting that is wrong, and logs what was seen, chosen and kept.
        """
        here = machine.look(run)
        return self.model_copy(update={"env": settle(self, here, use=Use.of(run))})
