"""What is said of predictions."""

from __future__ import annotations

import dataclasses

from tests.tune.made_up import line, profile
from trainer.tune.advice import advise, conclusion, overrides, show
from trainer.tune.program import Choice

PRESENT = Choice("allreduce", "strict", 25.0)
SMALLER = Choice("allreduce", "strict", 5.0)
SPARSE = Choice("topk", "strict", 25.0)
SLOW = profile(topk=line(0.001, 2000))


def test_the_fastest_come_first_and_the_floor_has_no_communication():
    advice = advise(SLOW, PRESENT, [SMALLER, PRESENT, SPARSE])
    assert [one.choice for one in advice.best] == [SPARSE, SMALLER, PRESENT]
    assert round(advice.floor_s, 6) == 0.126
    assert advice.gain(advice.present) == 0


def test_what_to_type_is_what_differs():
    assert overrides(SMALLER, PRESENT) == "parallel.data.bucket_cap_mb=5"
    assert overrides(Choice("fp16", "strict"), PRESENT) == "comm=fp16 parallel.data.bucket_cap_mb=null"
    assert overrides(Choice("topk", "next_forward"), PRESENT) == "comm=topk sync=next_forward"
    assert overrides(PRESENT, PRESENT) == "as it is"


def test_a_gain_beyond_the_models_error_is_advised():
    measured = dataclasses.replace(SLOW, present_s=0.285, unexplained=0.285 / 0.287)
    told = conclusion(advise(measured, PRESENT, [SMALLER, SPARSE]), measured)
    assert told[0] == (
        "The step takes 285.0 ms (middle half ± 1.0), simulated 287.0 ms: the model is 0.7% off, for which all steps"
        " are corrected."
    )
    assert told[1] == (
        "Without communication it would take 126.0 ms. 16 MiB of gradient keep the link for 159.9 ms, 159.9 ms of them"
        " exposed."
    )
    assert told[2] == "comm=topk should save 53% of the step."


def test_where_nothing_is_exposed_nothing_is_advised_and_compression_is_advised_against(capsys):
    fast = profile(allreduce=line(0.0, 1e6), topk=line(0.01, 1e6))
    measured = dataclasses.replace(fast, present_s=0.126)
    advice = advise(measured, PRESENT, [PRESENT, SPARSE])
    assert conclusion(advice, measured)[2:] == [
        "Nothing allowed beats the present settings by more than the model's error of 3.0%: keep them.",
        "Do not compress here: what it saves on the link it costs in encoding.",
    ]
    show(advice, measured, 1)
    assert "Predicted steps, 2 replicas on 2 hosts" in capsys.readouterr().out
