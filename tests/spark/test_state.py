"""``tracetypes state``: what the state of real runs holds, after several micro-batches."""

from __future__ import annotations

import base64
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import attrs
import pytest
from pyspark.sql import SparkSession

from tests.spark.flows import TEN, Named, Reading, Sum, here, id_of, is_mark, ordered, sums, ts_of
from tests.spark.support import Cli, row, write_lines
from tracetypes import Dataflow, OpStateless, Stream, U, check, csv, in_band, merge, sort
from tracetypes.compiler.connectors.program_rows import Rows
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.log import SparkLog, operator_numbers
from tracetypes.compiler.spark.run import run
from tracetypes.compiler.store.compatibility import claim
from tracetypes.compiler.store.inspection import StageAbout
from tracetypes.compiler.store.outputs import MemoryOutput
from tracetypes.compiler.store.small_files import write_json
from tracetypes.compiler.store.version import stamp
from tracetypes.stdlib import aggregate, count

ROOT = Path(__file__).resolve().parents[2]


@attrs.frozen
class Back(OpStateless[str, int, str, Reading]):
    """A reading of a number, by the last letter of its key."""

    def on_item(self, key: str, value: int, emit: Callable[[str, Reading], None]) -> None:
        emit(key[-1:], Reading(key[-1:], 1, value))


def source(flow: Dataflow, name: str) -> Stream[U[str, Reading]]:
    """Readings by id."""
    return flow.source(name, U[str, Reading], key=id_of, markers=TEN)


chain = Dataflow("chain")
_named = source(chain, "readings").through(sort(by=ts_of)).through(Named())
chain.sink("out", _named.through(Back()).through(Sum()))

tree = Dataflow("tree")
_left = source(tree, "left").through(sort(by=ts_of)).through(Named()).through(Back())
_right = source(tree, "right").through(Sum()).through(sort(by=ts_of)).through(Named()).through(Back())
tree.sink("out", merge(_left, _right, source(tree, "more")).through(Sum()))

letters = Dataflow("letters")
_readings = letters.source("readings", U[str, Reading], key=id_of, format=csv(), markers=TEN)
letters.sink("sums", _readings.through(Sum()))
letters.sink("late", _readings.late().through(sort(by=ts_of)).through(Named()).through(Back()).through(Sum()))
letters.sink("wrong", _readings.rejects().through(aggregate(count())))

straight = Dataflow("straight")
straight.sink("out", source(straight, "readings"))

passing = Dataflow("passing")
passing.sink(
    "out", passing.source("readings", U[str, Reading], key=id_of, markers=in_band(is_marker=is_mark, time=ts_of))
)

FLOWS = {
    "sums": (sums, 300, 1),
    "chain": (chain, 20, 1),
    "tree": (tree, 20, 2),
    "straight": (straight, 20, 2),
    "passing": (passing, 20, 2),
    "ordered": (ordered(), 20, 2),
}
"""Each with its number of keys, and of files a micro-batch. 300 keys are enough for states as columns in each of two key
groups."""


