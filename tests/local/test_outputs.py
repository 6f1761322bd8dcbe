"""Outputs, on the local backend."""

from tests.spark.test_outputs import *  # noqa: F403
