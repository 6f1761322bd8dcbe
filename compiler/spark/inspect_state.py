"""What the state of a checkpoint holds, read from outside a run.

The state of each key group of a stage is one pickled :class:`StageState` in Spark's state store, which Spark's own source
``statestore`` reads as of the last micro-batch that was committed. A flow without stages in Spark has its state in the
commit record.

Which state store belongs to which stage: Spark numbers the stateful operators of a query from the sink upwards, each before
those that it reads from, and the inputs of a union from left to right (``IncrementalExecution`` walks the physical plan from
its root). So operator 0 is the last stage, by ``applyInPandasWithState``; the others are ``transformWithState``.

Unpickling runs what the bytes say. Only what :class:`Checkpoint` wrote is read; of a directory from somebody else a
``graph.json`` proves nothing.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import json
import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nsmallest
from pathlib import Path
from typing import Any

import attrs
from pyspark.sql import SparkSession

from tracetypes.algebra import ExactSum
from tracetypes.compiler.analysis.secret import Key
from tracetypes.compiler.columns.arrow import from_array
from tracetypes.compiler.columns.column import Column
from tracetypes.compiler.columns.conversion import values_of
from tracetypes.compiler.plan.fingerprint import Fingerprint, fingerprint
from tracetypes.compiler.plan.plan import Plan, Stage
from tracetypes.compiler.runtime.blocks import folded_by
from tracetypes.compiler.runtime.column_states import ColumnState
from tracetypes.compiler.runtime.messages import loads
from tracetypes.compiler.runtime.operators import UnorderedState
from tracetypes.compiler.runtime.state import OPEN, StageState
from tracetypes.compiler.spark.session import groups_to_ids
from tracetypes.compiler.store.compatibility import last_batch, queries_of
from tracetypes.compiler.store.small_files import read_json
from tracetypes.compiler.store.version import look
from tracetypes.errors import RunError, UsageError
from tracetypes.markers import Marker
from tracetypes.records import show

__all__ = [
    "Kept",
    "KeyState",
    "StageAbout",
    "StageSummary",
    "find_key",
    "open_all",
    "open_checkpoint",
    "operator_ids",
    "summaries",
]


@attrs.frozen
class StageAbout:
    """A stage as its checkpoint describes it. ``reads``: the earlier stages that feed it, from the left."""

    number: int
    operators: tuple[str, ...]
    reads: tuple[int, ...]


@attrs.frozen
class Kept:
    """A checkpoint. ``batch``: the last micro-batch that was committed. ``straight``: its state lies in the commit record."""

    path: Path
    run: str
    key_groups: int
    stages: tuple[StageAbout, ...]
    batch: int
    straight: bool

    def only(self, number: int | None) -> tuple[StageAbout, ...]:
        """The stage of a number, or all of them."""
        return tuple(stage for stage in self.stages if number is None or stage.number == number)

    def check(self, plan: Plan | None, program: Path) -> None:
        """Could a plan go on with the checkpoint (None: there is none of that name)? ``program``: where the run as a whole has
        its checkpoint. Raises :class:`RunError` ``TT211``."""
        known = Fingerprint.of(read_json(self.path / "graph.json")["graph"])
        names = {name: Path(directory).name for name, directory in (queries_of(program) or {}).items()}
        sends = "sink" not in known.kept
        wrong = (
            known.refused(fingerprint(plan, sends=sends, channels=names, key=Key.of(program)))
            if plan is not None
            else ["the dataflow has no query of that name"]
        )
        if wrong:
            raise RunError(
                "TT211",
                f"the checkpoint {self.path} belongs to another graph:\n    {wrong[0]}",
                fix="name the dataflow that was run with this checkpoint",
            )


def open_all(path: str, number: int | None = None) -> dict[str, Kept]:
    """The checkpoints of the queries of a run by name; a run of one query has no name for it. ``number``: of those that have
    such a stage. Raises :class:`UsageError` ``TT408`` as :func:`open_checkpoint` does, and where there is no such stage; of
    several queries, those that hold nothing yet are left out."""
    queries = {name: Path(path, directory) for name, directory in sorted((queries_of(Path(path)) or {}).items())}
    found: dict[str, Kept] = {}
    for name, query in queries.items():
        if last_batch(query, "commits") >= 0:
            found[name] = open_checkpoint(str(query))
    found = found or {"": open_checkpoint(str(next(iter(queries.values()), path)))}
    chosen = {name: kept for name, kept in found.items() if kept.only(number)}
    if not chosen:
        numbers = (f"{name} {stage.number}".strip() for name, kept in found.items() for stage in kept.stages)
        raise UsageError("TT408", f"{path} has no stage {number}", fix=f"its stages are {', '.join(numbers)}")
    return chosen


def open_checkpoint(path: str) -> Kept:
    """What a directory says of itself. Raises :class:`UsageError` ``TT408`` when it is no checkpoint of ours, or empty."""
    root = Path(path)
    look(root)
    try:
        about = json.loads((root / "graph.json").read_text())
        run, groups, stages = about["run"], Fingerprint.of(about["graph"]).kept["key groups"], about["stages"]
        if not re.fullmatch(r"\d+", groups) or not re.fullmatch(r"[0-9a-f]{8}", run):
            raise ValueError
        found = tuple(StageAbout(one["stage"], tuple(one["operators"]), tuple(one["reads"])) for one in stages)
    except FileNotFoundError as error:
        what = "no checkpoint: it has no graph.json" if root.is_dir() else "no directory"
        raise UsageError(
            "TT408", f"{path} is {what}", fix="give the --checkpoint of a run, or OUTPUT/_checkpoint"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise UsageError(
            "TT408",
            f"{path} is no checkpoint of this version: its graph.json is not what we write",
            fix="give the --checkpoint of a run, or OUTPUT/_checkpoint",
        ) from error
    done = [int(one.name) for one in (root / "spark" / "commits").glob("[0-9]*")]
    if not done:
        raise UsageError("TT408", f"{path} holds no state yet: no micro-batch has ended", fix="run the dataflow first")
    stores = [one for one in (root / "spark" / "state").glob("[0-9]*")]
    if stores and len(stores) != len(found):
        raise UsageError(
            "TT408",
            f"{path} has {len(found)} stages and {len(stores)} state stores",
            fix="give a checkpoint as a run left it",
        )
    return Kept(root, run, int(groups), found, max(done), not stores)


def operator_ids(stages: tuple[StageAbout, ...]) -> dict[int, int]:
    """Spark's number of the operator of each stage."""
    by_number = {stage.number: stage for stage in stages}
    order: list[int] = []

    def visit(number: int) -> None:
        order.append(number)
        for earlier in by_number[number].reads:
            visit(earlier)

    visit(stages[-1].number)
    return {number: id for id, number in enumerate(order)}


