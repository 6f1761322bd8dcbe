"""The archive of Java's classes that ``tracetypes prepare`` makes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.test_processes import PATIENCE, ROOT, Runs, in_session, runs, until
from tracetypes import UsageError
from tracetypes.cli import main
from tracetypes.compiler.spark import archive

__all__ = ["runs"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place of archives, and a Spark of one jar."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "spark.jar").write_text("one")
    return tmp_path / "cache" / "tracetypes"


def made() -> None:
    """An archive as Java would write it."""
    with archive.record():
        option = re.fullmatch(r"-XX:ArchiveClassesAtExit=(\S+)", archive.options())
        assert option is not None
        Path(option[1]).write_text("classes")


def test_an_archive_is_used_for_the_jars_that_it_was_made_of(cache: Path, tmp_path: Path) -> None:
    assert (archive.find_archive(), archive.options()) == (None, "")
    made()
    place = archive.find_archive()
    assert place is not None
    assert archive.options().split()[0] == f"-XX:SharedArchiveFile={place}"
    assert list(cache.iterdir()) == [place]
    (tmp_path / "spark" / "jars" / "spark.jar").write_text("another one")
    assert (archive.find_archive(), archive.options()) == (None, "")


def test_half_an_archive_is_not_used(cache: Path) -> None:
    """Java ends with a fatal error on one."""
    made()
    place = archive.find_archive()
    assert place is not None
    place.write_text("cla")
    assert (archive.find_archive(), archive.options()) == (None, "")
    made()
    assert archive.find_archive() == place


def test_a_recording_that_fails_leaves_nothing(cache: Path) -> None:
    with pytest.raises(UsageError, match="TT402 this Java archives no classes"), archive.record():
        pass
    with pytest.raises(KeyboardInterrupt), archive.record():
        raise KeyboardInterrupt
    assert list(cache.iterdir()) == []
    assert archive.options() == ""


@pytest.mark.parametrize(("name", "said"), [("file", "cannot be written: Not a directory"), ("a b", "has a space in its name")])
def test_TT402_a_place_that_does_not_do(
    cache: Path, name: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (cache.parent.parent / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent.parent / name))
    assert main(["prepare"]) == 2
    err = capsys.readouterr().err
    assert "TT402" in err
    assert said in err


@pytest.mark.nightly
def test_a_run_starts_from_what_was_prepared(runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    prepare = [sys.executable, "-m", "tracetypes", "prepare"]
    for _ in range(2):  # the second one finds it
        done = subprocess.run(
            prepare, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert "prepared: Java starts from " in done.stderr
    assert "a small run" not in done.stderr
    (place,) = (tmp_path / "cache" / "tracetypes").iterdir()
    running = runs.start("checkpoint", "out", "--follow")
    until(running, "batch 0:")
    maps = [Path(f"/proc/{pid}/maps").read_text() for pid in in_session(running.pid)]
    assert sum(str(place) in text for text in maps) == 1
    running.kill()
    running.communicate(timeout=PATIENCE)
    again = runs.start()
    _, err = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, err
    runs.is_right()
