"""``tracetypes.run`` and ``start``, on the local backend."""

from tests.spark.test_running import *  # noqa: F403

del test_rows_in_and_rows_out  # noqa: F821
del test_TT402_what_spark_does_not_read  # noqa: F821
