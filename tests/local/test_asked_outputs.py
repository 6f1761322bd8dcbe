"""Outputs are what was asked for, or are refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tracetypes
from tracetypes import Dataflow, U, Unit, every, json_lines, sort
from tracetypes.errors import TraceTypesError


def count(output: Any, *, format: Any = None) -> None:
    """Write two rows to an output."""
    flow = Dataflow("asked")
    source = flow.source("in", U[Unit, int], markers=every(seconds=10, time=lambda value: value))
    flow.sink("out", source.through(sort(by=lambda value: value)), marker="until", position="place", format=format)
    tracetypes.run(flow, {"in": [3, 14]}, {"out": output}, backend="local")


def test_the_terminal_has_the_columns_of_the_sink(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same as a file."""
    count("-")
    count(tmp_path / "out")
    lines = capsys.readouterr().out.splitlines()
    written = [line for path in (tmp_path / "out").glob("part-*") for line in path.read_text().splitlines()]
    assert list(map(json.loads, lines)) == list(map(json.loads, written))
    assert [json.loads(line)["until"] for line in lines] == ["1970-01-01T00:00:10.000000Z", "1970-01-01T00:00:20.000000Z"]


@pytest.mark.parametrize("ending", ["avro", "orc", "xlsx", "xml", "db", "AVRO"])
def test_the_ending_of_a_format_that_no_sink_writes_is_refused(tmp_path: Path, ending: str) -> None:
    with pytest.raises(TraceTypesError, match=f"no sink writes .{ending.lower()}") as failed:
        count(tmp_path / f"out.{ending}")
    assert failed.value.code == "TT207"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["out.2026-01", "out.v2", "avro", "out.avro.d"])
def test_another_name_is_a_directory_of_json_lines(tmp_path: Path, name: str) -> None:
    count(tmp_path / name)
    assert list((tmp_path / name).glob("part-*.jsonl"))


def test_a_format_that_is_declared_counts_more_than_a_name(tmp_path: Path) -> None:
    count(tmp_path / "out.db", format=json_lines())
    assert list((tmp_path / "out.db").glob("part-*.jsonl"))


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("mysql://host/base", "there is no connector for mysql://"),
        ("https://host/base", "nothing is written to https://"),
        ("s3a://bucket/out", "is not local"),
        ("hdfs://out", "is not local"),
    ],
)
def test_an_address_that_nothing_is_written_to(address: str, said: str) -> None:
    with pytest.raises(TraceTypesError, match=said) as failed:
        count(address)
    assert failed.value.code == "TT402"