def _states(spark: SparkSession, kept: Kept, stage: StageAbout) -> Iterator[tuple[int, int, StageState]]:
    """Each key group of a stage with the size of its state in bytes, and the state."""
    for group, blob in _blobs(spark, kept, stage):
        try:
            state = loads(blob)
        except (ImportError, AttributeError, pickle.UnpicklingError) as error:
            raise UsageError(
                "TT408",
                f"the state of stage {stage.number} cannot be read: {error}",
                fix="name the dataflow that was run, FILE.py:NAME, behind the checkpoint: its classes are needed",
            ) from error
        if not isinstance(state, StageState):
            raise UsageError(
                "TT408",
                f"stage {stage.number} of {kept.path} holds {show(state)}, which is no state",
                fix="give a checkpoint as a run of this version left it",
            )
        yield group, len(blob), state


def _blobs(spark: SparkSession, kept: Kept, stage: StageAbout) -> Iterator[tuple[int, bytes]]:
    if kept.straight:
        record = read_json(kept.path / "commits" / f"{kept.batch:08d}.json")
        yield 0, base64.b64decode(record["state"])
        return
    id = operator_ids(kept.stages)[stage.number]
    reader = spark.read.format("statestore").option("operatorId", id).option("batchId", kept.batch)
    column = "value.groupState.state"
    if id:
        reader, column = reader.option("stateVarName", "state"), "value.state"
    groups = {id: group for group, id in enumerate(groups_to_ids(kept.key_groups))}
    frame = reader.load(str(kept.path.resolve() / "spark")).selectExpr("key.group AS id", f"{column} AS state")
    for row in frame.toLocalIterator():
        yield groups[row["id"]], bytes(row["state"])


# ------------------------------------------------------------------------------------------------ summaries


