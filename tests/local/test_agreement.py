"""The agreement with the interpreter, on the local backend."""

from tests.spark.test_agreement import *  # noqa: F403
