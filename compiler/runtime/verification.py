"""Compares traced answers with plain Python, on a sample of the rows of a run.

If an operator runs as columns, the author's own method is called for the first rows of each worker, and later for one
row in :attr:`Plan.verify_every`: one of each so many, and when some have been compared, several of a longer window at a time. The
place of a row in its source decides whether it is compared, so a retry compares the same rows. If the two answers differ,
:class:`Difference` ends the epoch before anything of it is committed, and the run repeats it with :func:`in_python`.

The Python side sees only the fields that the tracer saw the operator read. If it touches another field, that is a
difference too, because the traced answer cannot depend on it. Tables outside the dataflow are not asked again.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, count
from typing import Any, Final, final

import attrs
import numpy as np

from tracetypes.canonical import mix
from tracetypes.compiler.analysis.keyed import Keyed
from tracetypes.compiler.analysis.monoids import Monoid
from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.columns.column import Column, Columns, bare_kind, take, take_column
from tracetypes.compiler.columns.conversion import values_of
from tracetypes.compiler.columns.evaluation import Emissions
from tracetypes.compiler.columns.groups import Groups
from tracetypes.compiler.columns.runs import Numbers, array_of_numbers
from tracetypes.compiler.plan.in_python import names_of
from tracetypes.compiler.plan.plan import FromSource, Plan, Stage, StatelessStep, Step
from tracetypes.compiler.runtime.answers import Outcome, PythonEmissions, alike, all_alike, emissions_by_row, outcome
from tracetypes.compiler.runtime.choosing import SeenChoice
from tracetypes.compiler.runtime.column_states import ClosedKeys
from tracetypes.compiler.runtime.flows import Flow, Inputs, Seen
from tracetypes.compiler.runtime.messages import Difference, Message, Verified
from tracetypes.compiler.runtime.partial_aggregation import SeenSums, objects, reduce_part
from tracetypes.compiler.runtime.sampled_arguments import UNSEEN, Reads
from tracetypes.compiler.runtime.watch import DEAR, ROWS, Watch
from tracetypes.compiler.tracing.expr import Tree
from tracetypes.conformance import key_conformer
from tracetypes.markers import Marker
from tracetypes.nodes import Apply, Sort
from tracetypes.records import Float, Schema
from tracetypes.silence import periods_in
from tracetypes.templates import Operator, OpKeyedOrdered, OpKeyedUnordered
from tracetypes.trace import StreamType

__all__ = [
    "ALONE",
    "APART",
    "COMBINED",
    "FIRST",
    "TOGETHER",
    "Verifier",
    "verified",
]

FIRST: Final = 20
"""The first rows of each operator that a worker looks at."""

ALONE: Final = 64
"""Rows of an operator in each worker, behind the first ones, of which each has a window of its own."""

TOGETHER: Final = 32
"""Rows that are compared together after these. To look at a batch at all costs as much as to compare ten rows of it."""

APART: Final = 1_009
"""How far from one of these rows the next is; behind the end of the window they go on at its start. It is prime, so no two are
the same row."""

COMBINED: Final = 16
"""Of so many rows that are lifted, one is combined with others of its key."""

GROUP: Final = 16
"""The most items of one key that are combined in both ways."""

NEAR: Final = 4_096
"""How far from an item others of its key are looked for."""

PART: Final = 0.003
"""Of the processor time of a process, what laws may take behind the first rows."""

SHOWN: Final = 300
"""Characters of an item or answer in a message."""


# --------------------------------------------------------------------------------------------------- sampling


def verified(verifier: Verifier | None) -> Iterator[Message]:
    """How much was compared since the last call. Judges what was kept for that first: raises :class:`LawBroken`."""
    if verifier is None:
        return
    for watch in verifier.watches.values():
        watch.judge()
    if verifier.rows:
        rows, seconds = verifier.counted()
        yield Message(0, Verified(rows, round(seconds, 6)))


@final
class Verifier:
    """Compares the answers of a plan's operators as columns with their answers in Python. A worker keeps one for each
    of its tasks: the first rows are those that it sees first.

    ``rows``: the number of rows compared since the last call of :meth:`counted`. ``seconds``: of processor time for
    that.
    """

    def __init__(self, plan: Plan) -> None:
        self.every, self.names = plan.verify_every, names_of(plan)
        self.left: dict[str, int] = {}
        self.passed: dict[str, int] = {}
        self.ahead: dict[str, tuple[int, Iterator[int]]] = {}
        self.alone: dict[str, int] = {}
        self.reads: dict[int, Reads] = {}
        self.watches: dict[str, Watch] = {}
        periods = () if plan.channels else periods_in((leaf.source, ()) for leaf in plan.sources)
        self.period = min(periods, default=None)
        self.place = 0
        self.rows, self.seconds = 0, 0.0
        self.spent, self.began = 0.0, time.process_time()

    @classmethod
    def of(cls, plan: Plan) -> Verifier | None:
        """A verifier for a plan, or None if the plan is not to be verified."""
        return cls(plan) if plan.verify_every else None

    def start(self, *place: int) -> None:
        """The following rows are at this place: a source split, or a key group and its epoch."""
        self.place = 0
        for part in place:
            self.place = mix(self.place ^ part)
        self.passed.clear()
        self.ahead.clear()

    def counted(self) -> tuple[int, float]:
        """Rows and seconds since the last call."""
        counts = self.rows, self.seconds
        self.rows, self.seconds = 0, 0.0
        return counts

    def pick(self, name: str, count: int, first: int = FIRST) -> Any | None:
        """Which of the next rows of an operator are compared: int64, ascending; None for none. ``first``: of its first rows,
        how many."""
        start = self.passed.get(name, 0)
        end = self.passed[name] = start + count
        left = self.left.get(name, first)
        if name in self.ahead:
            due, places = self.ahead[name]
        else:
            together = 1 if self.alone.get(name, ALONE) else TOGETHER
            places = self._places(self.place ^ zlib.crc32(name.encode()), together)
            due = next(places)
        rows = list(range(min(left, count)))
        if rows:
            self.left[name] = left - len(rows)
        behind = len(rows)
        while due < end:
            if due - start >= behind:
                rows.append(due - start)
            due = next(places)
        if more := len(rows) - behind:
            self.alone[name] = max(0, self.alone.get(name, ALONE) - more)
        self.ahead[name] = due, places
        if not rows:
            return None
        self.rows += len(rows)
        return np.array(rows, np.int64)

    def _places(self, seed: int, together: int) -> Iterator[int]:
        """The places of the rows that are compared, ascending: of each window as many as are compared together."""
        size = together * self.every
        for window in count():
            start, at = window * size, mix(seed + window) % size
            steps = range(at, at + together * APART, APART)
            yield from (start + step for step in (steps if steps[-1] < size else sorted(step % size for step in steps)))

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the processor time of a comparison."""
        before = time.thread_time()
        try:
            yield
        finally:
            seconds = time.thread_time() - before
            self.seconds += seconds
            self.spent += seconds

    # ---------------------------------------------------------------------------------------------- laws

    def watch(self, op: Operator, takes: StreamType, gives: StreamType, declared: Operator | None = None) -> Watch:
        """Who checks the laws of an operator. ``declared``: the author's, where another one runs in place of it."""
        name = self.names[id(op)]
        if name not in self.watches:
            self.watches[name] = Watch(name, op, declared or op, takes, gives, self)
        return self.watches[name]

    def keyed(self, step: Step) -> Watch | None:
        """Who checks the laws of a keyed operator."""
        op, declared = step.operator, step.node.op if isinstance(step.node, Apply) else None
        if not isinstance(op, OpKeyedOrdered | OpKeyedUnordered) or not isinstance(declared, OpKeyedOrdered | OpKeyedUnordered):
            return None
        return self.watch(op, step.takes, step.gives, declared)

    def combining(self, stage: Stage) -> Watch | None:
        """Who checks the laws of the operator that combines the items of a stage."""
        step = stage.steps[0] if stage.steps else None
        return self.keyed(step) if step is not None and isinstance(step.operator, OpKeyedUnordered) else None

    def pick_laws(self, name: str, count: int, first: int = ROWS) -> Any | None:
        """Which of the next rows of an operator the laws are checked on: its first ones, and later as many as cost little."""
        begins = self.left.get(name, first) > 0
        rows = self.pick(name, count, first)
        if rows is None or self.affords(DEAR if begins else 0.0):
            return rows
        self.rows -= len(rows)
        return None

    def affords(self, seconds: float) -> bool:
        """Whether less processor time was spent than this, or than a small part of that of the process."""
        return self.spent < seconds or self.spent < PART * (time.process_time() - self.began)

    # ----------------------------------------------------------------------------------------- operators

    def along(self, path: Sequence[StatelessStep]) -> Seen:
        """A function that sees the items of a path at each of its traced operators."""
        reads = [None if isinstance(m.traced, Opaque) else Reads.of(m.traced) for m in path]
        names = [self.names[id(mapped.node.op)] for mapped in path]
        emitters = [PythonEmissions(mapped.op, mapped.stream) for mapped in path]

        def seen(at: int, flow: Flow, emitted: Sequence[Emissions]) -> None:
            read = reads[at]
            rows = None if read is None or read.asks else self.pick(names[at], flow.count)
            if rows is not None and read is not None:
                with self.timed():
                    self.stateless(names[at], path[at], read, flow, emitted, emitters[at], rows)

        return seen

    def stateless(
        self,
        name: str,
        mapped: StatelessStep,
        read: Reads,
        flow: Flow,
        emitted: Sequence[Emissions],
        python: PythonEmissions,
        rows: Any,
    ) -> None:
        """Compare the emissions of an operator for some rows."""
        on_item, takes = mapped.op.on_item, mapped.takes
        traced, count = emissions_by_row(emitted, rows), len(rows)
        sample = read.sample(flow.inputs, rows)
        keys, values = sample.arguments(takes.key, ("key",), count), sample.arguments(takes.value, ("value",), count)
        answers = [python.of(on_item, key, value) for key, value in zip(keys, values, strict=True)]
        self.compare_all(name, "on_item", traced, answers, sample.shown)

    def key(
        self, leaf: FromSource, function: Callable[[Any], Any], tree: Tree, inputs: Inputs, keys: Columns, count: int
    ) -> None:
        """Compare the keys of ``key=`` of a source, after their conversion."""
        fit = key_conformer(leaf.items.key)
        self.function(leaf, "key", lambda value: fit(function(value)), tree, inputs, keys, count)

    def function(
        self,
        leaf: FromSource,
        argument: str,
        function: Callable[[Any], Any],
        tree: Tree,
        inputs: Inputs,
        results: Columns,
        count: int,
    ) -> None:
        """Compare the results of a function of a source's values. ``results``: for all rows, by the tree."""
        self.asked(self.names[id(leaf.source)], argument, function, tree, inputs, results, count, leaf.items.value)

    def asked(
        self,
        name: str,
        argument: str,
        function: Callable[[Any], Any],
        tree: Tree,
        inputs: Inputs,
        results: Columns,
        count: int,
        schema: Schema,
    ) -> None:
        """Compare the results of a function of values of a schema."""
        rows = self.pick(f"{name} {argument}", count)
        if rows is None:
            return
        read = self.reads.get(id(tree)) or self.reads.setdefault(id(tree), Reads.of(tree))
        if read.asks:
            return
        with self.timed():
            sample, traced = read.sample(inputs, rows), values_of(take(results, rows), len(rows))
            answers = [outcome(function, value) for value in sample.arguments(schema, ("value",), len(rows))]
            self.compare_all(name, argument, traced, answers, sample.shown)

    def sorting(self, node: Sort, tree: Tree, schema: Schema) -> Callable[[Inputs, Columns, int], None]:
        """A function that sees what the function of a sort gives."""
        name = self.names[id(node)]

        def seen(inputs: Inputs, places: Columns, count: int) -> None:
            self.asked(name, "by", node.by, tree, inputs, places, count, schema)

        return seen

    # ------------------------------------------------------------------------------------- keyed operators

    def choosing(self, stage: Stage) -> SeenChoice | None:
        """A function that sees what is asked of items to choose those that the first operator of a stage needs."""
        node = stage.steps[0].node if stage.steps else None
        op = node.op if isinstance(node, Apply) else None
        if not isinstance(op, OpKeyedUnordered):
            return None
        name = self.names[id(op)]

        def seen(function: Callable[[Any], Any], tree: Tree, inputs: Inputs, results: Columns, count: int) -> None:
            self.asked(name, "chooses", function, tree, inputs, results, count, stage.takes.value)

        return seen

    def sums(self, stage: Stage) -> SeenSums | None:
        """A function that sees items while they are combined for the first operator of a stage."""
        node = stage.steps[0].node if stage.steps else None
        op = node.op if isinstance(node, Apply) else None
        if not isinstance(op, OpKeyedUnordered):
            return None
        name, reads, watch = self.names[id(op)], dict[int, Reads](), self.combining(stage)

        def seen(
            monoid: Monoid,
            flow: Flow,
            ends: Numbers,
            key: Columns,
            lifted: Sequence[Column],
            groups: Groups,
            columns: Sequence[Column],
        ) -> None:
            read = reads.setdefault(id(monoid), Reads.of(monoid.lift))
            if watch is not None and watch.equations and not read.asks:
                with self.timed():
                    self._kept(watch, stage, read, flow, ends, key)
            rows = self.pick(f"{name} lift", flow.count)
            if rows is None:
                return
            with self.timed():
                if not read.asks:
                    self.combined(name, op, stage, monoid, read, flow, lifted, groups, columns, rows)

        return seen

    def _kept(self, watch: Watch, stage: Stage, read: Reads, flow: Flow, ends: Numbers, key: Columns) -> None:
        """Keep some items for the laws of the operator that combines them: what it reads of them."""
        rows = watch.kept(flow.count)
        if rows is not None:
            sample = attrs.evolve(read.sample(flow.inputs, rows), unread=UNSEEN)
            values = sample.arguments(stage.takes.value, ("value",), len(rows))
            watch.take(values_of(take(key, rows), len(rows)), values, array_of_numbers(ends)[rows].tolist())

    def combined(
        self,
        name: str,
        op: OpKeyedUnordered[Any, Any, Any, Any, Any, Any],
        stage: Stage,
        monoid: Monoid,
        read: Reads,
        flow: Flow,
        lifted: Sequence[Column],
        groups: Groups,
        columns: Sequence[Column],
        rows: Any,
    ) -> None:
        """Compare ``lift`` of some rows, and of a few of them ``combine`` with others of their block and key."""
        takes, anchors = stage.takes, rows[::-COMBINED].tolist()
        mates = [_mates(groups, row) for row in anchors]
        both = np.array(sorted({*rows.tolist(), *chain(*(some.tolist() for some in mates))}), np.int64)
        sample, count = read.sample(flow.inputs, both), len(both)
        keys, values = sample.arguments(takes.key, ("key",), count), sample.arguments(takes.value, ("value",), count)
        traced = objects(monoid, [take_column(column, both) for column in lifted], count)
        aggs = [outcome(op.lift, key, value) for key, value in zip(keys, values, strict=True)]
        self.compare_all(name, "lift", traced, aggs, sample.shown)
        inexact = any(part.reduction == "sum" and bare_kind(part.kind) == Float() for part in monoid.parts)

        def combine(some: Sequence[int]) -> Any:
            agg = op.identity()
            for at in some:
                agg = op.combine(agg, aggs[at][1])
            return agg

        for row, some in zip(anchors, mates, strict=True):
            group = int(groups.of_row[row])
            if len(some) == int(groups.sizes[group]):
                parts = [take_column(column, np.array([group])) for column in columns]
            else:
                one = Groups.of(np.zeros(len(some), np.int64), 1)
                pairs = zip(monoid.parts, lifted, strict=True)
                parts = [reduce_part(part, take_column(column, some), one) for part, column in pairs]
            (together,) = objects(monoid, parts, 1)
            describe = partial(sample.shown, int(both.searchsorted(row)))
            python = outcome(combine, both.searchsorted(some).tolist())
            self.compare(name, "combine", together, python, describe, inexact=inexact)

    def closing(self, op: OpKeyedUnordered[Any, Any, Any, Any, Any, Any], keyed: Keyed) -> Callable[[ClosedKeys], None]:
        """A function that sees the keys of a block that closes."""
        name = self.names[id(op)]
        update, on_marker = Reads.of(keyed.update), Reads.of(keyed.on_marker)

        def seen(closed: ClosedKeys) -> None:
            rows = self.pick(f"{name} state", closed.count)
            if rows is None or update.asks or on_marker.asks:
                return
            with self.timed():
                self.closed(name, op, keyed, closed, rows)

        return seen

    def closed(
        self, name: str, op: OpKeyedUnordered[Any, Any, Any, Any, Any, Any], keyed: Keyed, closed: ClosedKeys, rows: Any
    ) -> None:
        """Compare ``update_state`` and ``on_marker`` of some keys."""
        olds, aggs, news, keys = (
            values_of(take(columns, rows), len(rows)) for columns in (closed.old, closed.agg, closed.new, closed.key)
        )
        emitted = PythonEmissions(op, keyed.gives)
        traced, marker = emissions_by_row(closed.emitted, rows), Marker(closed.end)
        updated = [outcome(op.update_state, old, agg) for old, agg in zip(olds, aggs, strict=True)]
        self.compare_all(
            name, "update_state", news, updated, lambda at: f"key {keys[at]!r}, state {olds[at]!r}, {aggs[at]!r}"
        )
        answers = [emitted.of(op.on_marker, new, key, marker) for new, key in zip(news, keys, strict=True)]
        self.compare_all(
            name, "on_marker", traced, answers, lambda at: f"key {keys[at]!r}, state {news[at]!r}, {marker}"
        )

    def compare_all(
        self, name: str, method: str, traced: Sequence[Any], python: Sequence[Outcome], arguments: Callable[[int], str]
    ) -> None:
        """Raises :class:`Difference` unless the answers for all of some rows are alike. ``arguments`` returns the input of one of
        them, as text."""
        if not any(raised for raised, _ in python) and all_alike(traced, [answer for _, answer in python]):
            return
        for at, pair in enumerate(zip(traced, python, strict=True)):
            self.compare(name, method, *pair, partial(arguments, at))

    def compare(
        self, name: str, method: str, traced: Any, python: Outcome, arguments: Callable[[], str], *, inexact: bool = False
    ) -> None:
        """Raises :class:`Difference` unless both answers are alike. ``arguments`` returns the input of the operator, as
        text."""
        raised, answer = python
        if raised is None and alike(traced, answer, inexact=inexact):
            return
        raise Difference(name, method, arguments()[:SHOWN], repr(traced)[:SHOWN], (raised or repr(answer))[:SHOWN])


def _mates(groups: Groups, row: int) -> Any:
    """int64: rows near a row that are of its block and key."""
    near = max(row - NEAR, 0)
    return (groups.of_row[near : row + NEAR] == groups.of_row[row]).nonzero()[0][:GROUP] + near
