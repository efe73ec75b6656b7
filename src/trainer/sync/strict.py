"""Wait for every gradient, then update every parameter: the reference."""

from __future__ import annotations

from trainer.sync.base import Replica, Sync, Synchroniser


class Strict(Sync):
    """Plain synchronous training, as DDP does it."""

    def attach(self, replica: Replica) -> Synchroniser:
        return _Strict(replica, replica.wrap(replica.state, replica.hook))


class _Strict(Synchroniser):
    def step(self) -> None:
        self.replica.update()
