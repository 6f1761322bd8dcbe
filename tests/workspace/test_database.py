"""The database of a workspace has what was decided, whatever happens in between."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import some
from tests.workspace.flows import NAMES, RandomFlow, random_flows, submitted
from tests.workspace.test_decisions import flow
from tracetypes import RunError, UsageError
from tracetypes.compiler.workspace import database
from tracetypes.compiler.workspace.database import Submission, WorkspaceDatabase
from tracetypes.compiler.workspace.merge import merge, take_over, unmerge
from tracetypes.compiler.workspace.running import Decision, Running

SUBMISSION = Submission(code="5f3a", plain={"inputs": {"clicks": "in.jsonl"}})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "workspace.db"


def opened(path: Path, backend: str = "local") -> WorkspaceDatabase:
    return WorkspaceDatabase(path, backend)


def content(running: Running) -> Any:
    """All that a state is."""
    return running.version, running.flows, running.operators, running.counts, running.taps


def stored(path: Path) -> Any:
    """The state that another process finds."""
    found = opened(path)
    try:
        return content(found.running())
    finally:
        found.close()


def submit(kept: WorkspaceDatabase, running: Running, name: str, *paths: str) -> Decision:
    decision = merge(running, flow(name, *paths))
    kept.write(decision, {name: SUBMISSION})
    running.apply(decision)
    return decision


STEPS = st.lists(st.tuples(st.sampled_from(NAMES), random_flows(copies=True)), min_size=1, max_size=some(6))


@given(STEPS)
def test_another_process_finds_what_was_decided(steps: list[tuple[str, RandomFlow]]) -> None:
    running = Running()
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "workspace.db")
        kept = opened(path)
        for name, one in steps:
            decision = unmerge(running, name) if name in running.flows else merge(running, submitted(name, one))
            kept.write(decision, {name: SUBMISSION})
            running.apply(decision)
            assert stored(path) == content(running)
        assert kept.submissions() == dict.fromkeys(running.flows, SUBMISSION)
        kept.close()


class Killed(BaseException):
    """Raised where a process is killed."""


class Counting:
    """A connection whose process ends before the statement of a number."""

    def __init__(self, connection: sqlite3.Connection, last: int, end: Callable[[], Any]) -> None:
        self.connection, self.left, self.end = connection, last, end

    def execute(self, *arguments: Any) -> Any:
        if self.left == 0:
            self.end()
        self.left -= 1
        return self.connection.execute(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


def raise_killed() -> None:
    raise Killed


def changes() -> Iterator[tuple[str, Callable[[WorkspaceDatabase, Running], Any]]]:
    """What is written, to a workspace that runs the flow f."""
    yield "submit", lambda kept, running: kept.write(merge(running, flow("g", "S > a > w > K2")), {"g": SUBMISSION})
    yield "remove", lambda kept, running: kept.write(unmerge(running, "f"))
    yield "attach", lambda kept, running: kept.attach(1, 1, 0, 60)


@pytest.mark.parametrize("how", ["raised", "killed"])
@pytest.mark.parametrize(("what", "change"), list(changes()))
def test_a_kill_before_any_statement_leaves_all_or_nothing(
    path: Path, what: str, change: Callable[[WorkspaceDatabase, Running], Any], how: str
) -> None:
    running = Running()
    kept = opened(path)
    submit(kept, running, "f", "S > a > K1")
    kept.close()
    before = stored(path), opened(path).markers()
    for number in range(100):
        if how == "raised":
            kept = opened(path)
            plain, kept._connection = kept._connection, Counting(kept._connection, number, raise_killed)  # type: ignore[assignment]
            try:
                change(kept, running)
            except Killed:
                over = False
            else:
                over = True
            plain.close()
        else:
            with warnings.catch_warnings():  # of threads, which the child does not use
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
            if not child:
                kept = opened(path)
                kept._connection = Counting(kept._connection, number, lambda: os._exit(9))  # type: ignore[assignment]
                change(kept, running)
                os._exit(0)
            over = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        after = stored(path), opened(path).markers()
        if over:
            break
        assert after == before, f"before statement {number}"
    assert number > 3
    assert over
    assert after != before


def test_a_decision_for_an_earlier_state_is_refused(path: Path) -> None:
    running, one, other = Running(), opened(path), opened(path)
    late = merge(running, flow("g", "S > K2"))
    submit(one, running, "f", "S > K1")
    with pytest.raises(ValueError, match="made for version 0, this is 1"):
        other.write(late, {"g": SUBMISSION})
    assert stored(path) == content(running)


def test_a_flow_that_takes_over_a_name_keeps_its_submission(path: Path) -> None:
    running, kept = Running(), opened(path)
    submit(kept, running, "f", "S > a > K1")
    newer = Submission(code="77aa", plain={})
    decision = merge(running, flow("f'", "S > b > K1"))
    kept.write(decision, {"f'": newer})
    running.apply(decision)
    decision = take_over(running, "f", "f'")
    kept.write(decision)
    running.apply(decision)
    assert kept.submissions() == {"f": newer}
    assert stored(path) == content(running)


def test_a_flow_without_a_submission_is_refused(path: Path) -> None:
    kept = opened(path)
    with pytest.raises(ValueError, match="the flow f joins without a submission"):
        kept.write(merge(Running(), flow("f", "S > K1")))
    assert stored(path) == content(Running())


def test_attachments(path: Path) -> None:
    running, kept = Running(), opened(path)
    submit(kept, running, "f", "S > a > K1")
    decision = submit(kept, running, "g", "S > a > w > K2")
    (attachment,) = decision.attach
    reader = running.operators[attachment.reader]
    for _ in range(2):
        kept.attach(reader.launch, reader.id, attachment.place, 60)
    assert opened(path).markers() == {(reader.launch, reader.id, attachment.place): 60}
    with pytest.raises(ValueError, match=r"is read behind 60, not behind 120"):
        kept.attach(reader.launch, reader.id, attachment.place, 120)
    with pytest.raises(ValueError, match=r"there is no operator 9\.1"):
        kept.attach(9, 1, 0, 60)
    kept.write(unmerge(running, "g"))
    assert opened(path).markers() == {}


def test_a_backup_is_a_workspace(path: Path, tmp_path: Path) -> None:
    running, kept = Running(), opened(path)
    submit(kept, running, "f", "S > a > K1")
    before = stored(path)
    kept.back_up(tmp_path / "copy.db")
    submit(kept, running, "g", "S > K2")
    assert stored(tmp_path / "copy.db") == before != stored(path)


# --------------------------------------------------------------------------------------------- what it refuses


def test_TT402_another_backend(path: Path) -> None:
    opened(path).close()
    with pytest.raises(UsageError, match=r"TT402 the workspace .* runs on 'local', not on 'spark'"):
        opened(path, "spark")


def test_TT220_a_newer_layout(path: Path) -> None:
    opened(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(RunError, match=r"TT220 the workspace .* has layout 99; tracetypes .* reads layouts up to"):
        opened(path)


def test_an_older_layout_is_brought_up_to_date(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running, kept = Running(), opened(path)
    submit(kept, running, "f", "S > a > K1")
    kept.close()
    twice = "CREATE TABLE more (one INTEGER); CREATE TABLE more (two INTEGER)"
    monkeypatch.setattr(database, "LAYOUTS", (*database.LAYOUTS, twice))
    with pytest.raises(RunError, match="already exists"):
        opened(path)
    monkeypatch.undo()
    assert stored(path) == content(running), "the step is taken as a whole or not at all"
    monkeypatch.setattr(database, "LAYOUTS", (*database.LAYOUTS, "CREATE TABLE more (one INTEGER)"))
    assert stored(path) == content(running)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM more").fetchone() == (0,)
        assert connection.execute("PRAGMA user_version").fetchone() == (len(database.LAYOUTS),)


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "zeroed": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "other bytes": lambda path: path.write_bytes(b"no database" * 1000),
    "halved": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "a row is gone": lambda path: changed(path, "DELETE FROM operators WHERE id = 1"),
    "a row of another one": lambda path: changed(path, "UPDATE operators SET body = (SELECT body FROM operators WHERE id = 0)"),
    "a flow has changed": lambda path: changed(path, "UPDATE flows SET body = replace(body, 'in.jsonl', 'no.jsonl')"),
    "a version has changed": lambda path: changed(path, "UPDATE about SET version = 7"),
    "about is gone": lambda path: changed(path, "DELETE FROM about"),
    "another program's": lambda path: others(path),
}


def changed(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()


def others(path: Path) -> None:
    path.unlink()
    changed(path, "CREATE TABLE theirs (one INTEGER)")


@pytest.mark.parametrize("damage", DAMAGES)
def test_TT225_a_damaged_file(path: Path, damage: str) -> None:
    running, kept = Running(), opened(path)
    submit(kept, running, "f", "S > a > K1")
    kept.close()
    DAMAGES[damage](path)
    with pytest.raises(RunError, match=r"TT225 .*workspace\.db is not what the run wrote there"):
        opened(path)


def test_TT209_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "workspace.db").mkdir()
    with pytest.raises(RunError, match=r"TT209 .*workspace\.db cannot be written"):
        opened(tmp_path / "workspace.db")
