"""JSON lines read by machine code, beside the usual reader, Arrow, DuckDB and Polars: rows a second and core.

    python -m benchmarks.json_lines [--rows N] [--runs N] [--shapes plain,mixed,wide] [--whole]

Lines of a file become columns, on one thread, warm; medians of the processor time. ``plain``: seven fields, ASCII, one shape.
``mixed``: floats of 16 and 17 digits, an optional text that is not ASCII, times as text, and one line in a hundred of another
shape. ``wide``: twenty fields, of which the source names seven. ``ours`` reads bytes that are in memory, ``file`` also reads and
hashes the file; ``usual`` is without machine code. Arrow, Polars and DuckDB read the file with the types, where they are
installed. ``exact``: our readers give the same rows. ``--whole``: also a run on the local backend that counts by key.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import json
import os
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, cast

import attrs
import pyarrow as pa
import pyarrow.json as pj

import tracetypes
from benchmarks._compare import say, scratch
from tracetypes import Dataflow, U, every
from tracetypes.compiler.backend.compilation import compile_program
from tracetypes.compiler.columns.arrow import arrow_type
from tracetypes.compiler.columns.machine.compilation import compilation
from tracetypes.compiler.connectors import template_rows
from tracetypes.compiler.connectors.file_splits import Reading
from tracetypes.compiler.connectors.json_kernel import KERNEL
from tracetypes.compiler.connectors.text_reader import SplitNotes, TextReader
from tracetypes.compiler.plan.plan import FromSource
from tracetypes.compiler.runtime.chunks import Chunk
from tracetypes.formats import JsonLines
from tracetypes.sources import reader
from tracetypes.stdlib import aggregate, count


@attrs.frozen
class Plain:
    key: int
    ts: int
    user: str
    page: str
    amount: float
    ok: bool
    count: int


@attrs.frozen
class Mixed:
    key: int
    ts: int
    at: dt.datetime
    user: str
    note: str | None
    amount: float
    size: float | None


SHAPES: dict[str, type[Any]] = {"plain": Plain, "mixed": Mixed, "wide": Plain}


def row(shape: str, n: int, some: random.Random) -> dict[str, Any]:
    """A row of a shape."""
    if shape == "mixed":
        at = (dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=n)).isoformat(timespec="milliseconds")
        note = None if n % 7 == 0 else "naïve café" if n % 7 == 1 else f"note {n % 50}"
        return {
            "key": n % 100,
            "ts": n // 1000,
            "at": at,
            "user": f"u{n % 5000}",
            "note": note,
            "amount": some.random(),
            "size": n / 8,
        }
    plain = {
        "key": n % 100,
        "ts": n // 1000,
        "user": f"u{n % 5000}",
        "page": "/a/b",
        "amount": n / 4 + 0.1,
        "ok": n % 3 == 0,
        "count": n,
    }
    if shape == "wide":
        plain = {f"other{at}": f"value {n % 17}" if at % 2 else n * at for at in range(13)} | plain
    return plain


def write(path: Path, shape: str, rows: int) -> None:
    """A file of a shape."""
    some = random.Random(1)
    with path.open("w") as file:
        for n in range(rows):
            line = json.dumps(row(shape, n, some), ensure_ascii=False)
            file.write((line.replace(": ", ":") if shape == "mixed" and n % 100 == 50 else line) + "\n")


def flow_of(cls: Any) -> Dataflow:
    """Counts by key and second."""
    flow, edge = Dataflow("counts"), cast(Any, U)
    source = flow.source("in", edge[int, cls], key=lambda e: e.key, markers=every(seconds=1, time=lambda e: e.ts))
    flow.sink("out", source.through(aggregate(count())))
    return flow


@contextmanager
def usual() -> Iterator[None]:
    """While there is no machine code."""
    kernel = template_rows.kernel
    template_rows.kernel = lambda text: None
    try:
        yield
    finally:
        template_rows.kernel = kernel


def without(side: Callable[[], Any]) -> Callable[[], Any]:
    """A side without machine code."""

    def run_usual() -> Any:
        with usual():
            return side()

    return run_usual


# ------------------------------------------------------------------------------------------------------ sides


def texts_of(path: Path) -> Iterator[bytes]:
    """The text of a file, in the pieces in which the backends parse it."""
    return Reading.of_file(str(path)).texts()


def chunks(leaf: FromSource, texts: Iterable[bytes]) -> Iterator[Any]:
    """The rows of texts, as the backends parse them."""
    of = TextReader(leaf, JsonLines(), None, reader(leaf.source).read)
    return chain.from_iterable(of.of_text(text, 0, SplitNotes()) for text in texts)


def ours(leaf: FromSource, texts: Iterable[bytes]) -> int:
    """Read texts that are in memory."""
    return sum(len(one) if isinstance(one, Chunk) else 1 for one in chunks(leaf, texts))


def file(leaf: FromSource, path: Path) -> int:
    """Read a file: its bytes are hashed and cut too."""
    return ours(leaf, texts_of(path))


def arrow(leaf: FromSource, path: Path) -> int:
    """Arrow, one thread."""
    schema = pa.schema([(name, arrow_type(one)) for name, one in leaf.layout.columns])
    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    table = pj.read_json(path, pj.ReadOptions(use_threads=False, block_size=1 << 22), options)
    return int(table.num_rows)


def duckdb(leaf: FromSource, path: Path) -> int:
    """DuckDB, one thread, into Arrow."""
    import duckdb as engine

    names = {"int64": "BIGINT", "string": "VARCHAR", "double": "DOUBLE", "bool": "BOOLEAN"}
    types = {name: names.get(str(arrow_type(one)), "TIMESTAMPTZ") for name, one in leaf.layout.columns}
    columns = ", ".join(f"\"{name}\": '{one}'" for name, one in types.items())
    connection = engine.connect(config={"threads": 1})
    query = f"SELECT * FROM read_json('{path}', format='newline_delimited', columns={{{columns}}})"
    return int(connection.sql(query).to_arrow_table().num_rows)


def polars(leaf: FromSource, path: Path) -> int:
    """Polars, one thread (``POLARS_MAX_THREADS``). Times stay text."""
    engine: Any = importlib.import_module("polars")

    names = {"int64": engine.Int64, "string": engine.String, "double": engine.Float64, "bool": engine.Boolean}
    schema = {name: names.get(str(arrow_type(one)), engine.String) for name, one in leaf.layout.columns}
    return int(engine.scan_ndjson(path, schema=schema).collect().height)


def run(cls: type[Any], path: Path) -> int:
    """A whole run."""
    out: list[Any] = []
    tracetypes.run(flow_of(cls), inputs={"in": str(path)}, outputs={"out": out}, backend="local", parallelism=1)
    return len(out)


def values(leaf: FromSource, texts: Iterable[bytes]) -> Any:
    """The rows as one column."""
    return pa.chunked_array([one.column(("value",)) for one in chunks(leaf, texts) if isinstance(one, Chunk)])


def measure(shape: str, path: Path, arguments: argparse.Namespace) -> None:
    """Time the sides in turns, and print them."""
    cls = SHAPES[shape]
    leaf = compile_program(flow_of(cls)).plans[0].sources[0]
    texts = list(texts_of(path))
    mine, of_file = partial(ours, leaf, texts), partial(file, leaf, path)
    sides: dict[str, Callable[[], int]] = {"ours": mine, "usual": without(mine), "Arrow": partial(arrow, leaf, path)}
    sides |= {"DuckDB": partial(duckdb, leaf, path)} if find_spec("duckdb") else {}
    sides |= {"Polars": partial(polars, leaf, path)} if find_spec("polars") else {}
    sides |= {"file": of_file, "file, usual": without(of_file)}
    if arguments.whole:
        whole = partial(run, cls, path)
        sides |= {"run": whole, "run, usual": without(whole)}
    took: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(arguments.runs + 1):
        for name, side in sides.items():
            begin = time.process_time()
            side()
            took[name].append(time.process_time() - begin)
    seconds = {name: statistics.median(some[1:]) for name, some in took.items()}
    say(
        benchmark="json_lines",
        shape=shape,
        rows=arguments.rows,
        bytes_a_row=round(path.stat().st_size / arguments.rows),
        million={name: round(arguments.rows / one / 1e6, 2) for name, one in seconds.items()},
        ratio={
            name: round(one / seconds["ours"], 1)
            for name, one in seconds.items()
            if name in ("usual", "Arrow", "DuckDB", "Polars")
        },
        exact=bool(values(leaf, texts).equals(without(partial(values, leaf, texts))())),
        versions={
            name: getattr(__import__(name), "__version__", "")
            for name in ("numba", "pyarrow", "duckdb", "polars")
            if find_spec(name)
        },
    )


def main() -> None:
    """Parse arguments, compile, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--shapes", default="plain,mixed,wide")
    parser.add_argument("--whole", action="store_true")
    arguments = parser.parse_args()
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    template_rows.LOOK = 0  # type: ignore[misc]
    code = compilation(KERNEL)
    if code.wait() is None:
        raise SystemExit(f"no machine code: {code.problem}")
    for shape in arguments.shapes.split(","):
        with scratch() as folder:
            write(folder / "rows.jsonl", shape, arguments.rows)
            measure(shape, folder / "rows.jsonl", arguments)


if __name__ == "__main__":
    main()
