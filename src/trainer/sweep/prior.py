"""The settings of a space that is searched, in the order in which a profile predicts them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainer.run import Run
from trainer.spec import ConfigError
from trainer.tune import space
from trainer.tune.advice import predict
from trainer.tune.advise import refuse_unpredicted
from trainer.tune.profile import Profile
from trainer.tune.program import PROGRAMS, Choice

# The options that a prediction depends on, and the field of a choice that each is.
FIELDS = {"comm": "comm", "sync": "sync", "parallel.data.bucket_cap_mb": "bucket_cap_mb"}


def rank(profile: Profile, run: Run, values: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """The combinations of `values`, by option, in the order of their predicted steps; `run` has all other options.

    Options that no prediction depends on are left out, and those without a list of values. Raises ConfigError where
    the profile tells nothing of the rest.
    """
    refuse_unpredicted(run)
    values = {key: each for key, each in values.items() if key in FIELDS and each}
    if not values:
        raise ConfigError(
            f"sweep.prior: a profile tells of {', '.join(FIELDS)}, of which none is searched; leave it out"
        )
    present = space.present(run)
    combinations = [dict(zip(values, each, strict=True)) for each in itertools.product(*values.values())]
    choices = [(params, _choice(present, params)) for params in combinations]
    known = [one for one in choices if one[1].comm in profile.curves and one[1].sync in PROGRAMS]
    if not known:
        raise ConfigError(
            f"sweep.prior: the profile has only {', '.join(profile.curves)}, and none of them is searched; make one"
            " with tune=advise tune.allow=lossy"
        )
    known.sort(key=lambda one: predict(profile, one[1]).outcome.step_s)
    return (params for params, _ in known)


def _choice(present: Choice, params: Mapping[str, Any]) -> Choice:
    changed: dict[str, Any] = {FIELDS[key]: None if value == "null" else value for key, value in params.items()}
    return present._replace(**changed)
