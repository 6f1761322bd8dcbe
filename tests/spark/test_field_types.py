"""Decimals, unsigned integers, literals and enums on Spark: what the interpreter says of them, from every format."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.local.test_types_and_formats import FORMATS, read_as_written, rows_at_the_edges, table_of
from tests.spark.support import defined, differences
from tests.strategies import Hue, Money
from tests.test_field_types import FLOWS, ROWS, SALE, Sale
from tracetypes import Dataflow, RunError, U, Unit, check, every
from tracetypes import stdlib as ts
from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.connectors.program_rows import Rows
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.files import SCAN
from tracetypes.compiler.spark.run import collect, run
from tracetypes.compiler.store.outputs import open_output
from tracetypes.plain_data import to_plain
from tracetypes.schemas import schema_of


@attrs.frozen
class Price:
    """What Spark reads itself."""

    ts: int
    money: Money
    side: Literal["left", "right"]
    hue: Hue


MICROS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
LINES = [json.dumps(to_plain(SALE, sale)) for sale in ROWS]
WRONG: dict[str, list[Any]] = {
    "size": [-1, 2**64, 1.5, "1"],
    "money": [0.001, "1e17", True, "NaN"],
    "side": ["up", None, 1],
    "number": [3, "1", True],
    "hue": ["RED", "Hue.RED", None],
    "step": [0, "1"],
    "word": ["YES"],
    "day": ["2026-02-30"],
}
"""Values that do not fit."""


def bad_lines() -> list[str]:
    plain = to_plain(SALE, ROWS[0])
    return [json.dumps({**plain, name: value}) for name, values in WRONG.items() for value in values]


@pytest.mark.parametrize(
    "name", ["by hue", *(pytest.param(n, marks=pytest.mark.nightly) for n in FLOWS if n != "by hue")]
)
def test_programs(spark: SparkSession, name: str) -> None:
    checked = check(FLOWS[name]())
    if len(checked.graph.sinks) > 1 or len(checked.graph.sources) > 1:
        pytest.skip("this runs programs of one source and one sink")
    lines = [*LINES, *bad_lines()]
    expected = defined(checked, {"sales": lines})
    assert len(expected[1]["sales"].rejects) == len(bad_lines())
    rows = {"sales": Rows((tuple(lines[:200]), tuple(lines[200:])))}
    answer = collect(spark, plan(checked, parallelism=2, key_groups=4), rows).answer
    assert differences(checked, answer, expected) == []


def copies(source: Callable[[Dataflow], Any]) -> Any:
    flow = Dataflow("copy")
    flow.sink("out", source(flow))
    return check(flow)


def rows_of(flow: Dataflow) -> Any:
    return flow.source("sales", U[Unit, Sale], markers=every(seconds=10, time=lambda s: s.ts, delay=100))


def column(name: str, kind: Any = None) -> Any:
    """A column as another program may have written it."""
    schema = dict(SALE.fields)[name]  # type: ignore[union-attr]
    made = array(schema, [getattr(sale, name) for sale in ROWS])
    return made if kind is None else made.cast(kind)


def written(path: Path, **columns: Any) -> str:
    names = [name for name, _ in SALE.fields]  # type: ignore[union-attr]
    pq.write_table(pa.table({name: columns.get(name, column(name)) for name in names}), path, row_group_size=64)
    return str(path)


def test_files_of_other_programs(spark: SparkSession, tmp_path: Path) -> None:
    """Wider and narrower types with the same values; and values that are none of an enum, which are rejects."""
    checked = copies(rows_of)
    wide = {
        "size": column("size", pa.decimal128(20, 0)),
        "money": column("money", pa.decimal128(38, 4)),
        "hue": column("hue").dictionary_encode(),
        "step": column("step", pa.int64()),
        "number": column("number", pa.int8()),
    }
    path = written(tmp_path / "wide.parquet", **wide)
    expected = defined(checked, {"sales": LINES})
    answer = collect(spark, plan(checked, key_groups=2), {"sales": path}).answer
    assert differences(checked, answer, expected) == []
    hues = column("hue").to_pylist()
    hues[7] = "purple"
    sides = column("side").to_pylist()
    sides[70] = None
    path = written(tmp_path / "bad.parquet", hue=pa.array(hues), side=pa.array(sides))
    answer = collect(spark, plan(checked, key_groups=2), {"sales": path}).answer
    reasons = sorted(reason for _, reason, _ in answer.rejects)
    assert reasons == [
        ".hue is 'purple', expected Hue ('red', 'blue', 'blau, \"tief\"')",
        ".side is None, expected Literal['left', 'right']",
    ]


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        pytest.param("money", pa.float64(), "'money' is double, expected Decimal of 18", marks=pytest.mark.nightly),
        pytest.param("size", pa.float64(), "'size' is double, expected uint64", marks=pytest.mark.nightly),
    ],
)
def test_TT203_columns_of_another_type(spark: SparkSession, tmp_path: Path, name: str, kind: Any, said: str) -> None:
    path = written(tmp_path / "wrong.parquet", **{name: pa.array([-1] * len(ROWS), kind)})
    with pytest.raises(RunError) as caught:
        collect(spark, plan(copies(rows_of), key_groups=2), {"sales": path})
    assert caught.value.code == "TT203"
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("name", "kind", "wrong"), [("money", pa.decimal128(38, 4), Decimal("0.0001")), ("size", pa.decimal128(20, 0), Decimal(-1))]
)
def test_values_that_would_change_are_rejects(spark: SparkSession, tmp_path: Path, name: str, kind: Any, wrong: Decimal) -> None:
    values = column(name).to_pylist()
    values[0] = wrong
    path = written(tmp_path / "wrong.parquet", **{name: pa.array(values, kind)})
    answer = collect(spark, plan(copies(rows_of), key_groups=2), {"sales": path}).answer
    assert [reason.split(" is ")[0] for _, reason, _ in answer.rejects] == [f".{name}"]


@pytest.mark.nightly
def test_tables(spark: SparkSession, tmp_path: Path) -> None:
    """Delta has no unsigned integers: there they are decimals of 20 digits."""
    deltalake = pytest.importorskip("deltalake")
    checked = copies(rows_of)
    planned = plan(checked, key_groups=2)
    table, c = f"delta:{tmp_path / 'table'}", str(tmp_path / "c")
    run(spark, planned, {"sales": Rows((tuple(LINES),))}, open_output(planned, table, "run", c, c), checkpoint=c)
    kinds = {
        field.name: field.type.to_json().strip('"')
        for field in deltalake.DeltaTable(tmp_path / "table").schema().fields
    }
    assert kinds["size"] == "decimal(20,0)"
    assert kinds["money"] == "decimal(18,2)"
    assert kinds["hue"] == "string"
    answer = collect(spark, planned, {"sales": table}).answer
    assert differences(checked, answer, defined(checked, {"sales": LINES})) == []


@pytest.mark.nightly
def test_files_that_Spark_reads(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads all but unsigned integers."""
    monkeypatch.setenv(SCAN, "spark")
    flow = Dataflow("prices")
    prices = flow.source("prices", U[Unit, Price], markers=every(seconds=10, time=lambda p: p.ts, delay=100))
    flow.sink("out", prices.through(ts.filter(lambda _, p: p.hue is not Hue.BLUE)))
    checked, schema = check(flow), schema_of(Price)
    given = [Price(sale.ts, sale.money, sale.side, sale.hue) for sale in ROWS]
    columns = [array(one, [getattr(price, name) for price in given]) for name, one in schema.fields]  # type: ignore[union-attr]
    names = [name for name, _ in schema.fields]  # type: ignore[union-attr]
    columns[1] = columns[1].cast(pa.decimal128(18, 1), safe=False).cast(pa.decimal128(17, 1))
    given = [attrs.evolve(one, money=money) for one, money in zip(given, columns[1].to_pylist(), strict=True)]
    pq.write_table(pa.table(columns, names), tmp_path / "prices.parquet")
    answer = collect(spark, plan(checked, key_groups=2), {"prices": str(tmp_path / "prices.parquet")}).answer
    lines = [json.dumps(to_plain(schema, price)) for price in given]
    assert differences(checked, answer, defined(checked, {"prices": lines})) == []
    with pytest.raises(RunError, match="Spark does not read the unsigned integers of 'size'"):
        collect(spark, plan(copies(rows_of), key_groups=2), {"sales": written(tmp_path / "sales.parquet")})


@pytest.mark.parametrize("ending", FORMATS)
def test_what_spark_wrote_is_read_as_it_wrote_it(spark: SparkSession, tmp_path: Path, ending: str) -> None:
    """Each type at its edges, and None. In CSV only if it was asked to quote as RFC 4180 says, and not to cut blanks off."""
    _, rows = rows_at_the_edges(optional=True)
    pq.write_table(table_of(rows), tmp_path / "rows.parquet")
    out = spark.read.parquet(str(tmp_path / "rows.parquet")).coalesce(1).write.option("timestampFormat", MICROS)
    place = str(tmp_path / "out")
    match ending:
        case "jsonl":
            out.json(place)
        case "csv":
            out.csv(place, header=True, escape='"', ignoreLeadingWhiteSpace=False, ignoreTrailingWhiteSpace=False)
        case _:
            out.parquet(place)
    read_as_written(rows, place, FORMATS[ending])
