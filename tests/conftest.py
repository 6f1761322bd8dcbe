"""Hypothesis profiles: ``dev`` (default), ``ci`` (reproducible), ``nightly`` (many examples).

``HYPOTHESIS_PROFILE`` chooses; without it ``CI=true`` asks for ``ci``. No profile has a deadline: machines differ.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests import suites
from tests.stdlib.postgres import Server, Unavailable, running

os.environ["TRACETYPES_SPECIFICATION"] = "1"  # what passes and the planner make is checked, in processes of tests, too
# Java processes of tests live for seconds: to compile their code well costs more than it saves.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

settings.register_profile(
    "dev", deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
dev = settings.get_profile("dev")
settings.register_profile(
    "ci",
    parent=dev,
    max_examples=12,
    derandomize=True,
    database=None,
    print_blob=True,
    phases=set(Phase) - {Phase.reuse},
)
settings.register_profile("nightly", parent=dev, max_examples=3_000, print_blob=True)

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") == "true" else "dev"))


@pytest.fixture(scope="session")
def object_server() -> Iterator[Any]:
    """A server of objects (``store_server.py``), one for each process of tests."""
    from tests.store_server import serving

    with serving() as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A server of PostgreSQL without tables."""
    try:
        with running() as made:
            yield made
    except Unavailable as why:
        pytest.skip(str(why))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line for each suite (``suites.py``), and what became of random programs (``test_programs.py``): a line a test."""
    reports = [one for some in terminalreporter.stats.values() for one in some if isinstance(one, pytest.TestReport)]
    terminalreporter.section("suites")
    for line in suites.lines((report.nodeid.partition("::")[0], report.duration) for report in reports):
        terminalreporter.line(line)
    programs = [
        f"{report.nodeid.rpartition('::')[2]}: {value}"
        for report in reports
        for name, value in report.user_properties
        if name == "programs" and report.when == "call"
    ]
    if programs:
        terminalreporter.section("random programs")
        for line in programs:
            terminalreporter.line(line)
