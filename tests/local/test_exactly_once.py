"""Crashes between any two steps of an epoch, on the local backend."""

from tests.spark.test_exactly_once import *  # noqa: F403

del test_ctrl_c_stops_between_batches_and_the_same_command_goes_on  # noqa: F821
del test_a_driver_that_is_killed  # noqa: F821
del test_a_worker_or_the_jvm_is_killed  # noqa: F821
del test_a_crash_at_any_point_of_a_batch  # noqa: F821
