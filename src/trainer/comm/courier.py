"""The courier: one thread a rank that carries whole buckets, in an order that is the same on all ranks."""

import datetime
import queue
import re
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from trainer.comm.wire import Wire

# Seconds in which a rank that also failed says so; who has not said anything by then never arrived.
ROLL_CALL_S = 2.0


class CourierError(RuntimeError):
    """A job failed; the message names the bucket, the phase and the ranks that did not take part."""


class _Job(NamedTuple):
    name: str
    work: Callable[[], Tensor]
    future: torch.futures.Future


class Courier:
    """Runs jobs one after another on a process group that nothing else uses.

    A job is straight-line code that computes and exchanges as it needs, so an algorithm of several phases needs no
    chain of callbacks. Where collectives block the host (Gloo) jobs run on a thread. Where they are enqueued (NCCL) a
    job runs at once, on a stream of its own, and its future carries the device: a second thread would only compete for
    the interpreter. Jobs must be submitted in the same order on all ranks, as DDP does with its buckets.
    """

    def __init__(self, group: dist.ProcessGroup, device: torch.device, timeout: datetime.timedelta) -> None:
        own = dist.new_group(
            dist.get_process_group_ranks(group),
            backend=dist.get_backend(group),
            timeout=timeout,
            use_local_synchronization=True,
            group_desc="courier",
        )
        assert isinstance(own, dist.ProcessGroup), "this rank is a member of the group"
        self.device, self.wire = device, Wire(own)
        self._error: CourierError | None = None
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._thread = threading.Thread(target=self._carry, name="courier", daemon=True)
        if self._stream is None:
            self._thread.start()

    def submit(self, name: str, work: Callable[[], Tensor]) -> torch.futures.Future[Tensor]:
        """A future of what `work` returns. A failure surfaces where the future is waited for: in the backward pass."""
        if self._stream is not None:
            return self._run_on_stream(name, work)
        future: torch.futures.Future = torch.futures.Future()
        # An exception that is set on a future is a mere value to DDP; one that a callback raises is an error.
        outcome = future.then(_value_or_raise)
        self._jobs.put(_Job(name, work, future))
        return outcome

    def close(self) -> None:
        """Finish the jobs that were submitted, and end the thread."""
        if self._thread.is_alive():
            self._jobs.put(None)
            self._thread.join()

    def _carry(self) -> None:
        while (job := self._jobs.get()) is not None:
            if self._error is None:
                try:
                    job.future.set_result(job.work())
                    continue
                except Exception as error:  # whatever a job raises belongs to the training thread
                    self._error = CourierError(self._describe(job.name, error))
            # The group is out of step after a failure: no later job may use it.
            job.future.set_result(self._error)

    def _run_on_stream(self, name: str, work: Callable[[], Tensor]) -> torch.futures.Future[Tensor]:
        assert self._stream is not None
        future: torch.futures.Future = torch.futures.Future(devices=[self.device])
        self._stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._stream):
            try:
                future.set_result(work())
            except Exception as error:
                raise CourierError(self._describe(name, error)) from error
        return future

    def _describe(self, name: str, error: Exception) -> str:
        # Gloo begins with the place in its own source.
        reason = re.sub(r"^\[\S*\] ", "", str(error).strip()).splitlines() or [type(error).__name__]
        absent = self._absent()
        who = f"; rank {', '.join(map(str, absent))} of the data axis did not arrive" if absent else ""
        return f"comm: {name}, phase {self.wire.phase or 'compute'}: {reason[0]}{who}"

    def _absent(self) -> list[int]:
        """Ranks that do not report the failure as well: a rank that is dead, or computes, or hangs elsewhere."""
        store = dist.PrefixStore("courier", self.wire.group.get_group_store())
        absent = list(range(self.wire.size))
        try:
            store.set(f"failed/{self.wire.rank}", "")
            until = time.monotonic() + ROLL_CALL_S
            while absent and time.monotonic() < until:
                absent = [rank for rank in absent if not store.check([f"failed/{rank}"])]
                time.sleep(0.05)
        except RuntimeError:
            return []  # the store went with the rank that hosts it; the reason itself must do
        return absent


def _value_or_raise(future: torch.futures.Future) -> Tensor:
    value = future.value()
    if isinstance(value, CourierError):
        raise value
    return value
