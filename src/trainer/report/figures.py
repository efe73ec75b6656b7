"""The key figures of a run: a few for a glance, and a table."""

from __future__ import annotations

from typing import NamedTuple

from trainer.overlap.evidence import Evidence
from trainer.report import series, units
from trainer.report.chart import Table

FORMS = {
    "ms": units.milliseconds,
    "share": units.share,
    "size": units.size,
    "rate": units.rate,
    "times": lambda value: f"{units.short(value)} x",
    "mib": lambda value: f"{units.short(value)} MiB",
    "plain": lambda value: units.short(value),
    "accuracy": lambda value: f"{value:.2%}",
}
# metric: (what it is called, its form)
ROWS = {
    "speed/step_ms": ("step", "ms"),
    "speed/data_wait_ms": ("waiting for data", "ms"),
    "speed/forward_ms": ("forward", "ms"),
    "speed/backward_ms": ("backward", "ms"),
    "overlap/exposed_ms": ("exposed communication", "ms"),
    "overlap/bubble_share": ("bubble's share of the step", "share"),
    "overlap/wait_activations_ms": ("waiting for activations", "ms"),
    "overlap/wait_gradients_ms": ("waiting for their gradients", "ms"),
    "speed/optimizer_ms": ("optimizer", "ms"),
    "overlap/comm_ms": ("communication", "ms"),
    "overlap/hidden_ratio": ("hidden share of communication", "share"),
    "overlap/exposed_share": ("exposed share of the step", "share"),
    "overlap/tail_ms": ("last bucket after the backward pass", "ms"),
    "overlap/wait_for_peers_ms": ("waiting for slower ranks", "ms"),
    "overlap/ablation_exposed_ms": ("exposed, by steps without communication", "ms"),
    "overlap/slowdown": ("slowdown of computing beside communication", "times"),
    "comm/wire_gbit_per_s": ("rate while bytes move", "rate"),
    "comm/bytes_sent": ("sent by a rank in a step", "size"),
    "pipeline/bytes_sent": ("sent by a rank to neighbouring stages", "size"),
    "comm/compression_ratio": ("compression", "times"),
    "comm/encode_ms": ("encoding and decoding", "ms"),
    "gpu/utilisation": ("GPU utilisation, percent", "plain"),
    "memory/peak_mb": ("peak memory", "mib"),
    "speed/samples_per_s": ("samples a second", "plain"),
    "train/loss": ("training loss, last", "plain"),
    "eval/loss": ("evaluation loss, last", "plain"),
    "eval/accuracy": ("accuracy, last", "accuracy"),
}
GLANCE = {
    "speed/step_ms": "a step",
    "overlap/hidden_ratio": "communication hidden",
    "overlap/exposed_ms": "exposed a step",
    "overlap/bubble_share": "bubble of the pipeline",
    "comm/bytes_sent": "sent by a rank a step",
    "speed/samples_per_s": "samples a second",
    "eval/accuracy": "accuracy",
}


class Figure(NamedTuple):
    value: str
    label: str


def glance(evidence: Evidence) -> list[Figure]:
    found = ((_figure(evidence, name), label) for name, label in GLANCE.items())
    return [Figure(value, label) for value, label in found if value]


def headline(evidence: Evidence) -> str:
    """The answer to "is it overlapping?" in a sentence or two."""
    bubble = series.typical(evidence, "overlap/bubble_share")
    waits = "" if bubble is None else f"Ranks wait for neighbouring stages in {units.share(bubble)} of a step."
    comm, exposed = series.typical(evidence, "overlap/comm_ms"), series.typical(evidence, "overlap/exposed_ms")
    hidden, share = series.typical(evidence, "overlap/hidden_ratio"), series.typical(evidence, "overlap/exposed_share")
    if not comm or exposed is None or hidden is None or share is None:
        return waits or "No communication was measured, so there was none to hide."
    gradients = (
        f"In a typical step gradients travel for {units.milliseconds(comm)}. {units.share(hidden)} of that is hidden "
        f"beside computation; {units.milliseconds(exposed)}, {units.share(share)} of the step, is exposed."
    )
    return f"{gradients} {waits}".rstrip()


def numbers(evidence: Evidence) -> Table | None:
    rows = [
        [label, value, _figure(evidence, f"{name}/worst", FORMS_OF[name])]
        for name, (label, _) in ROWS.items()
        if (value := _figure(evidence, name))
    ]
    return (
        Table("Key figures: medians over the run, without its first line", ["", "typical", "worst rank"], rows)
        if rows
        else None
    )


FORMS_OF = {name: form for name, (_, form) in ROWS.items()}


def _figure(evidence: Evidence, name: str, form: str | None = None) -> str | None:
    value = series.result(evidence, name)
    return None if value is None else FORMS[form or FORMS_OF[name]](value)
