"""Compatibility of plans and checkpoints: a plan begins a new checkpoint, goes on with one, or is refused with the list
of changes (:mod:`..fingerprint`).

::

    CHECKPOINT/graph.json      of one query: the run's name, its fingerprint, its stages, and those of graphs before it
    CHECKPOINT/program.json    of several queries: where each lies, by the name that it has in the graph

A sink's query is found by the sink's name. A channel's query is found by its content first, then by its name: equal
names of channels get numbers, so a new channel may take the name of another.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Protocol, TypeAlias

import attrs

from tracetypes.compiler.analysis.secret import HIDDEN, Key
from tracetypes.compiler.graph.segments import Segment
from tracetypes.compiler.plan.fingerprint import Fingerprint, described, fingerprint
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.program import Program
from tracetypes.compiler.store.input_files import unread
from tracetypes.compiler.store.places import Place
from tracetypes.compiler.store.secret_key import keep_key, key_of
from tracetypes.compiler.store.small_files import damaged, read_json, read_own, writable, write_json
from tracetypes.compiler.store.version import look, stamp
from tracetypes.errors import RunError

__all__ = [
    "CompatibleCheckpoint",
    "CompatibleCheckpoints",
    "EpochLog",
    "Logs",
    "backend_of",
    "checkpoints_of",
    "claim",
    "claim_all",
    "finished_run",
    "queries_of",
    "refuse",
    "refuse_finished",
]

MOST = 12
"""How many changes are named."""


class EpochLog(Protocol):
    """A backend's record of the epochs of a query. Some epochs that it has not ended may be answered, which the run
    store knows. ``backend``: its name."""

    @property
    def backend(self) -> str:
        """The name of the backend, which a checkpoint has for good."""

    @property
    def begun(self) -> int:
        """The last epoch that was begun; -1 for none."""

    @property
    def ended(self) -> int:
        """The last epoch that is over for the backend; -1 for none."""

    def refuse(self, old: Fingerprint, new: Fingerprint) -> None:
        """Raise :class:`UsageError` ``TT402`` for a change that a plan may make, but that the backend cannot make."""


Logs: TypeAlias = Callable[[Place], EpochLog]
"""What a backend keeps of a query in a checkpoint."""


@attrs.frozen
class CompatibleCheckpoint:
    """A directory that a plan may use as its checkpoint. ``known``: the content of its ``graph.json``, None if it is
    new. ``changed``: the changes of the plan. ``key``: of secrets, which is stored in ``home``. ``log``: the
    backend's."""

    path: Place
    graph: Fingerprint
    stages: list[dict[str, Any]]
    known: dict[str, Any] | None
    key: Key
    home: Place
    log: EpochLog
    changed: tuple[str, ...] = ()
    run: str = attrs.field(
        init=False,
        default=attrs.Factory(lambda self: str(self.known["run"]) if self.known else uuid.uuid4().hex[:8], takes_self=True),
    )
    """The name of the run."""

    @property
    def finished(self) -> bool:
        """Whether the run has answered the end of its sources."""
        return read_own(self.path / "finished", self.run) is not None

    def refuse_on_backend(self) -> None:
        """Raise :class:`UsageError` ``TT402`` for a change that its backend cannot make."""
        if self.changed and self.known is not None:
            self.log.refuse(Fingerprint.of(self.known["graph"]), self.graph)

    def write(self) -> None:
        """Take the directory for this plan. Raises :class:`RunError` ``TT209``."""
        writable(self.path)
        keep_key(self.key, self.home)
        stamp(self.path)
        mine = {"graph": self.graph.plain, "stages": self.stages}
        if self.known is None:
            write_json(self.path / "graph.json", {"run": self.run, "backend": self.log.backend, **mine, "before": []})
        elif self.changed:
            old = {"graph": self.known["graph"], "stages": self.known["stages"]}
            ended = [*self.known["before"], old | {"until": self.log.ended + 1}]
            write_json(self.path / "graph.json", {"run": self.run, "backend": self.log.backend, **mine, "before": ended})


def claim(path: Place, plan: Plan, logs: Logs) -> CompatibleCheckpoint:
    """A checkpoint for a plan that runs alone. Raises :class:`RunError` ``TT211`` and :class:`UsageError` ``TT402``."""
    key = key_of(path)
    checkpoint, refused = _compared(path, plan, fingerprint(plan, key=key), key, path, logs)
    _refuse(path, refused)
    checkpoint.refuse_on_backend()
    _not_between(checkpoint)
    return checkpoint


