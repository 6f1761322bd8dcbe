"""Errors say code, place, found, expected and fix, and survive a journey between processes."""

import json
import linecache
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tracetypes import CheckFailed, DataError, LawBroken, OperatorFailed, RunError, TraceTypesError, UsageError
from tracetypes import errors as errors_module
from tracetypes.errors import NOWHERE, CodedError, Location, Violation, caller, envelope, from_text, raised_at

CODED: list[type[CodedError]] = [RunError, UsageError, DataError, LawBroken, OperatorFailed]
ONE = Violation("TT101", "Change", Location("flow.py", 7), "U[str, int]", "O[str, int]", "insert a sort")
OTHER = Violation("TT109", "source 'in'", Location("flow.py", 3), "nobody reads it", "a sink", "add one")


def test_a_violation_prints_its_five_parts() -> None:
    assert str(ONE) == (
        "TT101 flow.py:7: Change\n    found:    U[str, int]\n    expected: O[str, int]\n    fix:      insert a sort"
    )


def test_a_refused_graph_prints_all_violations() -> None:
    error = CheckFailed([ONE, OTHER])
    assert str(error) == f"2 violations\n{ONE}\n{OTHER}"
    assert str(CheckFailed([ONE])).startswith("1 violation\n")
    assert error.code == "TT100"


def test_a_refused_graph_survives_pickling() -> None:
    error = CheckFailed([ONE, OTHER])
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, CheckFailed)
    assert again.violations == (ONE, OTHER)
    assert str(again) == str(error)


@pytest.mark.parametrize("kind", CODED)
def test_coded_errors(kind: type[CodedError]) -> None:
    error = kind("TT999", "it is so", fix="do this")
    assert isinstance(error, TraceTypesError)
    assert str(error) == "TT999 it is so\n    fix:      do this"
    assert str(kind("TT999", "it is so")) == "TT999 it is so"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.code, again.message, again.fix) == (kind, "TT999", "it is so", "do this")


@pytest.mark.parametrize("kind", CODED)
def test_an_error_is_found_again_in_any_text(kind: type[CodedError]) -> None:
    error = kind("TT202", 'with "quotes",\nlines, é and {braces}', fix="do this")
    again = from_text(f"Traceback: py4j TRACETYPES-ERROR no\n{envelope(error)}) at java.lang\n\tmore {{}}")
    assert again is not None
    assert (type(again), again.code, again.message, again.fix) == (kind, error.code, error.message, error.fix)
    assert "\n" not in envelope(error)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no error",
        "TRACETYPES-ERROR ",
        "TRACETYPES-ERROR {}",
        "TRACETYPES-ERROR []",
        'TRACETYPES-ERROR {"kind": "SystemExit", "code": "", "message": "", "fix": ""}',
        'TRACETYPES-ERROR {"kind": "RunError", "code": "TT2',
    ],
)
def test_other_texts_hold_no_error(text: str) -> None:
    assert from_text(text) is None


@pytest.mark.parametrize("kind", CODED)
def test_an_error_about_a_line_keeps_it(kind: type[CodedError], tmp_path: Path) -> None:
    """Also in a process that cannot read the file."""
    program = tmp_path / "program.py"
    program.write_text("x = 1\ny = x / 0\n")
    error = kind("TT999", "it is so", fix="do this", where=Location(str(program), 2))
    text, sent, line = str(error), pickle.dumps(error), envelope(error)
    assert text == f"TT999 it is so\n    line:     {program}:2: y = x / 0\n    fix:      do this"
    program.unlink()
    again = from_text(line)
    assert str(pickle.loads(sent)) == str(again) == text


def author(program: str, file: str, *, text: bool = True) -> dict[str, Any]:
    """The names of a program of that file."""
    if text:
        linecache.cache[file] = (len(program), None, program.splitlines(keepends=True), file)
    names: dict[str, Any] = {}
    exec(compile(program, file, "exec"), names)
    return names


PROGRAM = """import json
def read(text):
    return json.loads(text)
def on_item(text):
    return read(text)
"""


