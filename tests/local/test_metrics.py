"""Metrics, on the local backend."""

from tests.spark.test_metrics import *  # noqa: F403
