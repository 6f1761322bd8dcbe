"""A run with all its parameters: what it refuses before it starts, and how it starts on a backend."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

from tracetypes.calls import like, need_choice, need_inputs, need_limit, need_outputs, need_whole
from tracetypes.check import Checked
from tracetypes.compiler.backend.clock import Clock
from tracetypes.compiler.backend.compilation import compile_program, extras
from tracetypes.epochs import BatchFunction
from tracetypes.errors import UsageError
from tracetypes.formats import refuse_unwritten
from tracetypes.graph import Dataflow
from tracetypes.markers import InBand
from tracetypes.redaction import redact
from tracetypes.rejects import SideOutputRow
from tracetypes.results import Result

if TYPE_CHECKING:
    from tracetypes.compiler.backend.backend import Engine
    from tracetypes.compiler.backend.control import Control
    from tracetypes.compiler.backend.summary import Summary
    from tracetypes.compiler.plan.program import Program
    from tracetypes.compiler.store.locks import Locks
    from tracetypes.compiler.store.metrics import Batch

__all__ = ["Input", "RunRequest", "Sink"]

Input: TypeAlias = str | os.PathLike[str] | Iterable[Any]
"""What a source reads: a path, ``s3://BUCKET/KEY``, ``kafka://HOST:PORT/TOPIC``, ``delta:DIR``; a frame: an Arrow table, a
DataFrame of pandas or Polars, or another object that gives Arrow data; or rows: values, or pairs ``(key, value)`` where the rows
of the source have a key column. The local backend takes rows of an iterable without a length as they come."""

Sink: TypeAlias = str | os.PathLike[str] | list[Any] | BatchFunction
"""Where a sink writes: a directory, ``kafka://HOST:PORT/TOPIC``, ``delta:DIR``, ``-`` for standard output (JSON lines), ``noop:``
for nowhere; a list, to which values are appended, or pairs ``(key, value)`` where the rows have a key column; or a function
(:func:`tracetypes.each_batch`)."""


@attrs.define(eq=False)
class RunRequest:
    """A run with its parameters. Its construction refuses what can be refused before anything is read or written;
    :meth:`run` runs it. The parameters are those of :func:`run`; ``prometheus`` and other options of the command
    line are not among them. ``engine``: starts the backend. ``clock`` takes its phases, from now unless given."""

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
    overwrite: bool | partial[None] = attrs.field(default=False, kw_only=True)
    """Whether what an earlier run of the checkpoint wrote is removed first. A function gets what that is (an ``EarlierRun``); it
    raises to keep it."""
    channels: str | None = attrs.field(default=None, kw_only=True)
    engine: Engine = attrs.field(kw_only=True)
    program: Program = attrs.field(init=False)
    clock: Clock = attrs.field(factory=Clock, kw_only=True)
    paths: dict[str, str] = attrs.field(init=False)
    """Outputs that are no lists, by sink."""
    home: str | None = attrs.field(init=False)
    """The first output directory."""

    def __attrs_post_init__(self) -> None:
        need_inputs(self.inputs)
        need_outputs(self.outputs)
        need_whole("parallelism", self.parallelism)
        for what in ("key_groups", "files_per_step"):
            if getattr(self, what) is not None:
                need_whole(what, getattr(self, what))
        for what in ("drain", "follow", "verify"):
            need_choice(what, getattr(self, what))
        if not isinstance(self.overwrite, partial):
            need_choice("overwrite", self.overwrite)
        need_limit("max_late", self.max_late, part=True)
        need_limit("max_rejects", self.max_rejects)
        self.program = compile_program(
            self.flow, parallelism=self.parallelism, key_groups=self.key_groups, fuse=self.engine.fuses
        )
        self.clock.lap("plan")
        self.inputs = {name: _address(one) for name, one in self.inputs.items()}
        self.checkpoint, self.late, self.rejects = map(_place, (self.checkpoint, self.late, self.rejects))
        sinks = self.program.sinks
        for name in self.outputs:
            if name not in sinks:
                fix = like(name, sinks) or "give " + " ".join(f"--output {sink}=DIR" for sink in sinks)
                raise UsageError("TT402", f"there is no sink {name!r}", fix=fix)
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
            if name in self.inputs and not _is_listed(self.inputs[name]):
                raise UsageError(
                    "TT402", f"{option}: its input is no files of a disk or an object store", fix=f"leave {option} out"
                )
            if self.follow and order != "modified":
                raise UsageError(
                    "TT402", f"{option}: a run with --follow takes files as they come", fix="leave it or --follow out"
                )
            if order == "time" and isinstance(sources[name].markers, InBand):
                fix = f"give --order {name}=name"
                raise UsageError("TT402", f"{option}: its markers are in band, and its rows have no times", fix=fix)
        if not self.follow:
            here = {name for name in sources if _is_listed(self.inputs.get(name))}
            self.order = {**dict.fromkeys(here, "name"), **self.order}

    def _distinct(self) -> None:
        for sink, one in self.outputs.items():
            if isinstance(one, BatchFunction) and one.rows == "spark" and self.engine.backend != "spark":
                fix = "take an Arrow table, or run it on Spark"
                raise UsageError("TT402", f"the function of sink {sink!r} takes a DataFrame of Spark", fix=fix)
        places: dict[str, str] = {}
        for sink, path in self.paths.items():
            if path not in ("noop:", "-") and (other := places.setdefault(os.path.realpath(path), sink)) != sink:
                raise UsageError(
                    "TT402",
                    f"sinks {other!r} and {sink!r} have one output: {path}",
                    fix="give each a directory of its own",
                )
            if "://" in path and not _takes_rows(path):
                raise _no_output(path)
        formats = {plan.sink.name: plan.sink.format for plan in self.program.plans}
        for sink, path in self.paths.items():
            if (_is_directory(path) or _is_listed(path)) and formats.get(sink) is None:
                refuse_unwritten(path, sink)

    @property
    def keeps_nothing(self) -> bool:
        """Whether late and rejected rows are kept nowhere."""
        return bool(self.paths) and set(self.paths.values()) == {"noop:"} and len(self.paths) == len(self.outputs)

    def run(
        self,
        control: Control | None = None,
        on_batch: Callable[[Batch], None] | None = None,
        notify: Callable[[str], None] | None = None,
        status: Callable[[str], None] | None = None,
    ) -> Result:
        """Run it. ``on_batch`` is called after each epoch. ``notify`` is called with warnings, with changes since the run was
        stopped, and with what operators print, which otherwise goes to standard error. ``status`` is called with
        what the run is doing."""
        with extras():
            from tracetypes.compiler.store.locks import Locks
            from tracetypes.compiler.store.small_files import NO_SPACE, unwritable

        temporary: str | None = None
        try:
            if self.checkpoint is None and self.home is None:
                functions = any(isinstance(one, BatchFunction) for one in self.outputs.values())
                if any(path not in ("-", "noop:") for path in self.paths.values()) or self.keeps_nothing or functions:
                    what = ", ".join([*self.paths.values(), *(["a function"] if functions else [])])
                    raise UsageError("TT402", f"{what} keeps no checkpoint", fix="give --checkpoint DIR")
                temporary = tempfile.mkdtemp(prefix="tracetypes-")
            with Locks() as locks:
                return self._run(locks, temporary, control, on_batch, notify, status)
        except OSError as error:
            if error.errno in NO_SPACE:
                raise unwritable(Path(error.filename or self.places(temporary)[0]), error) from error
            raise
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
        home = (self.home or (checkpoint if temporary is None else temporary)).rstrip("/")
        return checkpoint, self.late or f"{home}/_late", self.rejects or f"{home}/_rejects"

    def _run(
        self,
        locks: Locks,
        temporary: str | None,
        control: Control | None,
        on_batch: Callable[[Batch], None] | None,
        notify: Callable[[str], None] | None,
        status: Callable[[str], None] | None,
    ) -> Result:
        with extras():
            from tracetypes.compiler.backend.backend import refuse_unsupported
            from tracetypes.compiler.backend.checkpoint_address import refuse_checkpoint
            from tracetypes.compiler.backend.control import Control
            from tracetypes.compiler.backend.run import run_program
            from tracetypes.compiler.backend.run_options import Places, RunOptions
            from tracetypes.compiler.backend.run_outputs import RunOutputs
            from tracetypes.compiler.backend.summary import Limits
            from tracetypes.compiler.connectors.program_rows import in_program
            from tracetypes.compiler.connectors.registry import connector_of
            from tracetypes.compiler.store.compatibility import refuse
            from tracetypes.compiler.store.overlap import is_listed, refuse_overlaps
            from tracetypes.compiler.store.places import place_of
            from tracetypes.compiler.store.takeover import home_of
            from tracetypes.compiler.store.topic_channel import Topics
            from tracetypes.compiler.store.version import look

        _need_sources(self.program.sources, self.inputs)
        refuse_unsupported(self.program.name, self.engine.unsupported(self.inputs))
        inputs = {
            name: one if isinstance(one, str) else in_program(one)
            for name, one in self.inputs.items()
        }
        channels = Topics.of(self.channels) if self.channels else None
        checkpoint, late, rejects = self.places(temporary)
        gated = any(segment.gate is not None for segment in self.program.segments)
        refuse_checkpoint(checkpoint, self.engine.backend, gated=gated, overwrites=self.overwrite is not False)
        place = place_of(checkpoint)
        outputs = {f"the output of sink {sink!r}": path for sink, path in self.paths.items() if path != "-"}
        outputs |= {"the checkpoint": checkpoint, "the directory of late items": late}
        outputs |= {"the directory of rejects": rejects}
        refuse_overlaps({name: one for name, one in inputs.items() if isinstance(one, str)}, outputs)
        if self.overwrite is False:
            look(home_of(place))
        for source, one in inputs.items():
            if isinstance(one, str):
                connector_of(one).look_for(source, one)
        locks.take(place, "the checkpoint")
        for path in self.paths.values():
            if _is_directory(path):
                locks.take(Path(path), "the output directory")
        if self.overwrite is not False and temporary is None:
            self._remove(locks, Path(checkpoint), (Path(late), Path(rejects)))
        paths = {name: one for name, one in inputs.items() if isinstance(one, str) and is_listed(one)}
        refuse(home_of(place), self.program, self.engine.log, paths, appended=self.appended == "read")
        if self.paths and not self.keeps_nothing:
            locks.take(place_of(late), "the directory of late items")
            locks.take(place_of(rejects), "the directory of rejects")
        # py4j logs tracebacks there; our own messages say what it was
        logging.getLogger().addHandler(logging.NullHandler())
        say = status or (lambda _: None)
        say(f"starting {self.engine.name}")
        control = control or Control(starts=True)
        self.clock.lap("checks")
        opened = RunOutputs(self.engine, self.outputs, place, late, rejects, any(self.kept))
        with ExitStack() as stack:
            with control.of_signals():
                show = notify or partial(print, file=sys.stderr)
                backend = stack.enter_context(self.engine.started(self.program.width, show))
            control.starts = False
            self.clock.lap(f"start of {self.engine.name}")
            say("running; Ctrl-C stops, and the same command goes on")
            places = Places(
                inputs=inputs,
                outputs={sink: partial(opened.opened, sink) for sink in self.outputs},
                checkpoint=checkpoint,
                side_outputs=opened.side_outputs,
                topics=channels,
            )
            options = RunOptions(
                drain=self.drain,
                follow=self.follow,
                files_per_step=self.files_per_step,
                orders=self.order or {},
                appended=self.appended == "read",
                verify=self.verify,
                limits=Limits(self.max_late, self.max_rejects),
            )
            summary = run_program(
                backend,
                self.program,
                places,
                options,
                on_batch=on_batch,
                notify=notify or partial(_loud, goes_on=temporary is None),
                locks=locks,
                control=control,
                clock=self.clock,
            )
        self.clock.end()
        result = self._result(summary, opened.late_rows, opened.rejected_rows, control)
        for source in result.all_rejected:
            one = next((f": {row.reason}" for row in opened.rejected_rows if row.source == source), "")
            count = result.read[source]
            which = "the only row" if count == 1 else f"each of the {count:,} rows"
            (notify or _loud)(
                f"TT241 {which} of source {source!r} was rejected{one}\n"
                "    fix:      see their reasons; declare the source as its rows are, and take another --checkpoint and output"
            )
        return result

    def _remove(self, locks: Locks, checkpoint: Path, side_outputs: tuple[Path, Path]) -> None:
        """Remove what an earlier run of the checkpoint wrote."""
        from tracetypes.compiler.store.earlier_run import earlier_run

        for place, what in zip(side_outputs, ("the directory of late items", "the directory of rejects"), strict=True):
            if place.is_dir():
                locks.take(place, what)
        homes = [Path(path) for path in self.paths.values() if _is_directory(path)]
        found = earlier_run(checkpoint, homes, side_outputs)
        if found:
            if isinstance(self.overwrite, partial):
                self.overwrite(found)
            found.remove()

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
            all_rejected=summary.all_rejected,
            open=dict(summary.open),
            faster=tuple(summary.faster),
            gates=dict(summary.gates),
            spent=dict(self.clock.spent),
            backend=self.engine.backend,
            places=dict(self.paths),
        )


def _need_sources(sources: Iterable[str], inputs: Mapping[str, object]) -> None:
    """Check that every source has an input, and every input a source. Raises :class:`UsageError` ``TT402``."""
    names = set(sources)
    for name in sorted(set(inputs) - names):
        fix = like(name, names) or f"the sources are {', '.join(sorted(names))}"
        raise UsageError("TT402", f"there is no source {name!r}", fix=fix)
    for name in sorted(names - set(inputs)):
        raise UsageError("TT402", f"source {name!r} has no input", fix=f"give --input {name}=PATH")


def _loud(text: str, *, goes_on: bool = False) -> None:
    """Warnings of a run that nobody else hears; and what its sources promise, if its checkpoint stays, so that it can go on."""
    if text.startswith("TT") or (goes_on and text.startswith("source ")):
        print(redact(text), file=sys.stderr)


def _address(value: Any) -> Any:
    """An input or output. A path is that of the call, wherever the process goes while the run starts."""
    from tracetypes.compiler.connectors.registry import connector_of

    address = os.fspath(value) if isinstance(value, os.PathLike) else value
    return connector_of(address).absolute(address) if isinstance(address, str) else address


def _place(value: str | os.PathLike[str] | None) -> str | None:
    """A directory that the run keeps."""
    path = None if value is None else os.fspath(value)
    return path if path is None or "://" in path else os.path.abspath(path)


def _is_directory(path: str) -> bool:
    from tracetypes.compiler.connectors.registry import connector_of

    return connector_of(path).is_directory


def _is_listed(address: object) -> bool:
    from tracetypes.compiler.connectors.registry import connector_of

    return isinstance(address, str) and connector_of(address).is_listed(address)


def _no_output(path: str) -> UsageError:
    """The error for an address that nothing is written to."""
    from tracetypes.compiler.connectors.installed import FILE_SYSTEMS

    scheme = path.partition("://")[0]
    if scheme in FILE_SYSTEMS:
        return UsageError("TT402", f"--output {path} is not local", fix="give a directory of a local or mounted disk")
    fix = "write files, s3://, gs://, az://, kafka://, delta:, postgres://, mqtt:// or tcp://, and load them there"
    return UsageError("TT402", f"--output {path}: nothing is written to {scheme}://", fix=fix)


def _takes_rows(address: str) -> bool:
    from tracetypes.compiler.connectors.registry import connector_of

    return connector_of(address).takes_rows(address)
