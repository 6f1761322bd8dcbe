"""The steps of a stage, a block at a time: sorts, ordered and unordered operators over items."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

import attrs
import numpy as np

from tracetypes.compiler.columns.arrow import array
from tracetypes.compiler.columns.batches import Batch
from tracetypes.compiler.columns.ordering import Pairs, Runs, Sorter
from tracetypes.compiler.plan.facts import is_on_grid
from tracetypes.compiler.plan.plan import Step
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.blocks import AggregateBlock
from tracetypes.compiler.runtime.emissions import HELD_BACK, Emissions, Pieces, TooManyRows, too_many_rows
from tracetypes.compiler.runtime.eviction import forget, forget_some
from tracetypes.compiler.runtime.key_states import bring, mark_changes
from tracetypes.compiler.runtime.stateless import conforming_emit
from tracetypes.compiler.runtime.watch import Watch
from tracetypes.compiler.tracing.expr import Undefined
from tracetypes.errors import LawBroken, OperatorFailed, RunError
from tracetypes.interpreter import sort_order
from tracetypes.markers import Marker
from tracetypes.nodes import Sort
from tracetypes.operator_calls import operator_failure
from tracetypes.state_check import NO_KEY, aggregates_of, ran, states_of
from tracetypes.templates import OpKeyedOrdered, OpKeyedUnordered, overrides

__all__ = ["Flowing", "OrderedRunner", "Runner", "UnorderedState", "ordered_runner", "sorter_of", "unordered_runner"]


@attrs.define
class UnorderedState:
    """State of an ``OpKeyedUnordered``: by key, and for keys not seen yet."""

    states: dict[Any, Any]
    start: Any
    plain: bool = False
    """It has held what columns cannot hold, and stays as it is."""


Flowing: TypeAlias = Pairs | Runs
"""A block between two steps. (A step that only sums up may take aggregates by key instead.)"""

Runner: TypeAlias = Callable[[list[Any], int, Any, Marker], Flowing]
"""Takes the states of all steps, the number of its own, a block and its marker; gives what comes out."""


def sorter_of(node: Sort, step: Step) -> Runner:
    """Sorts the items of each key."""
    order, sorter, schema = sort_order(node, step.takes.value), Sorter(node, step.takes.value), step.takes.value

    def run(states: list[Any], at: int, flowing: Flowing, marker: Marker) -> Runs:
        runs = flowing.by_key()
        if len(runs.values) >= limits.MANY:
            codes = np.repeat(np.arange(len(runs.keys)), runs.counts)
            with suppress(Undefined):
                rows = sorter.rows([codes], runs.values, lambda: array(schema, runs.values))
                return Runs(runs.keys, runs.counts, list(map(runs.values.__getitem__, rows.tolist())))
        ordered: list[Any] = []
        for _, values in runs.runs():
            values.sort(key=order)
            ordered.extend(values)
        return Runs(runs.keys, runs.counts, ordered)

    return run


class OrderedRunner(Protocol):
    """A :data:`Runner` that can be told at which ``keys`` to look at the marker; None: at all."""

    def __call__(
        self,
        states: list[Any],
        at: int,
        flowing: Any,
        marker: Marker,
        keys: Iterable[Any] | None = None,
        pieces: Pieces | None = None,
    ) -> Runs:
        """Run the operator. ``pieces``: what of the block has left before; what it returns is the rest."""


def ordered_runner(op: OpKeyedOrdered[Any, Any, Any, Any], step: Step, watch: Watch | None = None) -> OrderedRunner:
    """Runs an ordered operator, key by key. ``watch``: checks its laws."""
    watched = op
    marks, emissions, forgets = overrides(op, "on_marker"), Emissions(op, step.gives.value), op.forgets_idle
    types = states_of(op)
    known, judge = types.known, types.judge

    def run(
        states: list[Any],
        at: int,
        flowing: Flowing,
        marker: Marker,
        keys: Iterable[Any] | None = None,
        pieces: Pieces | None = None,
    ) -> Runs:
        pieces = Pieces(HELD_BACK.look, None) if pieces is None else pieces
        by_key: dict[Any, Any] = states[at]
        key: Any = None
        method, where = "on_item", ""
        value: Any = None
        nonlocal watched
        if watch is not None:
            watched = watch.of_block(flowing, marker)
        emit, on_item, following = emissions.start(pieces), watched.on_item, emissions.next
        visited: Iterable[Any] = ()
        try:
            runs = flowing.by_key()
            bring(by_key, runs.keys)
            for key, values in runs.runs():
                emissions.key = key
                if key in by_key:
                    state = by_key[key]
                else:
                    method, value = "initial_state", values[0]
                    state = types.returned(method, key, watched.initial_state())
                    method = "on_item"
                for value in values:
                    state = on_item(state, key, value, emit)
                    if type(state) not in known:
                        judge(method, key, state)
                by_key[key] = state
                following(key)
            mark_changes(by_key, runs.keys)
            out = emissions.end()
            if marks:
                method, where = "on_marker", f"marker {marker}"
                emit, on_marker = emissions.start(pieces, out), watched.on_marker
                visited = by_key if keys is None else keys
                bring(by_key, visited)
                for key in visited:
                    emissions.key = key
                    state = by_key[key] = on_marker(by_key[key], key, marker, emit)
                    if type(state) not in known:
                        judge(method, key, state)
                    following(key)
                mark_changes(by_key, visited)
                out = emissions.end()
            if forgets:
                method, where = "initial_state", f"marker {marker}"
                forget_some(by_key, visited if marks else runs.keys, op.initial_state())
            return out
        except (OperatorFailed, LawBroken, RunError):
            raise
        except (Exception, TooManyRows) as error:
            following(key)
            emissions.end()  # what was emitted before may be the first error
            what = f"key {key!r}, {where}" if where else f"item ({key!r}, {value!r})"
            if isinstance(error, TooManyRows):
                raise too_many_rows(op, len(emissions.values), what) from None
            raise operator_failure(op, method, what, error) from error

    return run


def unordered_runner(
    op: OpKeyedUnordered[Any, Any, Any, Any, Any, Any],
    step: Step,
    *,
    folded: bool,
    tumbles: bool = False,
    pane: tuple[int, int] | None = None,
    watch: Watch | None = None,
) -> Runner:
    """Runs an unordered operator; ``folded``: the block comes as aggregates by key; ``tumbles``: it is a whole window, so that
    no state is kept; ``pane``: it is of this size and offset, and other markers are none of the operator's. ``watch``: checks its
    laws."""
    emits_items, skips = overrides(op, "on_item"), op.skips_untouched
    forgets = op.forgets_idle and not skips  # a key that is not visited does not become idle
    fold = AggregateBlock(op, None)
    types, aggregates_are = states_of(op), aggregates_of(op)
    known, judge = types.known, types.judge

    def run(states: list[Any], at: int, flowing: Any, marker: Marker) -> Pairs:
        mine: UnorderedState = states[at]
        out = Pairs([], [])
        if pane is not None and not is_on_grid(marker.micros, pane):
            return out
        add_key, add_value = out.keys.append, out.values.append

        def add(key: Any, value: Any) -> None:
            add_key(key)
            add_value(value)

        emit, refused = conforming_emit(op, step.gives, add)
        key: Any = None
        value: Any = None
        method, where = "on_item", "item ({key!r}, {value!r})"
        watched = op
        if watch is not None:
            watched = watch.of_keys(len(flowing)) if folded else watch.of_block(flowing, marker)
        on_item: Callable[..., Any] = watched.on_item
        on_marker: Callable[..., Any] = watched.on_marker
        try:
            if folded:
                sums = flowing
            else:
                keys, values = flowing.key_of_each(), flowing.values
                if emits_items:
                    for key, value in zip(keys, values, strict=True):
                        if (odd := on_item(mine.states.get(key, mine.start), key, value, emit)) is not None:
                            ran(op, method, key, odd)
                aggregates: dict[int, Any] = {}
                fold.fold(watched, aggregates, Batch(keys, values, [0] * len(keys)))
                sums = aggregates.get(0, {})
            start, current = mine.start, mine.states
            touched: Iterable[Any] = sums
            if tumbles:
                current = {}
            elif not skips:
                for key in sums:
                    if key not in current:
                        current[key] = start
                touched = current
            bring(current, touched)
            where = "key {key!r}, marker {marker}"
            identity, update_state = watched.identity, watched.update_state
            for key in touched:
                method = "update_state"
                agg = sums[key] if key in sums else aggregates_are.returned("identity", key, identity())
                state = current[key] = update_state(current.get(key, start), agg)
                if type(state) not in known:
                    judge(method, key, state)
                method = "on_marker"
                if (odd := on_marker(state, key, marker, emit)) is not None:
                    ran(op, method, key, odd)
            mark_changes(current, touched)
            if not skips and not tumbles:
                method, where = "update_state", "marker {marker}"
                mine.start = types.returned(method, NO_KEY, op.update_state(start, op.identity()))
                if forgets:
                    forget(current, sums, mine.start)
            if refused:
                raise refused[0]
        except (OperatorFailed, LawBroken, RunError):
            raise
        except Exception as error:
            raise operator_failure(op, method, where.format(key=key, value=value, marker=marker), error) from error
        return out

    return run
