"""What ordered operators cost on the local backend, beside the loop by hand and DuckDB.

    python -m benchmarks.ordered_operators [--items N] [--keys N,N] [--operators NAME,NAME] [--repeat N] [--parallelism N]
                                           [--variant text|integers]

Items of Parquet files, nearly in the order of their times, with a marker a minute. Keys are text of 8 to 20 characters; a value
has a text, a number, an optional field, and for 15 % of the items the key and time of another one. With ``--variant integers``
keys are integers, and no item is tied on purpose. Prints a JSON line for each operator and number of keys, medians of
``--repeat`` runs:

* ``sort`` and ``kernel``: nanoseconds of processor time an item in the sort, key codes included, and behind it, on one thread;
  ``cpu``: of that whole run. Joins by blocks have no sort, only key codes. What is emitted becomes columns in the kernel, so with
  many rows ``out`` that is most of it;
* ``whole``: million items a second by wall clock, Parquet to Parquet, with ``--parallelism`` threads;
* ``records``: the same for a loop by hand in plain Python on one core, which reads the same files, sorts, makes the same records,
  calls the same ``on_item`` and writes Parquet; ``dicts``: for one over the dicts of ``to_pylist()``;
* ``duckdb``: the same for DuckDB's expression with window functions or its as-of join, with as many threads;
* ``other_ns``: nanoseconds of processor time an item of these other sides, to compare with ``cpu``.

The items of both sides of a join count. Before anything is timed, all sides must have as many rows and the same sums of their
numbers.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from threading import local
from typing import Any, Final, TypeVar
from unittest import mock

import attrs
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import tracetypes
from benchmarks._compare import say, scratch, versions
from tracetypes import Dataflow, EmitValue, OpKeyedOrdered, Stream, U, every, sort
from tracetypes import stdlib as ts
from tracetypes.compiler.columns.ordering import Sorter
from tracetypes.compiler.runtime import joined_blocks, open_tables
from tracetypes.compiler.runtime.pipeline import Pipeline
from tracetypes.templates import overrides

K = TypeVar("K")

FILES, START = 8, 1_700_000_000_000
UNIT: Final = "ms"
TIES = 0.15
CHUNK = 1_000_000
"""Rows that the loop over dicts writes at once."""
COLUMNS = ("key", "at", "amount", "kind", "name", "note")


@attrs.frozen
class Payment:
    """An item. ``at``: milliseconds."""

    at: int
    amount: float
    kind: int
    name: str
    note: int | None


@attrs.frozen
class Several:
    """Of the items of a window."""

    items: int
    total: float
    last: Payment
    names: int


@attrs.frozen
class Card:
    """The state of :class:`Fraud`."""

    stage: int
    since: int
    total: float


@attrs.frozen
class Alarm:
    """What :class:`Fraud` emits."""

    at: int
    total: float


@attrs.frozen
class Fraud(OpKeyedOrdered[K, Payment, Alarm, Card]):
    """A state machine of three states: a small payment, within a minute another one, then a large one."""

    def initial_state(self) -> Card:
        """Nothing has come."""
        return Card(0, 0, 0.0)

    def on_item(self, state: Card, key: K, value: Payment, emit: EmitValue[Alarm]) -> Card:
        """The next state."""
        if state.stage > 0 and value.at - state.since > 60_000:
            state = Card(0, 0, 0.0)
        if state.stage == 0:
            return Card(1, value.at, value.amount) if value.amount < 25.0 else state
        if state.stage == 1:
            return Card(2, state.since, state.total + value.amount) if value.amount < 50.0 else state
        if value.amount > 75.0:
            emit(Alarm(value.at, state.total + value.amount))
            return Card(0, 0, 0.0)
        return Card(2, state.since, state.total + value.amount)


@attrs.frozen
class FillGaps(OpKeyedOrdered[K, Payment, Payment, Payment | None]):
    """README's: a value for each second between two items."""

    def initial_state(self) -> Payment | None:
        """Nothing has come."""
        return None

    def on_item(
        self, state: Payment | None, key: K, value: Payment, emit: EmitValue[Payment]
    ) -> Payment | None:
        """Emit the values up to this one."""
        if state is None:
            emit(value)
            return value
        gap = value.at // 1000 - state.at // 1000
        for n in range(1, gap + 1):
            amount = state.amount + n * (value.amount - state.amount) / gap
            emit(Payment((state.at // 1000 + n) * 1000, amount, 0, value.name, None))
        return value


@attrs.frozen
class Names(OpKeyedOrdered[K, Payment, int, frozenset[str]]):
    """An operator that stays Python: how many names a key has had."""

    def initial_state(self) -> frozenset[str]:
        """None."""
        return frozenset()

    def on_item(self, state: frozenset[str], key: K, value: Payment, emit: EmitValue[int]) -> frozenset[str]:
        """Emit their number when it grows."""
        if value.name in state:
            return state
        emit(len(state) + 1)
        return state | {value.name}


@attrs.frozen
class Longer(OpKeyedOrdered[K, ts.Session[int], ts.Session[int], int]):
    """A filter that keeps the order: sessions of more than one item."""

    def initial_state(self) -> int:
        """There is none."""
        return 0

    def on_item(self, state: int, key: K, value: ts.Session[int], emit: EmitValue[ts.Session[int]]) -> int:
        """Emit a long session."""
        if value.value > 1:
            emit(value)
        return state


def at(value: Payment) -> int:
    """Its time."""
    return value.at


def amount(value: Payment) -> float:
    """Its number."""
    return value.amount


def kind(value: Payment) -> int:
    """A small integer."""
    return value.kind


def change(before: Payment, value: Payment) -> float:
    """Of the number."""
    return value.amount - before.amount


def point(value: Payment) -> tuple[float]:
    """Of one dimension."""
    return (value.amount,)


def name(value: Payment) -> str:
    """Its text."""
    return value.name


def length(one: ts.Session[int]) -> float:
    """Items of a session."""
    return float(one.value)


ORDERED: dict[str, Any] = {
    "diff": lambda: ts.diff(amount),
    "pairwise": lambda: ts.pairwise(change),
    "scan": lambda: ts.scan(ts.sum(kind)),
    "ewm_mean": lambda: ts.ewm_mean(amount, alpha=0.1),
    "ewm_mean by time": lambda: ts.ewm_mean(amount, half_life=30, time=at, unit=UNIT),
    "deduplicate": lambda: ts.deduplicate(kind),
    "session": lambda: ts.session(ts.count(), gap=30, time=at, unit=UNIT),
    "session top": lambda: ts.session(ts.top(3, amount), gap=30, time=at, unit=UNIT),
    "session last": lambda: ts.session(ts.last(at), gap=30, time=at, unit=UNIT),
    "count_window": lambda: ts.count_window(ts.sum(kind), items=10),
    "count_window distinct": lambda: ts.count_window(ts.count_distinct(name), items=10),
    "count_window sliding": lambda: ts.count_window(ts.sum(kind), items=10, slide=1),
    "time_window": lambda: ts.time_window(ts.count(), size=60, time=at, unit=UNIT),
    "time_window top": lambda: ts.time_window(ts.top(3, amount), size=60, time=at, unit=UNIT),
    "time_window last": lambda: ts.time_window(ts.last(at), size=60, time=at, unit=UNIT),
    "state machine": Fraud,
    "FillGaps": FillGaps,
    "interpolate": lambda: ts.interpolate(
        time=lambda value: value.at // 1000,
        number=amount,
        make=lambda value, time, number: Payment(time * 1000, number, 0, value.name, None),
    ),
    "opaque": Names,
}
"""Operators behind a sort by time."""

AGGREGATES: dict[str, Callable[[], Any]] = {
    "last": lambda: ts.last(at),
    "first": lambda: ts.first(at),
    "top": lambda: ts.top(3, amount),
    "variance": lambda: ts.variance(amount),
    "min of text": lambda: ts.min(name),
    "HyperLogLog": lambda: ts.approx_count_distinct(name),
    "quantiles": lambda: ts.quantile(0.5, amount),
    "collect": lambda: ts.collect(kind, to=int),
    "struct": lambda: ts.struct(
        Several, items=ts.count(), total=ts.sum(amount, to=float), last=ts.last(at), names=ts.count_distinct(name)
    ),
}
"""In tumbling windows of a minute."""

JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "asof_join": lambda left, right: ts.asof_join(left, right, left_time=at, right_time=at, unit=UNIT),
    "interval_join": lambda left, right: ts.interval_join(
        left, right, before=2, after=2, left_time=at, right_time=at, unit=UNIT
    ),
    "table_join": lambda left, right: ts.table_join(left, right, left_time=at, table_time=at, unit=UNIT),
    "equi_join": lambda left, right: ts.equi_join(left, right, within=60),
    "window_join": lambda left, right: ts.window_join(left, right, size=60),
    "window_join overlapping": lambda left, right: ts.window_join(left, right, size=120, slide=60),
    "window_join anti": lambda left, right: ts.window_join(left, right, size=60, how="anti"),
    "window_join by time": lambda left, right: ts.window_join(
        left, right, size=60, left_time=at, right_time=at, unit=UNIT
    ),
    "equi_join of items": lambda left, right: ts.equi_join(
        left, right, items=2, left_time=at, right_time=at, unit=UNIT
    ),
    "equi_join anti": lambda left, right: ts.equi_join(left, right, within=60, how="anti"),
}

OTHERS: dict[str, Callable[[Any, bool], Any]] = {
    "kmeans": lambda stream, text: stream.through(ts.kmeans(point, k=2, period=60)),
    "kmeans panes": lambda stream, text: stream.through(ts.kmeans(point, k=2, panes=2, period=60)),
    "sliding last": lambda stream, text: stream.through(ts.sliding(ts.last(at), size=180, slide=60)),
    "sliding top": lambda stream, text: stream.through(ts.sliding(ts.top(3, amount), size=180, slide=60)),
    "sliding quantile": lambda stream, text: stream.through(ts.sliding(ts.quantile(0.5, amount), size=180, slide=60)),
    "sliding collect": lambda stream, text: stream.through(ts.sliding(ts.collect(kind, to=int), size=180, slide=60)),
    "pipeline": lambda stream, text: (
        stream.through(sort(by=at))
        .through(ts.session(ts.count(), gap=5, time=at, unit=UNIT))
        .through(Longer[str]() if text else Longer[int]())
        .through(ts.diff(length))
    ),
}

ALL = [*ORDERED, *JOINS, *OTHERS, *AGGREGATES]

_ORDER = 'PARTITION BY key ORDER BY "at", amount, kind, name, note NULLS FIRST'

_BOTH = (
    'SELECT l.key, l."at", l.amount, l.kind, l.name, l.note, '
    'r."at" AS t, r.amount AS a, r.kind AS k, r.name AS n, r.note AS o'
)
_MINUTE = '"at" // 60000'
_LONE = "SELECT l.* FROM rows l WHERE NOT EXISTS (SELECT 1 FROM more r WHERE l.key = r.key AND"

DUCKDB = {
    "diff": f"SELECT * FROM (SELECT key, amount - lag(amount) OVER ({_ORDER}) AS value FROM rows) WHERE value IS NOT NULL",
    "pairwise": f"SELECT * FROM (SELECT key, amount - lag(amount) OVER ({_ORDER}) AS value FROM rows) WHERE value IS NOT NULL",
    "scan": "SELECT key, "
    f"sum(kind) OVER ({_ORDER} ROWS UNBOUNDED PRECEDING)::BIGINT AS value FROM rows",
    "count_window sliding": "SELECT key, "
    f"sum(kind) OVER ({_ORDER} ROWS 9 PRECEDING)::BIGINT AS value FROM rows",
    "deduplicate": f"SELECT * FROM rows QUALIFY row_number() OVER ({_ORDER.replace('BY key', 'BY key, kind', 1)}) = 1",
    "count_window": "SELECT key, sum(kind)::BIGINT AS value FROM "
    f"(SELECT key, kind, (row_number() OVER ({_ORDER}) - 1) // 10 AS number FROM rows) GROUP BY key, number HAVING count(*) = 10",
    "time_window": 'SELECT key, count(*) AS value FROM rows GROUP BY key, "at" // 60000',
    "interval_join": "SELECT l.key, l.amount AS a, r.amount AS b FROM rows l "
    'JOIN more r ON l.key = r.key AND r."at" BETWEEN l."at" - 2000 AND l."at" + 2000',
    "window_join": f"{_BOTH} FROM rows l JOIN more r ON l.key = r.key AND l.{_MINUTE} = r.{_MINUTE}",
    "window_join by time": f"{_BOTH} FROM rows l JOIN more r ON l.key = r.key AND l.{_MINUTE} = r.{_MINUTE}",
    "window_join overlapping": f"{_BOTH} FROM (SELECT *, {_MINUTE} + n AS ends FROM rows, range(2) number(n)) l "
    f"JOIN (SELECT *, {_MINUTE} + n AS ends FROM more, range(2) number(n)) r ON l.key = r.key AND l.ends = r.ends",
    "window_join anti": f"{_LONE} l.{_MINUTE} = r.{_MINUTE})",
    "equi_join": f"{_BOTH} FROM rows l JOIN more r ON l.key = r.key AND abs(l.{_MINUTE} - r.{_MINUTE}) <= 1",
    "equi_join anti": f"{_LONE} abs(l.{_MINUTE} - r.{_MINUTE}) <= 1)",
    "asof_join": "SELECT l.key, l.amount AS a, r.amount AS b FROM rows l "
    'ASOF LEFT JOIN more r ON l.key = r.key AND l."at" >= r."at"',
}
"""Not the tie breaks of our as-of join, so only its rows are compared."""


def dicts_of_diff(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """``diff`` as one would write it."""
    last: dict[Any, float] = {}
    for row in rows:
        if (before := last.get(row["key"])) is not None:
            yield {"key": row["key"], "value": row["amount"] - before}
        last[row["key"]] = row["amount"]


def dicts_of_fraud(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The state machine as one would write it."""
    cards: dict[Any, tuple[int, int, float]] = {}
    for row in rows:
        key, amount, at = row["key"], row["amount"], row["at"]
        stage, since, total = cards.get(key, (0, 0, 0.0))
        if stage and at - since > 60_000:
            stage, since, total = 0, 0, 0.0
        if stage == 0:
            if amount < 25.0:
                stage, since, total = 1, at, amount
        elif stage == 1:
            if amount < 50.0:
                stage, total = 2, total + amount
        elif amount > 75.0:
            yield {"key": key, "at": at, "total": total + amount}
            stage, since, total = 0, 0, 0.0
        else:
            total += amount
        cards[key] = stage, since, total


def dicts_of_names(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The operator that stays Python as one would write it."""
    names: dict[Any, set[str]] = {}
    for row in rows:
        seen = names.setdefault(row["key"], set())
        if row["name"] not in seen:
            seen.add(row["name"])
            yield {"key": row["key"], "value": len(seen)}


def dicts_of_windows(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """``time_window`` as one would write it, without late items."""
    counts: dict[tuple[Any, int], int] = {}
    for row in rows:
        window = row["key"], row["at"] // 60_000
        counts[window] = counts.get(window, 0) + 1
    for (key, _), count in counts.items():
        yield {"key": key, "value": count}


def dicts_of_window_join(lefts: list[dict[str, Any]], rights: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """``window_join`` as one would write it."""
    windows: dict[tuple[Any, int], list[dict[str, Any]]] = {}
    for row in rights:
        windows.setdefault((row["key"], row["at"] // 60_000), []).append(row)
    for row in lefts:
        for other in windows.get((row["key"], row["at"] // 60_000), ()):
            yield {"key": row["key"], "left": row, "right": other}


DICTS: dict[str, Callable[..., Iterator[dict[str, Any]]]] = {
    "diff": dicts_of_diff,
    "state machine": dicts_of_fraud,
    "time_window": dicts_of_windows,
    "opaque": dicts_of_names,
    "window_join": dicts_of_window_join,
}


# ------------------------------------------------------------------------------------------------------- the data


def write(path: Path, items: int, keys: int, seed: int, *, text: bool) -> None:
    """An item a key every three seconds, twenty minutes at least; each comes up to four seconds late."""
    path.mkdir()
    random = np.random.default_rng(seed)
    span = max(1200, items // keys * 3) * 1000
    times = np.sort(random.integers(0, span, items)) + START
    times = np.clip(times - random.integers(0, 4000, items), START, None)
    codes = random.integers(0, keys, items)
    if text:
        tied = np.sort(random.choice(items - 1, round(items * TIES / 2), replace=False))
        codes[tied + 1], times[tied + 1] = codes[tied], times[tied]
        names = [f"card-{key * 2654435761 % 2**32:0{3 + key % 15}d}"[:20].ljust(8, "x") + "" for key in range(keys)]
        column = pa.array(names).take(pa.array(codes))
    else:
        column = pa.array(codes)
    table = pa.table(
        {
            "key": column,
            "at": times,
            "amount": np.round(random.random(items) * 100, 2),
            "kind": random.integers(0, 20, items),
            "name": pa.array([f"shop {n}" for n in range(50)]).take(pa.array(random.integers(0, 50, items))),
            "note": pa.array(random.integers(0, 9, items), mask=random.random(items) < 0.3),
        }
    )
    for n in range(FILES):
        first, last = n * items // FILES, (n + 1) * items // FILES
        pq.write_table(table.slice(first, last - first), path / f"{n}.parquet")


# ------------------------------------------------------------------------------------------------------ the sides


@attrs.frozen
class Case:
    """An operator over the files of a directory."""

    name: str
    data: Path
    text: bool
    parallelism: int

    @property
    def sources(self) -> list[str]:
        """The directories that it reads."""
        return ["rows", "more"] if self.name in JOINS else ["rows"]

    def operator(self) -> Any:
        """Behind the sort."""
        made = ORDERED[self.name]
        return made[str if self.text else int]() if made in (Fraud, FillGaps, Names) else made()

    def flow(self) -> Dataflow:
        """Ours."""
        flow = Dataflow("ordered-operators")
        markers = every(seconds=60, time=at, delay=5, unit=UNIT)
        edge = U[str, Payment] if self.text else U[int, Payment]
        streams: list[Stream[Any]] = [flow.source(name, edge, markers=markers) for name in self.sources]
        if self.name in ORDERED:
            out = streams[0].through(sort(by=at)).through(self.operator())
        elif self.name in AGGREGATES:
            out = streams[0].through(ts.tumbling(AGGREGATES[self.name](), size=60))
        else:
            out = JOINS[self.name](*streams) if self.name in JOINS else OTHERS[self.name](streams[0], self.text)
        flow.sink("out", out)
        return flow

    def ours(self, output: Path, parallelism: int) -> None:
        """A run of the local backend."""
        result = tracetypes.run(
            self.flow(),
            inputs={name: self.data / name for name in self.sources},
            outputs={"out": output},
            backend="local",
            parallelism=parallelism,
        )
        if result.late_rows:
            raise RuntimeError(f"{self.name}: {len(result.late_rows)} late rows")

    def sorted_table(self) -> Any:
        """The rows as a loop by hand takes them."""
        table = pq.read_table(self.data / "rows").combine_chunks()
        order = pc.sort_indices(table, [(name, "ascending", "at_start") for name in COLUMNS[1:]])
        return table.take(order)

    def records(self, output: Path) -> None:
        """The loop over records."""
        op = self.operator()
        states: dict[Any, Any] = {}
        keys, values = list[Any](), list[Any]()
        on_item, emit = op.on_item, values.append
        columns = self.sorted_table().select(COLUMNS).columns
        for key, *fields in zip(*(column.to_pylist() for column in columns), strict=True):
            state = states[key] if key in states else op.initial_state()
            states[key] = on_item(state, key, Payment(*fields), emit)
            keys.extend([key] * (len(values) - len(keys)))
        if values and attrs.has(type(values[0])):
            names = [field.name for field in attrs.fields(type(values[0]))]
            emitted = {name: [getattr(value, name) for value in values] for name in names}
        else:
            emitted = {"value": values}
        pq.write_table(pa.table({"key": keys, **emitted}), output)

    def dicts(self, output: Path) -> None:
        """The loop over dicts."""
        tables = [self.sorted_table()] if self.name in ORDERED else [pq.read_table(self.data / name) for name in self.sources]
        rows, writer = DICTS[self.name](*(table.to_pylist() for table in tables)), None
        while some := list(islice(rows, CHUNK)):
            table = pa.Table.from_pylist(some)
            writer = writer or pq.ParquetWriter(output, table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()

    def duckdb(self, output: Path) -> None:
        """DuckDB's expression."""
        with duckdb.connect(config={"threads": self.parallelism}) as database:
            for name in self.sources:
                database.execute(f"CREATE VIEW {name} AS SELECT * FROM '{self.data / name}/*.parquet'")
            database.execute(f"COPY ({DUCKDB[self.name]}) TO '{output}' (FORMAT parquet)")

    @property
    def others(self) -> dict[str, Callable[[Path], None]]:
        """The other sides that there are."""
        by_hand = self.name in ORDERED and not overrides(self.operator(), "on_marker")
        sides: dict[str, Callable[[Path], None]] = {"records": self.records} if by_hand else {}
        if self.name in DICTS:
            sides["dicts"] = self.dicts
        if self.name in DUCKDB:
            sides["duckdb"] = self.duckdb
        return sides


def answer(output: Path) -> tuple[int, list[float]]:
    """The number of rows, and the sums of the columns of numbers but the key."""
    table = ds.dataset(output, format="parquet").to_table()
    numbers = [
        column.drop_null().to_numpy()
        for name, column in zip(table.column_names, table.columns, strict=True)
        if name != "key" and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type))
    ]
    return table.num_rows, [math.fsum(column) for column in numbers]


def compare(case: Case, output: Path) -> int:
    """Run all sides once, and compare their answers. The rows of ours."""
    case.ours(output / "ours.parquet", case.parallelism)
    rows, sums = answer(output / "ours.parquet")
    for name, side in case.others.items():
        side(output / f"{name}.parquet")
        others, other_sums = answer(output / f"{name}.parquet")
        alike = case.name in JOINS or (
            len(sums) == len(other_sums)
            and all(math.isclose(*pair, rel_tol=1e-9, abs_tol=1e-3) for pair in zip(sums, other_sums, strict=True))
        )
        if rows != others or not alike:
            raise RuntimeError(f"{case.name}: ours has {rows} rows, {sums}; {name} {others} rows, {other_sums}")
    return rows


# -------------------------------------------------------------------------------------------------------- times


class Phases:
    """Processor seconds of a thread by phase, without those of phases inside."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inside = local()

    def timed(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that counts for a phase."""

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            stack = self._inside.__dict__.setdefault("stack", [])
            stack.append(0.0)
            start = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                took = time.thread_time() - start
                self.seconds[phase] = self.seconds.get(phase, 0.0) + took - stack.pop()
                if stack:
                    stack[-1] += took

        return wrapper

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count the sort and what is behind it."""
        with ExitStack() as stack:
            for owner, name, phase in (
                (Sorter, "rows", "sort"),
                (Sorter, "rows_of_columns", "sort"),
                (open_tables, "codes_of", "sort"),
                (joined_blocks, "groups_of", "sort"),
                (Pipeline, "close", "kernel"),
                (Pipeline, "end", "kernel"),
            ):
                stack.enter_context(mock.patch.object(owner, name, self.timed(phase, getattr(owner, name))))
            yield


def phases_of(case: Case, items: int) -> dict[str, float]:
    """Nanoseconds of processor time an item."""
    phases = Phases()
    with scratch() as output, phases.watching():
        start = time.process_time()
        case.ours(output / "out.parquet", 1)
        phases.seconds["cpu"] = time.process_time() - start
    return {name: phases.seconds.get(name, 0.0) / items * 1e9 for name in ("sort", "kernel", "cpu")}


def rate_of(side: Callable[[Path], None], items: int) -> tuple[float, float]:
    """Million items a second, and nanoseconds of processor time of this process an item."""
    with scratch() as output:
        start, cpu = time.perf_counter(), time.process_time()
        side(output / "out.parquet")
        return items / (time.perf_counter() - start) / 1e6, (time.process_time() - cpu) / items * 1e9


def medians(runs: Sequence[Mapping[str, float]], digits: int) -> dict[str, float]:
    """Of each figure."""
    return {name: round(statistics.median(run[name] for run in runs), digits) for name in runs[0]}


def measure(case: Case, keys: int, items: int, repeat: int) -> None:
    """Print the line of an operator."""
    count = items * len(case.sources)
    with scratch() as output:
        rows = compare(case, output)
    sides = {"whole": lambda path: case.ours(path, case.parallelism), **case.others}
    runs = [{name: rate_of(side, count) for name, side in sides.items()} for _ in range(repeat)]
    rates = [{name: rate for name, (rate, _) in run.items()} for run in runs]
    others = [{name: run[name][1] for name in case.others} for run in runs]
    phases = [phases_of(case, count) for _ in range(repeat)]
    say(
        benchmark="ordered_operators",
        operator=case.name,
        keys=keys,
        items=count,
        out=rows,
        variant="text" if case.text else "integers",
        parallelism=case.parallelism,
        ns=medians(phases, 0),
        other_ns=medians(others, 0),
        million_items_a_second=medians(rates, 3),
        versions=versions(),
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=20_000_000)
    parser.add_argument("--keys", default="100,10000,1000000")
    parser.add_argument("--operators", default=",".join(ALL), help=", ".join(ALL))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--variant", choices=["text", "integers"], default="text")
    arguments = parser.parse_args()
    names = arguments.operators.split(",")
    if unknown := set(names) - set(ALL):
        parser.error(f"no operator {', '.join(sorted(unknown))}")
    text = arguments.variant == "text"
    for keys in map(int, arguments.keys.split(",")):
        with scratch() as data:
            write(data / "rows", arguments.items, keys, 1, text=text)
            if not JOINS.keys().isdisjoint(names):
                write(data / "more", arguments.items, keys, 2, text=text)
            for name in names:
                measure(Case(name, data, text, arguments.parallelism), keys, arguments.items, arguments.repeat)


if __name__ == "__main__":
    main()
