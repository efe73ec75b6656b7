"""Specs are made from plain values, refuse everything else in one line, and come back from what they dump."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError

from trainer.spec import Component, ConfigError, Spec, did_you_mean, dump, load_callable, make, validate


class Gear(Spec):
    ratio: Annotated[float, Field(gt=0)] = 1.0
    """the turns of the axle for one turn of the engine"""


class Engine(Component):
    """The base class of a group."""


class Motor(Engine):
    power: Annotated[int, Field(ge=1)]
    """the power in watts"""
    fuel: Literal["diesel", "current"] = "current"
    """what it runs on"""
    cylinders: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    """the number of cylinders; auto decides by power"""
    gear: Gear = Gear()
    sizes: tuple[int, ...] = Field(default=(1, 2), strict=False)
    place: Path = Field(default=Path("here"), strict=False)
    options: dict[str, Any] = Field(default={})


class Wheel(Component):
    """A component of another group."""


MOTOR, ENGINE = f"{__name__}.Motor", f"{__name__}.Engine"


def fast() -> None:
    """Something to import."""


def refusal(node: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        make(node, Engine, "engine")
    return str(caught.value)


def test_a_node_becomes_the_component_that_its_target_names():
    made = make({"_target_": MOTOR, "power": 3, "gear": {"ratio": 2.5}, "sizes": [4]}, Engine, "engine")
    assert made == Motor(power=3, gear=Gear(ratio=2.5), sizes=(4,))


def test_what_is_dumped_makes_the_same_component_again():
    motor = Motor(power=3, cylinders=4, gear=Gear(ratio=2.5), sizes=(4, 5), options={"deep": [1, {"er": None}]})
    dumped = dump(motor)
    assert dumped["_target_"] == MOTOR
    assert dumped["gear"] == {"ratio": 2.5}
    assert dumped["sizes"] == [4, 5]
    assert make(dumped, Engine, "engine") == motor


def test_a_made_component_cannot_be_changed():
    motor = Motor(power=3)
    with pytest.raises(ValidationError, match="frozen"):
        motor.power = 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"power": 3, "powr": 4}, "engine.powr: unknown option; did you mean 'power'?"),
        (
            {"power": 3, "zzz": 4},
            "engine.zzz: unknown option; choose from: cylinders, fuel, gear, options, place, power, sizes",
        ),
        ({"power": 3, "gear": {"ration": 1.0}}, "engine.gear.ration: unknown option; did you mean 'ratio'?"),
        (
            {"power": "8"},
            "engine.power: '8' is not allowed: input should be a valid integer; power is the power in watts",
        ),
        (
            {"power": 8.0},
            "engine.power: 8.0 is not allowed: input should be a valid integer; power is the power in watts",
        ),
        (
            {"power": True},
            "engine.power: True is not allowed: input should be a valid integer; power is the power in watts",
        ),
        (
            {"power": 0},
            "engine.power: 0 is not allowed: input should be greater than or equal to 1; power is the power in watts",
        ),
        ({}, "engine.power: no value is given; set engine.power=<value>"),
        (
            {"power": 3, "fuel": "coal"},
            "engine.fuel: 'coal' is not allowed: input should be 'diesel' or 'current'; fuel is what it runs on",
        ),
        (
            {"power": 3, "gear": {"ratio": 0.0}},
            "engine.gear.ratio: 0.0 is not allowed: input should be greater than 0; ratio is the turns of the axle for"
            " one turn of the engine",
        ),
        (
            {"power": 3, "gear": 2},
            "engine.gear: 2 is not allowed: input should be a valid dictionary or instance of Gear",
        ),
        ({"power": 3, "sizes": [1, "b"]}, "engine.sizes.1: 'b' is not allowed: input should be a valid integer"),
    ],
)
def test_a_bad_option_is_named_with_its_value_and_its_meaning(options: dict, message: str):
    assert refusal({"_target_": MOTOR, **options}) == message


def test_a_value_that_fits_no_branch_of_a_union_is_named_once():
    message = refusal({"_target_": MOTOR, "power": 3, "cylinders": "many"})
    assert message.startswith("engine.cylinders: 'many' is not allowed: ")
    assert message.endswith("; cylinders is the number of cylinders; auto decides by power")


def test_of_several_mistakes_the_first_is_explained_and_the_others_are_counted():
    message = refusal({"_target_": MOTOR, "power": 3, "fuell": "diesel", "geer": {}, "sises": []})
    assert message == "engine.fuell: unknown option; did you mean 'fuel'? (and 2 more)"


def test_whole_numbers_stand_for_fractions_but_text_and_flags_do_not():
    assert validate(Gear, {"ratio": 2}).ratio == 2.0
    for value in ("2.0", True, None):
        with pytest.raises(ConfigError, match="is not allowed: input should be a valid number"):
            validate(Gear, {"ratio": value})


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (None, "engine: None names no component; choose one with engine=<name>"),
        ("motor", "engine: 'motor' names no component; choose one with engine=<name>"),
        ({"power": 3}, "engine: {'power': 3} names no component; choose one with engine=<name>"),
        ({"_target_": "os.system"}, f"engine._target_: os.system is not a Engine; name a subclass of {ENGINE}"),
        (
            {"_target_": f"{__name__}.Wheel"},
            f"engine._target_: {__name__}.Wheel is not a Engine; name a subclass of {ENGINE}",
        ),
        ({"_target_": "Motor"}, "engine._target_: 'Motor' names no module; write package.module.name"),
        (
            {"_target_": "no_such.module.Motor"},
            "engine._target_: cannot import no_such.module (ModuleNotFoundError: No module named 'no_such'); check the"
            " name and PYTHONPATH",
        ),
        ({"_target_": f"{__name__}.Moter"}, f"engine._target_: {__name__} has no 'Moter'; did you mean 'Motor'?"),
    ],
)
def test_a_target_that_is_no_component_of_the_group_is_refused(node: Any, message: str):
    assert refusal(node) == message


def test_a_module_that_fails_while_it_is_imported_is_refused_with_its_own_reason(tmp_path, monkeypatch):
    (tmp_path / "broken_module.py").write_text("raise ValueError('no licence')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load_callable("broken_module:make", "model.factory")
    assert str(caught.value) == (
        "model.factory: cannot import broken_module (ValueError: no licence); check the name and PYTHONPATH"
    )
    assert "broken_module" not in sys.modules


def test_a_callable_is_loaded_by_module_and_name():
    assert load_callable(f"{__name__}:fast", "model.factory") is fast


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("mine.net.Net", "'mine.net.Net' is not of the form package.module:callable; write for example mine.net:Net"),
        ("mine.net:", "'mine.net:' is not of the form package.module:callable; write for example mine.net:Net"),
        (":Net", "':Net' is not of the form package.module:callable; write for example mine.net:Net"),
        (
            "no_such:Net",
            "cannot import no_such (ModuleNotFoundError: No module named 'no_such'); check the name and PYTHONPATH",
        ),
        (f"{__name__}:fest", f"{__name__} has no 'fest'; did you mean 'fast'?"),
        (f"{__name__}:MOTOR", f"{__name__}:MOTOR is a str, not a callable; name a function or a class"),
    ],
)
def test_a_factory_that_cannot_be_called_is_refused(path: str, message: str):
    with pytest.raises(ConfigError) as caught:
        load_callable(path, "model.factory")
    assert str(caught.value) == f"model.factory: {message}"


def test_the_nearest_word_is_suggested_and_without_one_all_are_listed():
    assert did_you_mean("lrr", ["momentum", "lr"]) == "; did you mean 'lr'?"
    assert did_you_mean("xyz", ["momentum", "lr", "lr"]) == "; choose from: lr, momentum"
