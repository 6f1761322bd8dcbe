"""The inputs of a run read once more, row by row, for a comparison of the dataflow with its gates and without."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from tracetypes.arrangement import Arranged, arrange, arrange_rows, streams_of
from tracetypes.check import Checked
from tracetypes.compiler.backend.compilation import check_once, extras
from tracetypes.compiler.gates.shadow import Shadow, compare_gates, need_gates, need_plots
from tracetypes.compiler.gates.taps import refuse_load
from tracetypes.errors import UsageError
from tracetypes.graph import Dataflow
from tracetypes.impacts import Variation
from tracetypes.nodes import Source
from tracetypes.parsing import Row

if TYPE_CHECKING:
    from tracetypes.compiler.backend.run_request import Input, RunRequest
    from tracetypes.compiler.connectors.files import Order
    from tracetypes.compiler.runtime.source import TakenRow

__all__ = ["ShadowRun", "shadow"]


def shadow(
    flow: Dataflow | Checked,
    inputs: Mapping[str, Input],
    *,
    error: Variation[float, Any] | None = None,
    order: Mapping[str, Order] | None = None,
    drain: bool = True,
) -> Shadow:
    """Run a dataflow with its gates, and with all gates open, and compare the containers of all outputs at each marker.

    ``inputs``: as of :func:`run`, if they can be read twice: files, or lists of values in order of arrival (pairs of key and
    value where rows have a key). The interpreter runs them, and has all of them in memory, so give it a part of the data.
    ``error``: how errors are measured where no ``learned`` gate says it, by default
    :func:`tracetypes.impacts.relative_error`. ``order`` and ``drain``: as of :func:`run`.

    Raises :class:`UsageError` ``TT121`` for a dataflow without gates, and ``TT402`` for an input that cannot be read twice, and
    for a gate that looks at the load of the machine.
    """
    checked = check_once(flow)
    need_gates(checked.graph)
    _need_repeatable(checked, inputs)
    streams = streams_of(_arrangement(checked, inputs, order or {}, drain=drain))
    return compare_gates(checked, streams, error, complete=drain)


@attrs.frozen
class ShadowRun:
    """What ``tracetypes run --shadow`` adds to a run. ``path``: where the report is written. ``draws``: whether that is a
    directory for pictures, too. Its construction refuses what can be refused before the run starts."""

    job: RunRequest
    path: Path | None
    draws: bool

    @classmethod
    def of(cls, job: RunRequest, text: str) -> ShadowRun:
        """``text``: of the command line, a file ``*.json``, a directory, or nothing. Raises :class:`UsageError` ``TT121``,
        ``TT222``, ``TT401`` or ``TT402``."""
        checked = check_once(job.flow)
        for gate in need_gates(checked.graph).values():
            refuse_load(gate)
        if job.follow:
            raise UsageError("TT402", "--shadow reads all inputs again, and --follow has no end", fix="leave one of them out")
        _need_repeatable(checked, job.inputs)
        if not text:
            return cls(job, None, False)
        path = Path(text)
        if draws := text.endswith(os.sep) or path.is_dir():
            need_plots()
        elif path.suffix.lower() != ".json":
            fix = f"give report.json for a file, or figures{os.sep} for a directory with pictures, too"
            raise UsageError("TT402", f"--shadow {text}: it is neither *.json nor a directory", fix=fix)
        _refuse_overlaps(job, path)
        with _writing(path):
            (path if draws else path.parent).mkdir(parents=True, exist_ok=True)
            if not os.access(path if path.exists() else path.parent, os.W_OK):
                raise PermissionError(None, "permission is missing")
        return cls(job, path, draws)

    def run(self) -> Shadow:
        """After the run."""
        return shadow(self.job.flow, self.job.inputs, order=self.job.order, drain=self.job.drain)

    def write(self, report: Shadow) -> list[Path]:
        """Write a report, and draw it. Returns what was written. Raises :class:`UsageError` ``TT402``."""
        if self.path is None:
            return []
        file = self.path / NAME if self.draws else self.path
        with _writing(file):
            file.write_text(report.json() + "\n", encoding="utf-8")
        return [file, *(report.figures(self.path) if self.draws else ())]


NAME: Final = "shadow.json"
"""Of the report, beside pictures."""


def _refuse_overlaps(job: RunRequest, path: Path) -> None:
    """Whoever reads an input or an output must not find a report there, unless its name hides it. Raises :class:`UsageError`
    ``TT222``."""
    from tracetypes.compiler.store.overlap import is_file, local, refuse_overlaps

    inputs = {name: one for name, one in job.inputs.items() if isinstance(one, str) and is_file(one)}
    refuse_overlaps(inputs, {"the report of --shadow": os.path.abspath(path)})
    real = Path(os.path.realpath(path))
    checkpoint = job.places()[0] if job.home is not None or job.checkpoint is not None else None
    outputs = [place for one in job.paths.values() if is_file(one) and (place := local(one)) is not None]
    for place, what in [(one, "an output") for one in outputs] + [(checkpoint, "the checkpoint")]:
        there = None if place is None else Path(os.path.realpath(place))
        if there is None or not real.is_relative_to(there):
            continue
        if what == "the checkpoint" or not real.relative_to(there).parts[:1] or real.relative_to(there).parts[0][0] not in "_.":
            fix = f"write it elsewhere, such as to {there.parent / 'shadow'}{os.sep}"
            raise UsageError("TT222", f"--shadow {path} lies in {place}, which is {what} of the run", fix=fix)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        text = f"--shadow {path} cannot be written: {error.strerror or error}"
        raise UsageError("TT402", text, fix="give a place that can be written") from None


# -------------------------------------------------------------------------------------------------------- inputs


def _need_repeatable(checked: Checked, inputs: Mapping[str, Input]) -> None:
    """Raise :class:`UsageError` ``TT402`` for an input that cannot be read twice, or that is missing."""
    sources = [source.name for source in checked.graph.sources]
    for name in inputs:
        if name not in sources:
            raise UsageError("TT402", f"there is no source {name!r}", fix=f"the sources are {', '.join(sources)}")
    for name in sources:
        if name not in inputs:
            raise UsageError("TT402", f"source {name!r} has no input", fix=f"give --input {name}=PATH")
        one = inputs[name]
        if isinstance(one, Sequence) and not isinstance(one, str):
            continue
        with extras():
            from tracetypes.compiler.connectors.registry import connector_of
        address = os.fspath(one) if isinstance(one, os.PathLike) else one
        connector = connector_of(address)
        if not isinstance(address, str) or not connector.is_listed(address):
            what = address if isinstance(address, str) else f"a {type(one).__name__}"
            text = f"the shadow of a run reads its inputs again, row by row, and source {name!r} reads {what}"
            fix = "give files, such as a recorded part of it, or a list of rows; or leave the shadow out"
            raise UsageError("TT402", text, fix=fix)


def _arrangement(
    checked: Checked, inputs: Mapping[str, Input], orders: Mapping[str, Order], *, drain: bool
) -> dict[str, Arranged]:
    """What each source makes of its input."""
    rows = {name: one for name, one in inputs.items() if isinstance(one, Sequence) and not isinstance(one, str)}
    arranged = arrange_rows(checked, rows, drain=drain)
    for source in checked.graph.sources:
        if source.name not in rows:
            path = os.fspath(inputs[source.name])  # type: ignore[arg-type]  # what is neither rows nor a path was refused
            read = _rows_of_files(checked, source, path, orders.get(source.name, "name"))
            arranged[source.name] = arrange(source, read, drain=drain)
    return arranged


def _modified(path: str) -> int:
    """When a file was written; 0 if it is gone."""
    from tracetypes.compiler.connectors.files import state_of

    state = state_of(path)
    return 0 if state is None else state.modified


def _rows_of_files(checked: Checked, source: Source, path: str, order: Order) -> Iterator[Row]:
    """The rows of the files of a source, in order of arrival: file by file, as a run without ``--follow`` takes them."""
    with extras():
        from tracetypes.compiler.connectors.avro_file_rows import AvroFileReader
        from tracetypes.compiler.connectors.parquet_row_groups import RowGroups, tables
        from tracetypes.compiler.connectors.registry import connector_of
        from tracetypes.compiler.connectors.source_rows import row_taker
        from tracetypes.compiler.connectors.text_reader import TextReader
        from tracetypes.compiler.plan.plan import FromSource
        from tracetypes.compiler.store.source_files import SourceFiles
        from tracetypes.formats import Avro, Parquet
        from tracetypes.sources import reader
    stream = checked.streams[source.id]
    leaf = FromSource(source=source, layout=checked.layout(source), stream=stream, items=stream)
    files = SourceFiles(leaf, connector_of(path).path(path) or path, order)
    files.check_first()
    read = reader(source).read
    take = row_taker(leaf, read)

    def rows(name: str) -> Iterator[TakenRow]:
        if isinstance(files.format, Avro):
            yield from AvroFileReader(leaf, read).one_by_one(name)
            return
        if not isinstance(files.format, Parquet):
            yield from TextReader(leaf, files.format, files.header, read).one_by_one(name)
            return
        for table in tables(leaf, name):
            for group in table.parts if isinstance(table, RowGroups) else [table]:
                yield from take(group)

    for name in sorted(files.names, key=lambda one: files.place(one, _modified(one))):
        for one in rows(name):
            yield attrs.evolve(one.row, text=one.show()) if one.row.kind == "reject" else one.row
