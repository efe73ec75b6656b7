"""How much longer computing takes beside what travels than sharing the cores explains."""

from __future__ import annotations

import dataclasses

from trainer.tune.profile import Profile
from trainer.tune.program import Choice, program
from trainer.tune.simulate import simulate

# What caches, memory and the kernel's part of a transfer can do; more is noise of a step with little beside it.
MOST = 1.5
# Halvings of the interval that it is sought in.
HALVINGS = 12


def slowed(profile: Profile, present: Choice, computing_s: float) -> Profile:
    """`profile` with the slowdown that explains why the `present` step's computing took `computing_s`.

    That is the step without what was exposed, so a transfer that is predicted too short does not enter. Computing grows
    with the slowdown, which is found by halving.
    """
    step = program(profile, present)
    low, high = 1.0, MOST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        found = simulate(step._replace(slowdown=middle))
        low, high = (middle, high) if found.step_s - found.exposed_s < computing_s else (low, middle)
    return dataclasses.replace(profile, slowdown=low)