@pytest.fixture(scope="module")
def checkpoints(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of several micro-batches: key ``kN`` has a reading of ``N`` watts at 1, 2, 12 and 25; ``#30`` stays open."""
    root = tmp_path_factory.mktemp("checkpoints")
    for name, (flow, keys, files_per_step) in FLOWS.items():
        planned = plan(check(flow), parallelism=2, key_groups=2)
        files = tuple(tuple(Reading(f"k{n}", ts, n) for n in range(keys)) for ts in (1, 2, 12, 25))
        inputs = {one.source.name: Rows(files, files_per_step) for one in planned.sources}
        run(spark, planned, inputs, MemoryOutput(planned), checkpoint=str(root / name), drain=False)
    return root


def objects(text: str) -> list[dict[str, Any]]:
    """JSON lines."""
    return [json.loads(line) for line in text.splitlines()]


def named(*values: int) -> int:
    """What ``Named`` remembers after values."""
    return reduce(lambda state, value: (state * 31 + value) % 1_000_003, values, 7)


MARKER = {10: "1970-01-01T00:00:10+00:00", 20: "1970-01-01T00:00:20+00:00", 30: "1970-01-01T00:00:30+00:00"}


def test_states_as_columns(cli: Cli, checkpoints: Path) -> None:
    shown = cli("state", checkpoints / "sums")
    assert (shown.code, shown.err) == (0, "")
    first, stage, *lines = shown.out.splitlines()
    assert first == f"run {json.loads((checkpoints / 'sums/graph.json').read_text())['run']}, after micro-batch 3"
    assert stage.startswith("stage 0: ")
    assert stage.endswith(f" bytes in 2 key groups, closed up to #20 ({MARKER[20]})")
    assert lines[:-1] == [
        "    Sum: 300 keys, as columns",
        "    keys: 'k0', 'k1', 'k10', 'k100', 'k101', 'k102', 'k103', 'k104', 'k105', 'k106', and 290 more",
        f"    open blocks, by their end: #30 ({MARKER[30]})",
    ]
    assert lines[-1].startswith("    bytes by key group: 0: ")
    (one,) = objects(cli("state", checkpoints / "sums", "--json", "--limit", "2").out)
    assert one["operators"] == [{"operator": "Sum", "keys": 300, "columns": True}]
    assert one["keys"] == ["k0", "k1"]
    assert (one["closed"], one["open"]) == (MARKER[20], [MARKER[30]])
    sizes = {group["group"]: group["bytes"] for group in one["groups"]}
    assert set(sizes) == {0, 1}
    assert sum(sizes.values()) == one["bytes"]
    assert min(sizes.values()) > 500


def test_sizes(cli: Cli, checkpoints: Path) -> None:
    """Of columns by name, of objects with the largest keys; they add up."""
    (one,) = objects(cli("state", checkpoints / "sums", "--sizes", "--json").out)
    (operator,) = one["operators"]
    assert (operator["operator"], operator["keys"], operator["largest"]) == ("Sum", 300, [])
    assert set(operator["columns"]) >= {"keys"}
    assert sum(operator["columns"].values()) == operator["bytes"] > 300 * 2
    assert one["open_blocks"] > 300
    first, second = objects(cli("state", checkpoints / "chain", "--sizes", "--json", "--limit", "3").out)
    for stage, name, keys in ((first, "Named", 20), (second, "Sum", 10)):
        (operator,) = [one for one in stage["operators"] if one["operator"] == name]
        assert operator["keys"] == keys
        assert set(operator["columns"]) == {"keys", "states"}
        sizes = [one["bytes"] for one in operator["largest"]]
        assert (len(sizes), sizes) == (3, sorted(sizes, reverse=True))
        assert 0 < operator["columns"]["states"] <= keys * sizes[0]
    shown = cli("state", checkpoints / "chain", "--sizes", "--stage", "0").out.splitlines()
    assert shown[1].startswith("stage 0: ")
    assert any(line.startswith("        largest keys: 'k") for line in shown)


def test_a_key_in_columns(cli: Cli, checkpoints: Path) -> None:
    """Without the dataflow columns show their scalars, with it the author's objects."""
    bare = objects(cli("state", checkpoints / "sums", "--key", "k7", "--json").out)
    assert [(one["stage"], one.get("state"), one.get("held")) for one in bare] == [(0, [21], None), (0, None, [[7]])]
    told = objects(cli("state", checkpoints / "sums", here("sums"), "--key", "k7", "--json").out)
    assert told == [
        {"stage": 0, "group": bare[0]["group"], "key": "k7", "operator": "Sum", "state": 21},
        {"stage": 0, "group": bare[0]["group"], "key": "k7", "open": MARKER[30], "held": 7},
    ]
    (state, held) = cli("state", checkpoints / "sums", here("sums"), "--key", "'k7'").out.splitlines()
    assert state == f"stage 0, key group {told[0]['group']}, Sum: 21"
    assert held.endswith(f", held for the block that ends at #30 ({MARKER[30]}): 7")
    assert cli("state", checkpoints / "sums", "--key", "k7", "--limit", "1").out.splitlines()[1:] == [
        "there is more: --limit N shows more of it, --json all of it, whole"
    ]


def test_a_chain_of_two_stages(cli: Cli, checkpoints: Path) -> None:
    first, last = objects(cli("state", checkpoints / "chain", "--json").out)
    assert [(one["operator"], one["keys"]) for one in first["operators"]] == [("sort", 0), ("Named", 20)]
    assert [(one["operator"], one["keys"]) for one in last["operators"]] == [("Sum", 10)]
    assert (first["closed"], first["open"]) == (MARKER[20], [MARKER[30]])
    assert (last["closed"], last["open"]) == (MARKER[20], [])
    assert objects(cli("state", checkpoints / "chain", "--stage", "1", "--json").out) == [last]
    shown = cli("state", checkpoints / "chain", "--key", "k3").out.splitlines()
    assert shown[0].endswith(f", Named: {named(3, 3, 3)}")
    assert shown[1].endswith(": [{'id': 'k3', 'ts': 25, 'watts': 3}]")
    told = cli("state", checkpoints / "chain", f"{__name__}:chain", "--key", "k3").out.splitlines()
    assert told == [
        shown[0],
        shown[1].replace("{'id': 'k3', 'ts': 25, 'watts': 3}", "Reading(id='k3', ts=25, watts=3)"),
    ]
    (one,) = objects(cli("state", checkpoints / "chain", "--key", "3", "--json").out)
    total = sum(named(*[n] * count) for n in (3, 13) for count in (1, 2, 3))
    assert (one["stage"], one["operator"], one["state"]) == (1, "Sum", total)


def test_each_state_store_belongs_to_its_stage(cli: Cli, checkpoints: Path) -> None:
    found = objects(cli("state", checkpoints / "tree", "--key", "k3", "--json").out)
    assert [(one["stage"], one["operator"], one["state"]) for one in found if "operator" in one] == [
        (0, "Named", named(3, 3, 3)),
        (1, "Sum", 9),
        (2, "Named", named(6, 9)),
        (3, "Sum", 9),
    ]
    reading = {"id": "k3", "ts": 25, "watts": 3}
    assert [(one["stage"], one["held"]) for one in found if "open" in one] == [(0, [reading]), (1, 3), (3, 3)]
    stages = objects(cli("state", checkpoints / "tree", "--json").out)
    assert [[one["operator"] for one in stage["operators"]] for stage in stages] == [
        ["sort", "Named"],
        ["Sum"],
        ["sort", "Named"],
        ["Sum"],
    ]
    assert [len(stage["open"]) for stage in stages] == [1, 1, 0, 1]


@pytest.mark.repeated
def test_late_items_and_rejects_as_streams(cli: Cli, tmp_path: Path) -> None:
    """Several queries: each line says of which, and what one of them does not have is looked for in the others."""
    rows = ["id,ts,watts", "a,1,2", "b,12,3", "a,2,5", "b,x,1", "c,25,7", "b,3,9", "c,,1"]
    write_lines(tmp_path / "rows.csv", rows)
    kept, letters = tmp_path / "kept", f"{__name__}:letters"
    outputs = [part for name in ("sums", "late", "wrong") for part in ("-o", f"{name}={tmp_path / name}")]
    about = ("--no-drain", "--checkpoint", kept, "-q", "--key-groups", "2")
    assert cli("run", letters, "-i", f"readings={tmp_path / 'rows.csv'}", *outputs, *about).code == 0

    def said(*arguments: str) -> list[tuple[Any, ...]]:
        found = objects(cli("state", kept, *arguments, "--json").out)
        return [(one["query"], one["stage"], one.get("state"), one.get("held")) for one in found]

    assert said(letters, "--key", "a") == [
        ("late", 0, named(5), None),
        ("late", 1, named(5), None),
        ("sums", 0, 2, None),
    ]
    assert said("--key", "UNIT") == [("wrong", 0, [1, 1], None), ("wrong", 0, None, [1, 1])]
    assert [one[:2] for one in said("--stage", "1")] == [("late", 1)]
    assert cli("state", kept, "--key", "UNIT", "--limit", "1").out.startswith("query wrong, stage 0, key group ")
    missing = cli("state", kept, "--stage", "2")
    assert (missing.code, missing.out) == (2, "")
    assert "kept has no stage 2" in missing.err
    assert "its stages are late 0, late 1, sums 0, wrong 0" in missing.err
    unknown = cli("state", kept, "--key", "nobody")
    assert "nothing is kept of key nobody" in unknown.err
    assert "there are 'a', " in unknown.err
    assert "no query of that name" in cli("state", kept, here("sums")).err


def test_the_order_of_spark_s_operators() -> None:
    stages = [StageAbout(0, (), ()), StageAbout(1, (), (0,)), StageAbout(2, (), ()), StageAbout(3, (), (2, 1))]
    assert operator_numbers(tuple(stages)) == {3: 0, 2: 1, 1: 2, 0: 3}


def test_a_flow_that_goes_straight_to_the_sink(cli: Cli, checkpoints: Path) -> None:
    shown = cli("state", checkpoints / "straight")
    assert (shown.code, shown.err) == (0, "")
    assert "    no operators: it closes blocks" in shown.out
    (one,) = objects(cli("state", checkpoints / "straight", "--json").out)
    assert (one["operators"], one["keys"], one["closed"]) == ([], [], MARKER[20])


def test_a_stage_that_only_closes_blocks(cli: Cli, checkpoints: Path) -> None:
    """The markers of its source are in the stream, and none has come."""
    (one,) = objects(cli("state", checkpoints / "passing", "--json").out)
    assert (one["operators"], one["keys"], one["closed"], one["open"]) == ([], [], None, [None])
    shown = cli("state", checkpoints / "passing")
    assert "no block closed yet" in shown.out
    assert "    open blocks, by their end: a marker that has not come" in shown.out
    (held,) = objects(cli("state", checkpoints / "passing", "--key", "k4", "--json").out)
    rows = [{"id": "k4", "ts": ts, "watts": 4} for ts in (1, 2, 12, 25)]
    assert sorted(held["held"], key=lambda one: int(one["ts"])) == rows  # a block of a U has no order


def test_items_that_are_held_with_their_place(cli: Cli, checkpoints: Path) -> None:
    state, held = objects(cli("state", checkpoints / "ordered", "--key", "k4", "--json").out)
    assert (state["operator"], state["state"]) == ("Named", named(4, 4, 4))
    assert held["held"] == [{"id": "k4", "ts": 25, "watts": 4}]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nowhere"], 2, ["TT408 nowhere is no directory", "give the --checkpoint of a run, or OUTPUT/_checkpoint"]),
        (["empty"], 2, ["TT408 empty is no checkpoint: it has no graph.json"]),
        (["foreign"], 2, ["TT408 foreign is no checkpoint of this version"]),
        (["broken"], 2, ["TT408 broken is no checkpoint of this version"]),
        (["list"], 2, ["TT408 list is no checkpoint of this version"]),
        (["fresh"], 2, ["TT408 fresh holds no state yet", "run the dataflow first"]),
        (["sums", "--stage", "1"], 2, ["TT408 ", "sums has no stage 1", "its stages are 0"]),
        (["sums", "--key", "nobody"], 2, ["TT408 nothing is kept of key nobody", "there are 'k0', 'k"]),
        (["straight", "--key", "k1"], 2, ["TT408 nothing is kept of key k1", "no key has a state"]),
        (
            ["sums", "tests.spark.test_state:chain"],
            1,
            ["TT211 ", "belongs to another graph:", ": was ", "name the dataflow that was run"],
        ),
        (["sums", "tests.spark.test_state:none"], 2, ["TT403 "]),
        (["sums", "--limit", "0"], 2, ["'0' is no whole number from 1"]),
    ],
)
def test_wrong_input(
    cli: Cli, checkpoints: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, said: list[str]
) -> None:
    monkeypatch.chdir(checkpoints)
    for name, text in (("foreign", '{"run": "x", "graph": [], "stages": []}'), ("broken", "{"), ("list", "[1]")):
        stamp(Path(name))
        Path(name, "graph.json").write_text(text)
    Path("empty").mkdir(exist_ok=True)
    claim(Path("fresh"), plan(check(sums)), SparkLog).write()
    done = cli("state", *arguments)
    assert (done.code, done.out) == (code, "")
    for part in said:
        assert part in done.err


