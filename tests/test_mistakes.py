"""Mistakes of a first day: each message names the value, the place and what to write instead."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.test_cli import run

FLOW = """\
import datetime as dt
import attrs
from tracetypes import Dataflow, EmitValue, OpKeyedOrdered, U, Unit, csv, every, sort
from tracetypes.stdlib import count, diff, key_by, map_values, mean, sum, tumbling

@attrs.frozen
class Ride:
    city: str
    started: int
    fare: float

flow = Dataflow("rides")
rows = flow.source("rides", U[Unit, Ride], markers=every(seconds=60, time=lambda r: r.started))
by_city = rows.through(key_by(lambda _, r: r.city))
flow.sink("counts", by_city.through(tumbling(count(), size=60)), marker="until")
"""
ROWS = "city,started,fare\nBern,100,2.5\nBasel,130,3\nBern,171,4\n"
NUMBERS: Iterator[int] = count()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with rows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACETYPES_BACKEND", "local")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    Path("rides.csv").write_text(ROWS)
    return tmp_path


def program(text: str) -> str:
    """A file with a program."""
    name = f"mistake_{next(NUMBERS)}.py"
    Path(name).write_text(text)
    return name


def said(capsys: pytest.CaptureFixture[str], *arguments: str, fails: bool = True) -> str:
    code, out, err = run(capsys, *arguments)
    assert (code != 0) is fails
    return out + err


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("r.city)", "r.town)", ["reads 'town' of Ride", ".py:14", "its fields are city, started, fare"]),
        ("r.city)", "r.city.uper())", ["reads 'uper' of str", ".py:14", "did you mean upper?"]),
        ("lambda _, r: r.city", "lambda r: r.city", ["TT121 key_by calls <lambda> with a key and a value", "(r)", ".py:14"]),
        ("time=lambda r: r.started", "time=lambda r: r.start", ["TT123", ".py:13", "time reads Ride.start", "read Ride.started"]),
        ("tumbling(count(), size=60)", "diff(lambda r: r.fare)", ["TT101", ".py:15: diff", "insert .through(sort(by=...))"]),
        ("tumbling(count(), size=60)", "tumbling(count, size=60)", ["TT121 tumbling was given", ".py:15", "call it: count()"]),
        ("count()", "lambda r: r.fare", ["TT121 tumbling was given", ".py:15", "such as sum(lambda value: ...)"]),
        ("count()", "sum(lambda r: r.city)", ["TT121 sum was given values of str", ".py:15", "add int or float"]),
        ("count()", "sum(lambda r: r.fare, to=str)", ["TT121 sum was given values of str", ".py:15", "to=int or to=float"]),
        ("size=60", 'size="60"', ["TT121 size is '60'", ".py:15", "a number of seconds or a timedelta"]),
        ("size=60", "size=90", ["TT125 size is 90 s", ".py:15", "markers come every 60 s"]),
        ("fare: float", "fare: complex", ["TT106", ".py:13", "complex has no schema", "use bool, int"]),
        ("fare: float", 'fare: "flot"', ["TT106", ".py:13", "name 'flot' is not defined", "define the name"]),
        (", markers=every(seconds=60, time=lambda r: r.started)", "", ["TT116 source 'rides'", ".py:13", "markers=every("]),
        ("by_city.through(tumbling(count(), size=60))", "by_city.count()", [".through(aggregate(count(...)))", ".py:15"]),
        ("mean, sum", "meen, sum", ["cannot import name 'meen'", ".py:4", "did you mean mean of tracetypes.stdlib?"]),
        ("diff, ", "", ["name 'diff' is not defined", ".py:15", "write from tracetypes.stdlib import diff"]),
        ("tumbling(count()", "tumblin(count()", ["name 'tumblin' is not defined", ".py:15", "did you mean tumbling of"]),
        ("size=60)", "size=60", ["SyntaxError", ".py:15", "correct this line"]),
    ],
)
def test_mistakes_in_a_program(
    home: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, parts: list[str]
) -> None:
    assert old in FLOW
    text = FLOW.replace(old, new)
    if "is not defined" in parts[0] and new == "":
        text = text.replace("tumbling(count(), size=60)", "diff(lambda r: r.fare)")
    text = said(capsys, "check", program(text))
    assert [part for part in parts if part not in text] == [], text


@pytest.mark.parametrize(
    ("more", "parts"),
    [
        ('flow.sink("counts", by_city)', ["TT112", ".py:16: sink 'counts'", "the first is at", "rename one of them"]),
        ('flow.sink("m", by_city.through(map_values(lambda r: None)))', ["TT106", ".py:16", "None has no schema", "use bool"]),
        (
            "def fare(r: Ride) -> float:\n    if r.fare > 3:\n        return r.fare\n"
            'flow.sink("m", by_city.through(map_values(fare)))',
            ["TT206 map_values emitted ('Bern', None)", "expected float", "where a path of it has no return"],
        ),
        (
            "class Last(OpKeyedOrdered[str, Ride, float, float]):\n    def initial_state(self) -> float:\n        return 0.0\n"
            "    def on_item(self, state: float, key: str, value: Ride, emit: EmitValue[float]) -> float:\n"
            '        return state\nflow.sink("m", by_city.through(sort(by=lambda r: r.started)).through(Last()))',
            ["TT110", ".py:21: Last", "can be assigned to", "decorate Last with @attrs.frozen"],
        ),
        (
            "@attrs.frozen\nclass Last(OpKeyedOrdered[str, Ride, float, float]):\n    def initial_state(self) -> float:\n"
            "        return 0.0\n    def on_item(self, state: float, key: str, value: Ride, emit: EmitValue[float]) -> float:\n"
            '        emit(state)\nflow.sink("m", by_city.through(sort(by=lambda r: r.started)).through(Last()))',
            ["TT131", "Last.on_item returns nothing on any path", "end it with return"],
        ),
        (
            'flow.sink("m", by_city.through(map_values(lambda r: r.city[99])))',
            ["TT202", "string index out of range", "Ride(city='Bern', started=100, fare=2.5)", ".py:16", "correct the operator"],
        ),
    ],
)
def test_mistakes_in_operators(home: Path, capsys: pytest.CaptureFixture[str], more: str, parts: list[str]) -> None:
    outputs = ["-o", "counts=-", *(["-o", "m=-"] if '"m"' in more else [])]
    text = said(capsys, "run", program(f"{FLOW}{more}\n"), "-i", "rides=rides.csv", *outputs)
    assert [part for part in parts if part not in text] == [], text


HEADER = "city,started,fare\n"
REJECTED = "TT241 the only row of source 'rides' was rejected: "


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        ("a.csv", "city,startd,fare\nBern,1,2\n", ["a.csv has no column 'started'", "rename the column 'startd' or the field"]),
        ("a.csv", "city;started;fare\nBern;1;2\n", ["a.csv has no column 'city'", "declare format=csv(separator=';')"]),
        ("a.csv", "city,city,started,fare\nBern,x,1,2\n", ["a.csv has 2 columns 'city'", "a name of its own"]),
        ("a.csv", gzip.compress(ROWS.encode(), mtime=0), ["a.csv has no column 'city'", "a compressed one has the ending .gz"]),
        ("a.csv.gz", gzip.compress(ROWS.encode(), mtime=0)[:40], ["a.csv.gz cannot be read", "see whether the file is whole"]),
        ("a.py", "import attrs\n", ["TT207 the format of", "a.py' is unknown", "name it *.{csv,tsv,json"]),
        ("a.csv", f"{HEADER}Bern,1,x2\n", [f"{REJECTED}.fare is 'x2', expected float", "declare the source as its rows are"]),
        ("a.csv", f"{HEADER}Bern,{10**20},2\n", [f"{REJECTED}.started is {10**20}, expected int that fits 64 bits"]),
        ("a.json", '[{"city": "Bern"}]', [f"{REJECTED}value is", "this looks like a JSON array", "jq -c '.[]'"]),
        ("a.jsonl", '{"city": "B", "started": 1, "fare": 2}\n{"city":\n', ["not kept; the first: value is '{\"city\":'"]),
        ("a.csv", f"{HEADER}B,1000,1\nB,100,1\n", ["TT242 warning: 1 of 2 rows of source 'rides'", "delay="]),
        ("a.csv", "", ["no rows in the input"]),
        ("a.csv", HEADER, ["no rows in the input"]),
    ],
)
def test_mistakes_in_rows(
    home: Path, capsys: pytest.CaptureFixture[str], name: str, content: str | bytes, parts: list[str]
) -> None:
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    fails = parts[0].startswith(("TT207", "a.csv", "TT241"))
    text = said(capsys, "run", program(FLOW), "-i", f"rides={name}", "-o", "counts=-", fails=fails)
    assert [part for part in parts if part not in text] == [], text


def test_a_file_that_begins_with_a_byte_order_mark(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is no mistake."""
    Path("a.csv").write_bytes(b"\xef\xbb\xbf" + ROWS.encode())
    assert '{"key": "Basel", "value": 1' in said(capsys, "run", program(FLOW), "-i", "rides=a.csv", "-o", "counts=-", fails=False)


