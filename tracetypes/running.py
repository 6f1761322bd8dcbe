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
import logging
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, TypeVar, Unpack

import attrs

from tracetypes.check import Checked, check, edge_of, violations
from tracetypes.errors import CheckFailed, RunError, UsageError
from tracetypes.formats import Csv, Layout, Parquet, format_of
from tracetypes.graph import SHOWN, Dataflow, Stream
from tracetypes.markers import InBand
from tracetypes.parsing import split_header, text_parser
from tracetypes.records import Mismatch, UnitValue, schema_of, show_type
from tracetypes.redaction import redact
from tracetypes.rejects import SideOutputRow
from tracetypes.results import Result

if TYPE_CHECKING:
    from tracetypes.compiler.backend.control import Control
    from tracetypes.compiler.backend.summary import Summary
    from tracetypes.compiler.plan.plan import Plan
    from tracetypes.compiler.plan.program import Program
    from tracetypes.compiler.store.locks import Locks
    from tracetypes.compiler.store.metrics import Batch
    from tracetypes.compiler.store.output import Output

__all__ = [
    "BACKENDS",
    "Input",
    "Job",
    "Run",
    "RunOptions",
    "SideOutputRow",
    "Sink",
    "compiled",
    "explain",
    "read",
    "run",
    "start",
]

BACKENDS: Final = ("spark",)

MOST_DRAWN: Final = 500
"""Nodes of a graph that is drawn: nobody reads more, and where many arrows cross the layout takes the square of their number."""

Input: TypeAlias = str | os.PathLike[str] | Iterable[Any]
"""What a source reads: a path, ``kafka://HOST:PORT/TOPIC``, ``delta:DIR``; or rows: values, or pairs ``(key, value)`` where the
rows of the source have a key column."""

Sink: TypeAlias = str | os.PathLike[str] | list[Any]
"""Where a sink writes: a directory, ``kafka://HOST:PORT/TOPIC``, ``delta:DIR``, ``-`` for standard output (JSON lines), ``noop:``
for nowhere; or a list, to which values are appended, or pairs ``(key, value)`` where the rows have a key column."""

V = TypeVar("V")


class RunOptions(TypedDict, total=False):
    """Further options of a run, as on the command line (docs/running.md)."""

    late: str
    rejects: str
    files_per_step: int
    order: Mapping[str, Literal["name", "modified", "time"]]
    appended: Literal["error", "read"]
    max_late: int | float
    max_rejects: int
    verify: bool
    channels: str
    master: str


def run(
    flow: Dataflow | Checked,
    inputs: Mapping[str, Input],
    outputs: Mapping[str, Sink],
    *,
    backend: str = "spark",
    parallelism: int = 1,
    key_groups: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    drain: bool = True,
    follow: bool = False,
    **options: Unpack[RunOptions],
) -> Result:
    """Run a dataflow to the end of its inputs, or with ``follow`` until it is stopped (by Ctrl-C, or the stop button of
    a notebook).

    ``inputs`` and ``outputs``: by source and sink, see :data:`Input` and :data:`Sink`. ``parallelism``: how many tasks
    run at once. ``key_groups``: how many groups the keys are hashed to, fixed for a checkpoint. ``checkpoint``: the
    directory in which the run keeps its progress; the default is ``_checkpoint`` of the first output directory, or a
    temporary one if all outputs are lists. ``drain``: the sources end with their inputs, so that open blocks are
    answered. ``options``: see :class:`RunOptions`.

    The Spark session stays for the next run. Raises :class:`TraceTypesError` with the code and text of the command
    line.
    """
    _refuse(backend, options)
    return Job(flow, inputs, outputs, parallelism, key_groups, checkpoint, drain=drain, follow=follow, **options).run()


