"""Every Parquet file of a source follows the rules of the first one."""

from __future__ import annotations

from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tracetypes
from tracetypes import Dataflow, RunError, U, every


@attrs.frozen
class Row:
    k: str
    v: int
    note: str | None
    ts: int


def read(directory: Path) -> list[Row]:
    """The rows of all files. Raises :class:`RunError`."""
    flow = Dataflow("files")
    flow.sink("out", flow.source("rows", U[str, Row], key=lambda r: r.k, markers=every(seconds=60, time=lambda r: r.ts)))
    rows: list[tuple[str, Row]] = []
    tracetypes.run(flow, {"rows": str(directory)}, {"out": rows}, backend="local")
    return sorted((row for _, row in rows), key=lambda row: row.k)


WHOLE = {"k": ["b"], "v": [2], "note": ["n"], "ts": [2]}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"k": ["b"], "note": ["n"], "ts": [2]}, "has no column 'v'; it has 'k', 'note', 'ts'"),
        ({**WHOLE, "v": ["2"]}, "the column 'v' is string, expected int"),
        ({**WHOLE, "note": [b"n"]}, "the column 'note' is binary, expected str"),
    ],
)
@pytest.mark.parametrize("name", ["1.parquet", "3.parquet"])
def test_TT203_a_file_without_a_column_or_with_one_of_another_type(
    tmp_path: Path, columns: dict[str, list[object]], message: str, name: str
) -> None:
    pq.write_table(pa.table({"k": ["a"], "v": [1], "note": [None], "ts": [1]}), tmp_path / "2.parquet")
    pq.write_table(pa.table(columns), tmp_path / name)
    with pytest.raises(RunError) as refused:
        read(tmp_path)
    assert refused.value.code == "TT203"
    assert name in str(refused.value)
    assert message in str(refused.value)


def test_a_later_file_without_an_optional_column(tmp_path: Path) -> None:
    pq.write_table(pa.table(WHOLE), tmp_path / "1.parquet")
    pq.write_table(pa.table({"ts": [1], "v": [1], "k": ["a"]}), tmp_path / "2.parquet")
    assert read(tmp_path) == [Row("a", 1, None, 1), Row("b", 2, "n", 2)]
