"""Late items and rejects, on the local backend."""

from tests.spark.test_asides import *  # noqa: F403
