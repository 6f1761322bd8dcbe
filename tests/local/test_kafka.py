"""Topics, on the local backend."""

from tests.spark.test_kafka import *  # noqa: F403

del test_TT218_a_partition_is_added_before_the_first_micro_batch  # noqa: F821
