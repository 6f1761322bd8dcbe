"""One Spark session for all tests of this folder, which all carry the marker ``spark``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.support import Cli

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies here."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)


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
