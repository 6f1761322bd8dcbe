"""Both backends write the same bytes: the sorted lines of outputs, late items and rejects are equal."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import attrs
from pyspark.sql import SparkSession

import tracetypes
from tests.spark.support import write_lines
from tracetypes import Dataflow, EmitValue, OpKeyedOrdered, U, decimal, every, sort
from tracetypes import stdlib as ts


@attrs.frozen
class Sale:
    """A row with fields that may be written in several ways."""

    shop: str
    at: dt.datetime
    price: Annotated[Decimal, decimal(12, 2)]
    weight: float
    note: str | None = None


@attrs.frozen
class Step:
    """A sale beside the one before it."""

    at: dt.datetime
    price: Annotated[Decimal, decimal(12, 2)]
    change: float
    note: str | None


@attrs.frozen
class Total:
    """Of a block."""

    last: dt.datetime
    price: Annotated[Decimal, decimal(18, 2)]
    most: float
    steps: int


@attrs.frozen
class Changes(OpKeyedOrdered[str, Sale, Step, float]):
    """Depends on the order of the sales of a shop, and runs in Python."""

    def initial_state(self) -> float:
        return 0.0

    def on_item(self, state: float, key: str, value: Sale, emit: EmitValue[Step]) -> float:
        emit(Step(value.at, value.price, value.weight - state, value.note))
        return value.weight


def at(step: Step) -> dt.datetime:
    return step.at


def price(step: Step) -> Annotated[Decimal, decimal(18, 2)]:
    return step.price


def change(step: Step) -> float:
    return step.change


BEGIN = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
SHOPS = ["north", "süd", 'a "quoted" one', "日本", "tab\tnewline\n", ""]
WEIGHTS = [0.1, -0.0, 1e-7, 1e16, 123456789.125, 5e-324, 1.7976931348623157e308]
WRONG = ['{"shop": "north"}', "no JSON: süd", '{"shop": 1, "at": "x"}', "[]", '{"shop": "\\u00e9']


def lines(count: int = 400) -> list[str]:
    """Rows of JSON: in the order of time but for some, of which a part is late; and some that are none."""
    chance, found = random.Random(7), list[str]()
    for number in range(count):
        if number % 40 == 13:
            found.append(chance.choice(WRONG))
        back = chance.choice([0, 0, 0, 0, 5, 100])
        time = BEGIN + dt.timedelta(seconds=number - back, microseconds=chance.choice([0, 1, 250_000]))
        row = {"shop": chance.choice(SHOPS), "at": time.isoformat(), "price": chance.randrange(10**6) / 100}
        row |= {"weight": chance.choice(WEIGHTS), "note": chance.choice([None, "é", "two\nlines"])}
        found.append(json.dumps(row, ensure_ascii=number % 2 == 0))
    return found


def sales() -> Dataflow:
    flow = Dataflow("sales")
    minutes = every(seconds=60, time=lambda sale: sale.at, delay=10)
    rows = flow.source("sales", U[str, Sale], key=lambda sale: sale.shop, markers=minutes)
    steps = rows.through(sort(by=lambda sale: sale.at)).through(Changes())
    total = ts.struct(Total, last=ts.max(of=at), price=ts.sum(of=price), most=ts.max(of=change), steps=ts.count())
    flow.sink("totals", steps.through(ts.aggregate(total)), marker="until")
    return flow


def written(backend: str, rows: Path, out: Path) -> dict[str, list[bytes]]:
    """The sorted lines that a run writes."""
    options: Any = {"backend": backend, "parallelism": 2, "key_groups": 4}
    tracetypes.run(sales(), {"sales": rows}, {"totals": out}, **options)
    places = {"totals": out, "late": out / "_late" / "sales", "rejects": out / "_rejects" / "sales"}
    return {
        name: sorted(line for file in place.glob("part-*") for line in file.read_bytes().splitlines(keepends=True))
        for name, place in places.items()
    }


def test_outputs_late_items_and_rejects_are_equal_byte_for_byte(spark: SparkSession, tmp_path: Path) -> None:
    given = lines()
    for number in range(3):
        write_lines(tmp_path / "in" / f"{number}.jsonl", given[number * 140 : number * 140 + 140], at=number + 1)
    local, on_spark = (written(backend, tmp_path / "in", tmp_path / backend) for backend in ("local", "spark"))
    assert min(map(len, local.values())) > 5
    assert on_spark == local