def _known(path: Place) -> dict[str, Any] | None:
    look(path)
    known = read_json(path / "graph.json")
    if known is None:
        _nothing_of_a_run(path, "graph.json", ("commits", "local"))
        return None
    try:
        Fingerprint.of(known["graph"])
        known["run"], known["stages"], known["before"]
    except (KeyError, TypeError) as error:
        raise RunError(
            "TT211",
            f"the checkpoint {path} was made by another version",
            fix="go on with that version, or start anew with another --checkpoint and output",
        ) from error
    return known


def _nothing_of_a_run(path: Place, name: str, others: Sequence[str]) -> None:
    """Refuse a directory in which a record is gone and others are there. A new run would write all rows again."""
    there = [one for one in others if (path / one).is_dir() and any((path / one).iterdir())]
    if there:
        raise damaged(path / name, f"it is gone, and {' and '.join(there)} are there", "the name of the run and its plan")


def backend_of(graph: Mapping[str, Any]) -> str:
    """The backend that made a checkpoint, from its ``graph.json``."""
    return str(graph.get("backend", "spark"))


def _compared(
    path: Place, plan: Plan, graph: Fingerprint, key: Key, home: Place, logs: Logs
) -> tuple[CompatibleCheckpoint, list[str]]:
    known = _known(path)
    if known is None:
        return CompatibleCheckpoint(path, graph, described(plan), None, key, home, logs(path)), []
    log = logs(path)
    if (backend := backend_of(known)) != log.backend:
        raise RunError(
            "TT211",
            f"the checkpoint {path} was made by the backend {backend!r}, and this run has {log.backend!r}",
            fix=f"give --backend {backend}, or another --checkpoint and output",
        )
    if not key.kept and HIDDEN in json.dumps(known["graph"]):
        raise RunError(
            "TT211",
            f"the checkpoint {path} compares secrets by {home / 'key'}, which is gone",
            fix="put the file back, or start anew with another --checkpoint and output",
        )
    old = Fingerprint.of(known["graph"])
    changed, refused = tuple(old.changed(graph)), old.refused(graph)
    return CompatibleCheckpoint(path, graph, described(plan), known, key, home, log, changed), refused


def _refuse(path: Place, changes: list[str]) -> None:
    if changes:
        more = [f"and {len(changes) - MOST} more"] if len(changes) > MOST else []
        raise RunError(
            "TT211",
            "\n    ".join([f"the checkpoint {path} cannot go on with this graph:", *changes[:MOST], *more]),
            fix="the graph as it was goes on; give a changed one another --checkpoint and output",
        )


def _not_between(checkpoint: CompatibleCheckpoint, channel: Place | None = None) -> None:
    """Refuse a change between the answer of a micro-batch and its state: one would be of the old graph, the other of the new."""
    number = checkpoint.log.ended + 1
    shown = [checkpoint.path / "commits" / f"{number:08d}.json"]
    shown += [] if channel is None else [channel / "manifests" / f"{number:08d}.jsonl"]
    if checkpoint.changed and any(one.exists() for one in shown):
        raise RunError(
            "TT211",
            f"the checkpoint {checkpoint.path} cannot go on with a changed graph yet: the graph as it was has answered "
            f"micro-batch {number}, and its state is still to come. Changed: {checkpoint.changed[0]}",
            fix="run the graph as it was once more, then the changed one",
        )


# ---------------------------------------------------------------------------------------------- several queries


