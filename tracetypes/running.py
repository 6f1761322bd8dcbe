"""Running a dataflow from Python. The command line is a thin layer over this module.

::

    import tracetypes

    counts: list[Count] = []
    result = tracetypes.run(flow, inputs={"clicks": "clicks/"}, outputs={"counts": counts})
    print(result.rows, counts[:3])

Importing this module needs nothing but the core; Spark is imported when something runs.
"""

from __future__ import annotations

import gzip
import html
import importlib.util
import json
import os
import threading
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, TypeVar, Unpack

from tracetypes.calls import checked_arguments, like, need_choice
from tracetypes.check import Checked, edge_of, violations
from tracetypes.compiler.backend.background_run import Run
from tracetypes.compiler.backend.compilation import check_once, extras
from tracetypes.compiler.backend.run_request import Input, RunRequest, Sink
from tracetypes.compiler.backend.shadow_run import shadow
from tracetypes.compiler.gates.learned.quality import Standards
from tracetypes.compiler.gates.learned.train_gates import Training, load_model, train_gates
from tracetypes.compiler.gates.shadow import Shadow, sweep_figures
from tracetypes.conformance import name_of
from tracetypes.errors import CheckFailed, RunError, UsageError
from tracetypes.formats import Avro, Layout, Parquet, format_of
from tracetypes.graph import DISPLAY, Dataflow, Stream
from tracetypes.open_types import INFERENCE
from tracetypes.parsing import rows_of_text
from tracetypes.records import Mismatch, UnitValue
from tracetypes.redaction import redact
from tracetypes.rejects import SideOutputRow
from tracetypes.results import Result
from tracetypes.run_arguments import BACKENDS, SCHEDULING, allowed, bytes_of, is_choice
from tracetypes.run_config import refuse_unknown_tables
from tracetypes.schemas import schema_of, show_type
from tracetypes.suggestions import instead

if TYPE_CHECKING:
    from tracetypes.compiler.backend.backend import Engine
    from tracetypes.compiler.plan.operator_runs import Wording
    from tracetypes.compiler.store.metrics import Batch
    from tracetypes.compiler.workspace.service.run_page import RunPage

__all__ = [
    "Run",
    "RunOptions",
    "Shadow",
    "SideOutputRow",
    "Standards",
    "Training",
    "explain",
    "load_model",
    "read",
    "run",
    "shadow",
    "start",
    "sweep_figures",
    "train_gates",
]

VARIABLE: Final = "TRACETYPES_BACKEND"
"""Names the backend of runs that do not name one."""

MOST_DRAWN: Final = 500
"""Nodes of a graph that is drawn: nobody reads more, and where many arrows cross the layout takes the square of their number."""

OF_LOCAL: Final = (*SCHEDULING, "fuse", "state_memory")
"""Options of the local backend alone."""

V = TypeVar("V")


class RunOptions(TypedDict, total=False):
    """Further options of a run, as on the command line (docs/running.md). ``overwrite``: remove first what the run of this
    checkpoint wrote before: its rows in directories, and the checkpoint. Topics, tables and lists stay as they are. ``reorder``,
    ``heuristic``, ``queue``, ``processes``, ``fuse`` and ``state_memory`` (bytes, or ``"4GB"``) are of the local backend
    (docs/local.md)."""

    late: str
    rejects: str
    overwrite: bool
    files_per_step: int
    order: Mapping[str, Literal["name", "modified", "time"]]
    appended: Literal["error", "read"]
    max_late: int | float
    max_rejects: int
    verify: bool
    channels: str
    master: str
    reorder: Literal["typed", "serial"]
    heuristic: str
    queue: Literal["hybrid", "partitioned", "shared"]
    processes: Literal["auto", "never", "always"]
    fuse: bool
    state_memory: int | str


