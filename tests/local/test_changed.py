"""Changed graphs, on the local backend."""

from tests.spark.test_changed import *  # noqa: F403

del test_a_sink_comes_and_another_one_goes  # noqa: F821
