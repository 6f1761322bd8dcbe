"""mypy --strict, without any plugin, accepts the good programs and refuses the bad ones at the right lines.

In ``tests/typing`` a comment ``# E: code "text" "text"`` marks a line: mypy reports that code there, and its message,
notes included, holds the texts. One line may hold several such comments. basedpyright, which is what editors show, refuses
the same lines, unless a comment says ``# P: accepts`` or ``# P: also``.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = sorted((ROOT / "tests" / "typing").glob("*.py"))
COMMENT = re.compile(r"# E: (?P<code>[a-z-]+)(?P<texts>[^#]*)")
QUOTED = re.compile(r'"([^"]*)"')


class Place(NamedTuple):
    """What is compared."""

    file: str
    line: int
    code: str


def expected(path: Path) -> dict[Place, list[str]]:
    """The places that comments mark, with what the messages there must hold."""
    found: dict[Place, list[str]] = {}
    for at, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for comment in COMMENT.finditer(line):
            place = Place(path.name, at, comment["code"])
            found.setdefault(place, []).extend(QUOTED.findall(comment["texts"]))
    return found


@pytest.fixture(scope="module")
def reported() -> dict[Place, str]:
    """What mypy says of all programs, in one run: for each place its messages with their notes."""
    options = [
        "--strict",
        "--config-file=",
        "--follow-imports=silent",
        "--output=json",
        "--cache-dir=.mypy_cache/typing",
    ]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--explicit-package-bases", *map(str, PROGRAMS)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert run.returncode in (0, 1), run.stderr + run.stdout
    found: dict[Place, str] = {}
    for line in run.stdout.splitlines():
        message = json.loads(line)
        text = " ".join([message["message"], message.get("hint") or ""])
        place = Place(Path(message["file"]).name, message["line"], message["code"])
        if message["severity"] == "error":
            found[place] = found.get(place, "") + text
    return found


def test_there_are_programs() -> None:
    assert {path.name.split("_")[0] for path in PROGRAMS} == {"good", "bad"}


def test_exactly_the_marked_lines_are_refused(reported: dict[Place, str]) -> None:
    marked = {place for path in PROGRAMS for place in expected(path)}
    assert sorted(reported.keys() - marked) == [], "refused, but not marked"
    assert sorted(marked - reported.keys()) == [], "marked, but not refused"


def test_good_programs_have_no_marks() -> None:
    assert not [place for path in PROGRAMS if path.name.startswith("good") for place in expected(path)]


@pytest.mark.parametrize("path", [path for path in PROGRAMS if path.name.startswith("bad")], ids=lambda path: path.name)
def test_messages_name_what_is_wrong(path: Path, reported: dict[Place, str]) -> None:
    for place, parts in expected(path).items():
        for part in parts:
            assert part in reported[place], place


def test_the_papers_mistake_names_both_types(reported: dict[Place, str]) -> None:
    """An ordered operator behind a parallel map: the message says what is there and what is needed."""
    text = (ROOT / "tests" / "typing" / "bad_programs.py").read_text(encoding="utf-8")
    at = 1 + next(n for n, line in enumerate(text.splitlines()) if ".through(Interpolate(), parallelism=2)" in line)
    message = reported[Place("bad_programs.py", at, "arg-type")]
    assert "Stream[U[str, Reading]]" in message
    assert "Stream[O[str, Reading]]" in message
    assert "Interpolate" in message


# ------------------------------------------------------------------------------------------------ basedpyright


def refused_by_basedpyright(*paths: Path) -> set[tuple[str, int]]:
    """The names of files and the lines that it reports, in one run."""
    options = ["--outputjson", "--level", "error", "--pythonpath", sys.executable]
    run = subprocess.run(
        [sys.executable, "-m", "basedpyright", *options, *map(str, paths)], capture_output=True, text=True, cwd=ROOT
    )
    assert run.returncode in (0, 1), run.stderr + run.stdout
    said = json.loads(run.stdout)
    assert said["summary"]["filesAnalyzed"] == len(paths)
    return {(Path(one["file"]).name, one["range"]["start"]["line"] + 1) for one in said["generalDiagnostics"]}


def test_basedpyright_agrees_with_mypy(tmp_path: Path) -> None:
    """On the fixtures, on the examples, and on the mistake in the README."""
    program = (ROOT / "README.md").read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    readme = tmp_path / "gaps.py"
    readme.write_text(program, encoding="utf-8")
    examples = sorted((ROOT / "examples").glob("*.py"))
    marked = set[tuple[str, int]]()
    for path in PROGRAMS:
        for at, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if ("# E:" in line and "# P: accepts" not in line) or "# P: also" in line:
                marked.add((path.name, at))
    assert refused_by_basedpyright(*PROGRAMS, *examples, readme) == marked | {("gaps.py", len(program.splitlines()))}
