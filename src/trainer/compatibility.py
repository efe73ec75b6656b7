"""What cannot be combined, and why: one table, checked before a process starts.

`python -m trainer.compatibility > docs/compatibility.md` writes it for readers. What is not in it works together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from trainer.run import Run
from trainer.spec import ConfigError


class Feature(NamedTuple):
    """Something a run may have."""

    name: str
    present: Callable[[Run], bool]


class Row(NamedTuple):
    """Two features of which a run may have only one."""

    one: Feature
    other: Feature
    where: str
    """the option to change"""
    why: str
    instead: str

    def error(self) -> ConfigError:
        return ConfigError(f"{self.where}: {self.why}; {self.instead}")


FP16 = Feature("`precision=fp16`", lambda run: run.precision == "fp16")
COMPILE = Feature("`compile=true`", lambda run: run.compile)
UNUSED = Feature("`parallel.data.find_unused_parameters=true`", lambda run: run.parallel.data.find_unused_parameters)
CLIP = Feature("`clip.max_norm`", lambda run: run.clip.max_norm is not None and run.clip.mode == "global_norm")
NO_NORM = Feature("no `clip.max_norm`", lambda run: run.clip.max_norm is None)
PREVIOUS_NORM = Feature("`clip.mode=previous_norm`", lambda run: run.clip.mode == "previous_norm")
FEEDBACK = Feature("a hook with `comm.error_feedback=true`", lambda run: getattr(run.comm, "error_feedback", False))
HOOK = Feature("any `comm` but allreduce", lambda run: type(run.comm).__name__ != "AllReduce")
NOOP = Feature("`comm=noop`", lambda run: type(run.comm).__name__ == "NoOp")
ALONE = Feature("one replica of the model", lambda run: run.data_size == 1)
EARLY = Feature("`sync=partitioned` or `next_forward`", lambda run: run.sync.early)
ON_TIME = Feature("any other `sync`", lambda run: not run.sync.early)
LAZY = Feature("`sync=next_forward`", lambda run: run.sync.lazy)
LATE = Feature("`sync=delayed`", lambda run: run.sync.late)
APART = Feature("`sync=local_sgd` or `diloco`", lambda run: run.sync.apart)
PIPELINE = Feature("`parallel=pipeline` or `gpipe`", lambda run: run.parallel.pipeline.size > 1)
ZERO_BUBBLE = Feature(
    "`parallel.pipeline.schedule=zero_bubble` or `auto`",
    lambda run: run.parallel.pipeline.size > 1 and run.parallel.pipeline.schedule in ("zero_bubble", "auto"),
)
TENSOR = Feature("`parallel=tensor` or `hybrid`", lambda run: run.parallel.tensor.size > 1)
CUT = Feature("`parallel.pipeline.size` or `tensor.size` above 1", lambda run: run.data_size < run.place.world)
SHARD = Feature("`parallel=fsdp`", lambda run: run.parallel.data.shard)
NOT_STRICT = Feature("any `sync` but strict", lambda run: type(run.sync).__name__ != "Strict")
GUARD = Feature("`sync.guard=true`", lambda run: run.sync.guard)
BUCKET_CAP = Feature("`parallel.data.bucket_cap_mb`", lambda run: run.parallel.data.bucket_cap_mb is not None)
ABLATION = Feature("`profile.ablation_every`", lambda run: run.profile.ablation_every is not None)
RECORD_REPLAY = Feature("`profile.record_replay=true`", lambda run: run.profile.record_replay)
# What torch's optimizers of these names do to an element depends on that element alone, on parts of tensors as well.
BY_ELEMENT = frozenset(["Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "SGD"])
NOT_BY_ELEMENT = Feature(
    "`optimizer=by_name` with Adafactor, Muon or Rprop",
    lambda run: getattr(run.optimizer, "class_name", "SGD") not in BY_ELEMENT,
)

TABLE = (
    Row(
        HOOK,
        ALONE,
        "comm",
        "there is nothing to send, since there is one replica of the model",
        "use comm=allreduce, or more processes with launch.processes=2",
    ),
    Row(
        FEEDBACK,
        FP16,
        "comm.error_feedback",
        "fp16 changes its loss scale, and what is pending would keep the old one",
        "use precision=bf16, or comm.error_feedback=false",
    ),
    Row(
        EARLY,
        FP16,
        "precision",
        "whether fp16's gradients overflowed is known when all are there, and this sync rule updates before",
        "use precision=bf16, or sync=strict",
    ),
    Row(
        EARLY,
        CLIP,
        "clip.mode",
        "the norm of the gradient is known when all of it is there, and this sync rule updates before",
        "use clip.mode=previous_norm, which clips by the norm of the step before, or sync=strict",
    ),
    Row(
        EARLY,
        UNUSED,
        "parallel.data.find_unused_parameters",
        "which parameters have no gradient is known at the end of the backward pass, and this sync rule updates before",
        "use sync=strict",
    ),
    Row(
        LAZY,
        COMPILE,
        "compile",
        "a compiled model cannot wait between its layers, as this sync rule does",
        "use compile=false, or sync=strict",
    ),
    Row(
        LATE,
        FP16,
        "precision",
        "fp16 changes its loss scale, and a delayed gradient would keep the old one",
        "use precision=bf16, or sync=strict",
    ),
    Row(
        PIPELINE,
        LAZY,
        "sync",
        "the micro-batches of a pipeline pass through a layer one after another before the first gradient is there, so"
        " its wait would have to be moved into the schedule",
        "use sync=strict, or sync=partitioned",
    ),
    Row(
        PIPELINE,
        UNUSED,
        "parallel.data.find_unused_parameters",
        "which parameters have no gradient is told from the graph of one forward pass, and several are under way",
        "use false, and keep only layers that every batch passes through",
    ),
    Row(
        PIPELINE,
        PREVIOUS_NORM,
        "clip.mode",
        "the norm is that of all stages, which are never at the same place of a step",
        "use clip.mode=global_norm with sync=strict",
    ),
    Row(
        ZERO_BUBBLE,
        COMPILE,
        "compile",
        "a compiled backward pass cannot be done in two parts",
        "use compile=false, or parallel.pipeline.schedule=1f1b",
    ),
    Row(
        TENSOR,
        COMPILE,
        "compile",
        "a compiled model cannot compute weights' gradients while the sums of layers that are shared out travel",
        "use compile=false, or parallel=ddp",
    ),
    Row(
        TENSOR,
        LAZY,
        "sync",
        "which module reads a weight first is not seen through layers that are shared out",
        "use sync=strict, or sync=partitioned",
    ),
    Row(
        TENSOR,
        PREVIOUS_NORM,
        "clip.mode",
        "the norm is that of all parts of the layers, which no single rank sees",
        "use clip.mode=global_norm with sync=strict",
    ),
    Row(
        SHARD,
        HOOK,
        "comm",
        "a hook averages whole gradients, and fully_shard leaves each rank its part of them",
        "use comm=allreduce, or parallel=ddp",
    ),
    Row(
        SHARD,
        NOT_STRICT,
        "sync",
        "this sync rule moves the gradients itself, and fully_shard has moved them already",
        "use sync=strict, or parallel=ddp",
    ),
    Row(
        SHARD,
        GUARD,
        "sync.guard",
        "no rank sees a whole update, and nothing is traded that could be taken back",
        "use sync.guard=false",
    ),
    Row(
        SHARD,
        CUT,
        "parallel.data.shard",
        "the ranks of a replica share its model out already, by stages or within layers",
        "use parallel.data.shard=false, or sizes of 1",
    ),
    Row(
        SHARD,
        UNUSED,
        "parallel.data.find_unused_parameters",
        "gathering a layer takes all ranks, so that no batch may pass one by",
        "use false, or parallel=ddp",
    ),
    Row(
        SHARD,
        BUCKET_CAP,
        "parallel.data.bucket_cap_mb",
        "gradients travel layer by layer, and not in buckets",
        "use null",
    ),
    Row(
        SHARD,
        FP16,
        "precision",
        "whether fp16's gradients overflowed is seen by the rank that has the part which did, and all must leave out"
        " the step",
        "use precision=bf16, or parallel=ddp",
    ),
    Row(
        SHARD,
        NOT_BY_ELEMENT,
        "optimizer.class_name",
        "torch's implementation cannot update parts of a parameter",
        "use another, such as RMSprop, or parallel=ddp",
    ),
    Row(
        SHARD,
        COMPILE,
        "compile",
        "a compiled model cannot gather its parameters between its layers",
        "use compile=false, or parallel=ddp",
    ),
    Row(
        SHARD,
        ABLATION,
        "profile.ablation_every",
        "there is no step without communication, since no rank has all parameters",
        "use null, or parallel=ddp",
    ),
    Row(
        SHARD,
        RECORD_REPLAY,
        "profile.record_replay",
        "a layer's time would hold the gathering of its parameters, and its gradients would be parts",
        "use false, or record with parallel=ddp",
    ),
    Row(
        APART,
        NOOP,
        "comm",
        "noop sends nothing, so replicas that take steps of their own would never come together",
        "use comm=allreduce, or sync=strict to measure the ceiling",
    ),
    Row(
        PREVIOUS_NORM,
        ON_TIME,
        "clip.mode",
        "the norm of the step before is for rules that update before the gradient's own is known",
        "use clip.mode=global_norm",
    ),
    Row(
        PREVIOUS_NORM,
        NO_NORM,
        "clip.mode",
        "there is no norm to clip to",
        "set clip.max_norm=<norm>, or leave clip.mode=global_norm",
    ),
)


def check(run: Run) -> None:
    """Raise ConfigError for the first row whose two features `run` has."""
    for row in TABLE:
        if row.one.present(run) and row.other.present(run):
            raise row.error()


def markdown() -> str:
    lines = [
        "# What cannot be combined",
        "",
        "Everything that is not listed here works together. What is listed is refused before a process starts.",
        "Written by `python -m trainer.compatibility`.",
        "",
        "| | with | is refused, since | instead |",
        "|---|---|---|---|",
        *(f"| {row.one.name} | {row.other.name} | {row.why} | {row.instead} |" for row in TABLE),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(markdown())
