"""The standard library, on the local backend."""

from tests.spark.test_stdlib import *  # noqa: F403
