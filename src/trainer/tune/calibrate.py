"""What the present step, which was measured, tells of all that are predicted."""

from __future__ import annotations

import dataclasses

from trainer.tune.profile import Profile
from trainer.tune.program import Choice, program
from trainer.tune.simulate import simulate

# What caches, memory and the kernel's part of a transfer can do; more is noise of a step with little beside it.
MOST = 1.5
# Halvings of the interval that the slowdown is sought in.
HALVINGS = 12


def calibrated(profile: Profile, present: Choice, computing_s: float) -> Profile:
    """`profile` with what explains that the `present` step took `profile.present_s`, of which computing `computing_s`.

    1. The slowdown is how much longer computing takes beside transfers than sharing the cores explains. Computing is
    the step without what was exposed, so a transfer that is predicted too short does not enter. It grows with the
    slowdown, which is found by halving. 2. What is still unexplained is a factor, which other settings are taken to
    share: as a rule, waits for ranks that are late.
    """
    step = program(profile, present)
    low, high = 1.0, MOST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        found = simulate(step._replace(slowdown=middle))
        low, high = (middle, high) if found.step_s - found.exposed_s < computing_s else (low, middle)
    explained_s = simulate(step._replace(slowdown=low)).step_s
    return dataclasses.replace(profile, slowdown=low, unexplained=profile.present_s / explained_s)
