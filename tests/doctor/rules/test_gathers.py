from __future__ import annotations

from tests.doctor.scene import config, run, sums, windows
from trainer.doctor.command_line import lacks
from trainer.doctor.examine import examine
from trainer.doctor.finding import Finding
from trainer.doctor.rules.gathers import look

SHARED = config(parallel__data__shard=True)
UNMEASURED = {name: value for name, value in sums().items() if name in ("step", "forward", "backward", "optimizer")}


def test_what_is_exposed_is_told_and_nothing_that_is_refused_is_advised():
    evidence = run(windows(sums(exposed=20), sums(exposed=20)), config=SHARED)
    finding = Finding(
        "20 % of the step waits for parameters or gradients that are shared out",
        "20.0 ms of 60.0 ms of communication are exposed, in a step of 100 ms. With parallel=ddp a third less travels,"
        " and none of it in the forward pass; each rank then holds the whole model and its optimizer's state.",
        "parallel=ddp",
        None,
    )
    assert look(evidence) == finding
    assert examine(evidence) == [finding]


def test_replicas_of_a_whole_model_gather_nothing():
    assert look(run(windows(sums(exposed=20), sums(exposed=20)))) is None


def test_where_it_is_hidden_there_is_nothing_to_say():
    assert look(run(windows(sums(exposed=4), sums(exposed=4)), config=SHARED)) is None


def test_what_is_not_measured_is_said_to_be_missing():
    evidence = run(windows(UNMEASURED, UNMEASURED), config=SHARED)
    assert examine(evidence) == []
    assert lacks(evidence) == [
        "What a model that is shared out sends on a GPU is not measured: communication is not judged."
    ]
    assert lacks(run(windows(sums(), sums()), config=SHARED)) == []