def start(
    flow: Dataflow | Checked,
    inputs: Mapping[str, Input],
    outputs: Mapping[str, Sink],
    *,
    backend: str = "spark",
    parallelism: int = 1,
    key_groups: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    drain: bool = True,
    follow: bool = True,
    **options: Unpack[RunOptions],
) -> Run:
    """Start a dataflow in the background. It waits for more input until it is drained or stopped, unless ``follow=False``. The
    other parameters are those of :func:`run`."""
    _refuse(backend, options)
    job = Job(flow, inputs, outputs, parallelism, key_groups, checkpoint, drain=drain, follow=follow, **options)
    from tracetypes.compiler.backend.control import Control

    control, epochs = Control(), list[Any]()
    result, failure = list[Result](), list[BaseException]()

    def body() -> None:
        try:
            result.append(job.run(control, epochs.append))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=body, name=f"tracetypes {job.program.name}", daemon=True)
    thread.start()
    return Run(control, thread, result, failure, epochs)


def _refuse(backend: str, options: Mapping[str, Any]) -> None:
    if backend not in BACKENDS:
        raise UsageError("TT402", f"there is no backend {backend!r}", fix=f"the backends are {', '.join(BACKENDS)}")
    known = RunOptions.__annotations__
    for name in options.keys() - known.keys():
        raise UsageError("TT402", f"there is no option {name!r}", fix=f"the options are {', '.join(known)}")


def explain(
    flow: Dataflow | Checked,
    inputs: Mapping[str, str] | None = None,
    *,
    parallelism: int = 1,
    key_groups: int | None = None,
) -> str:
    """The text of ``tracetypes explain``: the graph, the graph after each pass with the reason, and the plan.
    ``inputs``: the inputs of a run, if they are known."""
    with _extras():
        from tracetypes.compiler.plan.explain import explain as explained
        from tracetypes.compiler.plan.planner import DEFAULT_KEY_GROUPS
        from tracetypes.compiler.spark.wording import SparkWording

    groups = key_groups or max(DEFAULT_KEY_GROUPS, parallelism)
    return redact(explained(_checked(flow), SparkWording(dict(inputs or {})), parallelism=parallelism, key_groups=groups))


