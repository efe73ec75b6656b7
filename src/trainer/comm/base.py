"""`comm`: what travels between the replicas of a model."""

import datetime
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch.distributed as dist
from torch import Tensor, nn

from trainer.comm.wire import Observer
from trainer.spec import Component

Hook = Callable[[Any, dist.GradBucket], Any]


class CommHook(Component):
    """A way to average a bucket of gradients over the data axis, usable in any program that has a DDP module."""

    @property
    def divisible(self) -> bool:
        """Whether any stretch of the gradients may be a bucket, rather than whole parameters: no memory, no shapes."""
        return False

    def build(
        self, group: dist.ProcessGroup, timeout: datetime.timedelta = dist.default_pg_timeout
    ) -> tuple[Any, Hook]:
        """State and hook, exactly as `ddp.register_comm_hook(state, hook)` takes them, for the ranks of `group`.

        A hook with a process group of its own gives up on an exchange after `timeout`.
        """
        raise NotImplementedError

    def bytes_sent(self, state: Any, bucket_bytes: int, size: int) -> float:
        """Bytes that one of `size` ranks sent for the bucket of `bucket_bytes` that has just arrived."""
        raise NotImplementedError

    def carried(self, state: Any, module: nn.Module) -> dict[str, Tensor]:
        """What a checkpoint must hold of this rank's state, by name; nothing for most."""
        return {}

    def resume(self, state: Any, module: nn.Module, stored: Sequence[dict[str, Tensor]], mine: int | None) -> None:
        """Take over what an earlier run's ranks carried; `mine` is this rank's own, or None if their number changed.

        What came before is forgotten, also where the earlier run carried nothing.
        """

    def observe(self, state: Any, observer: Observer) -> None:
        """From now on run each exchange within `observer(phase, bytes)`; a hook that is one collective has no parts."""

    def lever(self, state: Any) -> Any:
        """What the guard may pull where the hook loses something: with `ease` and `tighten`; else None."""
        return None

    def close(self, state: Any) -> None:
        """End what the hook has running, after the last step."""

    def numbers(self, state: Any) -> dict[str, float]:
        """What the hook has measured since the last call, by metric name; nothing for most."""
        return {}


class HookCarrier(NamedTuple):
    """A hook at work on a module, as a checkpoint sees it."""

    hook: CommHook
    state: Any
    module: nn.Module

    def carried(self) -> dict[str, Tensor]:
        return self.hook.carried(self.state, self.module)

    def resume(self, stored: Sequence[dict[str, Tensor]], mine: int | None) -> None:
        self.hook.resume(self.state, self.module, stored, mine)
