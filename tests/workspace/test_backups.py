"""A workspace that was backed up goes on from there, wherever it is restored."""

from __future__ import annotations

import errno
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.workspace.clicks import Click, answer, rows, totals, write
from tracetypes.cli import main
from tracetypes.compiler.workspace import backups, new_flows
from tracetypes.compiler.workspace import workspace as workspaces
from tracetypes.compiler.workspace.backups import make_backup
from tracetypes.compiler.workspace.segment_host import SegmentHost
from tracetypes.compiler.workspace.segment_starts import SegmentStarts
from tracetypes.errors import RunError, UsageError
from tracetypes.workspace import Workspace


def come(home: Path, number: int) -> list[Click]:
    """A file of clicks, ten minutes behind the one before."""
    clicks = [Click(f"u{n % 3}", 600 * number + 10 * n, n % 7) for n in range(60)]
    write(home / "clicks", number, clicks)
    return clicks


def submit(workspace: Workspace, home: Path, name: str, *, changes: bool = False, wait: bool = True) -> None:
    flow, inputs = totals(name, changes=changes), {"clicks": home / "clicks"}
    workspace.submit(name, flow, inputs, {"totals": home / name}, start="earliest", wait=wait)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Code is not copied: it would be all tests."""
    monkeypatch.setattr(new_flows, "sources_of_launch", lambda launch: None)
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


def test_a_backup_has_the_drains_that_are_not_over(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A drain stops for the backup and goes on. In the backup it is not over, and its outputs are there."""
    drain, may_drain = SegmentHost.drain, threading.Event()

    def later(self: SegmentHost, name: str) -> None:
        if may_drain.is_set() or self.folder.parent.name != "draining":
            drain(self, name)

    monkeypatch.setattr(SegmentHost, "drain", later)
    clicks = come(home, 0)
    with Workspace(home / "workspace") as workspace:
        submit(workspace, home, "ann")
        submit(workspace, home, "bob", changes=True)
        workspace.wait()
        with pytest.raises(TimeoutError):
            workspace.remove("bob", drain=True, seconds=0.1)
        before = rows(home / "bob")
        waiting = threading.Thread(target=lambda: workspace.wait("bob"))
        waiting.start()
        workspace.backup(home / "backup")
        assert workspace.show()["bob"].state == "draining"
        assert rows(home / "bob") == before
        assert waiting.is_alive()
        may_drain.set()
        workspace.backup(home / "backup 2")
        waiting.join()
        assert rows(home / "bob") == answer(clicks, changes=True) != before
    for lost in ("workspace", "ann", "bob"):
        shutil.rmtree(home / lost)
    Workspace.restore(home / "backup", home / "elsewhere")
    assert rows(home / "bob") == before
    with Workspace(home / "elsewhere") as workspace:
        workspace.wait("bob")
        assert rows(home / "bob") == answer(clicks, changes=True)
        workspace.remove("ann", drain=True)
    assert rows(home / "ann") == answer(clicks)


def test_nothing_is_opened_while_a_backup_is_written(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow that was accepted before starts behind the backup, and where that is restored."""
    clicks, names, written = come(home, 0), list[str](), list[list[str]]()
    opened = SegmentHost._opened

    def noted(host: SegmentHost, hosted: Any) -> Any:
        names.append(hosted.segment.name)
        return opened(host, hosted)

    def slow(*arguments: Any) -> int:
        before = list(names)
        workspace.starts.add("ann", segments)
        time.sleep(0.5)  # longer than a start waits
        count = make_backup(*arguments)
        written.append(names[len(before) :])
        return count

    monkeypatch.setattr(SegmentHost, "_opened", noted)
    monkeypatch.setattr(workspaces, "make_backup", slow)
    with Workspace(home / "workspace") as workspace:
        with monkeypatch.context() as patch:
            patch.setattr(SegmentStarts, "add", lambda *_: None)
            submit(workspace, home, "ann", wait=False)
        segments = workspace._reconciler.segments_of("ann")
        workspace.backup(home / "backup")
        assert written == [[]]
        workspace.wait("ann", 60)
        assert names[:3] == segments
        workspace.remove("ann", drain=True)
        assert rows(home / "ann") == answer(clicks)
    for lost in ("workspace", "ann"):
        shutil.rmtree(home / lost)
    Workspace.restore(home / "backup", home / "workspace")
    with Workspace(home / "workspace") as workspace:
        workspace.remove("ann", drain=True)
    assert rows(home / "ann") == answer(clicks)


def test_a_restore_that_is_killed_leaves_nothing_that_runs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database comes last: before it is there, no flow begins with a part of its state."""
    come(home, 0)
    with Workspace(home / "workspace") as workspace:
        submit(workspace, home, "ann")
        workspace.wait()
        workspace.backup(home / "backup")
    for lost in ("workspace", "ann"):
        shutil.rmtree(home / lost)
    copy = shutil.copy2

    def killed(source: Path, target: Path) -> None:
        if Path(source).name == "workspace.db":
            raise KeyboardInterrupt
        copy(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copy2", killed)
        with pytest.raises(KeyboardInterrupt):
            Workspace.restore(home / "backup", home / "workspace")
    assert (home / "workspace" / "segments").is_dir()
    assert not (home / "workspace" / "workspace.db").exists()
    with pytest.raises(UsageError, match=r"TT402 the workspace .* is there already"):
        Workspace.restore(home / "backup", home / "workspace")


# ------------------------------------------------------------------------------------------------ the command line


def test_the_commands(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(home)
    clicks = come(home, 0)
    with Workspace(home / "shop") as workspace:
        submit(workspace, home, "ann")
        workspace.wait()
        assert main(["workspace", "backup", "shop", "saved"]) == 1
        assert "TT221 the workspace" in capsys.readouterr().err
        assert not (home / "saved").exists()
    assert main(["workspace", "backup", "shop", "saved"]) == 0
    assert capsys.readouterr().out == "saved: a backup of shop, 1 workspace and 1 output\n"
    assert main(["workspace", "restore", "saved", "shop"]) == 2
    assert "TT402 the workspace" in capsys.readouterr().err
    clicks += come(home, 1)
    with Workspace(home / "shop") as workspace:
        workspace.wait()
    for lost in ("shop", "ann"):
        shutil.rmtree(home / lost)
    assert main(["workspace", "restore", "saved", "new shop"]) == 0
    assert capsys.readouterr().out == "new shop: restored from saved, 1 workspace and 1 output\n"
    with Workspace(home / "new shop") as workspace:
        workspace.wait()
        workspace.remove("ann", drain=True)
    assert rows(home / "ann") == answer(clicks)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (["backup", "nowhere", "saved"], "TT402 {home}/nowhere is no workspace and no service"),
        (["restore", "nowhere", "shop"], "TT402 {home}/nowhere is no whole backup"),
        (["backup", "broken", "saved"], "TT225 {home}/broken/workspace.db is not what the run wrote there"),
    ],
)
def test_wrong_commands(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str], text: str
) -> None:
    monkeypatch.chdir(home)
    (home / "broken").mkdir()
    (home / "broken" / "workspace.db").write_text("no database at all, but long enough to be read as one")
    assert main(["workspace", *command]) in (1, 2)
    assert text.format(home=home) in capsys.readouterr().err
    assert sorted(one.name for one in home.iterdir()) == ["broken"]
