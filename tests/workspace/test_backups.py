"""A workspace that was backed up goes on from there, wherever it is restored."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from tests.workspace.clicks import Click, answer, rows, totals, write
from tracetypes.compiler.workspace import backups, reconciler
from tracetypes.errors import RunError, UsageError
from tracetypes.workspace import Workspace


def come(home: Path, number: int) -> list[Click]:
    """A file of clicks, ten minutes behind the one before."""
    clicks = [Click(f"u{n % 3}", 600 * number + 10 * n, n % 7) for n in range(60)]
    write(home / "clicks", number, clicks)
    return clicks


def submit(workspace: Workspace, home: Path, name: str, *, changes: bool = False) -> None:
    workspace.submit(name, totals(name, changes=changes), {"clicks": home / "clicks"}, {"totals": home / name}, start="earliest")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Code is not copied: it would be all tests."""
    monkeypatch.setattr(reconciler, "sources_of_launch", lambda launch: None)
    return tmp_path


def test_a_backup_goes_on_where_it_was_made(home: Path) -> None:
    clicks = come(home, 0)
    with Workspace(home / "workspace") as workspace:
        submit(workspace, home, "ann")
        submit(workspace, home, "bob", changes=True)
        workspace.wait()
        clicks += come(home, 1)
        workspace.wait("ann")
        workspace.backup(home / "backup")
        clicks += come(home, 2)
        workspace.wait()
        assert workspace.show()["ann"].rows == len(clicks)  # the same process goes on counting
        with pytest.raises(UsageError, match=r"TT402 the backup .* is there already"):
            workspace.backup(home / "backup")
        later = rows(home / "ann")
    assert later == [one for one in answer(clicks) if one[0] <= later[-1][0]] != []
    with pytest.raises(UsageError, match=r"TT402 the output .*ann is there already"):
        Workspace.restore(home / "backup", home / "elsewhere")
    assert not (home / "elsewhere").exists()
    for lost in ("workspace", "ann", "bob"):
        shutil.rmtree(home / lost)
    Workspace.restore(home / "backup", home / "elsewhere")
    assert rows(home / "ann") != later
    with Workspace(home / "elsewhere") as workspace:
        clicks += come(home, 3)
        workspace.wait()
        for name in ("ann", "bob"):
            workspace.remove(name, drain=True)
    assert rows(home / "ann") == answer(clicks)
    assert rows(home / "bob") == answer(clicks, changes=True)


def test_outputs_are_not_copied_on_one_disk(home: Path) -> None:
    come(home, 0)
    with Workspace(home / "workspace") as workspace:
        submit(workspace, home, "ann")
        workspace.wait()
        workspace.backup(home / "backup")
    (part, *_) = (home / "ann").glob("*.jsonl")
    assert part.samefile(home / "backup" / "outputs" / "0" / part.name)


def test_TT209_nothing_is_left_of_a_backup_that_fails(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clicks = come(home, 0)
    with Workspace(home / "workspace") as workspace:
        submit(workspace, home, "ann")
        workspace.wait()

        def full(output: Path, target: Path) -> None:
            raise OSError(errno.ENOSPC, "No space left on device", str(target))

        monkeypatch.setattr(backups, "_copy_output", full)
        with pytest.raises(RunError, match=r"TT209 the backup .* cannot be written: .*No space left on device"):
            workspace.backup(home / "backup")
        assert not (home / "backup").exists()
        with pytest.raises(UsageError, match=r"TT402 the backup .* lies in "):
            workspace.backup(home / "workspace" / "backup")
        clicks += come(home, 1)
        workspace.wait()
        workspace.remove("ann", drain=True)
    assert rows(home / "ann") == answer(clicks)


def test_TT402_what_is_no_backup(home: Path) -> None:
    (home / "backup").mkdir()
    with pytest.raises(UsageError, match=r"TT402 .* is no whole backup of a workspace"):
        Workspace.restore(home / "backup", home / "elsewhere")