@attrs.frozen
class StageSummary:
    """What a stage holds. ``operators``: each with its number of keys, and whether it has them as columns in some key group.
    ``sizes``: bytes by key group. ``open``: ends of the open blocks for which something is held. ``closed``: the last marker
    that was closed. ``keys``: some of the ``distinct`` keys."""

    stage: StageAbout
    operators: tuple[tuple[str, int, bool], ...]
    sizes: Mapping[int, int]
    open: tuple[int, ...]
    closed: int | None
    distinct: int
    keys: tuple[Any, ...]

    @property
    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "stage": self.stage.number,
            "operators": [{"operator": name, "keys": keys, "columns": col} for name, keys, col in self.operators],
            "bytes": sum(self.sizes.values()),
            "groups": [{"group": group, "bytes": size} for group, size in self.sizes.items()],
            "closed": None if self.closed is None else _iso(self.closed),
            "open": [_iso(end) for end in self.open],
            "keys": [_plain(key) for key in self.keys],
        }

    def lines(self, limit: int) -> Iterator[str]:
        """For people. ``limit``: of blocks and key groups that are shown."""
        size, groups = sum(self.sizes.values()), len(self.sizes)
        closed = "no block closed yet" if self.closed is None else f"closed up to {_when(self.closed)}"
        yield f"stage {self.stage.number}: {size:,} bytes in {groups} key group{'' if groups == 1 else 's'}, {closed}"
        for name, keys, columns in self.operators:
            yield f"    {name}: {keys:,} key{'' if keys == 1 else 's'}{', as columns' if columns else ''}"
        if not self.operators:
            yield "    no operators: it closes blocks"
        if self.keys:
            yield f"    keys: {_listed([show(key) for key in self.keys], self.distinct)}"
        if self.open:
            yield f"    open blocks, by their end: {_listed([_when(end) for end in self.open[:limit]], len(self.open))}"
        shown = [f"{group}: {size:,}" for group, size in self.sizes.items()]
        yield f"    bytes by key group: {_listed(shown[:limit], len(shown))}"


def _listed(texts: list[str], total: int) -> str:
    return ", ".join(texts) + (f", and {total - len(texts):,} more" if len(texts) < total else "")


def summaries(spark: SparkSession, kept: Kept, number: int | None = None, *, keys: int = 10) -> Iterator[StageSummary]:
    """What each stage holds, or one of them. ``keys``: how many keys are named."""
    for stage in kept.only(number):
        sizes: dict[int, int] = {}
        counts = [0] * len(stage.operators)
        columns = [False] * len(stage.operators)
        ends: set[int] = set()
        distinct, some = 0, list[Any]()
        closed: list[int] = []
        for group, size, state in _states(spark, kept, stage):
            sizes[group] = size
            ends |= _open(state)
            closed += [] if state.closed is None else [state.closed]
            known: dict[Any, None] = {}
            for at, held in enumerate(state.operators):
                of_operator = _keys(held)
                counts[at] += len(of_operator)
                columns[at] = columns[at] or isinstance(held, ColumnState)
                known.update(dict.fromkeys(of_operator))
            distinct += len(known)
            some = nsmallest(keys, [*some, *known], key=repr)
        yield StageSummary(
            stage=stage,
            operators=tuple(zip(stage.operators, counts, columns, strict=True)),
            sizes=dict(sorted(sizes.items())),
            open=tuple(sorted(ends)),
            closed=max(closed, default=None),
            distinct=distinct,
            keys=tuple(some),
        )


def _keys(held: Any) -> list[Any]:
    """The keys of which an operator has a state."""
    match held:
        case ColumnState():
            return values_of(held.keys, held.count)
        case UnorderedState(states=states):
            return list(states)
        case dict():
            return list(held)
        case _:  # a sort
            return []


def _open(state: StageState) -> set[int]:
    """The ends of the blocks for which something is held."""
    ends = set(state.held)
    for column, _, _ in state.tables:
        ends.update(column.tolist())
    for held in state.operators:
        if isinstance(held, ColumnState):
            ends.update(end for one in held.held for end in one.ends.tolist())
    return ends


# --------------------------------------------------------------------------------------------------- a key


@attrs.frozen
class KeyState:
    """What is kept of a key: the state of an operator, or (``end``) what is held for a block that is open."""

    stage: int
    group: int
    key: Any
    value: Any
    operator: str | None = None
    end: int | None = None

    @property
    def plain(self) -> dict[str, Any]:
        """For JSON."""
        where = {"operator": self.operator} if self.end is None else {"open": _iso(self.end)}
        what = "state" if self.end is None else "held"
        return {"stage": self.stage, "group": self.group, "key": _plain(self.key), **where, what: _plain(self.value)}

    @property
    def line(self) -> str:
        """For people."""
        what = self.operator if self.end is None else f"held for the block that ends at {_when(self.end or 0)}"
        return f"stage {self.stage}, key group {self.group}, {what}: {show(self.value, 2_000)}"


def find_key(
    spark: SparkSession, queries: Mapping[str, Kept], text: str, number: int | None, plans: Mapping[str, Plan]
) -> Iterator[tuple[str, KeyState]]:
    """What the queries of a run keep of a key, which is given as text, as Python shows it or as JSON; each with the query's name.
    Raises :class:`UsageError` ``TT408``.

    ``plans``: where there is one, states that lie in columns are shown as the author's objects, else as their scalars.
    """
    matches = _matching(text)
    found, others = False, dict[Any, None]()
    stages = [(name, kept, stage) for name, kept in queries.items() for stage in kept.only(number)]
    for name, kept, stage in stages:
        plan = plans.get(name)
        planned = plan.stages[stage.number] if plan is not None else None
        for group, _, state in _states(spark, kept, stage):
            for one in _of_key(stage, group, state, matches, planned):
                found = True
                yield name, one
            others.update(dict.fromkeys(key for held in state.operators for key in _keys(held)[:3]))
    if not found:
        some = ", ".join(sorted(show(key) for key in others)[:5])
        raise UsageError(
            "TT408",
            f"nothing is kept of key {text}",
            fix=f"there are {some}, ...; give one as Python shows it, or as JSON" if some else "no key has a state",
        )


