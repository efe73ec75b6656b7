"""`nccl`: how the transport under the collectives is set up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.spec import Component, ConfigError

if TYPE_CHECKING:
    from trainer.run import Run


class Nccl(Component):
    """Environment variables for the workers, which NCCL and Gloo read when a communicator is made."""

    env: dict[str, str] = {}
    """the variables to set in every worker, name to value, both text"""

    def environment(self) -> dict[str, str]:
        """What the launcher adds to the workers' environment; a variable the user already set wins over it."""
        return dict(self.env)

    def check(self, run: Run) -> None:
        for name, value in self.env.items():
            if not name.isupper() or "=" in name or "\0" in name + value:
                raise ConfigError(f"nccl.env: {name!r} is no name of an environment variable; write it in capitals")
