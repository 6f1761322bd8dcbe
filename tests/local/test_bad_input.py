"""Wrong input, on the local backend."""

from tests.spark.test_bad_input import *  # noqa: F403

del test_csv_that_spark_cuts  # noqa: F821
