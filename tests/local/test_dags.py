"""Programs of several segments, on the local backend."""

from tests.spark.test_dags import *  # noqa: F403

del test_a_failure_stops_all_queries_and_tells_its_cause  # noqa: F821
del test_a_crash_at_any_point_of_a_program  # noqa: F821
