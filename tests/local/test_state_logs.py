"""Runs whose states are objects in logs: what they write, what a start finds, and what is noticed when a byte has changed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

from tracetypes import (
    Dataflow,
    Emit,
    Marker,
    OpKeyedOrdered,
    OpKeyedUnordered,
    RunError,
    U,
    UsageError,
    every,
    run,
    sort,
)
from tracetypes.cli import main
from tracetypes.compiler.local import log as logs
from tracetypes.compiler.local import states
from tracetypes.compiler.local.log import LocalLog
from tracetypes.compiler.local.section_files import LogRows, LogSections
from tracetypes.compiler.runtime import state_log
from tracetypes.compiler.store.small_files import write_json
from tracetypes.templates import EmitValue

KEYS, LOGGED = 300, 1000


@attrs.frozen
class Row:
    key: int
    ts: int


class Seen:
    """What is no column."""

    def __init__(self, times: tuple[int, ...], luggage: bytes) -> None:
        self.times, self.luggage = times, luggage

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Seen) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


@attrs.frozen
class Times(OpKeyedOrdered[int, Row, int, Seen]):
    """How many items the key has had, and their times."""

    def initial_state(self) -> Seen:
        return Seen((), b"")

    def on_item(self, state: Seen, key: int, value: Row, emit: EmitValue[int]) -> Seen:
        emit(sum(state.times) + value.ts)
        return Seen((*state.times, value.ts), bytes([key % 256]) * 200)


@attrs.frozen
class Sums(OpKeyedUnordered[int, Row, int, int, dict[str, int], int]):
    """The same of an unordered operator, with a state that is changed in place."""

    skips_untouched = True

    def lift(self, key: int, value: Row) -> int:
        return value.ts

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def initial_state(self) -> dict[str, int]:
        return {}

    def update_state(self, state: dict[str, int], agg: int) -> dict[str, int]:
        return {**state, "": agg, str(agg % 50): state.get(str(agg % 50), 0) + agg} if agg else {**state, "": 0}

    def on_marker(self, new_state: dict[str, int], key: int, marker: Marker, emit: Emit[int, int]) -> None:
        if new_state.get(""):
            emit(key, sum(new_state.values()))


def ordered() -> Dataflow:
    flow = Dataflow("ordered")
    rows = flow.source("rows", U[int, Row], key=lambda r: r.key, markers=every(seconds=10, time=lambda r: r.ts))
    times: Any = rows.through(sort(by=lambda r: r.ts)).through(Times())
    flow.sink("out", times)
    return flow


def unordered() -> Dataflow:
    flow = Dataflow("unordered")
    rows = flow.source("rows", U[int, Row], key=lambda r: r.key, markers=every(seconds=10, time=lambda r: r.ts))
    flow.sink("out", rows.through(Sums()))
    return flow


FLOWS = {"ordered": ordered, "unordered": unordered}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "LOGGED", LOGGED)
    monkeypatch.setattr(state_log, "PIECE", 5000)
    monkeypatch.setattr(state_log, "SPARE", 5000)
    monkeypatch.setattr(state_log, "PICKLED", 0.001)  # so that a log always pays


def write_rows(place: Path, number: int, keys: list[int]) -> None:
    place.mkdir(exist_ok=True)
    lines = [json.dumps({"key": key, "ts": number * 10 + key % 10}) for key in keys]
    (place / f"{number:03}.jsonl").write_text("\n".join(lines))


def some_keys(number: int) -> list[int]:
    """All keys first, then a few, others each time."""
    return list(range(KEYS)) if not number else [(number * 37 + at * 11) % KEYS for at in range(12)]


def go(flow: str, place: Path, **options: Any) -> list[Any]:
    options = {"backend": "local", "files_per_step": 1, "drain": False, **options}
    run(FLOWS[flow](), {"rows": place / "rows"}, {"out": place / "out"}, checkpoint=place / "ck", **options)
    return answers(place / "out")


def answers(out: Path) -> list[Any]:
    return sorted((json.loads(line) for file in out.glob("*.jsonl") for line in file.read_text().splitlines()), key=repr)


def written(place: Path) -> int:
    with sqlite3.connect(place / "ck/local/epochs.db") as connection:
        return int(connection.execute("SELECT sum(size) FROM sections").fetchone()[0] or 0)


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("memory", [None, "30KB"])
@pytest.mark.parametrize("parallelism", [1, 2])
def test_runs_that_go_on_answer_as_one_run(tmp_path: Path, flow: str, memory: Any, parallelism: int) -> None:
    """Also with other parallelism, and where hardly a state stays in memory."""
    for number in range(12):
        write_rows(tmp_path / "rows", number, some_keys(number))
        whole = number == 11
        if number % 4 == 3:
            go(flow, tmp_path, state_memory=memory, parallelism=parallelism if number != 7 else 3 - parallelism, drain=whole)
    assert written(tmp_path) > 0
    (tmp_path / "once").mkdir()
    os.rename(tmp_path / "rows", tmp_path / "once/rows")
    assert answers(tmp_path / "out") == go(flow, tmp_path / "once", drain=True)


@pytest.mark.parametrize("flow", FLOWS)
def test_an_epoch_writes_what_has_changed(tmp_path: Path, flow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    end = LocalLog.end

    def watched(self: LocalLog, number: int, some: Any) -> None:
        sizes.append(sum(len(one) for parts in some.values() for log in parts.logs for one in log.sections))
        assert all(len(part) < 2 * LOGGED for parts in some.values() if parts.logs for part in parts.parts)
        end(self, number, some)

    monkeypatch.setattr(LocalLog, "end", watched)
    for number in range(20):
        write_rows(tmp_path / "rows", number, some_keys(number))
    go(flow, tmp_path)
    assert max(sizes) > 8 * max(sizes[3:])
    assert min(sizes[3:]) > 0
    files = {one.name for one in (tmp_path / "ck/local/sections").glob("*")}
    with sqlite3.connect(tmp_path / "ck/local/epochs.db") as connection:
        assert files == {one for (one,) in connection.execute("SELECT file FROM sections WHERE file IS NOT NULL")}


def test_large_sections_are_files_and_go_when_nobody_needs_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LARGE", 1)
    for number in range(30):
        write_rows(tmp_path / "rows", number, some_keys(number))
    go("ordered", tmp_path)
    folder = tmp_path / "ck/local/sections"
    files = {one.name for one in folder.glob("*")}
    with sqlite3.connect(tmp_path / "ck/local/epochs.db") as connection:
        assert files == {one for (one,) in connection.execute("SELECT file FROM sections")}
        ((first, behind),) = connection.execute("SELECT first, next FROM logs").fetchall()
        numbers = [number for (number,) in connection.execute("SELECT number FROM sections ORDER BY number")]
    assert first > 0
    assert numbers == list(range(first, behind))
    (folder / "0-0-1-old-3").write_text("of a commit that a kill ended")
    for number in range(30, 32):
        write_rows(tmp_path / "rows", number, some_keys(number))
    go("ordered", tmp_path)
    assert not (folder / "0-0-1-old-3").exists()


def test_states_that_all_change_lie_in_a_dict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log takes more for each state than a pickle of all of them. What is cold then comes back."""
    monkeypatch.setattr(state_log, "PICKLED", 20)
    sizes: list[int] = []
    end = LocalLog.end

    def watched(self: LocalLog, number: int, some: Any) -> None:
        sizes.append(sum(len(one) for parts in some.values() for log in parts.logs for one in log.sections))
        end(self, number, some)

    monkeypatch.setattr(LocalLog, "end", watched)
    for number in range(17):
        write_rows(tmp_path / "rows", number, some_keys(number if 3 < number < 8 or number > 14 else 0))
        if number in (6, 9):
            go("ordered", tmp_path)
    go("ordered", tmp_path, drain=True)
    assert [at for at, size in enumerate(sizes) if size] == [*range(5, 12), 16]
    (tmp_path / "once").mkdir()
    os.rename(tmp_path / "rows", tmp_path / "once/rows")
    assert answers(tmp_path / "out") == go("ordered", tmp_path / "once", drain=True)


