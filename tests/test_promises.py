"""Each promise of ``docs/sources.md`` about what may change has tests: a row that is added to a table without one fails here."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIFE = "spark/test_life.py::test_a_few_lives"
"""A model of the files of a run and of what each start must say, with random operations: every cell about files."""

FILES = {
    "it is added": [LIFE, "test_inputs.py::test_files_come_by_time_and_so_many_at_once"],
    "equal bytes, another time": [LIFE, "test_inputs.py::test_what_is_no_change"],
    "replaced, cut off, other bytes": [LIFE, "test_inputs.py::test_TT230_a_known_file_that_changed"],
    "lines are appended to text": [LIFE, "test_inputs.py::test_TT230_a_known_file_that_changed"],
    "the same with `--appended read`": [LIFE, "test_inputs.py::test_appended_lines_are_read_once"],
    "a half-written last line, or quoted cell of CSV, grows": [
        LIFE,
        "spark/test_files.py::test_TT230_a_last_line_that_was_half_written"],
    "a compressed or Parquet file grows": ["test_inputs.py::test_TT230_what_cannot_be_appended_to"],
    "it is removed": [LIFE, "spark/test_files.py::test_a_file_that_is_removed_before_it_is_read"],
    "it comes back": [LIFE, "test_inputs.py::test_what_is_no_change"],
    "it is renamed": [LIFE],
}
"""Tests by row of the table about files."""

REGISTRY = "test_registered_records.py::test_"
KAFKA, TABLES = "spark/test_kafka.py::test_", "spark/test_tables.py::test_"
POSTGRES = "stdlib/test_postgres.py::test_"
CONNECTORS = {
    "any: a source gets another kind of input, another topic or another table": [
        f"{KAFKA}TT218_an_input_is_another_than_the_run_began_with",
        LIFE,
    ],
    "Kafka: records are added": [f"{KAFKA}a_run_goes_on_where_it_was", f"{KAFKA}records_that_come_later_are_followed"],
    "Kafka: the topic is deleted, or deleted and made anew": [
        f"{KAFKA}TT218_an_input_is_another_than_the_run_began_with",
        f"{KAFKA}TT218_a_topic_is_made_anew_while_it_is_followed",
        f"{KAFKA}a_topic_that_is_not_there",
    ],
    "Kafka: a partition is added, also before the first epoch": [
        f"{KAFKA}a_topic_that_has_changed_is_refused",
        f"{KAFKA}TT218_a_partition_is_added_before_the_first_micro_batch",
    ],
    "Kafka: records are gone that were to be read": [f"{KAFKA}ranges_are_read_by_one_client"],
    "Kafka: a broker is killed, and is back within a minute": [
        f"{KAFKA}a_transaction_goes_on_when_its_broker_was_killed_and_is_back"
    ],
    "Kafka: no broker answers for a minute": [
        f"{KAFKA}TT209_a_transaction_ends_when_its_broker_is_gone",
        f"{KAFKA}channels_without_a_broker",
    ],
    "Kafka: a setting of `?config=` that no client takes": [f"{KAFKA}TT402_a_setting_that_no_client_takes"],
    "Kafka: a schema of the registry no longer fits the record": [
        f"{REGISTRY}TT203_a_schema_that_does_not_fit",
        f"{REGISTRY}what_cannot_be_decoded_is_a_reject",
    ],
    "Kafka: the registry does not answer for a minute": [
        f"{REGISTRY}TT208_a_registry_that_is_down",
        f"{KAFKA}nothing_is_lost_while_a_registry_is_away",
    ],
    "Kafka: `security.protocol` is not what the broker speaks": [f"{KAFKA}a_broker_speaks_plaintext"],
    "Delta: versions are added, files are compacted": [
        f"{TABLES}from_table_to_table_with_versions_that_come_later",
        f"{TABLES}versions_that_come_later_are_followed",
    ],
    "Delta: a version takes rows away": [f"{TABLES}TT219_a_run_stops_before_a_version_that_removes_rows"],
    "Delta: the table is removed, or removed and made anew": [
        f"{TABLES}TT218_a_table_is_made_anew",
        f"{TABLES}TT218_a_table_is_removed_while_it_is_followed",
    ],
    "Delta: the log no longer has the version that comes next": [
        f"{TABLES}TT218_the_log_no_longer_has_the_version_that_comes_next"
    ],
    "Delta: a version is missing, and later ones or checkpoints are there": [
        f"{TABLES}TT208_a_hole_in_the_log_is_not_its_end"
    ],
    "any sink: a sink gets another kind of output, another topic or another table": [
        f"{KAFKA}TT218_a_sink_is_another_than_the_run_began_with"
    ],
    "Kafka sink: the topic is deleted, or deleted and made anew": [
        f"{KAFKA}TT218_a_sink_is_another_than_the_run_began_with",
        f"{KAFKA}TT209_the_topic_of_a_sink_is_deleted_while_a_run_writes",
    ],
    "Delta sink: the table is removed, or removed and made anew": [
        f"{TABLES}TT218_a_table_is_made_anew",
        f"{TABLES}the_table_of_a_sink_is_removed_while_the_run_goes_on",
    ],
    "Kafka sink, Delta sink: another driver of the same run starts, from a copy of the checkpoint": [
        f"{KAFKA}TT209_the_older_driver_of_a_run_is_shut_out",
        f"{TABLES}TT209_the_older_of_two_runs_is_shut_out",
        "spark/test_fencing.py::test_TT209_a_checkpoint_whose_copy_has_written",
    ],
    "file sink: another directory is given": ["spark/test_outputs.py::test_another_directory_between_runs"],
    "Delta sink: another writer adds rows, or compacts": ["spark/test_fencing.py::test_others_write_to_the_table"],
    "Delta sink: a constraint is added that the sink does not keep": [
        f"{TABLES}TT209_a_table_of_others_asks_something_of_its_rows"
    ],
    "PostgreSQL sink: the table is removed, or removed and made anew": [
        "local/test_postgres.py::test_TT218_a_table_that_was_made_anew",
        "local/test_postgres.py::test_TT218_a_table_that_is_made_anew_during_the_run",
    ],
    "PostgreSQL, SQLite: rows change": [
        "stdlib/test_lookups.py::test_a_column_is_asked_for_at_once_and_each_key_once",
        "stdlib/test_lookups.py::test_rows_that_change",
    ],
    "PostgreSQL: the server is restarted": [
        "stdlib/test_lookups.py::test_a_connection_that_was_lost_is_opened_again",
        "stdlib/test_lookups.py::test_TT215_a_server_that_died_loses_nothing",
    ],
    "PostgreSQL: a column gets another type": [
        f"{POSTGRES}TT215_a_key_is_not_of_its_columns_type",
        f"{POSTGRES}TT215_a_column_gets_another_type_while_a_run_asks",
    ],
}
"""Tests by row of the table about connectors."""


def rows(heading: str, cells: int) -> list[str]:
    """The first cells of each row of the table under a heading."""
    page = (ROOT / "docs" / "sources.md").read_text(encoding="utf-8")
    lines = [*page.split(f"\n{heading}\n", 1)[1].splitlines(), ""]
    start = next(number for number, line in enumerate(lines) if line.startswith("|"))
    table = lines[start + 2 : start + lines[start:].index("")]
    return [": ".join(cell.strip() for cell in line.split("|")[1 : cells + 1]) for line in table]


@pytest.mark.parametrize(
    ("heading", "cells", "tested"),
    [
        ("### What may change", 1, FILES),
        ("## What may change between and during runs, and which error", 2, CONNECTORS),
    ],
    ids=["files", "connectors"],
)
def test_each_promise_has_tests(heading: str, cells: int, tested: dict[str, list[str]]) -> None:
    assert rows(heading, cells) == list(tested)
    for name in {name for tests in tested.values() for name in tests}:
        path, _, function = name.partition("::")
        tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
        assert function in {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}, name
