"""The command state, on the local backend."""

from tests.spark.test_state import *  # noqa: F403