@attrs.frozen
class CompatibleCheckpoints:
    """The checkpoints of the queries of a program below one directory, by segment. ``channels``: the place of channels.
    ``plain``: the content of ``program.json``, None for a single query, whose checkpoint is the directory itself."""

    root: Place
    queries: Mapping[str, CompatibleCheckpoint]
    channels: Mapping[str, Place]
    plain: dict[str, Any] | None
    changed: tuple[str, ...]

    def write(self) -> None:
        """Record where they are. Each is taken by itself."""
        if self.plain is None:
            return
        writable(self.root)
        stamp(self.root)
        about = self.root / "program.json"
        if read_json(about) != self.plain:
            write_json(about, self.plain)

    def run(self, prefix: str | None) -> str:
        """The name of the run, which is part of the names of its channels. ``prefix``: of their topics; None if they
        are files. Raises :class:`RunError` ``TT211`` if they were somewhere else, because their content would be
        lost."""
        note = self.root / "channels.json"
        content = read_json(note)
        if content is None:
            begun = any(claim.known is not None for claim in self.queries.values())
            content = {"run": uuid.uuid4().hex[:8], "topics": None if begun else prefix}
            write_json(note, content)
        if content["topics"] != prefix:
            raise RunError(
                "TT211",
                f"the checkpoint {self.root} has its channels in {_channels(content['topics'])}, not in {_channels(prefix)}",
                fix="give the --channels that it began with, or another --checkpoint and output",
            )
        return str(content["run"])


def _channels(prefix: str | None) -> str:
    return "files" if prefix is None else f"topics {prefix}-*"


def queries_of(root: Place) -> dict[str, str] | None:
    """The directories of the queries of a program by name. None if there is no program. Raises :class:`RunError`
    ``TT220``."""
    look(root)
    about = read_json(root / "program.json")
    if about is None:
        _nothing_of_a_run(root, "program.json", ("queries", "channels"))
    return None if about is None else about["queries"]


def refuse(root: Place, program: Program, logs: Logs, inputs: Mapping[str, str], *, appended: bool = False) -> None:
    """Raise what is wrong with a checkpoint before anything runs: :class:`RunError` ``TT211``, ``TT212``, ``TT220``,
    and ``TT230`` for a finished run. ``inputs``: local paths by source. Writes nothing."""
    refuse_finished(root, program, checkpoints_of(root, program, logs), inputs, appended=appended)


def refuse_finished(
    root: Place, program: Program, found: CompatibleCheckpoints, inputs: Mapping[str, str], *, appended: bool
) -> None:
    """Raise :class:`RunError` ``TT212`` for a finished run, or ``TT230`` if a file that it has read was changed.
    ``inputs``: local paths by source."""
    checkpoints = [found.queries[segment.name] for segment in program.segments]
    if all(one.finished for one in checkpoints):
        reasons = (
            unread(one.path, plan, inputs, appended=appended)
            for one, plan in zip(checkpoints, program.plans, strict=True)
        )
        path = next((path for path in reasons if path is not None), None)
        raise finished_run(root, "" if path is None else f", and {path} came after that")


def finished_run(checkpoint: Place, more: str = "") -> RunError:
    """The error for a finished run. ``more``: an addition to the message."""
    return RunError(
        "TT212",
        f"the run of checkpoint {checkpoint} is finished: it came to the end of its input, and everything was answered{more}",
        fix="give another --checkpoint and output for a new run, or --overwrite; use --no-drain for runs that go on later",
    )


def checkpoints_of(root: Place, program: Program, logs: Logs) -> CompatibleCheckpoints:
    """The checkpoints for a program. A single segment uses the directory itself, unless there were several. Raises
    :class:`RunError` ``TT211``; then nothing was written."""
    if len(program.segments) > 1 or queries_of(root) is not None:
        return claim_all(root, program, logs)
    alone = claim(root, program.plans[0], logs)
    return CompatibleCheckpoints(root, {program.segments[0].name: alone}, {}, None, alone.changed)


def claim_all(root: Place, program: Program, logs: Logs) -> CompatibleCheckpoints:
    """The checkpoints for a program. Raises :class:`RunError` ``TT211``; then nothing was written."""
    return _Matching(root, program, logs).run()


def _is_titled(name: str, title: str) -> bool:
    return name == title or (name.startswith(f"{title}-") and name.removeprefix(f"{title}-").isdecimal())


