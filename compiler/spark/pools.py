"""Fair scheduling of the queries of a session: each has a pool of its own, so that a long micro-batch of one does not hold up the
others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Final

from pyspark.sql import SparkSession

__all__ = ["fair_pool"]

_taken: Final[set[int]] = set()
_lock: Final = threading.Lock()


@contextmanager
def fair_pool(spark: SparkSession) -> Iterator[None]:
    """A context in which queries that this thread starts have a pool that no other query has. Spark never removes a pool, so
    their names are given again."""
    with _lock:
        number = next(one for one in count() if one not in _taken)
        _taken.add(number)
    try:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", f"tracetypes-{number}")
        yield
    finally:
        with _lock:
            _taken.discard(number)
