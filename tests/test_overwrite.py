"""``--overwrite`` starts anew: it removes what the run of a checkpoint wrote, and nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import tracetypes
from tracetypes import RunError, UsageError
from tracetypes.cli import main
from tracetypes.compiler.store.earlier_run import earlier_run

FLOW = '''
import attrs
from tracetypes import Dataflow, U, every
from tracetypes.stdlib import aggregate, count, key_by

@attrs.frozen
class Click:
    page: str
    ts: int

flow = Dataflow("clicks")
clicks = flow.source("clicks", U[str, Click], key=lambda click: click.page, markers=every(seconds=10, time=lambda c: c.ts))
flow.sink("counts", clicks.through(aggregate(count())), partition_by="key")
flow.sink("pages", clicks.through(key_by(lambda key, click: click.page)))
'''


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACETYPES_BACKEND", "local")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "overwritten_flow", raising=False)
    Path("overwritten_flow.py").write_text(FLOW)
    write("one", 3)
    return tmp_path


def write(page: str, rows: int) -> None:
    """Rows of the source, two late ones and a reject among them."""
    times = [0, *range(100, 100 + rows), 1, 2]
    lines = [json.dumps({"page": page, "ts": ts}) for ts in times]
    Path("clicks.jsonl").write_text("\n".join([*lines, "no row", ""]))


RUN = ["run", "overwritten_flow.py", "-i", "clicks=clicks.jsonl", "-o", "counts=out", "-o", "pages=pages"]


def rows_in(place: str) -> list[Any]:
    return [json.loads(line) for file in sorted(Path(place).rglob("part-*")) for line in file.read_text().splitlines()]


def files_below(place: Path) -> set[str]:
    return {str(one.relative_to(place)) for one in place.rglob("*") if "_lock" not in one.parts and one.is_file()}


def test_a_finished_run_is_run_again(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(RUN) == 0
    assert {row["key"] for row in rows_in("pages")} == {"one"}
    assert main(RUN) == 1  # TT212
    assert "--overwrite" in capsys.readouterr().err
    before = files_below(home)
    write("two", 4)
    assert main([*RUN, "--overwrite=yes"]) == 0
    assert {row["key"] for row in rows_in("pages")} == {"two"}
    assert len(rows_in("out/_late")) == 2
    assert len(rows_in("out/_rejects")) == 1
    assert "--overwrite removes" in capsys.readouterr().err
    # As many as a first run leaves: nothing of the earlier one is there.
    assert len(files_below(home)) == len(before)
    assert not list(Path("out").glob("key=one"))


def test_nothing_of_others_is_removed(home: Path) -> None:
    assert main(RUN) == 0
    foreign = ["out/notes.txt", "out/part-mine.jsonl", "out/part-0a1b2c3d-00000000-0000.jsonl", "out/key=one/mine.csv"]
    foreign += ["pages/_late/x", "out/_late/clicks/mine", "out/_rejects/readme", "out/_tracetypes/mine"]
    foreign += ["out/_checkpoint/mine.txt", "out/_checkpoint/mine/1.json"]
    for name in foreign:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("mine")
    Path("out/link.jsonl").symlink_to(home / "clicks.jsonl")
    assert main([*RUN, "--overwrite=yes"]) == 0
    assert {name for name in foreign if Path(name).read_text() == "mine"} == set(foreign)
    assert Path("out/link.jsonl").is_symlink()
    assert Path("clicks.jsonl").exists()


@pytest.mark.parametrize("name", ["inputs/1.jsonl", "commits/mine", "queries/counts/local/mine.txt"])
def test_a_file_among_the_records_is_not_removed_with_them(home: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main(RUN) == 0
    mine = Path("out/_checkpoint") / name
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("mine")
    before = files_below(home)
    assert main([*RUN, "--overwrite=yes"]) == 1
    assert f"TT209 out/_checkpoint/{name} lies among the records" in capsys.readouterr().err
    assert files_below(home) == before


def test_a_checkpoint_that_is_elsewhere_keeps_the_rows_of_other_runs(home: Path) -> None:
    for page, checkpoint in (("one", "c1"), ("two", "c2")):
        write(page, 3)
        assert main([*RUN, "--checkpoint", checkpoint]) == 0
    write("three", 3)
    assert main([*RUN, "--checkpoint", "c2", "--overwrite=yes"]) == 0
    assert {row["key"] for row in rows_in("pages")} == {"one", "three"}
    found = earlier_run(home / "c2", [home / "pages"], [])
    assert [count for _, count in found.others] == [1]
    assert found.kept == ["1 file of other runs in pages"]


def test_a_directory_that_is_no_checkpoint_is_left_alone(home: Path) -> None:
    Path("ck/commits").mkdir(parents=True)
    Path("ck/commits/00000000.json").write_text("mine")
    found = earlier_run(home / "ck", [home / "out"], [home / "out/_late"])
    assert not found
    found.remove()
    assert Path("ck/commits/00000000.json").exists()


def test_without_a_terminal_it_has_to_be_said_twice(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--overwrite"]) == 0  # there is nothing to remove
    before = files_below(home)
    capsys.readouterr()
    assert main([*RUN, "--overwrite"]) == 2
    said = capsys.readouterr().err
    assert "TT402 --overwrite removes" in said
    assert "the checkpoint out/_checkpoint" in said
    assert "give --overwrite=yes" in said
    assert files_below(home) == before


@pytest.mark.parametrize(("answer", "status"), [("y", 0), ("n", 2), ("", 2)])
def test_on_a_terminal_it_asks(home: Path, monkeypatch: pytest.MonkeyPatch, answer: str, status: int) -> None:
    assert main(RUN) == 0
    before = files_below(home)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda text: answer)
    assert main([*RUN, "--overwrite"]) == status
    assert (files_below(home) == before) is (status == 2)


def test_what_would_fail_anyway_removes_nothing(home: Path) -> None:
    assert main(RUN) == 0
    before = files_below(home)
    assert main([one.replace("clicks.jsonl", "none.jsonl") for one in [*RUN, "--overwrite=yes"]]) == 1
    assert files_below(home) == before


def test_from_python(home: Path) -> None:
    from overwritten_flow import flow  # type: ignore[import-not-found]

    inputs, outputs = {"clicks": "clicks.jsonl"}, {"counts": "out", "pages": "pages"}
    assert tracetypes.run(flow, inputs, outputs).rows == 7
    with pytest.raises(RunError, match="TT212"):
        tracetypes.run(flow, inputs, outputs)
    write("two", 1)
    assert tracetypes.run(flow, inputs, outputs, overwrite=True).rows == 5
    assert {row["key"] for row in rows_in("pages")} == {"two"}
    with pytest.raises(UsageError, match="TT402 overwrite is 'yes'"):
        tracetypes.run(flow, inputs, outputs, overwrite="yes")  # type: ignore[arg-type]


def test_a_damaged_checkpoint_is_overwritten(home: Path) -> None:
    assert main(RUN) == 0
    Path("out/_checkpoint/format.json").write_text("{")
    assert main(RUN) == 1
    assert main([*RUN, "--overwrite=yes"]) == 0
    assert len(rows_in("pages")) == 4


@pytest.mark.parametrize("stops", [1, 3, 6, 9])
def test_a_removal_that_was_stopped_is_made_again(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stops: int
) -> None:
    """No run goes on with what is left: its outputs have lost rows that the checkpoint still counts."""
    assert main(RUN) == 0
    real, calls = Path.unlink, list[Path]()

    def unlink(path: Path, missing_ok: bool = False) -> None:
        calls.append(path)
        if len(calls) == stops:
            raise KeyboardInterrupt
        real(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", unlink)
        earlier = earlier_run(home / "out/_checkpoint", [home / "out", home / "pages"], [home / "out/_late"])
        with pytest.raises(KeyboardInterrupt):
            earlier.remove()
    capsys.readouterr()
    assert main([*RUN, "--no-drain"]) == 1
    said = capsys.readouterr().err
    assert "TT220" in said
    assert "is half removed" in said
    assert "run it again with --overwrite" in said
    write("two", 4)
    assert main([*RUN, "--overwrite=yes"]) == 0
    assert {row["key"] for row in rows_in("pages")} == {"two"}


def test_files_that_are_compressed_are_removed(home: Path) -> None:
    run = [one.replace("pages=pages", "pages=pages/out.jsonl.gz") for one in RUN]
    assert main(run) == 0
    before = sorted(Path("pages").rglob("*part-*"))
    assert any(name.name.endswith(".gz") for name in before)
    assert main([*run, "--overwrite=yes"]) == 0
    assert not {one for one in before if one.exists()}