@attrs.define(eq=False)
class Run:
    """A run in the background; see :func:`start`."""

    _control: Control
    _thread: threading.Thread
    _result: list[Result]
    _failure: list[BaseException]
    _epochs: list[Batch]

    @property
    def running(self) -> bool:
        """Whether the run goes on."""
        return self._thread.is_alive()

    @property
    def metrics(self) -> dict[str, Any]:
        """The progress so far: ``epochs``, ``rows``, and ``last``, which is the last epoch as ``--metrics`` writes it."""
        done = list(self._epochs)
        return {"epochs": len(done), "rows": sum(one.rows for one in done), "last": done[-1].plain if done else None}

    def drain(self) -> Result:
        """End the sources, answer all open blocks, and wait for the end."""
        self._control.drain.set()
        return self.wait()

    def stop(self) -> Result:
        """Stop soon, and wait for the end. The same checkpoint goes on later."""
        self._control.stop.set()
        return self.wait()

    def wait(self, seconds: float | None = None) -> Result:
        """Wait for the end, and raise the error of the run. Raises :class:`TimeoutError` after this many seconds."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            raise TimeoutError(f"the run goes on after {seconds} seconds")
        if self._failure:
            raise self._failure[0]
        return self._result[0]


@attrs.define(eq=False)
class Job:
    """A run with its parameters. Its construction refuses what can be refused before anything is read or written;
    :meth:`run` runs it. The parameters are those of :func:`run`; ``prometheus`` and other options of the command
    line are not among them."""

    flow: Dataflow | Checked
    inputs: Mapping[str, Input]
    outputs: Mapping[str, Sink]
    parallelism: int = 1
    key_groups: int | None = None
    checkpoint: str | os.PathLike[str] | None = None
    drain: bool = attrs.field(default=True, kw_only=True)
    follow: bool = attrs.field(default=False, kw_only=True)
    late: str | None = attrs.field(default=None, kw_only=True)
    rejects: str | None = attrs.field(default=None, kw_only=True)
    files_per_step: int | None = attrs.field(default=None, kw_only=True)
    order: Mapping[str, Literal["name", "modified", "time"]] = attrs.field(factory=dict, kw_only=True)
    appended: Literal["error", "read"] = attrs.field(default="error", kw_only=True)
    max_late: int | float | None = attrs.field(default=None, kw_only=True)
    max_rejects: int | None = attrs.field(default=None, kw_only=True)
    verify: bool = attrs.field(default=True, kw_only=True)
    channels: str | None = attrs.field(default=None, kw_only=True)
    master: str | None = attrs.field(default=None, kw_only=True)
    program: Program = attrs.field(init=False)
    spent: dict[str, float] = attrs.field(init=False, factory=dict)
    """Seconds so far, by what was done."""
    paths: dict[str, str] = attrs.field(init=False)
    """Outputs that are no lists, by sink."""
    home: str | None = attrs.field(init=False)
    """The first output directory."""

    def __attrs_post_init__(self) -> None:
        started = time.monotonic()
        self.program = compiled(self.flow, parallelism=self.parallelism, key_groups=self.key_groups)
        self.spent["plan"] = time.monotonic() - started
        self.inputs = {name: _address(one) for name, one in self.inputs.items()}
        sinks = self.program.sinks
        for name in self.outputs:
            if name not in sinks:
                fix = " ".join(f"--output {sink}=DIR" for sink in sinks)
                raise UsageError("TT402", f"there is no sink {name!r}", fix=f"give {fix}")
        for sink in sinks:
            if sink not in self.outputs:
                raise UsageError("TT402", f"sink {sink!r} has no output", fix=f"give --output {sink}=DIR")
        self.outputs = {sink: _address(self.outputs[sink]) for sink in sinks}
        self.paths = {sink: one for sink, one in self.outputs.items() if isinstance(one, str)}
        self._distinct()
        if self.follow and not self.drain:
            raise UsageError("TT402", "--follow never drains", fix="leave --no-drain out")
        if self.appended not in ("error", "read"):
            raise UsageError("TT402", f"appended is {self.appended!r}", fix="give 'error' or 'read'")
        if isinstance(self.max_late, float) and not 0 <= self.max_late <= 1:
            fix = "give a number of rows, or a part of all rows such as 0.01"
            raise UsageError("TT402", f"--max-late {self.max_late} is no part of the rows", fix=fix)
        self._orders()
        places = [path for path in self.paths.values() if _is_directory(path)]
        self.home = next(iter(places), None)

    def _orders(self) -> None:
        """Of the files of each source. A run that follows takes files as they come; any other takes them by name."""
        from tracetypes.compiler.connectors.files import ORDERS

        sources = {source.name: source for plan in self.program.plans for source in (leaf.source for leaf in plan.sources)}
        for name, order in self.order.items():
            option = f"--order {name}={order}"
            if name not in sources:
                raise UsageError("TT402", f"{option}: there is no source {name!r}", fix=f"the sources are {', '.join(sources)}")
            if order not in ORDERS:
                raise UsageError("TT402", f"{option}: there is no such order", fix=f"give one of {', '.join(ORDERS)}")
            if name in self.inputs and not _is_local_files(self.inputs[name]):
                raise UsageError(
                    "TT402", f"{option}: its input is no files of a local or mounted disk", fix=f"leave {option} out"
                )
            if self.follow and order != "modified":
                raise UsageError(
                    "TT402", f"{option}: a run with --follow takes files as they come", fix="leave it or --follow out"
                )
            if order == "time" and isinstance(sources[name].markers, InBand):
                fix = f"give --order {name}=name"
                raise UsageError("TT402", f"{option}: its markers are in band, and its rows have no times", fix=fix)
        if not self.follow:
            here = {name for name in sources if _is_local_files(self.inputs.get(name))}
            self.order = {**dict.fromkeys(here, "name"), **self.order}

    def _distinct(self) -> None:
        places: dict[str, str] = {}
        for sink, path in self.paths.items():
            if path not in ("noop:", "-") and (other := places.setdefault(os.path.realpath(path), sink)) != sink:
                raise UsageError(
                    "TT402",
                    f"sinks {other!r} and {sink!r} have one output: {path}",
                    fix="give each a directory of its own",
                )
            if "://" in path and not _is_remote(path):
                raise UsageError(
                    "TT402", f"--output {path} is not local", fix="give a directory of a local or mounted disk"
                )

    @property
    def keeps_nothing(self) -> bool:
        """Whether late and rejected rows are kept nowhere."""
        return bool(self.paths) and set(self.paths.values()) == {"noop:"} and len(self.paths) == len(self.outputs)

    def run(
        self,
        control: Control | None = None,
        told: Callable[[Batch], None] | None = None,
        said: Callable[[str], None] | None = None,
        status: Callable[[str], None] | None = None,
    ) -> Result:
        """Run it. ``told`` is called after each epoch. ``said`` is called with warnings, with changes since the run was
        stopped, and with what operators print, which otherwise goes to standard error. ``status`` is called with
        what the run is doing."""
        with _extras():
            from tracetypes.compiler.store.locks import Locks

        temporary: str | None = None
        try:
            if self.checkpoint is None and self.home is None:
                if any(path not in ("-", "noop:") for path in self.paths.values()) or self.keeps_nothing:
                    raise UsageError(
                        "TT402", f"{', '.join(self.paths.values())} keeps no checkpoint", fix="give --checkpoint DIR"
                    )
                temporary = tempfile.mkdtemp(prefix="tracetypes-")
            with Locks() as locks:
                return self._run(locks, temporary, control, told, said, status)
        finally:
            if temporary is not None:
                shutil.rmtree(temporary, ignore_errors=True)

    @property
    def kept(self) -> tuple[bool, bool]:
        """Whether late rows, and rejected rows, are in a directory after the run."""
        home = self.home is not None or self.checkpoint is not None
        return (home or self.late is not None, home or self.rejects is not None) if not self.keeps_nothing else (False, False)

    def places(self, temporary: str | None = None) -> tuple[str, str, str]:
        """The checkpoint, and the places of late items and rejects."""
        checkpoint = os.fspath(self.checkpoint or Path(self.home or temporary or "") / "_checkpoint")
        home = self.home or (checkpoint if temporary is None else temporary)
        return checkpoint, self.late or str(Path(home) / "_late"), self.rejects or str(Path(home) / "_rejects")

    def _run(
        self,
        locks: Locks,
        temporary: str | None,
        control: Control | None,
        told: Callable[[Batch], None] | None,
        said: Callable[[str], None] | None,
        status: Callable[[str], None] | None,
    ) -> Result:
        with _extras():
            from tracetypes.compiler.backend.control import Control
            from tracetypes.compiler.backend.summary import Limits
            from tracetypes.compiler.connectors.rows import Rows
            from tracetypes.compiler.spark.inputs import look_for, require
            from tracetypes.compiler.spark.log import SparkLog
            from tracetypes.compiler.spark.printed import shown
            from tracetypes.compiler.spark.run import run_program
            from tracetypes.compiler.spark.session import session
            from tracetypes.compiler.store.compatibility import refuse
            from tracetypes.compiler.store.memory_output import ListOutput, TerminalOutput
            from tracetypes.compiler.store.output import SideOutputs
            from tracetypes.compiler.store.outputs import open_output
            from tracetypes.compiler.store.overlap import is_file, local, refuse_overlaps
            from tracetypes.compiler.store.topic_channel import Topics
            from tracetypes.compiler.store.version import look

        require(self.program.sources, self.inputs)
        inputs = {name: one if isinstance(one, str) else Rows((_rows(one),)) for name, one in self.inputs.items()}
        channels = Topics.of(self.channels) if self.channels else None
        checkpoint, late, rejects = self.places(temporary)
        if local(checkpoint) is None:
            raise UsageError(
                "TT402", f"--checkpoint {checkpoint} is not local", fix="give a directory of a local or mounted disk"
            )
        written = {f"the output of sink {sink!r}": path for sink, path in self.paths.items() if path != "-"}
        written |= {"the checkpoint": checkpoint, "the directory of late items": late}
        written |= {"the directory of rejects": rejects}
        refuse_overlaps({name: one for name, one in inputs.items() if isinstance(one, str)}, written)
        look(Path(checkpoint))
        for source, one in inputs.items():
            if isinstance(one, str):
                look_for(source, one)
        locks.take(Path(checkpoint), "the checkpoint")
        for path in self.paths.values():
            if _is_directory(path):
                locks.take(Path(path), "the output directory")
        paths = {name: one for name, one in inputs.items() if isinstance(one, str) and is_file(one)}
        refuse(Path(checkpoint), self.program, SparkLog, paths, appended=self.appended == "read")
        if self.paths and not self.keeps_nothing:
            locks.take(Path(late), "the directory of late items")
            locks.take(Path(rejects), "the directory of rejects")
        # py4j logs tracebacks there; our own messages say what it was
        logging.getLogger().addHandler(logging.NullHandler())
        say = status or (lambda _: None)
        say("starting Spark")
        control = control or Control(starts=True)
        started = time.monotonic()
        with control.of_signals():
            spark = session(parallelism=self.program.width, master=self.master)
        control.starts = False
        self.spent["start of Spark"] = time.monotonic() - started
        say("running; Ctrl-C stops, and the same command goes on")
        late_rows, rejected_rows = list[SideOutputRow](), list[SideOutputRow]()

        def opened(sink: str, plan: Plan, run: str) -> Output:
            target = self.outputs[sink]
            if isinstance(target, list) or target == "-":
                kept = SideOutputs(Path(late).absolute(), Path(rejects).absolute(), run) if any(self.kept) else None
                if isinstance(target, list):
                    return ListOutput(plan, target, late_rows, rejected_rows, kept)
                name = sink if len(self.outputs) > 1 else ""
                return TerminalOutput(plan, name, late_rows, rejected_rows, kept)
            return open_output(plan, str(target), run, late, rejects)

        with shown(spark, said or partial(print, file=sys.stderr)):
            summary = run_program(
                spark,
                self.program,
                inputs,
                {sink: partial(opened, sink) for sink in self.outputs},
                checkpoint=checkpoint,
                side_outputs=lambda run: SideOutputs(Path(late).absolute(), Path(rejects).absolute(), run),
                channels=channels,
                drain=self.drain,
                follow=self.follow,
                files_per_step=self.files_per_step,
                orders=self.order,
                appended=self.appended == "read",
                told=told,
                said=said or _loud,
                limits=Limits(self.max_late, self.max_rejects),
                verify=self.verify,
                locks=locks,
                control=control,
            )
        return self._result(summary, late_rows, rejected_rows, control)

    def _result(
        self,
        summary: Summary,
        late: Sequence[SideOutputRow],
        rejects: Sequence[SideOutputRow],
        control: Control | None,
    ) -> Result:
        ended = (self.drain and not self.follow) or (control is not None and control.drain.is_set())
        return Result(
            rows=summary.rows,
            epochs=summary.batches,
            markers=summary.markers,
            seconds=summary.seconds,
            read=dict(summary.read),
            late=dict(summary.late),
            rejects=dict(summary.rejects),
            outputs={sink: one for sink, one in self.outputs.items() if isinstance(one, list)},
            late_rows=late,
            rejected_rows=rejects,
            stopped=summary.stopped,
            drained=ended and not summary.stopped,
            differences=list(dict.fromkeys(one.name for one in summary.differences)),
            open=dict(summary.open),
            spent=self.spent | summary.spent,
        )


def _loud(text: str) -> None:
    """Warnings of a run that nobody else hears."""
    if text.startswith("TT"):
        print(redact(text), file=sys.stderr)


def _rows(given: Any) -> tuple[Any, ...]:
    return tuple(given)


def _address(given: Any) -> Any:
    return os.fspath(given) if isinstance(given, os.PathLike) else given


def _is_directory(path: str) -> bool:
    from tracetypes.compiler.connectors.registry import connector_of

    return connector_of(path).is_directory


def _is_local_files(given: object) -> bool:
    from tracetypes.compiler.connectors.registry import connector_of

    connector = connector_of(given)
    return isinstance(given, str) and connector.kind == "files" and connector.path(given) is not None


def _is_remote(path: str) -> bool:
    from tracetypes.compiler.connectors.registry import connector_of

    return connector_of(path).remote


def compiled(flow: Dataflow | Checked, *, parallelism: int = 1, key_groups: int | None = None) -> Program:
    """The program of a dataflow. Raises :class:`CheckFailed`, and :class:`UsageError` ``TT401`` or ``TT404``."""
    with _extras():
        from tracetypes.compiler.plan.planner import DEFAULT_KEY_GROUPS
        from tracetypes.compiler.plan.program import program

    groups = key_groups or max(DEFAULT_KEY_GROUPS, parallelism)
    return program(_checked(flow), parallelism=parallelism, key_groups=groups)


def _checked(flow: Dataflow | Checked) -> Checked:
    return check(flow) if isinstance(flow, Dataflow) else flow


@contextmanager
def _extras() -> Iterator[None]:
    """Inside, a package that is not installed is :class:`UsageError` ``TT401``."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError("TT401", f"{error.name} is not installed", fix="pip install 'tracetypes[spark]'") from error


