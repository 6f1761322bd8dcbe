"""Crashes between any two steps of an epoch, on the local backend."""

from tests.spark.test_exactly_once import *  # noqa: F403

del test_ctrl_c  # noqa: F821
del test_a_driver_that_is_killed_twice  # noqa: F821
del test_a_worker_is_killed  # noqa: F821
del test_a_crash_at_any_point_of_a_batch  # noqa: F821
del test_a_python_process_that_is_slow_to_start  # noqa: F821
