"""The settings in the order of their predicted steps, and what to say of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from trainer.tune.profile import Profile
from trainer.tune.program import BUCKETED, Choice, gradient_bytes, program, sent_bytes
from trainer.tune.simulate import Outcome, Program, simulate

# Predictions that differ by less are not told apart, however well the present step was met.
LEAST_ERROR = 0.03


class Predicted(NamedTuple):
    choice: Choice
    outcome: Outcome
    sent: float
    """bytes that a rank sends a step"""


def predict(profile: Profile, choice: Choice) -> Predicted:
    """The step of `profile` under `choice`."""
    outcome = Outcome(*(seconds * profile.unexplained for seconds in simulate(program(profile, choice))))
    return Predicted(choice, outcome, sent_bytes(profile, choice))


class Advice(NamedTuple):
    """What the model says of a run."""

    present: Predicted
    best: Sequence[Predicted]
    """the fastest first"""
    floor_s: float
    """the step without communication"""

    def gain(self, other: Predicted) -> float:
        """The share of the present step that `other` saves, both predicted."""
        return 1 - other.outcome.step_s / self.present.outcome.step_s


def advise(profile: Profile, present: Choice, choices: Iterable[Choice]) -> Advice:
    """Predict `choices` and the `present` one from `profile`."""
    # Of settings that come to the same, as caps above all buckets do, the first is enough.
    programs: dict[str, Choice] = {}
    for choice in choices:
        programs.setdefault(repr((choice.comm, choice.sync, program(profile, choice))), choice)
    predicted = [predict(profile, choice) for choice in programs.values()]
    plain = program(profile, present)
    floor = simulate(Program([segment._replace(waits=(), readies=()) for segment in plain.segments], [], plain.cores))
    return Advice(
        predict(profile, present),
        sorted(predicted, key=lambda one: one.outcome.step_s),
        floor.step_s,
    )


def overrides(choice: Choice, present: Choice) -> str:
    """What to type to change from `present` to `choice`."""
    changed = []
    if choice.comm != present.comm:
        changed.append(f"comm={choice.comm}")
    if choice.sync != present.sync:
        changed.append(f"sync={choice.sync}")
    if choice.sync == "delayed":
        changed.append("sync.warmup_steps=0")
    if choice.sync in BUCKETED and choice.bucket_cap_mb != present.bucket_cap_mb:
        cap = "null" if choice.bucket_cap_mb is None else f"{choice.bucket_cap_mb:g}"
        changed.append(f"parallel.data.bucket_cap_mb={cap}")
    return " ".join(changed) or "as it is"


def conclusion(advice: Advice, profile: Profile) -> list[str]:
    """What limits the step, how well the model met it, and whether to change anything, a line each."""
    now = advice.present.outcome
    gradient = gradient_bytes(profile) / 2**20
    lines = [
        f"The step takes {profile.present_s * 1000:.1f} ms (middle half ± {profile.spread_s * 1000:.1f}), simulated"
        f" {now.step_s / profile.unexplained * 1000:.1f} ms: the model is {profile.error:.1%} off, for which all steps"
        " are corrected.",
        f"Without communication it would take {advice.floor_s * 1000:.1f} ms. {gradient:.3g} MiB of"
        f" gradient keep the link for {now.comm_s * 1000:.1f} ms, {now.exposed_s * 1000:.1f} ms of them exposed.",
    ]
    best, sure = advice.best[0], max(profile.error, LEAST_ERROR)
    if advice.gain(best) <= sure:
        lines.append(
            f"Nothing allowed beats the present settings by more than the model's error of {sure:.1%}: keep them."
        )
        if best.choice.comm == advice.present.choice.comm == "allreduce":
            lines.append("Do not compress here: what it saves on the link it costs in encoding.")
    else:
        lines.append(
            f"{overrides(best.choice, advice.present.choice)} should save {advice.gain(best):.0%} of the step."
        )
    return lines


def show(advice: Advice, profile: Profile, count: int) -> None:
    """Print the first `count` settings and the conclusion."""
    console = Console()
    hosts = "1 host" if profile.hosts == 1 else f"{profile.hosts} hosts"
    table = Table(title=f"Predicted steps, {profile.ranks} replicas on {hosts}", title_justify="left")
    for column in ("settings", "step", "exposed", "sent", "÷ present"):
        table.add_column(column, justify="left" if column == "settings" else "right")
    for one in (*advice.best[:count], advice.present):
        now = one is advice.present
        table.add_row(
            "present" if now else overrides(one.choice, advice.present.choice),
            f"{one.outcome.step_s * 1000:.1f} ms",
            f"{one.outcome.exposed_s * 1000:.1f} ms",
            f"{one.sent / 1e6:,.1f} MB",
            f"{1 - advice.gain(one):.3f}",
        )
    console.print(table)
    for line in conclusion(advice, profile):
        console.print(line, soft_wrap=True)
