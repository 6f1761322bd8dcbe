"""The suites of the tests, and the seconds that each may take in ``make test`` on 2 cores. A run ends with a line for each.

Seconds are those of all processes together, of which each has half a core; four run at once, so that 5,600 are some 24 minutes.
Nothing fails because of them: machines differ. A suite that takes more than its part on a quiet machine gets cheaper tests before
it gets new ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from typing import Final

import attrs

__all__ = ["SUITES", "Suite", "lines", "suite_of"]


@attrs.frozen
class Suite:
    """Some files of tests. ``patterns``: of their paths below ``tests/``; ``budget``: seconds."""

    name: str
    budget: int
    patterns: tuple[str, ...]


SUITES: Final = (
    Suite("random programs", 260, ("test_programs.py", "spark/test_programs.py", "spark/test_catalyst.py")),
    Suite(
        "stops and crashes",
        420,
        tuple(
            f"spark/test_{name}.py"
            for name in ("cluster", "exactly_once", "fencing", "life", "processes", "recovery", "rescale", "session", "tour")
        ),
    ),
    Suite("Kafka and Delta", 250, ("spark/test_kafka.py", "spark/test_tables.py", "test_tables.py", "test_topics.py")),
    Suite("answers on Spark", 1000, ("spark/*.py",)),
    Suite("local backend", 850, ("local/*.py",)),
    Suite("library", 430, ("stdlib/*.py",)),
    Suite(
        "examples and pages",
        210,
        tuple(
            f"test_{name}.py"
            for name in (
                *("air_quality", "air_quality_hours", "coming_from", "docs", "forest_fire", "linear_road"),
                *("nexmark", "tpcx_bb", "web_log", "yahoo"),
            )
        ),
    ),
    Suite("laws and simulated deployments", 280, tuple(f"test_{name}.py" for name in ("asides", "laws", "parts", "simulate"))),
    Suite("everything else", 1900, ("*",)),
)
"""A file belongs to the first suite that has a pattern for it."""


def suite_of(path: str) -> Suite:
    """The suite of a file. ``path``: as pytest shows it, such as ``tests/spark/test_files.py``."""
    file = path.removeprefix("tests/")
    return next(suite for suite in SUITES if any(fnmatch(file, pattern) for pattern in suite.patterns))


def lines(seconds: Iterable[tuple[str, float]]) -> list[str]:
    """A line for each suite that ran. ``seconds``: of parts of tests, with the paths of their files."""
    taken: dict[str, float] = {}
    for path, one in seconds:
        name = suite_of(path).name
        taken[name] = taken.get(name, 0.0) + one
    budgets: Mapping[str, int] = {suite.name: suite.budget for suite in SUITES}
    return [f"suite {name} took {taken[name]:,.0f} s of its budget of {budgets[name]} s" for name in budgets if name in taken]
