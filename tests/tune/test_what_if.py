"""tune=what_if, as it is typed."""

from __future__ import annotations

import itertools

import pytest

from tests.processes import SMALL, run
from tests.tune.made_up import profile
from trainer.spec import ConfigError
from trainer.tune.cases import eight_by_eight
from trainer.tune.profile import write
from trainer.tune.scaling import places
from trainer.tune.what_if import bytes_per_s


@pytest.mark.parametrize(("rate", "value"), [("100mbit", 1.25e7), ("1gbit", 1.25e8), ("2.5gbit", 3.125e8)])
def test_rates_are_bits(rate, value):
    assert bytes_per_s(rate) == value


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "tune.profile: no value is given; set tune.profile=<value>"),
        (
            ["tune.profile=nowhere"],
            "tune.profile: 'nowhere' is no file; give the profile.json that a run with tune=advise wrote",
        ),
        (["tune.profile=train.py", "tune.rates=[fast]"], "tune.rates.0: 'fast' "),
        (["tune.profile=train.py", "tune.hosts=[0]"], "tune.hosts.0: 0 "),
        (["tune.profile=train.py", "tune.hosts=[]"], "tune: hosts and rates are empty"),
        (["tune.profile=train.py", "sync=diloco"], "tune: what is measured to begin with has no stale updates"),
        (["tune.profile=train.py", "parallel.data.bucket_cap_mb=auto"], "parallel.data.bucket_cap_mb: auto chooses"),
    ],
)
def test_what_cannot_be_is_refused(make_run, options, said):
    with pytest.raises(ConfigError) as caught:
        make_run("tune=what_if", *options)
    assert str(caught.value).startswith(said)


def test_faster_links_and_fewer_hosts_are_never_slower(make_run, tmp_path):
    write(tmp_path / "profile.json", profile())
    job = make_run("tune=what_if", f"tune.profile={tmp_path / 'profile.json'}")
    found = places(job.tune, job, profile())
    steps = {(place.rate, place.hosts): place.advice.present.outcome.step_s for place in found}
    rates, hosts = job.tune.rates, job.tune.hosts
    assert len(steps) == len(rates) * len(hosts)
    for slow, fast in itertools.pairwise(rates):
        assert all(steps[slow, one] >= steps[fast, one] for one in hosts)
    for few, many in itertools.pairwise(hosts):
        assert all(steps[rate, few] <= steps[rate, many] for rate in rates)


@pytest.mark.parametrize("options", [["comm=powersgd"], ["comm=fp16"], ["comm=topk", "comm.ratio=0.1"]])
def test_a_hook_of_which_nothing_is_known_is_refused(make_run, options):
    job = make_run("tune=what_if", "tune.profile=pyproject.toml", *options)
    with pytest.raises(ConfigError, match=r"^comm: .* has no closed form, or was not measured; use comm=allreduce"):
        list(places(job.tune, job, profile()))


def test_hooks_are_compared_on_a_machine_that_has_one_worker(make_run):
    job = make_run("tune=what_if", "tune.profile=eight_by_eight", "tune.allow=lossy", "launch.processes=1")
    advised = next(iter(places(job.tune, job, eight_by_eight()))).advice
    assert {one.choice.comm for one in advised.best} >= {"allreduce", "fp16", "onebit", "topk"}


def test_it_starts_no_process_and_writes_the_plot(tmp_path):
    write(tmp_path / "profile.json", profile())
    code, output = run(tmp_path, *SMALL, "tune=what_if", "tune.profile=profile.json", "tune.hosts=[2,64]")
    assert code == 0, output
    assert "Predicted steps; 126.0 ms without communication" in output
    assert (tmp_path / "what_if.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "runs").exists()