@checked_arguments(RunOptions.__annotations__)
def run(
    flow: Dataflow | Checked,
    inputs: Mapping[str, Input],
    outputs: Mapping[str, Sink],
    *,
    backend: str | None = None,
    parallelism: int = 1,
    key_groups: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    drain: bool = True,
    follow: bool = False,
    **options: Unpack[RunOptions],
) -> Result:
    """Run a dataflow to the end of its inputs, or with ``follow`` until it is stopped (by Ctrl-C, or the stop button of
    a notebook).

    ``inputs`` and ``outputs``: by source and sink, see :data:`.run_request.Input` and :data:`.run_request.Sink`.
    ``backend``: ``"spark"``, or ``"local"``: this process, without Java. None: what ``TRACETYPES_BACKEND`` or ``pyproject.toml``
    says, else Spark, or local if pyspark is not installed. ``parallelism``:
    how many tasks run at once. ``key_groups``: how many groups the keys are hashed to, fixed for a checkpoint. ``checkpoint``:
    the directory in which the run keeps its progress; the default is ``_checkpoint`` of the first output directory, or a
    temporary one if all outputs are lists. ``drain``: the sources end with their inputs, so that open blocks are
    answered. ``options``: see :class:`RunOptions`.

    A Spark session stays for the next run. Raises :class:`TraceTypesError` with the code and text of the command
    line.
    """
    request = _request(flow, inputs, outputs, backend, parallelism, key_groups, checkpoint, drain, follow, options)
    return request.run()


@checked_arguments(RunOptions.__annotations__)
def start(
    flow: Dataflow | Checked,
    inputs: Mapping[str, Input],
    outputs: Mapping[str, Sink],
    *,
    backend: str | None = None,
    parallelism: int = 1,
    key_groups: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    drain: bool = True,
    follow: bool = True,
    page: bool | int = False,
    **options: Unpack[RunOptions],
) -> Run:
    """Start a dataflow in the background. It waits for more input until it is drained or stopped, unless ``follow=False``.
    ``page``: whether a browser on this machine can look at it (:attr:`Run.page`), or at which port. The other parameters are
    those of :func:`run`."""
    job = _request(flow, inputs, outputs, backend, parallelism, key_groups, checkpoint, drain, follow, options)
    from tracetypes.compiler.backend.control import Control

    control, epochs = Control(), list[Any]()
    shows = None if page is False else page_of(job, 0 if page is True else page)
    result, failure = list[Result](), list[BaseException]()

    def tell(batch: Batch) -> None:
        epochs.append(batch)
        if shows is not None:
            shows.add(batch)

    def body() -> None:
        try:
            with nullcontext() if shows is None else shows:
                result.append(job.run(control, tell))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=body, name=f"tracetypes {job.program.name}", daemon=True)
    thread.start()
    return Run(control, thread, result, failure, epochs, shows, job.program.name)


def page_of(job: RunRequest, port: int) -> RunPage:
    """The page of a run that is about to start. ``port``: 0 for one that is free. Raises :class:`UsageError` ``TT401`` without
    the extra ``workspace``, ``TT402`` for a port that is taken or impossible."""
    from tracetypes.compiler.workspace.service.run_page import RunPage

    if type(port) is not int:
        raise UsageError("TT402", f"page is {port!r}", fix="give True, or a port")
    _, late, rejects = job.places() if any(job.kept) else ("", "", "")
    kept = zip(("late", "rejected"), job.kept, (late, rejects), strict=True)
    return RunPage(job.program, port, {what: place for what, stays, place in kept if stays})


def engine_of(backend: str | None, master: str | None = None, options: Mapping[str, Any] | None = None) -> Engine:
    """The engine of a backend; None: of the default. ``options``: of a run, among them those of scheduling; None is not given.
    Raises :class:`UsageError` ``TT402`` for an unknown name and for an option of another backend, and ``TT401`` if a package is
    missing."""
    backend = default_backend() if backend is None else _known(backend)
    scheduling = _scheduling(options or {})
    with extras():
        if backend == "spark":
            from tracetypes.compiler.spark.backend import SparkEngine

            for name, value in scheduling.items():
                option = "--no-fuse" if value is False else f"--{name.replace('_', '-')}"
                fix = f"leave {option} out, or give --backend local"
                raise UsageError("TT402", f"{option} is of the local backend, and this run is on Spark", fix=fix)
            return SparkEngine(master)
        from tracetypes.compiler.local.backend import LocalEngine

        if master is not None:
            fix = "leave --master out, or give --backend spark"
            raise UsageError("TT402", "--master is of Spark, and this run is local", fix=fix)
        from tracetypes.compiler.local.options import LocalOptions

        return LocalEngine(LocalOptions(**scheduling))


