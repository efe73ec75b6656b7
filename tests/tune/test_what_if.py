"""tune=what_if, as it is typed."""

from __future__ import annotations

import itertools

import pytest

from tests.processes import SMALL, run
from tests.tune.made_up import profile
from trainer.spec import ConfigError
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


def test_it_starts_no_process_and_writes_the_plot(tmp_path):
    write(tmp_path / "profile.json", profile())
    code, output = run(tmp_path, *SMALL, "tune=what_if", "tune.profile=profile.json", "tune.hosts=[2,64]")
    assert code == 0, output
    assert "Predicted steps; 126.0 ms without communication" in output
    assert (tmp_path / "what_if.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "runs").exists()
