"""The tests of Spark that hold for any backend run on the local one here: what they call ``spark`` is that backend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spark.support import Cli
from tracetypes.compiler.local.backend import LocalBackend


@pytest.fixture(scope="session")
def spark() -> LocalBackend:
    """Two threads."""
    return LocalBackend(2)


@pytest.fixture(autouse=True)
def local() -> Iterator[None]:
    """The command line runs locally too, whatever a test undoes."""
    with pytest.MonkeyPatch.context() as own:
        own.setenv("TRACETYPES_BACKEND", "local")
        yield


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command line."""
    return Cli(capsys)