def _matching(text: str) -> Callable[[Any], bool]:
    try:
        wanted = json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        wanted = None

    def matches(key: Any) -> bool:
        return text in (str(key), repr(key)) or (
            wanted is not None and wanted == json.dumps(_plain(key), sort_keys=True)
        )

    return matches


def _of_key(
    stage: StageAbout, group: int, state: StageState, matches: Callable[[Any], bool], planned: Stage | None
) -> Iterator[KeyState]:
    blocks = dict(state.held)
    for name, held in zip(stage.operators, state.operators, strict=True):
        states = held
        if isinstance(held, ColumnState):
            folded = None if planned is None else folded_by(planned)
            states, more = _scalars(held) if folded is None else held.to_objects(folded.op.combine)
            blocks.update(more)
        elif isinstance(held, UnorderedState):
            states = held.states
        for key, value in (states or {}).items():
            if matches(key):
                yield KeyState(stage.number, group, key, value, operator=name)
    for ends, key_column, value_column in state.tables:
        keys, values = key_column.to_pylist(), value_column.to_pylist()
        if planned is not None:
            takes = planned.takes
            keys, values = from_array(takes.key, key_column), from_array(takes.value, value_column)
        for end, key, value in zip(ends.tolist(), keys, values, strict=True):
            blocks.setdefault(end, ([], []))
            blocks[end][0].append(key)
            blocks[end][1].append(value)
    for end, block in sorted(blocks.items()):
        found = [(key, value) for key, value in _pairs(block) if matches(key)]
        if found:
            values = [value for _, value in found]
            value = values[0] if isinstance(block, dict) else values
            yield KeyState(stage.number, group, found[0][0], value, end=end)


def _pairs(block: Any) -> Iterator[tuple[Any, Any]]:
    """Keys with what is held of them: aggregates, items, or items with their place."""
    match block:
        case dict():
            yield from block.items()
        case tuple():
            yield from zip(*block, strict=True)
        case _:
            yield from ((key, value) for _, key, value in block)


def _scalars(held: ColumnState) -> tuple[dict[Any, Any], dict[int, Any]]:
    """States and aggregates of columns as the tuples of their scalars; several aggregates of a key and block as they are."""
    states = dict(zip(values_of(held.keys, held.count), _tuples(held.parts, held.count), strict=True))
    blocks: dict[int, Any] = {}
    for one in held.held:
        keys, aggs = values_of(one.keys, len(one)), _tuples(one.parts, len(one))
        for end, key, agg in zip(one.ends.tolist(), keys, aggs, strict=True):
            block = blocks.setdefault(end, ([], []))
            block[0].append(key)
            block[1].append(agg)
    return states, blocks


def _tuples(columns: Sequence[Column], count: int) -> list[tuple[Any, ...]]:
    return list(zip(*(values_of(one, count) for one in columns), strict=True)) if columns else [()] * count


# -------------------------------------------------------------------------------------------------- values


def _when(end: int) -> str:
    """A marker as text."""
    return "a marker that has not come" if end >= OPEN else f"{Marker(end)!r} ({_iso(end)})"


def _iso(end: int) -> str | None:
    """A marker for JSON; None for one that has not come."""
    if end >= OPEN:
        return None
    try:
        return Marker(end).datetime.isoformat()
    except OverflowError:
        return repr(Marker(end))


def _plain(value: Any) -> Any:
    """Any value as JSON can hold it."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if value - value == 0 else str(value)
        case ExactSum():
            return _plain(value.value())
        case dt.datetime() | dt.date():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case dict() if all(isinstance(key, str) for key in value):
            return {key: _plain(one) for key, one in value.items()}
        case dict():
            return [[_plain(key), _plain(one)] for key, one in value.items()]
        case tuple() if hasattr(value, "_asdict"):
            return {key: _plain(one) for key, one in value._asdict().items()}
        case list() | tuple():
            return [_plain(one) for one in value]
        case set() | frozenset():
            return [_plain(one) for one in sorted(value, key=repr)]
        case _ if attrs.has(type(value)):
            return {field.name: _plain(getattr(value, field.name)) for field in attrs.fields(type(value))}
        case _ if dataclasses.is_dataclass(value):
            return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        case _:
            return show(value, 500)
