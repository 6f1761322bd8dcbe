"""Delta tables, on the local backend."""

from tests.spark.test_tables import *  # noqa: F403

del test_times_of_a_table_that_have_no_zone  # noqa: F821
del test_TT209_the_older_of_two_runs_is_shut_out  # noqa: F821
