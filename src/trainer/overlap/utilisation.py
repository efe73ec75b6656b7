"""How busy the GPU is, sampled through NVML beside the training."""

from __future__ import annotations

import logging
import threading

import torch

log = logging.getLogger(__name__)

# NVML's own window is a sixth of a second or longer.
PERIOD_S = 0.2


class Utilisation:
    """Samples `device` on a thread of its own; on a CPU there is nothing to sample."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._samples: list[int] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="utilisation", daemon=True)
        if device.type == "cuda":
            self._thread.start()

    def numbers(self) -> list[float]:
        """The number of samples since the last call, their sum in percent, and the lowest of them."""
        samples, self._samples = self._samples, []
        return [len(samples), sum(samples), min(samples, default=100)]

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(PERIOD_S):
            try:
                self._samples.append(torch.cuda.utilization(self.device))
            except Exception as error:  # no NVML, no permission, no such counter: the training goes on without it
                log.warning("gpu/utilisation: not sampled: %s", error)
                return


def summarise(ranks: list[list[float]]) -> dict[str, float]:
    """Metrics from the `numbers` of all ranks: `gpu/utilisation` in percent, and its lowest sample on any rank."""
    count = sum(samples for samples, _, _ in ranks)
    if not count:
        return {}
    return {
        "gpu/utilisation": sum(total for _, total, _ in ranks) / count,
        "gpu/utilisation/worst": min(lowest for _, _, lowest in ranks),
    }
