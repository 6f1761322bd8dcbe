"""Arguments of wrong types are refused where they are given, with their name and value, before Spark starts."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracetypes
from tracetypes import Dataflow, O, U, every, in_band, sort
from tracetypes.arguments import parser
from tracetypes.cli import main
from tracetypes.compiler.spark import session
from tracetypes.errors import UsageError


@attrs.frozen
class Row:
    user: str
    ts: int


def flow() -> Dataflow:
    dataflow = Dataflow("calls")
    markers = every(seconds=1, time=lambda r: r.ts)
    dataflow.sink("out", dataflow.source("rows", U[str, Row], markers=markers, key=lambda r: r.user))
    return dataflow


WRONG = st.sampled_from([(), 3, 1.5, None, b"x", object, {1: 2}, "2", True, 0, -1, {"rows": 7}, {"out": ()}, {"out": None}])
NAMES = ["parallelism", "key_groups", "files_per_step", "drain", "follow", "verify"]


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "session", refuse)


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("name", ["inputs", "outputs", *NAMES])
@given(value=WRONG)
def test_arguments_of_run(name: str, value: Any) -> None:
    fits: dict[str, Callable[[Any], bool]] = {
        **dict.fromkeys(NAMES[:3], lambda one: one is None or (type(one) is int and one > 0)),
        **dict.fromkeys(NAMES[3:], lambda one: isinstance(one, bool)),
        "inputs": lambda one: False,
        "outputs": lambda one: False,
    }
    if fits[name](value) and (name != "parallelism" or value is not None):
        return
    arguments: dict[str, Any] = {"inputs": {"rows": []}, "outputs": {"out": []}, name: value}
    with pytest.raises(UsageError) as raised:
        tracetypes.run(flow(), **arguments)
    assert raised.value.code == "TT402"
    assert raised.value.fix


@pytest.mark.parametrize(
    "make",
    [
        lambda one: Dataflow("f").source("rows", U[str, Row], markers=every(seconds=1, time=lambda r: r.ts), key=one),
        lambda one: Dataflow("f").source("r", O[str, Row], markers=every(seconds=1, time=lambda r: r.ts), ordered_by=one),
        lambda one: every(seconds=1, time=one),
        lambda one: in_band(is_marker=one, time=lambda r: r.ts),
        lambda one: in_band(is_marker=lambda r: True, time=one),
        lambda one: sort(by=one),
    ],
)
@pytest.mark.parametrize("one", ["user", 3, Row("a", 1)])
def test_functions(make: Callable[[Any], object], one: object) -> None:
    with pytest.raises(UsageError, match="TT116") as raised:
        make(one)
    assert repr(one) in str(raised.value)


def test_an_option_that_is_misspelled(capsys: pytest.CaptureFixture[str]) -> None:
    """Each option of each command, with a letter too many: the message names the one that was meant."""
    places = next(one for one in parser({name: lambda _: 0 for name in COMMANDS})._actions if isinstance(one.choices, dict))
    assert isinstance(places.choices, dict)
    assert sorted(places.choices) == sorted(COMMANDS)
    (actions,) = (one.choices for one in places.choices["workspace"]._actions if isinstance(one.choices, dict))
    assert len(actions) == 10
    parsers: dict[tuple[str, ...], Any] = {(name,): its for name, its in places.choices.items() if name != "workspace"}
    parsers |= {("workspace", name): its for name, its in actions.items()}
    for command, its in parsers.items():
        for option in its._option_string_actions:
            if len(option) > 4:
                more = ["--output", "x.svg"] if command == ("graph",) else []
                two = command[-1] in ("submit", "replace", "backup", "restore")
                given = ["flow.py"] * (2 if two else command[-1] not in ("list", "token"))
                assert main([*command, *given, *more, f"{option}x=1"]) == 2
                err = capsys.readouterr().err
                assert f"there is no option {option}x" in err
                assert f"did you mean {option}?" in err
    with pytest.raises(UsageError, match="did you mean parallelism"):
        tracetypes.run(flow(), {}, {}, paralelism=4)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("run(flow, input={}, outputs={})", "there is no option 'input'\n    fix:      did you mean inputs?"),
        ("run(flow, inputs={}, output={})", "there is no option 'output'\n    fix:      did you mean outputs?"),
        ("start(flow, {}, {}, pag=True)", "there is no option 'pag'\n    fix:      did you mean page?"),
        ("start(flow, {}, {}, options={})", "there is no option 'options'"),
        ("run(flow, {})", "run: missing a required argument: 'outputs'\n    fix:      write run(flow, inputs={...},"),
        ("start()", "start: missing a required argument: 'flow'"),
        ("run(flow, {}, {}, 4)", "run: too many positional arguments"),
    ],
)
def test_arguments_of_runs_that_are_missing_or_too_many(call: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)) as caught:
        eval(f"tracetypes.{call}", {"tracetypes": tracetypes, "flow": flow()})
    assert caught.value.code == "TT402"


COMMANDS = [
    *("check", "examples", "explain", "graph", "new", "prepare", "record", "run", "schema", "state", "submit-files", "test"),
    "workspace",
]


def test_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    err = capsys.readouterr().err
    assert all(command in err for command in COMMANDS)


def test_a_file_without_a_dataflow(tmp_path: Path) -> None:
    (tmp_path / "nothing_here.py").write_text("x = 1\n")
    (tmp_path / "wrong_here.py").write_text("from tracetypes import every\nevery(second=1)\n")
    for name, fix in (("nothing_here", "define one at its top level"), ("wrong_here", "correct this line")):
        ran = subprocess.run(
            [sys.executable, "-m", "tracetypes", "check", f"{name}.py"], cwd=tmp_path, capture_output=True, text=True
        )
        assert ran.returncode == 2
        assert "TT403" in ran.stderr
        assert fix in ran.stderr
        assert "Traceback" not in ran.stderr


def test_an_output_that_is_a_file(tmp_path: Path) -> None:
    from tracetypes.compiler.store.small_files import writable

    (tmp_path / "out").write_text("")
    with pytest.raises(tracetypes.TraceTypesError, match="out is a file"):
        writable(tmp_path / "out" / "_checkpoint")
