from __future__ import annotations

import pytest

from tests.doctor.pipeline_scene import changed, pipeline
from tests.doctor.scene import config, run, sums, windows
from trainer.doctor.finding import Finding
from trainer.doctor.rules.straggler import look
from trainer.overlap.evidence import Window
from trainer.pipeline.simulate import Costs

HOSTS = {"hosts": ["Host0", "Host0", "Host1", "Host1"]}


def test_a_slow_rank_is_named_with_its_host():
    slow = windows(sums(peers=20), sums(peers=19), sums(backward=82), sums(peers=21))
    assert look(run(slow, **HOSTS)) == Finding(
        "All wait for rank 2 on Host1, which is slower",
        "It works 22.0 ms longer a step than the median of the others, which is 22 % of a rank's work; the largest part"
        " of that is its backward pass. The others wait 20.0 ms a step for it.",
        "ssh Host1 top",
        20.0,
    )


def test_a_rank_that_loads_its_data_slowly_is_told_to_load_with_more():
    slow = windows(sums(peers=20), sums(peers=19), sums(data=22), sums(peers=21))
    finding = look(run(slow, config=config(place__device="cuda"), **HOSTS))
    assert finding is not None
    assert "the largest part of that is the loading of its batch" in finding.evidence
    assert finding.advice == "data.workers=4"


def test_on_one_host_of_gpus_the_driver_is_asked():
    finding = look(run(windows(sums(peers=20), sums(backward=82)), config=config(place__device="cuda")))
    assert finding is not None
    assert finding.advice == "nvidia-smi -q -d PERFORMANCE"


def test_nodes_of_one_machine_are_reached_without_ssh():
    finding = look(run(windows(sums(peers=20), sums(backward=82)), hosts=["vm, node 0", "vm, node 1"]))
    assert finding is not None
    assert (finding.title, finding.advice) == ("All wait for rank 1 on vm, node 1, which is slower", "top")


def test_noise_that_takes_turns_is_no_straggler():
    first, second = (sums(peers=20), sums(backward=80)), (sums(backward=80), sums(peers=20))
    turns = [Window(step=10 * n, steps=10, ranks=list(second if n % 3 else first)) for n in range(1, 10)]
    assert look(run(turns)) is None


def test_a_slow_rank_that_nobody_waits_for_costs_nothing():
    assert look(run(windows(sums(), sums(backward=82)))) is None


def test_too_few_windows_tell_nothing():
    assert look(run(windows(sums(peers=20), sums(backward=82), count=4))) is None


def test_a_slower_stage_of_a_pipeline_is_no_straggler_but_a_slower_replica_is():
    uneven = pipeline("1f1b", 2, 8, Costs([1, 2], [1, 2], [1, 2], [0]), replicas=3)
    assert look(uneven) is None
    slow = changed(uneven, {4: {"backward": 40.0}} | {rank: {"peers": 7.0} for rank in (3, 5)})
    finding = look(slow)
    assert finding is not None
    assert finding.title == "All wait for rank 4 on host0, which is slower"
    assert finding.gain_ms == pytest.approx(7)


def test_a_pipeline_without_replicas_has_nobody_to_compare_with():
    assert look(pipeline("1f1b", 2, 8, Costs([1, 5], [1, 5], [1, 5], [0]))) is None
