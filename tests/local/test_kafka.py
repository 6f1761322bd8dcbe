"""Topics, on the local backend, with small splits: in each epoch several of a partition."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.local.test_types_and_formats import POSITIONS, all_kinds, moved
from tests.local.test_types_and_formats import differences as lost
from tests.local.test_types_and_formats import read as read_back
from tests.spark.broker import Broker
from tests.spark.support import differences
from tests.spark.test_kafka import *  # noqa: F403
from tests.spark.test_kafka import defined, record, summing
from tracetypes import check
from tracetypes.compiler.connectors.kafka import Address
from tracetypes.compiler.connectors.kafka_clients import RANGE_CLIENTS, RangeClient, RangeClients
from tracetypes.compiler.connectors.kafka_records import RecordReader
from tracetypes.compiler.connectors.kafka_splits import AtMost
from tracetypes.compiler.local import inputs as inputs_of_local
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.compiler.runtime.source import TakenRow
from tracetypes.compiler.spark.run import Batch, collect

del test_TT218_a_partition_is_added_before_the_first_micro_batch  # noqa: F821


@pytest.fixture(autouse=True)
def small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this backend alone: Spark takes all that is new in a partition as one."""
    monkeypatch.setattr(inputs_of_local, "RECORDS", AtMost(of_split=12, of_epoch=100))


def test_a_backlog_is_read_in_small_splits_and_epochs(
    spark: SparkSession, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much is waiting in a partition, a split has 12 records at most, and an epoch 100 of a partition."""
    ranges: list[tuple[int, int, int]] = []
    real = RecordReader.read

    def read(self: RecordReader, partition: int, start: int, until: int) -> Iterator[TakenRow | Chunk]:
        ranges.append((partition, start, until))
        return real(self, partition, start, until)

    monkeypatch.setattr(RecordReader, "read", read)
    stayed: list[RangeClient] = []
    leave = RangeClients.leave

    def leaving(self: RangeClients, address: Address) -> None:
        stayed.extend(one for one in self.idle if one.at is not None and one.at[0] == "backlog")
        leave(self, address)

    monkeypatch.setattr(RangeClients, "leave", leaving)
    address = broker.create("backlog", 2)
    sent = [record("ab"[at % 2], at // 4, at, int(at % 6 == 0)) for at in range(300)]
    broker.send("backlog", sent)
    batches: list[Batch] = []
    planned = plan(check(summing()), parallelism=1, key_groups=4)
    answer = collect(spark, planned, {"readings": address}, on_batch=batches.append).answer
    assert differences(summing(), answer, defined(summing(), sent, 2)) == []
    assert [batch.rows for batch in batches if batch.rows] == [150, 100, 50]
    assert stayed  # behind what they had read, as long as the run lasted
    assert not any(one in RANGE_CLIENTS.idle for one in stayed)
    for partition, count in ((0, 250), (1, 50)):
        mine = sorted(set((start, until) for at, start, until in ranges if at == partition))
        assert [offset for start, until in mine for offset in range(start, until)] == list(range(count))
        assert max(until - start for start, until in mine) == 12


@pytest.mark.parametrize("position", POSITIONS)
def test_a_source_reads_the_values_that_a_sink_sent(broker: Broker, tmp_path: Path, position: str) -> None:
    """Of each type, in each position, at its edges."""
    record, rows = all_kinds(position)
    topic = broker.create(f"types-{position}", 2)
    more: Any = {what: str(tmp_path / what) for what in ("checkpoint", "late", "rejects")}
    moved(record, rows, topic, **more)
    found, result = read_back(record, topic)
    for _ in range(20):  # a busy broker shows a transaction some time after it was committed
        if len(found) >= len(rows):
            break
        time.sleep(0.5)
        found, result = read_back(record, topic)
    assert not result.rejected_rows
    assert not lost(rows, found)