@pytest.mark.parametrize("file", ["/home/author/program.py", "/tmp/ipykernel_7/123.py", "<ipython-input-3-abc>"])
def test_an_operator_that_raises_names_the_authors_last_line(file: str) -> None:
    names = author(PROGRAM, file)
    with pytest.raises(json.JSONDecodeError) as caught:
        names["on_item"]("no json")
    where = raised_at(caught.value)
    assert where == Location(file, 3)
    assert where.text == "return json.loads(text)"


def test_a_line_of_a_cell_names_the_cell() -> None:
    names = author("def fails():\n    1 / 0\n", "<ipython-input-3-abc>")
    with pytest.raises(ZeroDivisionError) as caught:
        names["fails"]()
    assert str(raised_at(caught.value)) == "In[3]:2"
    assert str(Location("<python-input-12>", 1)) == "In[12]:1"
    assert str(Location("/tmp/ipykernel_7/123.py", 1)) == "In[?]:1"
    violation = Violation("TT101", "Change", Location("<ipython-input-3-abc>", 2), "this", "that", "do so")
    assert "TT101 In[3]:2: Change\n    line:     1 / 0\n    found:    this" in str(violation)


def test_the_driver_reads_the_line_that_a_worker_cannot() -> None:
    where = Location("<ipython-input-9-abc>", 1)
    line = envelope(OperatorFailed("TT202", "it raised", where=where))
    author("1 + 1\n", where.file)
    assert str(from_text(line)) == "TT202 it raised\n    line:     In[9]:1: 1 + 1"


def test_a_notebook_knows_the_numbers_of_its_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = SimpleNamespace(compile=SimpleNamespace(_filename_map={"/tmp/ipykernel_7/123.py": 5}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert str(Location("/tmp/ipykernel_7/123.py", 1)) == "In[5]:1"
    assert str(Location("/tmp/ipykernel_7/124.py", 1)) == "In[?]:1"


def test_a_call_that_builds_a_graph_names_its_line() -> None:
    names = author("from tracetypes import stdlib as ts\ndef build():\n    ts.top(0, by=len)\n", "/home/author/program.py")
    with pytest.raises(UsageError) as caught:
        names["build"]()
    assert "TT121 top was given k=0" in str(caught.value)
    assert "\n    line:     /home/author/program.py:3: ts.top(0, by=len)\n" in str(caught.value)


def test_a_broken_law_is_an_error() -> None:
    assert str(LawBroken("TT301", "3 + 4 is not 4 + 3")) == "TT301 3 + 4 is not 4 + 3"


def where_from_inside(folder: Path) -> Location:
    """What a call finds that comes from a file in this folder."""
    path = folder / "program.py"
    names: dict[str, object] = {"caller": caller}
    exec(compile("def build():\n    return caller()\n\n\nfound = build()\n", str(path), "exec"), names)
    found = names["found"]
    assert isinstance(found, Location)
    return found


def test_the_caller_is_the_authors_line() -> None:
    here = Path(__file__).as_posix()
    assert caller() == Location(here, sys._getframe().f_lineno)
    assert where_from_inside(Path("/home/author")) == Location("/home/author/program.py", 2)
    assert str(Location("a.py", 3)) == "a.py:3"


@pytest.mark.parametrize("folder", ["tracetypes", "tracetypes/sub", "compiler", "stdlib"])
def test_our_own_lines_are_passed_over(folder: str) -> None:
    home = Path(errors_module.__file__).resolve().parent.parent
    assert where_from_inside(home / folder).file == Path(__file__).as_posix()


@pytest.mark.parametrize("folder", ["tracetypes_extras", "tracetypes-demo", "compilers", "stdlib2"])
def test_a_folder_whose_name_begins_like_ours_is_not_ours(folder: str) -> None:
    home = Path(errors_module.__file__).resolve().parent.parent
    assert where_from_inside(home / folder) == Location(str(home / folder / "program.py"), 2)


def test_without_a_file_the_place_is_unknown() -> None:
    script = "from tracetypes.errors import caller, NOWHERE\nprint(caller() == NOWHERE)"
    root = Path(errors_module.__file__).resolve().parent.parent
    run = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=root)
    assert run.stdout == "True\n"
    assert str(NOWHERE) == "<unknown>:0"
