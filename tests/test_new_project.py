"""``tracetypes new`` writes what runs at once, and ``tracetypes examples`` copies what does."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT
from tracetypes.cli import main
from tracetypes.example_files import PLACE


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACETYPES_BACKEND", "local")
    return tmp_path


def in_folder(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command in a folder, as a user types it."""
    return subprocess.run([sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True, check=False)


def test_a_new_project_runs(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["new", "my-sales"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("wrote my_sales.py, test_my_sales.py, sales.csv, pyproject.toml in my-sales\n  cd my-sales\n")
    folder = here / "my-sales"
    monkeypatch.setenv("TRACETYPES_BACKEND", "spark")  # it needs no Java, whatever the default is
    ran = in_folder(folder, "tracetypes", "run", "--config", "sample")
    assert ran.returncode == 0, ran.stderr
    assert "start of the local backend" in ran.stderr
    assert len([json.loads(line) for line in ran.stdout.splitlines()]) == 7
    tested = in_folder(folder, "pytest", "-q", "-p", "no:cacheprovider")
    assert "1 passed" in tested.stdout, tested.stdout
    cache = ROOT / ".mypy_cache" / "new"
    typed = in_folder(folder, "mypy", "--strict", f"--cache-dir={cache}", "my_sales.py", "test_my_sales.py")
    assert typed.returncode == 0, typed.stdout
    assert main(["new", "my-sales"]) == 2
    assert "TT402 my-sales/my_sales.py is there already" in capsys.readouterr().err


@pytest.mark.parametrize(
    "rows",
    [
        "when,city,mm\n2026-01-01T00:00:05Z,Oslo,1.5\n2026-01-01T00:00:50Z,Rome,0\n2026-01-01T00:01:05Z,Oslo,2\n",
        pytest.param("n,ts\n1,1767225605\n2,1767225606\n", marks=pytest.mark.nightly),
        pytest.param("ts;x\n1767225605000;0.5\n1767225606000;0.25\n", marks=pytest.mark.nightly),
    ],
)
def test_a_project_for_data_of_ones_own_runs(here: Path, rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "rain fall.csv").write_text(rows)
    assert main(["new", "rain", "--data", "rain fall.csv"]) == 0
    folder = here / "rain"
    ran = in_folder(folder, "tracetypes", "run", "--config", "sample")
    assert ran.returncode == 0, ran.stderr
    counts = [json.loads(line)["value"] for line in ran.stdout.splitlines()]
    assert sum(counts) == len(rows.splitlines()) - 1
    tested = in_folder(folder, "pytest", "-q", "-p", "no:cacheprovider")
    assert "1 passed" in tested.stdout, tested.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["new", "42"], "TT402 '42' is no name of a dataflow"),
        (["new", "class"], "TT402 'class' is no name of a dataflow"),
        (["new", "rain", "--data", "none.csv"], "TT402 none.csv is no file"),
        (["new", "rain", "--data", "words.csv"], "TT402 --data words.csv: no field looks like a time"),
        (["examples", "sensor"], "TT402 there is no example 'sensor'\n    fix:      did you mean sensors?"),
    ],
)
def test_what_is_refused(here: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "words.csv").write_text("word\nred\n")
    assert main(words) in (1, 2)
    assert said in capsys.readouterr().err
    assert not (here / "rain").exists()


def test_examples_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["examples"]) == 0
    said = capsys.readouterr().out
    assert "  sensors " in said
    assert "  yahoo " in said
    assert "yahoo_data" not in said


@pytest.mark.parametrize("name", ["sensors", "home_energy", "riotbench", "demo"])
def test_an_example_comes_with_what_it_needs(here: Path, name: str) -> None:
    assert main(["examples", name]) == 0
    copied = {path.name for path in (here / "examples").iterdir()}
    for path in (here / "examples").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("examples."):
                assert f"{node.module.partition('.')[2]}.py" in copied
    assert main(["examples", name]) == 2


def test_a_copied_example_can_be_checked(here: Path) -> None:
    assert main(["examples", "sensors"]) == 0
    done = in_folder(here, "tracetypes", "check", "examples/sensors.py:filled")
    assert done.returncode == 0, done.stderr


def test_the_examples_are_those_of_the_repository() -> None:
    assert PLACE.resolve() == (ROOT / "examples").resolve()