def test_nothing_is_unpickled_of_what_is_not_ours(cli: Cli, tmp_path: Path) -> None:
    """A commit record with a state that acts when it is read, beside a graph.json that we would not write, and one that we
    might have written."""
    stamp(tmp_path)
    (tmp_path / "spark" / "commits").mkdir(parents=True)
    (tmp_path / "spark" / "commits" / "0").touch()
    flag = tmp_path / "flag"
    write_json(tmp_path / "commits" / "00000000.json", {"state": bomb(flag)})
    about = {"run": "0123abcd", "stages": [{"stage": 0, "operators": [], "reads": []}]}
    write_json(tmp_path / "graph.json", {**about, "graph": {"kept": {"groups": "1"}, "free": {}}})
    assert "is no checkpoint of this version" in cli("state", tmp_path).err
    assert not flag.exists()
    write_json(tmp_path / "graph.json", {**about, "graph": {"kept": {"key groups": "1"}, "free": {}}})
    assert "holds None, which is no state" in cli("state", tmp_path).err
    assert flag.exists()


def bomb(flag: Path) -> str:
    """A pickle that makes a file."""

    class Bomb:
        def __reduce__(self) -> Any:
            return (Path.touch, (flag,))

    return base64.b64encode(pickle.dumps(Bomb())).decode()


