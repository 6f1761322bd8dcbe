"""What is right of a dataflow: the interpreter's answer and the adversary's, of few and many keys, in small and large parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from types import ModuleType
from typing import Any, Final
from unittest import mock

import attrs

from tests.grammar.judging import ROW, Tally, Wrong
from tests.grammar.modules import imported
from tests.grammar.prelude import Row
from tests.grammar.table import rows_of
from tests.grammar.writer import Text
from tests.programs import plain
from tracetypes import Dataflow, U, check, every, interpret_rows, sort
from tracetypes.compiler.analysis.monoids import Part
from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.columns.column import Column
from tracetypes.compiler.columns.groups import Groups
from tracetypes.compiler.columns.machine.compilation import Compilation
from tracetypes.compiler.plan.plan import Plan, links
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime import partial_aggregation as columnar
from tracetypes.compiler.runtime.messages import Difference
from tracetypes.compiler.runtime.partial_aggregation import reduce_part
from tracetypes.compiler.trial.simulate import simulate
from tracetypes.conformance import conformer, key_conformer, key_problem
from tracetypes.errors import TraceTypesError
from tracetypes.nodes import Sort
from tracetypes.records import Optional
from tracetypes.schemas import schema_of
from tracetypes.trace import Element, Item, Trace

__all__ = ["SIZES", "Deployment", "judge_flow"]

SIZES: Final[Sequence[dict[str, int]]] = (
    {"MANY": 1},
    {"MANY": 1, "SLAB": 3, "BATCH": 3, "FLUSH": 5, "FEW": 1_000},
    {"MANY": 1, "SLAB": 7, "BATCH": 11, "FEW": 1},
    {"MANY": 2, "FLUSH": 2},
    {"MANY": 4},
    {},
)
"""Both sides of every switch, with few rows."""


@attrs.frozen
class Deployment:
    """How a dataflow is run."""

    rows: int
    seed: int
    groups: int
    sizes: int
    edges: bool
    sorted: bool
    delay: int
    verify: int
    machine: bool = False


@contextmanager
def _set(values: dict[str, int]) -> Iterator[None]:
    before = {name: getattr(limits, name) for name in values}
    try:
        for name, value in values.items():
            setattr(limits, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(limits, name, value)


@cache
def _rows(edges: bool) -> Sequence[Row]:
    return rows_of(240, 7, edges=edges)


@contextmanager
def _reductions(found: set[tuple[str, str]]) -> Iterator[None]:
    """Which ones columns do where several rows are of one block and key."""

    def reduce(part: Part, column: Column, groups: Groups) -> Column:
        if groups.number and groups.sizes.max() > 1:
            bare: Any = part.kind.item if isinstance(part.kind, Optional) else part.kind
            found.add((part.reduction, type(bare).__name__))
        return reduce_part(part, column, groups)

    with mock.patch.object(columnar, "reduce_part", reduce):
        yield


@contextmanager
def _compiled(machine: bool) -> Iterator[None]:
    """Machine code is there from the first item on, where an operator has it."""

    def wait(self: Compilation) -> None:
        start(self)
        assert self._thread is not None
        self._thread.join()
        assert self.problem is None, self.problem

    start = Compilation.start
    with mock.patch.object(Compilation, "start", wait) if machine else nullcontext():
        yield


_fits: Final = conformer(ROW)


def _taken(module: ModuleType, row: Row) -> bool:
    """Can all of the program's functions of a row be run on it?"""
    fit_key = key_conformer(schema_of(module.KEY))
    try:
        module.time(row)
        if not hasattr(module, "Keyed"):
            return key_problem(schema_of(module.KEY), fit_key(module.key(row))) is None
        items: list[Any] = [(module.key(row), row)]
        if module.EACH is not None:
            items.clear()
            module.EACH.on_item(module.key(row), row, lambda key, value: items.append((key, value)))
        for key, value in items:
            module.Keyed().lift(fit_key(key), _fits(value))
            if key_problem(schema_of(module.KEY), key):
                return False
    except Exception:
        return False
    return True


def source_of(text: Text) -> str:
    """A module of one dataflow."""
    return text.source.replace("\n---\n", "\n\n\n")


def _flow(module: ModuleType, source_key: Any, how: Deployment) -> Dataflow:
    flow = Dataflow("program")
    markers = every(seconds=10, time=module.time, delay=how.delay)
    rows = flow.source("rows", U[source_key, Row], key=module.key, markers=markers)
    if not hasattr(module, "Keyed"):
        flow.sink("out", rows.through(sort(by=module.time)).through(module.Ordered()))
        return flow
    stream: Any = rows if module.EACH is None else rows.through(module.EACH)
    flow.sink("out", stream.through(module.Keyed()))
    return flow


def judge_flow(text: Text, how: Deployment, tally: Tally) -> None:
    """Compare. Raises :class:`Wrong`."""
    source = source_of(text)
    tally.used |= text.used
    with imported(source) as module:
        tally.programs += 1
        rows = [row for row in _rows(how.edges)[: how.rows] if _taken(module, row)]
        if how.sorted:
            rows.sort(key=module.time)
        tally.rows += how.rows
        tally.answered += len(rows)
        checked = check(_flow(module, module.SOURCE_KEY, how))
        try:
            traces, _ = interpret_rows(checked, {"rows": rows})
            wanted = traces["out"]
        except TraceTypesError:
            wanted = None
        compiled = attrs.evolve(plan(checked, key_groups=how.groups), verify_every=how.verify)
        refused = list(_refused(compiled))
        tally.refused.update(refused)
        tally.traced += not refused
        reductions = set[tuple[str, str]]()
        sizes = SIZES[how.sizes] | ({"COMPILED": 0} if how.machine else {})
        with _set(sizes), _reductions(reductions), _compiled(how.machine):
            try:
                found = simulate(compiled, {"rows": rows}, seed=how.seed, steps=6).trace
            except TraceTypesError:
                found = None
            except Difference as different:
                tally.wrong += 1
                raise Wrong(f"{different}\n{how}\n{source}") from None
        tally.reductions.update(reductions)
        if wanted is not None and any(isinstance(one, Item) for one in wanted.items):
            tally.emitting += 1
        if wanted is None or found is None:
            if found is not wanted:
                tally.wrong += 1
                raise Wrong(f"one of them fails: {wanted is None} {found is None}\n{how}\n{source}")
        elif found != wanted:
            tally.wrong += 1
            raise Wrong(f"{_difference(found, wanted)}\n{how}\n{source}")


def _refused(compiled: Plan) -> Iterator[str]:
    """Why parts of a plan are not traced; one reason."""
    for stage in compiled.stages:
        for link in links(stage.region):
            for mapped in link.path:
                if isinstance(mapped.traced, Opaque):
                    yield str(mapped.traced.reason)
                    return
        for step in stage.steps:
            reason = step.place if isinstance(step.node, Sort) else step.ordered if stage.gives.ordered else step.keyed
            if isinstance(reason, Opaque):
                yield str(reason.reason)
                return


def _difference(found: Trace[Element], wanted: Trace[Element]) -> str:
    left, right = [_shown(one) for one in found.items], [_shown(one) for one in wanted.items]
    more, less = [one for one in left if one not in right], [one for one in right if one not in left]
    return f"too many: {more[:3]}\nmissing: {less[:3]}"


def _shown(one: Element) -> Any:
    return (plain(one.key), plain(one.value)) if isinstance(one, Item) else one
