from __future__ import annotations

from tests.doctor.scene import config, run, sums, windows
from trainer.doctor.finding import Finding
from trainer.doctor.rules.untouched import look

EXPOSED = windows(sums(exposed=20), sums(exposed=20))


def test_everything_that_was_left_is_one_finding():
    untouched = config(parallel__data__bucket_cap_mb=None, data__workers=0, place__device="cuda")
    assert look(run(EXPOSED, config=untouched)) == Finding(
        "Settings that were left as they come",
        "20 % of the step is exposed communication, and the bucket size is DDP's own, not searched; no other"
        " communication hook was taken; batches are not prefetched by loader processes; what NCCL chose was not"
        " looked at; no profile was taken.",
        "-m parallel.data.bucket_cap_mb=1,5,25",
        None,
    )


def test_what_was_set_is_not_listed():
    assert look(run(EXPOSED)) == Finding(
        "Settings that were left as they come",
        "20 % of the step is exposed communication, and no other communication hook was taken; no profile was taken.",
        "-m comm=allreduce,fp16,onebit",
        None,
    )
    all_set = config(comm___target_="trainer.comm.fp16.FP16", profile___target_="trainer.profile.window.Window")
    assert look(run(EXPOSED, config=all_set)) is None


def test_where_communication_is_hidden_nobody_is_reminded():
    hidden = windows(sums(exposed=2), sums(exposed=2))
    assert look(run(hidden, config=config(parallel__data__bucket_cap_mb=None))) is None


def test_options_that_are_not_known_are_not_called_untouched():
    assert look(run(EXPOSED, config={})) is None
