"""One Spark session for all tests of this folder, which all carry the marker ``spark``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.support import Cli

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies here. What the local backend repeats (``tests/local``) runs here by night."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            if item.get_closest_marker("repeated") is not None:
                item.add_marker(pytest.mark.nightly)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session, with two task slots."""
    from tracetypes.compiler.spark.session import session

    made = session(parallelism=2)
    yield made
    made.stop()


@pytest.fixture
def cli(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command line, on the session."""
    return Cli(capsys)
