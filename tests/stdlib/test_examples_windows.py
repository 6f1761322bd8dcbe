"""The examples of docs/windows.md are true, and its tables name what there is."""

import doctest
import re
from pathlib import Path

import pytest

from tracetypes import stdlib

PAGE = Path(__file__).resolve().parents[2] / "docs" / "windows.md"
OURS = {
    f"tracetypes.stdlib.{name}"
    for name in (
        "windows",
        "panes",
        "time_windows",
        "item_windows",
        "calendar_windows",
        "sessions",
        "session_joins",
        "asof_joins",
        "ordered",
        "gap_filling",
        "frames",
        "frame_columns",
        "joins",
        "window_joins",
        "table_joins",
        "equi_joins",
        "clusters",
        "trees",
    )
}


def test_the_examples_of_the_page_are_true(capsys: pytest.CaptureFixture[str]) -> None:
    found = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.ELLIPSIS, encoding="utf-8")
    assert found.attempted > 10
    assert not found.failed, capsys.readouterr().out


def test_the_page_names_every_function_of_part_b() -> None:
    text = PAGE.read_text(encoding="utf-8")
    functions = [name for name in stdlib.__all__ if getattr(stdlib, name).__module__ in OURS and name[0].islower()]
    assert len(functions) > 10
    assert [name for name in functions if f"`{name}(" not in text and name != "cluster"] == []


def test_the_page_names_nothing_that_is_not_there() -> None:
    calls = set(re.findall(r"`(\w+)\(", PAGE.read_text(encoding="utf-8")))
    core = {"every", "sort", "subtract", "linger", "function", "AsOf"}
    assert {name for name in calls - core if not hasattr(stdlib, name)} == set()