DAMAGES = {
    "a byte of a state": lambda content: content[:-30] + bytes([content[-30] ^ 1]) + content[-29:],
    "a byte of the head": lambda content: content[:20] + bytes([content[20] ^ 1]) + content[21:],
    "cut": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "gone": None,
}


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_noticed_before_an_answer_is_wrong(
    tmp_path: Path, damage: str, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr(logs, "LARGE", 1)
    write_rows(tmp_path / "rows", 0, some_keys(0))
    write_rows(tmp_path / "rows", 1, [0])
    write_rows(tmp_path / "rows", 2, [0])
    go("ordered", tmp_path)
    change: Any = DAMAGES[damage]
    for number, file, content in rows_of(tmp_path):
        path = tmp_path / "ck/local/sections" / str(file)
        with sqlite3.connect(tmp_path / "ck/local/epochs.db") as connection:
            if change is None and not large:
                connection.execute("DELETE FROM sections WHERE number = ?", (number,))
            elif not large:
                connection.execute("UPDATE sections SET content = ? WHERE number = ?", (change(content), number))
            elif change is None:
                path.unlink()
            else:
                path.write_bytes(change(path.read_bytes()))
    write_rows(tmp_path / "rows", 3, some_keys(0))
    write_rows(tmp_path / "rows", 4, [0])
    with pytest.raises(RunError, match=r"TT225 .*is not what the run wrote there: .*the state of stage 0, shard 0"):
        go("ordered", tmp_path)


def rows_of(place: Path) -> list[Any]:
    with sqlite3.connect(place / "ck/local/epochs.db") as connection:
        return connection.execute("SELECT number, file, content FROM sections").fetchall()


def test_a_log_of_an_earlier_commit_is_noticed(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows", 0, some_keys(0))
    write_rows(tmp_path / "rows", 1, [0])
    write_rows(tmp_path / "rows", 2, [0])
    go("ordered", tmp_path)
    with sqlite3.connect(tmp_path / "ck/local/epochs.db") as connection:
        connection.execute("UPDATE logs SET next = next - 1")
    with pytest.raises(RunError, match="TT225"):
        go("ordered", tmp_path)


def test_a_checkpoint_of_the_format_before_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Format 10 had no logs."""
    monkeypatch.setattr(states, "LOGGED", 1 << 40)
    for number in range(3):
        write_rows(tmp_path / "rows", number, some_keys(number))
    go("ordered", tmp_path)
    with sqlite3.connect(tmp_path / "ck/local/epochs.db") as connection:
        connection.executescript("DROP TABLE logs; DROP TABLE sections")
    about = tmp_path / "ck/format.json"
    write_json(about, {"format": 10, "tracetypes": "0.1.0"})
    assert main(["state", str(tmp_path / "ck"), "tests.local.test_state_logs:ORDERED"]) == 0
    monkeypatch.setattr(states, "LOGGED", LOGGED)
    for number in range(3, 6):
        write_rows(tmp_path / "rows", number, some_keys(number))
    go("ordered", tmp_path, drain=True)
    assert json.loads(about.read_text())["format"] == 11
    assert written(tmp_path) > 0
    (tmp_path / "once").mkdir()
    os.rename(tmp_path / "rows", tmp_path / "once/rows")
    assert answers(tmp_path / "out") == go("ordered", tmp_path / "once", drain=True)


ORDERED = ordered()


def test_the_state_of_a_key_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        write_rows(tmp_path / "rows", number, some_keys(number))
    go("ordered", tmp_path)
    assert written(tmp_path) > 0
    assert main(["state", str(tmp_path / "ck"), "tests.local.test_state_logs:ORDERED", "--key", "37"]) == 0
    assert "Seen" in capsys.readouterr().out


def test_a_run_that_goes_on_while_its_states_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may remove what is about to be read. That is no damage."""
    for number in range(3):
        write_rows(tmp_path / "rows", number, some_keys(number))
    go("ordered", tmp_path)
    head = LogSections.head

    def later(self: LogSections, number: int) -> tuple[bytes, int]:
        monkeypatch.setattr(LogSections, "head", head)
        write_rows(tmp_path / "rows", 3, some_keys(3))
        go("ordered", tmp_path)
        raise self.damage(number)

    monkeypatch.setattr(LogSections, "head", later)
    command = ["state", str(tmp_path / "ck"), "tests.local.test_state_logs:ORDERED"]
    assert main(command) == 2
    assert "TT408 the run of" in (err := capsys.readouterr().err)
    assert "ask again, or stop the run first" in err
    assert main(command) == 0


@pytest.mark.parametrize("size", ["much", "-1", -1, True, 2.5, "4 apples"])
def test_a_size_that_is_none(tmp_path: Path, size: Any) -> None:
    with pytest.raises(UsageError, match=r"TT402 state_memory is"):
        go("ordered", tmp_path, state_memory=size)


def test_sizes_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(tmp_path / "rows", 0, some_keys(0))
    command = ["run", "tests.local.test_state_logs:ORDERED", "-i", f"rows={tmp_path / 'rows'}", "-o", f"out={tmp_path / 'out'}"]
    assert main([*command, "--state-memory", "4 apples"]) == 2
    assert "'4 apples' is no size such as 4GB or 512MB" in capsys.readouterr().err
    assert main([*command, "--backend", "local", "--state-memory", "1.5MiB"]) == 0
    assert main([*command, "--backend", "spark", "--state-memory", "1GB"]) == 2
    assert "--state-memory is of the local backend" in capsys.readouterr().err


SCRIPT = """
import os, signal, sys
from pathlib import Path
from tests.local import test_state_logs as tests
from tracetypes.compiler.local import states, log
from tracetypes.compiler.runtime import state_log

states.LOGGED, state_log.PIECE, state_log.SPARE, log.LARGE, state_log.PICKLED = tests.LOGGED, 5000, 5000, 3000, 0.001
count, before = [0], log.LocalLog.{kill}


def kill(*arguments):
    result = before(*arguments)
    count[0] += 1
    if count[0] == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
    return result


log.LocalLog.{kill} = kill
tests.go("ordered", Path(sys.argv[1]), state_memory="30KB")
"""


def killed(place: Path, step: str, at: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """A run that ends after a step of a commit is done for so many times; whether it came so far."""
    owner: Any = LogRows if step == "write" else LocalLog
    count, before = [0], getattr(owner, step)

    def step_and_end(*arguments: Any, **named: Any) -> Any:
        result = before(*arguments, **named)
        count[0] += 1
        if count[0] == at:
            raise Killed
        return result

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, step_and_end)
        try:
            go("ordered", place, state_memory="30KB")
        except RunError as error:
            return isinstance(error.__cause__, Killed)
    return False


class Killed(BaseException):
    """What ends a run."""


@pytest.mark.parametrize("step", ["_file", "write", "_sign", "_tidy"])
def test_a_run_that_ends_in_a_commit_goes_on(tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With sections that are written and not committed, and with old ones that are not removed yet."""
    monkeypatch.setattr(logs, "LARGE", 3000)
    for number in range(12):
        write_rows(tmp_path / "rows", number, some_keys(number))
    ends = [killed(tmp_path, step, at, monkeypatch) for at in (2, 5, 3)]
    assert ends[0]
    go("ordered", tmp_path, drain=True)
    (tmp_path / "once").mkdir()
    os.rename(tmp_path / "rows", tmp_path / "once/rows")
    assert answers(tmp_path / "out") == go("ordered", tmp_path / "once", drain=True)


@pytest.mark.nightly
@pytest.mark.parametrize("at", [1, 4, 9])
def test_a_run_that_is_killed_in_a_commit_goes_on(tmp_path: Path, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With sections that are written and not committed, and with old ones that are not removed yet."""
    monkeypatch.setattr(logs, "LARGE", 3000)
    for number in range(10):
        write_rows(tmp_path / "rows", number, some_keys(number))
    for number, kill in enumerate(("_file", "_sign", "_tidy")):
        script = SCRIPT.format(kill=kill, at=at + number)
        done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False, cwd=Path(__file__).parents[2])
        assert done.returncode in (0, -signal.SIGKILL)
    go("ordered", tmp_path, drain=True)
    (tmp_path / "once").mkdir()
    os.rename(tmp_path / "rows", tmp_path / "once/rows")
    assert answers(tmp_path / "out") == go("ordered", tmp_path / "once", drain=True)
