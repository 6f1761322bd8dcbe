"""The tests of Spark that hold for any backend run on the local one here: what they call ``spark`` is that backend."""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

import pytest

from tests.spark.support import Cli
from tracetypes.compiler.local import states
from tracetypes.compiler.local.backend import LocalBackend
from tracetypes.compiler.runtime import state_log


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


@pytest.fixture(autouse=True)
def logs(request: pytest.FixtureRequest) -> Iterator[None]:
    """In every other test, few states are as many: they lie in logs, of small segments."""
    with pytest.MonkeyPatch.context() as own:
        if crc32(request.node.nodeid.encode()) % 2:
            own.setattr(states, "LOGGED", 1)
            own.setattr(state_log, "PIECE", 300)
            own.setattr(state_log, "SPARE", 100)
            own.setattr(state_log, "PICKLED", 0.001)
        yield


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command line."""
    return Cli(capsys)
