"""Errors say code, place, found, expected and fix, and survive a journey between processes."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tracetypes import CheckFailed, DataError, LawBroken, OperatorFailed, RunError, TraceTypesError, UsageError
from tracetypes import errors as errors_module
from tracetypes.errors import NOWHERE, CodedError, Location, Violation, caller, envelope, from_text

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
