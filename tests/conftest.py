"""Hypothesis profiles: ``dev`` (default), ``ci`` (reproducible), ``nightly`` (many examples).

``HYPOTHESIS_PROFILE`` chooses; without it ``CI=true`` asks for ``ci``. No profile has a deadline: machines differ.
"""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings

os.environ["TRACETYPES_SPECIFICATION"] = "1"  # what passes and the planner make is checked, in processes of tests, too

settings.register_profile(
    "dev", deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
dev = settings.get_profile("dev")
settings.register_profile(
    "ci",
    parent=dev,
    max_examples=40,
    derandomize=True,
    database=None,
    print_blob=True,
    phases=set(Phase) - {Phase.reuse},
)
settings.register_profile("nightly", parent=dev, max_examples=3_000, print_blob=True)

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") == "true" else "dev"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What became of random programs (``test_programs.py``): a line a test."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    told = [
        f"{report.nodeid.rpartition('::')[2]}: {value}"
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "programs" and report.when == "call"
    ]
    if told:
        terminalreporter.section("random programs")
        for line in told:
            terminalreporter.line(line)
