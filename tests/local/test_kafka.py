"""Topics, on the local backend, with small splits: in each epoch several of a partition."""

import pytest

from tests.spark.test_kafka import *  # noqa: F403
from tracetypes.compiler.connectors.kafka_splits import AtMost
from tracetypes.compiler.local import inputs as inputs_of_local

del test_TT218_a_partition_is_added_before_the_first_micro_batch  # noqa: F821


@pytest.fixture(autouse=True)
def small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this backend alone: Spark takes all that is new in a partition as one."""
    monkeypatch.setattr(inputs_of_local, "RECORDS", AtMost(of_split=12, of_epoch=100))
