"""All rules together."""

from __future__ import annotations

import itertools
import json
import pkgutil
from pathlib import Path

import pytest
import yaml

from tests.doctor.pipeline_scene import equal, pipeline
from tests.doctor.scene import Queue, config, over, run, sums, windows
from trainer.doctor import rules
from trainer.doctor.examine import examine, lines
from trainer.doctor.finding import Finding
from trainer.overlap import evidence
from trainer.overlap.evidence import Evidence, Metrics

GIGABIT = Queue((200, 600), start_ms=0.5, mb_per_s=117)
BAD = over(
    GIGABIT,
    [(97.5, 600)],
    changes={"data": 200},
    config=config(parallel__data__bucket_cap_mb=200, data__workers=0),
    metrics=[{"overlap/slowdown": 1.3, "gpu/utilisation": 50, "gpu/utilisation/worst": 0}] * 6,
)


def test_the_largest_gain_comes_first_and_the_checklist_last():
    found = examine(BAD)
    assert [finding.advice for finding in found] == [
        "comm=onebit",
        "parallel.data.bucket_cap_mb=5",
        "data.workers=2",
        "profile=window",
        "launch.threads=<cores of a worker, less one>",
        "-m comm=allreduce,fp16,onebit",
    ]
    gains = [finding.gain_ms for finding in found if finding.gain_ms is not None]
    assert gains == sorted(gains, reverse=True)


def test_one_advice_is_given_once():
    advices = [finding.advice for finding in examine(BAD)]
    assert len(set(advices)) == len(advices)
    # The tail says the same of this run as the cause of no overlap does.
    assert "Nothing overlaps: all gradients travel in one bucket" in [finding.title for finding in examine(BAD)]


def test_a_healthy_run_gives_no_findings():
    hidden = [(5, 200 + 20 * (number + 1)) for number in range(20)]
    assert examine(over(Queue((200, 600), start_ms=0.1, mb_per_s=1000), hidden)) == []


@pytest.mark.parametrize("schedule", ["1f1b", "zero_bubble"])
def test_a_healthy_pipeline_gives_no_findings(schedule: str):
    assert examine(pipeline(schedule, 2, 16, equal(2, ms=30.0, hop=0.1), replicas=2)) == []


def test_a_pipeline_without_any_of_its_spans_is_judged_as_far_as_it_goes():
    whole = pipeline("1f1b", 2, 4, equal(2, hop=3.0))
    assert examine(whole)
    windows = [window.model_copy(update={"timeline": None}) for window in whole.windows]
    examine(whole._replace(windows=windows))
    examine(whole._replace(windows=[window.model_copy(update={"ranks": []}) for window in whole.windows]))


def test_one_process_has_nothing_to_say_about_communication():
    assert examine(run(windows(sums(comm=0, exposed=0, exchange=0)), config=config(place__processes=1))) == []


def test_every_rule_has_a_test_of_its_own():
    here = Path(__file__).parent / "rules"
    names = {module.name for module in pkgutil.iter_modules(rules.__path__)}
    assert names == {path.stem.removeprefix("test_") for path in here.glob("test_*.py")}
    assert len(names) >= 12


def test_the_summary_is_short():
    found = [Finding(f"title {number}", "", f"advice={number}", 100.0 - number) for number in range(5)]
    assert lines(found) == [
        "title 0: try advice=0 (saves about 100 ms a step)",
        "title 1: try advice=1 (saves about 99.0 ms a step)",
        "title 2: try advice=2 (saves about 98.0 ms a step)",
        "and 2 more, which scripts/doctor tells",
    ]
    assert lines([Finding("title", "", "advice", None)]) == ["title: try advice"]
    assert lines([]) == []


def test_nothing_at_all_gives_no_findings():
    assert examine(Evidence(Path())) == []


@pytest.mark.parametrize("left_out", ["config", "metrics", "hosts", "links_gbit", "windows"])
def test_any_part_may_be_missing(left_out: str):
    examine(BAD._replace(**{left_out: Evidence._field_defaults[left_out]}))


@pytest.mark.parametrize("name", [*sums(), "everything"])
def test_a_quantity_that_an_older_version_did_not_measure_may_be_missing(name: str):
    for window in BAD.windows:
        ranks = [{} if name == "everything" else {n: v for n, v in r.items() if n != name} for r in window.ranks]
        partial = [window.model_copy(update={"ranks": each}) for each in (ranks, [ranks[0], window.ranks[1]])]
        examine(BAD._replace(windows=partial))


@pytest.mark.parametrize("value", [None, "words", [], {}, -1, 0, 1e300, float("nan"), True])
def test_options_and_metrics_may_hold_anything(value: object):
    paths = [
        "precision", "batch.size", "batch.microbatches", "parallel.data.size", "parallel.data.bucket_cap_mb",
        "parallel.pipeline.size", "parallel.pipeline.schedule", "parallel.pipeline.split",
        "parallel.pipeline.microbatches", "comm", "comm._target_", "nccl", "data.workers", "data.prefetch",
        "launch.threads", "place.device", "profile",
    ]  # fmt: skip
    piped = pipeline("1f1b", 2, 4, equal(2, hop=3.0))
    for path in paths:
        examine(BAD._replace(config=config(**{path.replace(".", "__"): value})))
        axis = {"parallel__pipeline__size": 2, path.replace(".", "__"): value}
        examine(piped._replace(config=config(**axis)))
    examine(BAD._replace(metrics=[Metrics(step=1, **dict.fromkeys(BAD.metrics[0].values, value))] * 5))  # type: ignore[arg-type]


def test_a_folder_that_is_cut_anywhere_is_judged_as_far_as_it_goes(tmp_path: Path):
    header = {"step": 0, "version": 1, "hosts": ["a", "b"], "links_gbit": [10, 10]}
    whole = {
        "run.yaml": yaml.safe_dump(BAD.config),
        "metrics.jsonl": "\n".join(json.dumps({"step": line.step} | line.values) for line in BAD.metrics),
        "ranks.jsonl": "\n".join([json.dumps(header), *(window.model_dump_json() for window in BAD.windows)]),
    }
    for name, text in whole.items():
        (tmp_path / name).write_text(text)
    assert len(examine(evidence.read(tmp_path))) >= 6
    for (name, text), tenths in itertools.product(whole.items(), range(10)):
        (tmp_path / name).write_text(text[: len(text) * tenths // 10])
        examine(evidence.read(tmp_path))
        (tmp_path / name).write_text(text)
