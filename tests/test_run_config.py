"""Options of a run in ``pyproject.toml`` or in a file of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tracetypes.cli import main

FLOW = '''
import attrs
from tracetypes import Dataflow, U, every
from tracetypes.stdlib import aggregate, count

@attrs.frozen
class Click:
    page: str
    ts: int

flow = Dataflow("clicks")
clicks = flow.source("clicks", U[str, Click], key=lambda click: click.page, markers=every(seconds=10, time=lambda c: c.ts))
flow.sink("counts", clicks.through(aggregate(count())))
'''

TABLE = """
target = "configured_flow.py"
backend = "local"
parallelism = 2
quiet = true
input.clicks = "${HERE}/clicks.jsonl"
output.counts = "-"
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("HERE", str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "configured_flow", raising=False)
    Path("configured_flow.py").write_text(FLOW)
    for name, rows in (("clicks", 3), ("more", 5)):
        Path(f"{name}.jsonl").write_text("".join(json.dumps({"page": "a", "ts": at}) + "\n" for at in range(rows)))
    Path("pyproject.toml").write_text("[tool.tracetypes.run.nightly]" + TABLE)
    Path("own.toml").write_text(TABLE)
    return tmp_path


@pytest.mark.parametrize("name", ["nightly", "own.toml"])
def test_a_run_needs_nothing_else(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--config", name]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {"key": "a", "value": 3}
    assert err == ""


def test_flags_win(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--config", "nightly", "-i", "clicks=more.jsonl", "-o", "counts=out", "-p", "1", "--no-drain"]) == 0
    assert list(Path("out").glob("part-*")) == []  # the block is open
    assert capsys.readouterr().out == ""


def test_a_target_that_is_given_wins(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "other.py", "--config", "nightly"]) == 2
    assert "TT403 other.py is no file" in capsys.readouterr().err


def test_defaults_of_variables(capsys: pytest.CaptureFixture[str]) -> None:
    Path("own.toml").write_text(TABLE.replace("${HERE}", "${NOT_HERE_AT_ALL:-.}"))
    assert main(["run", "--config", "own.toml"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("parallelism", "paralelism"), "there is no option 'paralelism'\n    fix:      did you mean parallelism?"),
        (("= 2", '= "two"'), "parallelism = 'two': 'two' is no whole number from 1"),
        (('"local"', '"locl"'), "backend is 'locl'\n    fix:      did you mean local?"),
        (("quiet = true", 'quiet = "yes"'), "quiet is 'yes'\n    fix:      give true or false"),
        (("${HERE}", "${HER}"), "input.clicks: there is no variable HER in the environment\n    fix:      did you mean HERE?"),
        (("input.clicks", "input.click"), "there is no source 'click'\n    fix:      did you mean clicks?"),
        (("output.counts", "output.count"), "there is no sink 'count'\n    fix:      did you mean counts?"),
        (('input.clicks = "', 'input = "'), "input.NAME"),
        (("quiet = true", "quiet = "), "is no TOML"),
        (("quiet = true", "verify = 1"), "verify is 1\n    fix:      give true or false"),
        (("quiet = true", "files_per_step = 0"), "files_per_step = 0: '0' is no whole number from 1"),
        (("quiet = true", 'config = "x"'), "there is no option 'config'"),
    ],
)
@pytest.mark.parametrize("name", ["nightly", "own.toml"])
def test_what_is_wrong_is_told(change: tuple[str, str], said: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = Path("pyproject.toml" if name == "nightly" else name)
    assert change[0] in file.read_text()
    file.write_text(file.read_text().replace(*change, 1))
    assert main(["run", "--config", name]) == 2
    err = capsys.readouterr().err
    assert "TT402" in err
    assert said in err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nightl", "there is no [tool.tracetypes.run.nightl] in pyproject.toml\n    fix:      did you mean nightly?"),
        ("weekly", "its runs are nightly"),
        ("none.toml", "none.toml: No such file"),
    ],
)
def test_a_name_that_is_not_there(name: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--config", name]) == 2
    assert said in capsys.readouterr().err


def test_a_table_that_nothing_reads(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRACETYPES_BACKEND", raising=False)
    Path("pyproject.toml").write_text('[tool.tracetypes]\nbakend = "local"\n')
    assert main(["explain", "configured_flow.py"]) == 2
    assert "[tool.tracetypes] of pyproject.toml has no 'bakend'\n    fix:      did you mean backend?" in capsys.readouterr().err


def test_without_a_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run"]) == 2
    assert "TT402 no dataflow is given" in capsys.readouterr().err
