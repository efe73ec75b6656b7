"""A communication hook of the user's own."""

import inspect
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from pydantic import Field

from trainer.comm.base import CommHook, Hook
from trainer.spec import ConfigError, load_callable

if TYPE_CHECKING:
    from trainer.run import Run


class Custom(CommHook):
    """Whatever `factory(group, **kwargs)` returns: state and hook, as `register_comm_hook` takes them."""

    factory: str
    """the callable that makes state and hook, as package.module:callable"""
    kwargs: dict[str, Any] = {}
    """the arguments of the factory after the group"""
    bytes_ratio: float = Field(default=1.0, ge=0)
    """the bytes the hook sends, as a share of the exact average's, for the metrics"""

    def check(self, run: "Run") -> None:
        factory = load_callable(self.factory, "comm.factory")
        try:
            signature = inspect.signature(factory)
        except ValueError:
            return  # native code does not tell what it takes; the worker will see
        try:
            signature.bind(None, **self.kwargs)
        except TypeError as error:
            raise ConfigError(
                f"comm.factory: {self.factory} takes ({', '.join(signature.parameters)}), but is called with"
                f" ({', '.join(['group', *self.kwargs])}): {error}; it must take the process group, then comm.kwargs,"
                " and return (state, hook)"
            ) from None

    def build(self, group: dist.ProcessGroup, timeout: Any = None) -> tuple[Any, Hook]:
        factory = load_callable(self.factory, "comm.factory")
        try:
            made = factory(group, **self.kwargs)
        except Exception as error:  # the user's code may raise anything
            raise ConfigError(
                f"comm.factory: {self.factory} failed with {type(error).__name__}: {error}; check comm.kwargs"
            ) from error
        if not (isinstance(made, tuple) and len(made) == 2 and callable(made[1])):
            kind = type(made).__name__
            if isinstance(made, tuple):
                kind = f"({', '.join(type(part).__name__ for part in made)})"
            raise ConfigError(
                f"comm.factory: {self.factory} returned {kind}; it must return (state, hook), as DDP's"
                " register_comm_hook takes them"
            )
        names = list(inspect.signature(made[1]).parameters)
        if len(names) != 2 or names[1] != "bucket":
            raise ConfigError(
                f"comm.factory: the hook of {self.factory} takes ({', '.join(names)}); DDP calls it as hook(state,"
                " bucket), with these names"
            )
        return made

    def bytes_sent(self, state: Any, bucket_bytes: int, size: int) -> float:
        return self.bytes_ratio * 2 * (size - 1) / size * bucket_bytes