def read(path: str | os.PathLike[str], record: type[V]) -> list[V]:
    """The rows of a file, or of the files of an output directory in the order of their names, as records. For tests.
    The ending decides the format: CSV, JSON lines or Parquet. Raises :class:`RunError` ``TT208``."""
    place = Path(path)
    if not place.exists():
        raise RunError("TT208", f"{place} does not exist", fix="give a file, or the output directory of a run")
    files = sorted(one for one in place.iterdir() if one.is_file()) if place.is_dir() else [place]
    files = [one for one in files if not one.name.startswith(("_", "."))]
    return [value for file in files for value in _rows_of(file, record)]


def _rows_of(file: Path, record: type[V]) -> list[V]:
    layout = Layout(UnitValue(), schema_of(record))
    format = format_of(file.name, None)
    if isinstance(format, Parquet):
        return _rows_of_parquet(file, layout)
    rows: list[V] = []
    with (gzip.open if file.suffix == ".gz" else open)(file, "rt", encoding="utf-8-sig") as lines:
        header = split_header(format, next(lines, "").rstrip("\r\n")) if isinstance(format, Csv) else None
        parse = text_parser(format, layout, header)
        for number, line in enumerate(lines, 2 if header else 1):
            try:
                rows.append(parse(line.rstrip("\r\n"))[1])
            except Mismatch as error:
                raise RunError(
                    "TT208", f"{file}, line {number}: {error}", fix=f"give rows of {show_type(record)}"
                ) from None
    return rows