def test_a_folder_with_other_files(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("rides.csv").rename("z.csv")
    text = said(capsys, "run", (name := program(FLOW)), "-i", "rides=.", "-o", "counts=-")
    assert f"{name} has no column 'city'; it has 'import datetime as dt'" in text or f"the format of '{home}/{name}'" in text


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ("-i rides=ridez.csv -o counts=-", ["TT208 source 'rides'", "ridez.csv does not exist"]),
        ("-i rides=. -o counts=out", ["TT222 source 'rides' reads", "one lies in the other"]),
        ("-i ride=rides.csv -o counts=-", ["TT402 there is no source 'ride'", "did you mean rides?"]),
        ("-i rides=rides.csv -o count=-", ["TT402 there is no sink 'count'", "did you mean counts?"]),
        ("-o counts=-", ["TT402 source 'rides' has no input", "give --input rides=PATH"]),
        ("-i rides.csv -o counts=-", ["TT402 --input rides.csv", "write --input NAME=PATH"]),
        ("-i rides=rides.csv -o counts=rides.csv", ["TT222", "one lies in the other"]),
        ("-i rides=rides.csv -o counts=- --backend loca", ["run --backend is 'loca'", "did you mean local?"]),
        ("-i rides=rides.csv -o counts=- --examples 3", ["no option --examples", "--examples is an option of tracetypes test"]),
        ("-i rides=rides.csv -o counts=- --paralelism 3", ["no option --paralelism", "did you mean --parallelism?"]),
    ],
)
def test_mistakes_on_the_command_line(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: str, parts: list[str]
) -> None:
    text = said(capsys, "run", program(FLOW), *arguments.split())
    assert [part for part in parts if part not in text] == [], text


def test_a_target_that_is_a_file_of_rows(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "run", "rides.csv", "-i", "rides=rides.csv", "-o", "counts=-")
    assert "TT403 rides.csv is no file of Python" in text
    assert "give FILE.py:NAME" in text


def test_a_program_that_changed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "run", program(FLOW), "-i", "rides=rides.csv", "-o", "counts=out", "--no-drain", fails=False)
    changed = program(FLOW.replace("count(), size", "sum(lambda r: r.fare), size"))
    text = said(capsys, "run", changed, "-i", "rides=rides.csv", "-o", "counts=out", "--no-drain")
    assert f"TT211 the checkpoint {home}/out/_checkpoint cannot go on with this graph" in text
    assert "was Count(), is FloatSum" in text
    assert "give a changed one another --checkpoint and output" in text
