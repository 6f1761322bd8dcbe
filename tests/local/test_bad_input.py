"""Wrong input, on the local backend."""

from tests.spark.test_bad_input import *  # noqa: F403
