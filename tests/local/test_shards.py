"""Shards: states of several key groups together, and runs that go on with others."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import attrs
import pytest

from tracetypes import Dataflow, U, check, every, run
from tracetypes.canonical import stable_hash
from tracetypes.compiler.local import shards
from tracetypes.compiler.local.backend import LocalBackend
from tracetypes.compiler.local.log import stage_states
from tracetypes.compiler.local.shards import shards_of
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.store.inspection import open_all, states
from tracetypes.compiler.store.state_summary import keys_of
from tracetypes.errors import RunError
from tracetypes.records import String
from tracetypes.stdlib import count, running

KEYS = 40


@attrs.frozen
class Click:
    page: str
    ts: int


def clicks() -> Dataflow:
    flow = Dataflow("clicks")
    source = flow.source("clicks", U[str, Click], key=lambda one: one.page, markers=every(seconds=10, time=lambda one: one.ts))
    flow.sink("counts", source.through(running(count())))
    return flow


def lives(root: Path, widths: list[int], groups: int = 8) -> Counter[str]:
    """The rows of runs that go on with each other, each with a file more. The last one drains."""
    (root / "in").mkdir(parents=True)
    for number, width in enumerate(widths):
        rows = [Click(f"page {(7 * at) % (KEYS - number)}", 10 * number + at % 10) for at in range(150)]
        (root / "in" / f"{number}.jsonl").write_text("".join(json.dumps(attrs.asdict(one)) + "\n" for one in rows))
        end = number == len(widths) - 1
        run(
            clicks(), {"clicks": str(root / "in")}, {"counts": str(root / "out")}, backend="local", parallelism=width,
            key_groups=groups, drain=end,
        )  # fmt: skip
    return Counter(line for path in (root / "out").glob("*.jsonl") for line in path.read_text().splitlines())


@pytest.mark.parametrize("widths", [[1, 1, 3], [2, 1, 1], [8, 2, 1, 3]])
def test_runs_go_on_with_other_shards(tmp_path: Path, widths: list[int]) -> None:
    expected = lives(tmp_path / "same", [8] * len(widths))
    assert sum(expected.values()) > KEYS
    assert lives(tmp_path / "other", widths) == expected


def test_states_that_stay_in_other_shards_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = lives(tmp_path / "same", [8, 8])
    monkeypatch.setattr(shards, "regrouped", lambda stage, some, number: some[:number])
    assert lives(tmp_path / "other", [8, 1]) != expected


def test_TT225_a_checkpoint_whose_shards_are_gone(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.jsonl").write_text('{"page": "a", "ts": 1}\n{"page": "b", "ts": 30}\n')
    inputs, outputs = {"clicks": str(tmp_path / "in")}, {"counts": str(tmp_path / "out")}
    run(clicks(), inputs, outputs, backend="local", parallelism=8, key_groups=8, drain=False)
    with closing(sqlite3.connect(tmp_path / "out" / "_checkpoint" / "local" / "epochs.db")) as database, database:
        database.execute("DROP TABLE shards")
    with pytest.raises(RunError, match=r"TT225 .*epochs\.db"):
        run(clicks(), inputs, outputs, backend="local", parallelism=1, key_groups=8)


@pytest.mark.parametrize("width", [1, 2, 8])
def test_a_checkpoint_shows_key_groups(tmp_path: Path, width: int) -> None:
    lives(tmp_path, [width])
    (view,) = open_all(str(tmp_path / "out" / "_checkpoint"), LocalBackend.log).values()
    hash_ = stable_hash(String())
    found = {group: set(keys_of(state.operators[0])) for group, _, state in states(stage_states, view, view.stages[0])}
    assert {group: keys for group, keys in found.items() if keys} == {
        group: keys
        for group in range(8)
        if (keys := {key for key in (f"page {number}" for number in range(KEYS)) if hash_(key) % 8 == group})
    }


@pytest.mark.parametrize(("width", "groups", "shards"), [(1, 16, 1), (2, 16, 4), (3, 16, 8), (1, 7, 1), (2, 7, 7), (8, 8, 8)])
def test_a_key_group_lies_in_one_shard(width: int, groups: int, shards: int) -> None:
    assert shards_of(plan(check(clicks()), parallelism=width, key_groups=groups), width) == shards
