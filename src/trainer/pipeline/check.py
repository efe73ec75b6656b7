"""What must be true of a run for its model to be cut into a pipeline, checked before a process starts."""

from __future__ import annotations

import logging

from torch import nn

from trainer.parallel.pipeline import OF_SEVERAL_STAGES
from trainer.pipeline.actions import Plan, in_flight, stages_of
from trainer.pipeline.cut import Chain
from trainer.pipeline.grid import grid
from trainer.pipeline.schedules import SCHEDULES
from trainer.pipeline.simulate import alike, simulate
from trainer.run import Run
from trainer.spec import ConfigError

log = logging.getLogger(__name__)


def check(run: Run) -> None:
    """Raise ConfigError if `run` cannot train its model as a pipeline; warn of what makes it slow or different."""
    axis = run.parallel.pipeline
    if axis.stages_a_rank > 1 and axis.schedule not in OF_SEVERAL_STAGES:
        raise ConfigError(
            f"parallel.pipeline.stages: schedule={axis.schedule} has one stage on each rank, not {axis.stages};"
            " use parallel.pipeline.schedule=interleaved"
        )
    if axis.schedule == "interleaved" and axis.stages_a_rank == 1:
        raise ConfigError(
            "parallel.pipeline.stages: schedule=interleaved needs at least 2 stages on each rank; use"
            " parallel.pipeline.stages=2, or schedule=1f1b"
        )
    _check_microbatches(run)
    chain = Chain(run.model.skeleton(run.data.sample()), axis.split)
    auto_fits = axis.schedule == "auto" and len(axis.split) + 1 == (axis.stages or 2) * axis.size
    if axis.split != "auto" and len(axis.split) != axis.total_stages - 1 and not auto_fits:
        raise ConfigError(
            f"parallel.pipeline.split: {len(axis.split)} layers are named, but {axis.total_stages} stages begin with"
            f" {axis.total_stages - 1} besides the first; name as many, or use parallel.pipeline.split=auto"
        )
    if axis.split != "auto" and chain.begins != sorted(chain.begins):
        raise ConfigError(
            f"parallel.pipeline.split: {', '.join(axis.split)} are not in the order of the forward pass; name them as"
            f" they follow one another: {', '.join(chain.units[n].layer for n in sorted(chain.begins))}"
        )
    if axis.split != "auto" and 0 in chain.begins:
        raise ConfigError(
            f"parallel.pipeline.split: {chain.units[0].layer} begins the first stage anyway; name only the layers that"
            " begin later ones"
        )
    if len(chain.units) < axis.total_stages:
        raise ConfigError(
            f"parallel.pipeline.size: {axis.size} ranks x {axis.stages_a_rank} stages are {axis.total_stages}, but the"
            f" model can be cut into {len(chain.units)} at most ({', '.join(unit.layer for unit in chain.units)}); use"
            " fewer stages, or a deeper model"
        )
    if any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in chain.model.modules()):
        log.warning(
            "parallel.pipeline: batch norm takes the mean of one micro-batch, %d samples, at a time",
            run.share // run.microbatches,
        )


def plan_of(run: Run) -> Plan:
    """The plan of a run whose schedule is given; of schedule=auto that of 1F1B, which a worker may replace."""
    axis = run.parallel.pipeline
    if axis.schedule == "auto":
        return SCHEDULES["1f1b"](axis.size, 1, run.microbatches)
    return SCHEDULES[axis.schedule](axis.size, axis.stages_a_rank, run.microbatches)


def picture(run: Run) -> list[str]:
    """What the run's schedule will look like, in lines, if all stages take the same time and hops none."""
    axis, plan = run.parallel.pipeline, plan_of(run)
    forecast = simulate(plan, alike(stages_of(plan)))
    kind = "1f1b, which schedule=auto may replace" if axis.schedule == "auto" else axis.schedule
    held = ", ".join(str(in_flight(actions)) for actions in plan)
    return [
        f"pipeline: {kind}, {stages_of(plan)} stages on {axis.size} ranks, {run.microbatches} micro-batches",
        *grid(plan).splitlines(),
        f"bubble: {100 * forecast.bubble:.1f} % of a step, if stages take the same time, backward passes twice that of"
        " forward passes, and hops none",
        f"micro-batches whose activations a rank holds at once: {held}",
    ]


def _check_microbatches(run: Run) -> None:
    axis, share = run.parallel.pipeline, run.share // run.batch.microbatches
    count = axis.microbatches_of(share)
    if share % count:
        fitting = [n for n in range(1, share + 1) if share % n == 0]
        near = min(fitting, key=lambda n: abs(n - count))
        raise ConfigError(
            f"parallel.pipeline.microbatches: {count} do not divide the {share} samples that a replica computes at once"
            f" (batch.size / replicas / batch.microbatches); use {near}, or auto"
        )
    if axis.schedule == "interleaved" and run.microbatches % axis.size:
        raise ConfigError(
            f"parallel.pipeline.microbatches: {run.microbatches} do not divide by the {axis.size} ranks of the"
            f" pipeline, in whose rounds schedule=interleaved passes them; use a multiple of {axis.size}"
        )
    if run.microbatches < axis.size:
        plan = plan_of(run)
        bubble = simulate(plan, alike(stages_of(plan))).bubble
        log.warning(
            "parallel.pipeline.microbatches: %d for %d ranks leave them idle for %.0f %% of a step; with %d it would be"
            " %.0f %%",
            run.microbatches,
            axis.size,
            100 * bubble,
            2 * axis.size,
            100 * (axis.size - 1) / (3 * axis.size - 1),
        )
