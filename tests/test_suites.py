"""The table of suites: every file of tests has one, and the page shows the same budgets."""

from __future__ import annotations

import re
from pathlib import Path

from tests.suites import SUITES, lines, suite_of

ROOT = Path(__file__).parents[1]


def test_each_suite_has_files() -> None:
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    assert {suite_of(path) for path in files} == set(SUITES)


def test_a_line_for_each_suite_that_ran() -> None:
    seconds = [("tests/spark/test_files.py", 1.0), ("tests/test_errors.py", 2.5), ("tests/spark/test_scan.py", 10.0)]
    assert lines(seconds) == [
        "suite answers on Spark took 11 s of its budget of 1000 s",
        "suite everything else took 2 s of its budget of 1900 s",
    ]


def test_the_page_shows_the_budgets() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \|$", page, re.M)
    assert rows == [(suite.name, str(suite.budget)) for suite in SUITES]
