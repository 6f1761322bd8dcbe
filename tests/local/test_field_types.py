"""Decimals, unsigned integers, literals and enums in files, tables and checkpoints, by runs in this process."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.support import rows_at_sink, rows_in
from tests.strategies import Hue
from tests.test_field_types import FLOWS, ROWS, SALE, Balance, Sale
from tracetypes import (
    Dataflow,
    RunError,
    U,
    Unit,
    check,
    csv,
    every,
    interpret_rows,
    json_lines,
    parquet,
    read,
    run,
    sort,
)
from tracetypes import stdlib as ts
from tracetypes.plain_data import to_plain

SALES = ROWS[:60]


def lines(rows: Sequence[Sale]) -> str:
    return "".join(json.dumps(to_plain(SALE, sale)) + "\n" for sale in rows)


def copy(given: Any, made: Any) -> Dataflow:
    flow = Dataflow("copy")
    marks = every(seconds=10, time=lambda s: s.ts, delay=100)
    flow.sink("out", flow.source("sales", U[Unit, Sale], markers=marks, format=given), format=made)
    return flow


@pytest.mark.parametrize(
    "format",
    [json_lines(), csv(), csv(separator="\t"), parquet(), "delta"],
    ids=str,
)
def test_what_a_sink_wrote_a_source_reads_back(tmp_path: Path, format: Any) -> None:
    (tmp_path / "sales.jsonl").write_text(lines(SALES), encoding="utf-8")
    place, known = str(tmp_path / "there"), format
    if format == "delta":
        pytest.importorskip("deltalake")
        place, known = f"delta:{place}", None
    checkpoint = str(tmp_path / "c")
    run(
        copy(json_lines(), known),
        {"sales": str(tmp_path / "sales.jsonl")},
        {"out": place},
        backend="local",
        checkpoint=checkpoint,
    )
    back: list[Sale] = []
    found = run(copy(known, None), {"sales": place}, {"out": back}, backend="local")
    assert (found.late, found.rejects) == ({}, {})
    assert Counter(back) == Counter(SALES)
    if format not in ("delta", csv(separator="\t")):  # the ending says nothing of tabs
        assert Counter(read(place, Sale)) == Counter(SALES)


def test_TT208_a_file_with_values_that_no_enum_has(tmp_path: Path) -> None:
    @attrs.frozen
    class Hued:
        hue: Hue

    pq.write_table(pa.table({"hue": ["red", "pink"]}), tmp_path / "hues.parquet")
    with pytest.raises(RunError, match=r"TT208 .*'hue' has values that are none of Hue \('red', 'blue'"):
        read(tmp_path / "hues.parquet", Hued)


@attrs.frozen
class Tagged:
    """A list that may be missing, whose elements may not."""

    ts: int
    tags: list[str] | None
    hues: list[Hue] | None
    hue: Hue


@pytest.mark.parametrize(
    ("tag", "hue", "one"), [(None, "red", "red"), ("c", "pink", "red"), ("c", None, "red"), ("c", "red", "pink")]
)
def test_what_is_missing_or_wrong_in_Parquet_is_a_reject(tmp_path: Path, tag: Any, hue: Any, one: str) -> None:
    tags = [["a"], None, ["b", tag], [], ["c"]]
    hues = [["red"], None, ["blue", hue], [], ["red"]]
    columns = {"ts": list(range(5)), "tags": tags, "hues": hues, "hue": ["red", "blue", one, "red", "blue"]}
    pq.write_table(pa.table(columns), tmp_path / "tags.parquet")
    flow, back = Dataflow("tags"), list[Tagged]()
    flow.sink("out", flow.source("rows", U[Unit, Tagged], markers=every(seconds=10, time=lambda t: t.ts)))
    found = run(flow, {"rows": str(tmp_path / "tags.parquet")}, {"out": back}, backend="local")
    assert found.rejects == {"rows": 1}
    assert sorted(row.ts for row in back) == [0, 1, 3, 4]


def balances() -> Dataflow:
    flow = Dataflow("balances")
    rows = flow.source("sales", U[Hue, Sale], key=lambda s: s.hue, markers=every(seconds=10, time=lambda s: s.ts))
    flow.sink(
        "out", rows.through(sort(by=lambda s: (s.money, s.size))).through(Balance()), position="at", marker="until"
    )
    return flow


def lasts() -> Dataflow:
    flow = Dataflow("lasts")
    rows = flow.source("sales", U[Hue, Sale], key=lambda s: s.hue, markers=every(seconds=10, time=lambda s: s.ts))
    flow.sink("out", rows.through(ts.running(ts.last(by=lambda s: s.money))), marker="until")
    return flow


@pytest.mark.parametrize("made", [balances, lasts, FLOWS["by money"], FLOWS["by side"]])
def test_a_run_goes_on_with_its_states(tmp_path: Path, made: Any) -> None:
    checked, given, out = check(made()), tmp_path / "sales", tmp_path / "out"
    given.mkdir()
    for name, part, drain in (("a", ROWS[:150], False), ("b", ROWS[150:200], False), ("c", ROWS[200:], True)):
        (given / f"{name}.jsonl").write_text(lines(part), encoding="utf-8")
        where = {"checkpoint": str(tmp_path / "c"), "late": str(tmp_path / "late"), "rejects": str(tmp_path / "r")}
        run(checked, {"sales": str(given)}, {"out": str(out)}, backend="local", drain=drain, **where)  # type: ignore[arg-type]
    expected = rows_at_sink(checked, interpret_rows(checked, {"sales": ROWS})[0]["out"])
    times = ("until",) if made in (balances, lasts) else ()
    assert rows_in(out, *times) == expected
    assert len(expected) > 5
