"""Files that come, change and go, on the local backend."""

from tests.spark.test_files import *  # noqa: F403

del test_a_file_that_is_removed_before_it_is_read  # noqa: F821
del test_files_that_Spark_reads_are_known_by_name  # noqa: F821
del test_TT214_the_sources_end_before_a_file_was_taken  # noqa: F821
