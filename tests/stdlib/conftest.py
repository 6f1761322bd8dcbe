"""One PostgreSQL for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stdlib.postgres import Server, Unavailable, running


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A server without tables."""
    try:
        with running() as made:
            yield made
    except Unavailable as why:
        pytest.skip(str(why))
