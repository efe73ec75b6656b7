"""A preset that comes back to itself is found before Hydra follows it for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import CONF
from trainer.config import explain
from trainer.preset import includes, sources
from trainer.preset.compose import composed
from trainer.preset.sources import Source

CIRCLES = {
    "itself": "experiment/team/itself: includes itself; take '/experiment/team/itself' out of its defaults",
    "first": "experiment/team/first: includes itself, by team/first -> team/second -> team/first; take one of them out"
    " of its defaults",
    "leads": "experiment/team/first: includes itself, by team/first -> team/second -> team/first; take one of them out"
    " of its defaults",
    "chosen": "experiment/team/chosen: includes itself, since '/experiment: team/fine' means whatever experiment="
    " chooses; write '/experiment/team/fine'",
    "below": "experiment/team/below: includes itself, by team/below -> team/above -> team/below; take one of them out"
    " of its defaults",
    "fine": None,
    "a_torn": None,
    "builds": None,
}


@pytest.fixture
def shared(share) -> Source:
    folder = share(
        itself="defaults: [/experiment/team/itself]",
        first="defaults: [_self_, /experiment/team/second]",
        second="defaults: [/experiment/team/first@_global_]",
        below="defaults: [/experiment/team/above]",
        above="defaults: [below]",
        leads="defaults: [/experiment/team/first]",
        chosen="defaults: [{/experiment: team/fine}]",
        fine="defaults: [override /comm: topk]",
        builds="defaults: [/experiment/team/fine, _self_]\ncomm: {ratio: 0.5}",
        a_torn="defaults: [",
    )
    return Source("TRAINER_PRESETS", folder)


@pytest.mark.parametrize("name", CIRCLES)
def test_the_circle_is_named(name: str, shared: Source):
    assert includes.circle(f"team/{name}", sources.presets([shared])) == CIRCLES[name]


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("name", ["itself", "first", "below", "chosen"])
def test_hydra_does_follow_it_and_the_line_tells(name: str):
    with pytest.raises(RecursionError) as caught:
        composed([f"experiment=team/{name}"])
    assert explain(caught.value, [f"experiment=team/{name}"], CONF) == CIRCLES[name]


@pytest.mark.usefixtures("shared")
def test_in_a_sweep_the_one_that_was_asked_for_is_told():
    assert explain(RecursionError(), ["experiment=smoke,team/itself"], CONF) == CIRCLES["itself"]


@pytest.mark.usefixtures("shared")
def test_a_preset_may_build_on_another():
    comm = composed(["experiment=team/builds"]).tree()["comm"]
    assert (comm["_target_"], comm["ratio"]) == ("trainer.comm.topk.TopK", 0.5)


def test_recursion_that_no_preset_made_is_not_explained(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(sources.VARIABLE, raising=False)
    assert explain(RecursionError(), [], Path()) is None
