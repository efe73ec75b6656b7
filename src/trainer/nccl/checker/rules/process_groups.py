"""What torch's process groups read."""

from __future__ import annotations

from collections.abc import Iterator

from trainer.nccl.checker import reading
from trainer.nccl.checker.finding import Severity
from trainer.nccl.checker.rule import Hit, Rule, hit, listed
from trainer.nccl.checker.situation import Situation
from trainer.nccl.checker.table import variables

_BLOCKING, _HANDLING = "TORCH_NCCL_BLOCKING_WAIT", "TORCH_NCCL_ASYNC_ERROR_HANDLING"
_DUMP, _DESYNC = "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_DESYNC_DEBUG"
_BUFFERS = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
_RENAMED = tuple(row.name for row in variables().values() if row.ended.startswith("renamed"))


def _set_as(at: Situation, name: str) -> str | None:
    """The name under which it is set: its own, which wins, or that of old."""
    return next(iter(at.given(name, name.removeprefix("TORCH_"))), None)


def _blocking(at: Situation) -> Iterator[Hit]:
    name = _set_as(at, _BLOCKING)
    if name is None or not at.true(name):
        return
    handling = _set_as(at, _HANDLING)
    # torchrun sets it to 1 for everybody.
    chosen = handling and not (at.text("TORCHELASTIC_RUN_ID") and at.text(handling) == "1")
    against = [handling] if handling and chosen and reading.stoi(at.text(handling) or "") else []
    against += [one for one in (_set_as(at, _DUMP), _set_as(at, _DESYNC)) if one and at.true(one)]
    severity: Severity = "error" if against else "warning"
    told = "starts no watchdog, which {against} needs" if against else None
    yield hit(name, severity, wrong=told, against=listed(against) if against else "")


def _no_record(at: Situation) -> Iterator[Hit]:
    if not at.true(_DUMP):
        return
    size = next(iter(at.given(*_BUFFERS)), None)
    if size and reading.stoi(at.text(size) or "") == 0:
        yield hit(_DUMP, other=f"{size}=0")
    if at.true("TORCH_NCCL_ENABLE_MONITORING") is False:
        yield hit(_DUMP, other="TORCH_NCCL_ENABLE_MONITORING=0")


def _old_names(at: Situation) -> Iterator[Hit]:
    for name in at.given(*_RENAMED):
        row = variables()[name]
        _, release = row.ended_in()
        if at.context.torch is not None and at.context.torch < release:
            continue
        text, new = at.text(name), at.text(row.instead)
        if new is not None and new != text:
            yield hit(
                name,
                "error",
                wrong="is {new}'s old name, which is set to {text}, and that wins",
                instead="remove this one",
                new=row.instead,
                text=new,
            )
        else:
            yield hit(name, new=row.instead, text=text, release=".".join(str(part) for part in release))


def _without_effect(at: Situation) -> Iterator[Hit]:
    name = "TORCH_NCCL_AVOID_RECORD_STREAMS"
    if at.text(name) is not None and (at.context.torch is None or at.context.torch >= (2, 8)):
        yield hit(name)


def _short_heartbeat(at: Situation) -> Iterator[Hit]:
    name = "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"
    seconds, timeout = reading.stoi(at.text(name) or ""), at.context.timeout_s
    if seconds is not None and timeout is not None and seconds <= timeout and at.true(_DUMP) is not False:
        yield hit(name, timeout=f"{timeout:g}", better=int(timeout) + 120)


def _queues(at: Situation) -> Iterator[Hit]:
    name = "CUDA_DEVICE_MAX_CONNECTIONS"
    value = at.meant(name)
    if value == 1 and at.context.sharding == "fsdp":
        yield hit(name)
    elif value not in (None, 1) and at.context.sharding == "tensor":
        yield hit(
            name,
            wrong="lets kernels overtake each other, which tensor parallelism orders with one queue before Blackwell",
            instead="set 1 on Hopper and older, or remove it",
        )


def _too_late(at: Situation) -> Iterator[Hit]:
    for name in sorted(at.context.late):
        yield hit(name)


RULES = (
    Rule(
        "O1",
        "warning",
        (_BLOCKING, "NCCL_BLOCKING_WAIT", _HANDLING, _DUMP, _DESYNC),
        _blocking,
        wrong="makes the host wait for every collective, which has cost a fifth of a run",
        instead="remove it; torch's watchdog ends a run whose collectives hang",
        reason="A host that waits launches nothing ahead, and then no watchdog looks after the collectives.",
    ),
    Rule(
        "O2",
        "warning",
        (_DUMP, "TORCH_NCCL_ENABLE_MONITORING", *_BUFFERS),
        _no_record,
        wrong="writes nothing with {other}",
        instead="remove {other}",
        reason="A dump is the flight recorder's, written when the monitor asks for it.",
    ),
    Rule(
        "O3",
        "warning",
        _RENAMED,
        _old_names,
        wrong="is an old name since torch {release}",
        instead="write {new}={text}",
        reason="torch reads the old name only where the new one is unset, and warns.",
    ),
    Rule(
        "O4",
        "warning",
        ("TORCH_NCCL_AVOID_RECORD_STREAMS",),
        _without_effect,
        wrong="has no effect since torch 2.8",
        instead="remove it",
        reason="What it switched on is how torch now works.",
    ),
    Rule(
        "O5",
        "warning",
        ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", _DUMP),
        _short_heartbeat,
        wrong="may end the process before the collectives' timeout of {timeout} s has written the flight record",
        instead="set {better}, or remove it",
        reason="The monitor ends a process whose watchdog gives no sign, with nothing to read afterwards.",
    ),
    Rule(
        "O6",
        "warning",
        ("CUDA_DEVICE_MAX_CONNECTIONS",),
        _queues,
        wrong="leaves one queue to the GPU, behind which communication waits for kernels",
        instead="remove it",
        reason="The value is a recipe for tensor parallelism; sharded data parallelism needs several queues.",
    ),
    Rule(
        "O8",
        "warning",
        ("NCCL_*",),
        _too_late,
        wrong="was set after the first communicator was made, and is not read any more",
        instead="set it before the process starts, as +nccl.env.<NAME>=<value>",
        reason="NCCL reads its variables once.",
    ),
)