def _scheduling(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of scheduling among those of a run. Raises :class:`UsageError` ``TT402``."""
    scheduling = {name: options[name] for name in OF_LOCAL if options.get(name) is not None}
    for name, value in scheduling.items():
        if name == "fuse":
            need_choice(name, value)
        elif name == "state_memory":
            size = bytes_of(value) if isinstance(value, str) else value
            if type(size) is not int or size < 0:
                raise UsageError("TT402", f"state_memory is {value!r}", fix='give a number of bytes, or a text such as "4GB"')
            scheduling[name] = size
        elif not is_choice(name, value):
            raise UsageError("TT402", f"{name} is {value!r}", fix=f"give one of {allowed(name)}")
    return scheduling


def engine_of_checkpoint(path: str) -> Engine:
    """The engine of the backend that made a checkpoint; the default one if the directory is no checkpoint."""
    with extras():
        from tracetypes.compiler.store.compatibility import backend_of, queries_of

    root = Path(path)
    for directory in (queries_of(root) or {"": "."}).values():
        with suppress(OSError, ValueError):
            graph = json.loads((root / directory / "graph.json").read_text(encoding="utf-8"))
            if isinstance(graph, dict):
                return engine_of(backend_of(graph))
    return engine_of(None)


def wording_of(backend: str | None, inputs: Mapping[str, object]) -> Wording:
    """How a backend says what it does, for ``explain``. ``inputs``: of sources by name, as far as they are known."""
    with extras():
        if (default_backend() if backend is None else _known(backend)) == "spark":
            from tracetypes.compiler.spark.wording import SparkWording

            return SparkWording(inputs)
        from tracetypes.compiler.local.wording import LocalWording

        return LocalWording(inputs)


def default_backend() -> str:
    """What ``TRACETYPES_BACKEND`` names, else ``backend`` in ``[tool.tracetypes]`` of ``pyproject.toml`` here; else Spark, or
    local if pyspark is not installed."""
    if named := os.environ.get(VARIABLE):
        return _known(named, f", which {VARIABLE} names")
    try:
        tools = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8")).get("tool")
    except (OSError, ValueError):
        tools = None
    table = tools.get("tracetypes", {}) if isinstance(tools, dict) else {}
    refuse_unknown_tables(table)
    if named := table.get("backend"):
        return _known(named, ", which pyproject.toml names")
    return "spark" if importlib.util.find_spec("pyspark") is not None else "local"


def _known(name: object, where: str = "") -> str:
    if not isinstance(name, str) or name not in BACKENDS:
        fix = (isinstance(name, str) and like(name, BACKENDS)) or f"the backends are {', '.join(BACKENDS)}"
        raise UsageError("TT402", f"there is no backend {name!r}{where}", fix=fix)
    return name


def _request(
    flow: Dataflow | Checked,
    inputs: Mapping[str, Input],
    outputs: Mapping[str, Sink],
    backend: str | None,
    parallelism: int,
    key_groups: int | None,
    checkpoint: str | os.PathLike[str] | None,
    drain: bool,
    follow: bool,
    options: Mapping[str, Any],
) -> RunRequest:
    """The run that a call asks for."""
    more = dict(options)
    engine = engine_of(backend, more.pop("master", None), options)
    more = {name: value for name, value in more.items() if name not in OF_LOCAL}
    more |= {"drain": drain, "follow": follow, "engine": engine}
    return RunRequest(flow, inputs, outputs, parallelism, key_groups, checkpoint, **more)


def explain(
    flow: Dataflow | Checked,
    inputs: Mapping[str, str] | None = None,
    *,
    backend: str | None = None,
    parallelism: int = 1,
    key_groups: int | None = None,
    passes: bool = False,
) -> str:
    """The text of ``tracetypes explain``: what runs where, what runs as Python and why, what would make it faster, the graph, and
    the plan. ``passes``: with the graph after each pass, and why that is the same. ``inputs``: the inputs of a run, if they are
    known. ``backend``: as of :func:`run`."""
    with extras():
        from tracetypes.compiler.plan.explain import explain as explained
        from tracetypes.compiler.plan.planner import DEFAULT_KEY_GROUPS

    groups = key_groups or max(DEFAULT_KEY_GROUPS, parallelism)
    wording = wording_of(backend, dict(inputs or {}))
    return redact(explained(check_once(flow), wording, parallelism=parallelism, key_groups=groups, passes=passes))


def read(path: str | os.PathLike[str], record: type[V]) -> list[V]:
    """The rows of a file, or of the files of an output directory and its folders ``NAME=VALUE`` in the order of their names, as
    records. For tests.
    The ending decides the format: CSV, JSON lines or Parquet. Raises :class:`RunError` ``TT208``."""
    place = Path(path)
    if not place.exists():
        raise RunError("TT208", f"{place} does not exist", fix="give a file, or the output directory of a run")
    files = [one for one in _files_of(place) if not one.name.startswith(("_", "."))] if place.is_dir() else [place]
    return [value for file in files for value in _rows_of(file, record)]


def _files_of(directory: Path) -> Iterator[Path]:
    """The files of an output, and those in its folders."""
    for one in sorted(directory.iterdir()):
        if one.is_file():
            yield one
        elif "=" in one.name[1:]:
            yield from _files_of(one)


def _rows_of(file: Path, record: type[V]) -> list[V]:
    layout = Layout(UnitValue(), schema_of(record))
    format = format_of(file.name, None)
    if isinstance(format, Parquet):
        return _rows_of_parquet(file, layout)
    if isinstance(format, Avro):
        raise RunError("TT208", f"{file} is Avro, which only sources read", fix="give CSV, JSON lines or Parquet")
    text = _text_of(file)
    from tracetypes.compiler.connectors.folders import folder_values

    rows: list[V] = []
    outside = folder_values(str(file.absolute()), layout, format.zone)
    for number, pair in enumerate(rows_of_text(format, layout, text, outside), 1):
        if isinstance(pair, Mismatch):
            raise RunError("TT208", f"{file}, row {number}: {pair}", fix=f"give rows of {show_type(record)}")
        rows.append(pair[1])
    return rows


def _text_of(file: Path) -> bytes:
    if file.suffix != ".zst":
        with (gzip.open if file.suffix == ".gz" else open)(file, "rb") as content:
            return content.read()
    with extras():
        import pyarrow as pa
    with pa.input_stream(str(file), compression="zstd") as stream:
        whole: bytes = stream.read()
        return whole


def _rows_of_parquet(file: Path, layout: Layout) -> list[Any]:
    with extras():
        import pyarrow as pa
        import pyarrow.parquet as pq

        from tracetypes.compiler.columns.arrow import array, arrow_type, from_array, has_gaps, in_one_piece
        from tracetypes.compiler.columns.batches import pairs_of_rows
        from tracetypes.compiler.connectors.fitted_columns import Conversion
        from tracetypes.compiler.connectors.folders import folder_values

    table = pq.ParquetFile(file).read(columns=[name for name, _ in layout.columns])
    count, conversion = table.num_rows, Conversion("UTC")
    values = folder_values(str(file.absolute()), layout, None, table.column_names)
    columns = []
    for name, one in layout.columns:
        if name in values:
            column = array(one, [values[name]] * count)
        elif name in table.column_names:
            column = conversion.of(in_one_piece(table.column(name)), one).array
        else:
            column = pa.nulls(count, arrow_type(one))
        if has_gaps(one, column):
            raise RunError(
                "TT208",
                f"{file}: the column {name!r} has values that are none of {name_of(one)}",
                fix="declare them, or read another file",
            )
        columns.append(column)
    rows = pa.RecordBatch.from_arrays(columns, names=[name for name, _ in layout.columns])
    return from_array(layout.value, pairs_of_rows(layout, rows)[1])


def _picture(flow: Dataflow) -> str | None:
    """The typed graph of a dataflow for a notebook, and what is wrong with it; None, for its text, where there is nothing to draw
    or too much."""
    graph = flow.graph
    if not graph.nodes or len(graph.nodes) > MOST_DRAWN:
        return None
    problems = violations(flow)
    text = f"<pre>{html.escape(redact(str(CheckFailed(problems))))}</pre>" if problems else ""
    types = {node.id: edge_of(Stream[Any](flow, node.id)) for node in graph.nodes}
    edges = {id: edge for id, edge in types.items() if edge is not None}
    if len(edges) < len(types) or any(one.code in ("TT105", "TT108") for one in problems):
        return text
    from tracetypes.compiler.plan.drawing import svg, typed_graph

    return redact(svg(typed_graph(Checked(graph, edges)), f"typed graph of {graph.name}", style=True)) + text


def _returned(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """The type that a function returns, by tracing it."""
    from tracetypes.compiler.analysis.result_types import type_returned

    return type_returned(function, arguments)


DISPLAY.picture = _picture
DISPLAY.instead = instead
INFERENCE.returned = _returned
