"""Files that come, change and go, on the local backend."""

from tests.spark.test_files import *  # noqa: F403

del test_a_file_that_is_removed_before_it_is_read  # noqa: F821