OWN = """
from tracetypes import Dataflow, OpKeyedOrdered, U, every, sort
from tests.spark.flows import id_of, ts_of
import attrs


@attrs.frozen
class Mine:
    id: str
    ts: int
    watts: int


@attrs.frozen
class Last(OpKeyedOrdered[str, Mine, Mine, list[Mine]]):
    def initial_state(self):
        return []

    def on_item(self, state, key, value, emit):
        emit(value)
        return [value]


flow = Dataflow("own")
rows = flow.source("rows", U[str, Mine], key=id_of, markers=every(seconds=10, time=ts_of))
flow.sink("out", rows.through(sort(by=ts_of)).through(Last()), marker="at", position="nth")
"""


@pytest.mark.repeated
def test_classes_of_the_author_are_needed(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dataflow of a file that only its own process can import."""
    write_lines(tmp_path / "own_flow.py", [OWN])
    write_lines(tmp_path / "in.jsonl", [row(id="a", ts=1, watts=1), row(id="a", ts=12, watts=2)])
    command = ["run", "own_flow.py", "-i", "rows=in.jsonl", "-o", "out=out", "--no-drain", "--key-groups", "1", "-q"]
    subprocess.run(
        [sys.executable, "-m", "tracetypes.cli", *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        timeout=300,
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    lost = cli("state", tmp_path / "out/_checkpoint")
    assert lost.code == 2
    assert "TT408 the state of stage 0 cannot be read: No module named 'own_flow'" in lost.err
    assert "FILE.py:NAME" in lost.err
    try:
        done = cli("state", tmp_path / "out/_checkpoint", tmp_path / "own_flow.py", "--key", "a")
    finally:
        sys.modules.pop("own_flow", None)
    lines = [
        "Last: [Mine(id='a', ts=1, watts=1)]",
        f"held for the block that ends at #20 ({MARKER[20]}): [Mine(id='a', ts=12, watts=2)]",
    ]
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [f"stage 0, key group 0, {line}" for line in lines]
