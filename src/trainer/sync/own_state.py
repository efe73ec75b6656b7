"""What the optimizers of replicas have apart from each other when each has taken steps of its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trainer.sync.base import Replica

OPTIMIZER, SCALER = "optimizer/", "scaler/"


class OwnState:
    """A replica's optimizer state and loss scale, as named tensors for a checkpoint."""

    def __init__(self, replica: Replica) -> None:
        self._optimizer, self._scaler = replica.optimizer, replica.scaler
        self._names = {id(p): name for name, p in replica.model.named_parameters()}

    def carried(self) -> dict[str, Tensor]:
        state = {
            f"{OPTIMIZER}{self._names[id(parameter)]}/{entry}": value
            for parameter, entries in self._optimizer.state.items()
            for entry, value in entries.items()
            if value is not None
        }
        # Empty where there is no scaling.
        scaling = self._scaler.state_dict()
        return state | {f"{SCALER}{key}": torch.tensor(value, dtype=torch.float64) for key, value in scaling.items()}

    def resume(self, ranks: Sequence[dict[str, Tensor]]) -> None:
        """Take over one rank's state, or the mean of several: a momentum of weights that are the mean themselves."""
        own = set(self._names.values())
        kept = [key for key in ranks[0] if key.removeprefix(OPTIMIZER).rpartition("/")[0] in own]
        if kept:
            order = [self._names[id(p)] for group in self._optimizer.param_groups for p in group["params"]]
            state: dict[int, dict[str, Tensor]] = {}
            for key in kept:
                parameter, _, entry = key.removeprefix(OPTIMIZER).rpartition("/")
                value = _mean([rank[key] for rank in ranks])
                state.setdefault(order.index(parameter), {})[entry] = value
            # torch's own loader knows which entries live on the parameter's device and which stay on the host.
            groups = self._optimizer.state_dict()["param_groups"]
            self._optimizer.load_state_dict({"state": state, "param_groups": groups})
        scaling = self._scaler.state_dict()
        if scaling and f"{SCALER}scale" in ranks[0]:
            self._scaler.load_state_dict(
                {key: type(value)(ranks[0][f"{SCALER}{key}"].tolist()) for key, value in scaling.items()}
            )


def _mean(values: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(values)).mean(0) if values[0].is_floating_point() else values[0]
