"""The command state, on the local backend."""

from tests.spark.test_state import *  # noqa: F403

del test_nothing_is_unpickled_of_what_is_not_ours  # noqa: F821  (its checkpoint is one of Spark)
