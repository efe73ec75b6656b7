"""What was renamed is told its new name, in a preset and on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import CONF
from trainer.config import explain
from trainer.preset import renames
from trainer.preset.renames import Renames
from trainer.run import Run
from trainer.spec import ConfigError

TABLE = Renames(
    options={"optimizer.learning_rate": "optimizer.lr", "logging": "log", "update": "sync"},
    choices={"comm/signs": "comm/onebit"},
)


@pytest.fixture
def renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renames, "read", lambda: TABLE)


def test_an_option_is_followed_within_a_node_that_was_renamed():
    assert TABLE.option("optimizer.learning_rate") == "optimizer.lr"
    assert TABLE.option("logging.every") == "log.every"
    assert TABLE.option("optimizer.lr") is None


def test_the_table_that_comes_along_names_only_what_is_no_more_and_what_there_is():
    from trainer.preset.compose import composed

    table, known = renames.read(), composed().tree()
    assert set(table._fields) == {"options", "choices"}
    for old, new in table.options.items():
        assert old.split(".")[0] not in known or "." in old
        assert new.split(".")[0] in known
    for old, new in table.choices.items():
        assert not (CONF / f"{old}.yaml").exists()
        assert (CONF / f"{new}.yaml").exists()


@pytest.mark.usefixtures("renamed")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("optimizer: {learning_rate: 0.1}", "optimizer.learning_rate: is now called optimizer.lr; write optimizer.lr"),
        ("logging: {every: 5}", "logging: is now called log; write log"),
    ],
)
def test_a_preset_with_the_old_name_of_an_option_is_told_the_new_one(text, line, share, make_run):
    share(old=text)
    with pytest.raises(ConfigError) as caught:
        make_run("experiment=team/old")
    assert str(caught.value) == f"{line} instead"


@pytest.mark.usefixtures("renamed")
def test_a_preset_with_the_old_name_of_a_group_or_choice_is_told_the_new_one(share, compose_error):
    share(group="defaults: [override /update: strict]", choice="defaults: [override /comm: signs]")
    for name, line in {
        "group": "experiment/team/group: there is no group 'update'; it is now called sync",
        "choice": "comm/signs: is now called comm/onebit; choose comm=onebit, in a preset override /comm: onebit",
    }.items():
        words = [f"experiment=team/{name}"]
        assert explain(compose_error(*words), words, CONF) == line


@pytest.mark.usefixtures("renamed")
def test_the_command_line_is_told_as_well(compose_error):
    words = ["logging.every=5"]
    assert (
        explain(compose_error(*words), words, CONF) == "logging.every: is now called log.every; write log.every instead"
    )


@pytest.mark.usefixtures("renamed")
def test_an_option_of_that_name_that_exists_is_no_old_name(make_run):
    run: Run = make_run("optimizer=sgd", "optimizer.lr=0.25")
    assert run.optimizer.lr == 0.25


def test_the_file_is_read_as_it_is_written(tmp_path: Path):
    path = tmp_path / "renames.yaml"
    path.write_text("options: {a.b: a.c}\nchoices: {}\n")
    assert renames.read(path) == Renames({"a.b": "a.c"}, {})