class _Matching:
    def __init__(self, root: Place, program: Program, logs: Logs) -> None:
        self.root, self.program, self.logs, self.key = root, program, logs, key_of(root)
        look(root)
        content = read_json(root / "program.json")
        if content is not None:
            pass
        elif (alone := _known(root)) is not None:  # it had one query, which lies at the top
            content = {"queries": {alone["graph"]["kept"]["sink"]: "."}, "gone": []}
        else:
            content = {"queries": {}, "gone": []}
        self.known: dict[str, str] = content["queries"]
        self.gone: list[str] = content["gone"]
        self.graphs = {name: _known(root / directory) for name, directory in self.known.items()}
        self.is_channel = {
            name: about is not None and "sink" not in about["graph"]["kept"] for name, about in self.graphs.items()
        }
        self.left = list(self.known)
        self.matched: dict[str, str] = {}
        """Names in the checkpoint by names in the graph."""
        self.refused: list[str] = []

    def run(self) -> CompatibleCheckpoints:
        plans = dict(self.program.named)
        self.match()
        queries: dict[str, CompatibleCheckpoint] = {}
        directories: dict[str, str] = {}
        changed: list[str] = []
        for segment in self.program.segments:
            directories[segment.name] = self.directory(segment, directories.values())
        names = {name: PurePath(directory).name for name, directory in directories.items()}
        for segment in self.program.segments:
            name = segment.name
            graph = fingerprint(plans[name], sends=segment.sends is not None, channels=names, key=self.key)
            checkpoint, refused = _compared(self.root / directories[name], plans[name], graph, self.key, self.root, self.logs)
            queries[name] = checkpoint
            self.refused += [f"query {name}, {line}" for line in refused]
            changed += [f"query {name}, {line}" for line in checkpoint.changed]
            if self.known and name not in self.matched:
                self.is_allowed(segment)
                changed.append(f"query {name} is new, and begins where its sources begin")
        _refuse(self.root, self.refused)
        for checkpoint in queries.values():
            checkpoint.refuse_on_backend()
        channels = {
            segment.sends: self.root / "channels" / names[segment.name]
            for segment in self.program.segments
            if segment.sends is not None
        }
        for segment in self.program.segments:
            _not_between(queries[segment.name], channels.get(segment.sends or ""))
        changed += [f"query {name} is gone; what it has answered stays" for name in self.left]
        gone = [*self.gone, *(PurePath(self.known[name]).name if self.known[name] != "." else name for name in self.left)]
        plain = {"queries": directories, "gone": gone}
        return CompatibleCheckpoints(self.root, queries, channels, plain, tuple(changed))

    def match(self) -> None:
        """Find the query in the checkpoint for each segment that has one."""
        for segment in self.program.segments:
            if segment.sends is None and segment.name in self.left:
                self.take(segment.name, segment.name)
        channels = [segment for segment in self.program.segments if segment.sends is not None]
        names = {segment.name: f"{segment.name}, which is new" for segment in channels}
        plans = dict(self.program.named)
        for segment in channels:
            plain = fingerprint(plans[segment.name], sends=True, channels=names, key=self.key).plain
            same = [old for old in self.left if (about := self.graphs[old]) is not None and about["graph"] == plain]
            if same:
                self.take(segment.name, segment.name if segment.name in same else same[0])
                names[segment.name] = PurePath(self.known[self.matched[segment.name]]).name
        for segment in channels:
            if segment.name in self.left and self.graphs[segment.name] is None:
                self.take(segment.name, segment.name)  # the first start ended before it was there
            if segment.name not in self.matched:
                news = [one for one in channels if one.title == segment.title and one.name not in self.matched]
                olds = [old for old in self.left if self.is_channel[old] and _is_titled(old, segment.title)]
                if len(news) == len(olds) == 1:
                    self.take(segment.name, olds[0])
                elif olds:
                    those = ", ".join(olds)
                    self.refused.append(f"query {segment.name} may be any of those that were {those}")

    def take(self, name: str, old: str) -> None:
        self.matched[name] = old
        self.left.remove(old)

    def directory(self, segment: Segment, others: Iterable[str]) -> str:
        """The directory of a query, which may not exist yet."""
        if segment.name in self.matched:
            return self.known[self.matched[segment.name]]
        used = {PurePath(one).name for one in (*self.known.values(), *others)} | set(self.gone)
        name, count = segment.name, 1
        while name in used:
            count += 1
            name = f"{segment.name}-{count}"
        return f"queries/{name}"

    def is_allowed(self, segment: Segment) -> None:
        """Whether a query may be added."""
        if segment.name in self.gone:
            self.refused.append(f"query {segment.name} was taken away before: give its sink another name")
        old = [name for name in segment.receives if name in self.matched]
        if old:
            self.refused.append(
                f"query {segment.name} is new, and reads channel {old[0]!r}, which need not hold any longer what went "
                "through it before"
            )