def _rows_of_parquet(file: Path, layout: Layout) -> list[Any]:
    with _extras():
        import pyarrow as pa
        import pyarrow.parquet as pq

        from tracetypes.compiler.columns.arrow import from_rows, schema_of_rows

    schema = schema_of_rows(layout)
    table = pq.read_table(file, columns=[name for name, _ in layout.columns])
    for field in schema:
        if field.name not in table.column_names:  # the end and the position of a block, which files do not have
            table = table.append_column(field, pa.array([0] * table.num_rows, field.type))
    return list(from_rows(layout, table.select(schema.names).cast(schema)).values)


def _picture(flow: Dataflow) -> str | None:
    """The typed graph of a dataflow for a notebook, and what is wrong with it; None, for its text, where there is nothing to draw
    or too much."""
    graph = flow.graph
    if not graph.nodes or len(graph.nodes) > MOST_DRAWN:
        return None
    found = violations(flow)
    said = f"<pre>{html.escape(redact(str(CheckFailed(found))))}</pre>" if found else ""
    types = {node.id: edge_of(Stream[Any](flow, node.id)) for node in graph.nodes}
    known = {id: edge for id, edge in types.items() if edge is not None}
    if len(known) < len(types) or any(one.code in ("TT105", "TT108") for one in found):
        return said
    from tracetypes.compiler.plan.drawing import svg, typed_graph

    return redact(svg(typed_graph(Checked(graph, known)), f"typed graph of {graph.name}", style=True)) + said


SHOWN.picture = _picture
