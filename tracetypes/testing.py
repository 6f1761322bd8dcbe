"""Tests of the laws of operators: what a template asks of its author and no type checker can see.

The theorems of data-trace types (section 4, Theorems 4.2 and 4.3) assume operators with pure functions, a commutative
monoid and no memory except the state. :func:`laws` states these laws as equations; :func:`check_laws` looks for a
counter-example and reports the smallest one. ``docs/laws.md`` is the guide.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Literal

import attrs

from tracetypes.errors import UsageError

try:
    import hypothesis  # noqa: F401
except ImportError as error:
    raise UsageError(
        "TT401", f"tests of laws need Hypothesis, which is not here ({error})", fix="pip install 'tracetypes[test]'"
    ) from None

from hypothesis import given, reject
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import SearchStrategy

from tracetypes.check import check
from tracetypes.connectors import Sink, SinkRequest, Source
from tracetypes.equations.subject import items_in, text_of
from tracetypes.errors import LawBroken, OperatorFailed, RunError
from tracetypes.graph import Dataflow
from tracetypes.interpreter import interpret_rows
from tracetypes.laws.law import Law
from tracetypes.laws.operators import check_laws, law_tests, laws
from tracetypes.laws.sorting import check_order, sort_law
from tracetypes.laws.strategies import rows_of, search, slices, values
from tracetypes.nodes import Apply, Sort
from tracetypes.records import show
from tracetypes.recovery import Ran, check_recovery, define_scripts, run_scripts
from tracetypes.schemas import schema_of
from tracetypes.scripts import Script
from tracetypes.templates import as_operator
from tracetypes.trace import closed

__all__ = [
    "Law",
    "Ran",
    "Script",
    "answers",
    "check_connector",
    "check_deployments",
    "check_flow",
    "check_laws",
    "check_order",
    "check_recovery",
    "define_scripts",
    "law_tests",
    "laws",
    "run_scripts",
    "slices",
    "values",
]


def check_connector(
    *,
    source: Source | None = None,
    expected: Iterable[Mapping[str, Any]] | None = None,
    sink: Callable[[SinkRequest], Sink] | None = None,
    address: str = "",
    stored: Callable[[], Iterable[Mapping[str, Any]]] | None = None,
    kills: int = 10,
    seed: int = 0,
) -> int:
    """Run a source or a sink of a connector in processes that are killed (``kill -9``) before random lines of it, and started
    again, and see whether it keeps what :mod:`tracetypes.connectors` promises of it.

    ``source``: with an end (``bounded``). It has the same rows between the same offsets in any process, and loses and doubles
    none; with ``expected``, it has exactly these, in this order. ``sink``: opens ``address`` with columns ``number`` (int64) and
    ``text`` (a string or None); ``stored`` gives all rows that are there. An epoch is there once and as a whole, however often it
    is written, and a driver that was shut out writes nothing.

    Returns how often it was killed. Raises :class:`LawBroken` ``TT315``, which says which promise is broken, and
    :class:`UsageError` ``TT402`` for arguments that do not fit.
    """
    __tracebackhide__ = True
    from tracetypes.compiler.trial.connector_trial import try_sink, try_source

    if (source is None) == (sink is None):
        raise UsageError("TT402", "check_connector takes a source or a sink", fix="give source=, or sink= and stored=")
    if source is not None:
        return try_source(source, expected, kills, seed)
    if sink is None or stored is None:
        raise UsageError("TT402", "what the sink has is not known", fix="give stored=, a function that returns its rows")
    return try_sink(sink, address, stored, kills, seed)


def check_flow(
    flow: Dataflow,
    *,
    rows: Mapping[str, SearchStrategy[list[Any]]] | None = None,
    max_examples: int = 100,
    say: Callable[[str], None] = print,
    elsewhere: Callable[[], Iterable[str]] | None = None,
) -> int:
    """The command ``tracetypes test``: the laws of every operator, random deployments, and another process. Returns the
    exit status.

    ``elsewhere`` returns the lines of :func:`answers` from another process.
    """
    checked = check(flow)
    broken = unknown = 0

    def tell(name: str, test: Callable[[], None]) -> None:
        nonlocal broken, unknown
        result = _verdict(name, test, say)
        broken, unknown = broken + (result == "BROKEN"), unknown + (result == "unknown")

    for node in checked.graph.nodes:
        if isinstance(node, Sort):
            value = schema_of(checked.types[node.inputs[0]].value)
            tell(f"sort at {node.where}: order", partial(sort_law, node.by, value, max_examples))
        if not isinstance(node, Apply):
            continue
        edge = checked.types[node.inputs[0]]
        for law in laws(as_operator(node.op), types=(edge.key, edge.value)):
            tell(f"{law}", partial(law.check, max_examples))
    reached = [0]

    def deployments() -> None:
        reached[0] = check_deployments(flow, rows=rows, max_examples=max_examples)

    tell(f"{flow.name}: deployments", deployments)
    if elsewhere is not None:
        lines = elsewhere
        here = partial(answers, flow, rows=rows, max_examples=max_examples)
        tell(f"{flow.name}: another process", lambda: _compare_processes(flow.name, here(), lines()))
    if not broken and not unknown and not reached[0]:
        say("note    no random row reached the sink: give rows that do with --input SOURCE=FILE (or rows= in Python)")
    open_ = f"{unknown} unknown: no example could be judged" if unknown else ""
    say(", ".join(filter(None, [f"{broken} broken" if broken else "", open_])) or "all laws hold")
    return 1 if broken else 0


def answers(
    flow: Dataflow, *, rows: Mapping[str, SearchStrategy[list[Any]]] | None = None, max_examples: int = 50
) -> Iterator[str]:
    """The answers of a dataflow for random rows: a line of JSON for each example, with its rows and the trace at each
    sink.

    The lines are the same in every process, unless an operator depends on its process.
    """
    checked = check(flow)
    strategies = {source.name: rows_of(checked, source, rows) for source in checked.graph.sources}
    lines: list[str] = []

    @search(max_examples, shrink=False)
    @given(st.fixed_dictionaries(strategies))
    def take(drawn: dict[str, list[Any]]) -> None:
        try:
            traces, _ = interpret_rows(checked, drawn)
        except (OperatorFailed, RunError) as error:
            sinks = {"": error.code}
        else:
            sinks = {name: repr(trace.normal_form) for name, trace in traces.items()}
        texts = {name: [repr(row) for row in some] for name, some in drawn.items()}
        lines.append(json.dumps({"rows": texts, "sinks": sinks}))

    take()
    yield from lines


def _compare_processes(flow: str, here: Iterable[str], there: Iterable[str]) -> None:
    """Raises :class:`LawBroken` ``TT313`` for the first example whose answers differ."""
    for mine, theirs in zip(map(json.loads, here), map(json.loads, there), strict=False):
        if mine["rows"] != theirs["rows"]:
            continue
        for sink, one in mine["sinks"].items():
            other = theirs["sinks"].get(sink, "nothing")
            if one != other:
                rows = "; ".join(f"{name}: {', '.join(some)}" for name, some in mine["rows"].items())
                raise LawBroken(
                    "TT313",
                    f"dataflow {flow!r} gives another answer at sink {sink!r} in another process\n"
                    f"    rows:     {rows[:400]}\n    here:     {one[:400]}\n    there:    {other[:400]}",
                    fix="let no operator depend on hash(), id(), os.getpid() or the order of a set; use sorted(...)",
                )


def _verdict(name: str, test: Callable[[], None], say: Callable[[str], None]) -> Literal["ok", "BROKEN", "unknown"]:
    try:
        test()
    except LawBroken as error:
        say(f"BROKEN  {name}\n{error}")
        return "BROKEN"
    except UsageError as error:
        say(f"unknown {name}: {error}")
        return "unknown"
    say(f"ok      {name}")
    return "ok"


@attrs.frozen
class _Deployment:
    """A way to run a flow: copies, key groups, and the seed that cuts, interleaves and orders everything."""

    rows: dict[str, list[Any]]
    parallelism: int
    key_groups: int
    seed: int
    steps: int
    pieces: int


def check_deployments(
    flow: Dataflow,
    *,
    rows: Mapping[str, SearchStrategy[list[Any]]] | None = None,
    max_examples: int = 50,
    drain: bool = True,
) -> int:
    """Run a dataflow at random parallelism, splits, interleavings and block boundaries, and compare with its
    definition.

    :func:`tracetypes.compiler.trial.simulate.simulate_program` executes the compiled program and does with the data
    whatever a backend may do. The answer must be the interpreter's, including late items and rejects. ``rows``: for
    some or all sources a strategy of their rows in order of arrival (values, or pairs ``(key, value)`` if the rows have
    a key column); the default is lists of :func:`values` of the source's type. Examples on which an operator raises are
    skipped.

    Returns the number of examples in which something reached the sink: 0 means that only the sources were tested.
    Raises :class:`CheckFailed` for a dataflow that is refused, :class:`UsageError` ``TT407`` if no rows could be
    judged, and :class:`LawBroken` ``TT310`` with the smallest rows and the deployment that differ. Deterministic.
    """
    __tracebackhide__ = True
    from tracetypes.compiler.plan.program import program
    from tracetypes.compiler.trial.simulate import simulate_program

    checked = check(flow)
    strategies = {source.name: rows_of(checked, source, rows) for source in checked.graph.sources}
    deployments = st.builds(
        _Deployment,
        rows=st.fixed_dictionaries(strategies),
        parallelism=st.integers(1, 4),
        key_groups=st.integers(4, 8),
        seed=st.integers(0, 2**16),
        steps=st.integers(1, 5),
        pieces=st.integers(1, 4),
    )
    judged, reached, failures = [0], [0], list[OperatorFailed | RunError]()

    @search(max_examples)
    @given(deployments)
    def judge(one: _Deployment) -> None:
        try:
            traces, arranged = interpret_rows(checked, one.rows, drain=drain)
        except (OperatorFailed, RunError) as error:
            failures.append(error)
            reject()
        judged[0] += any(one.rows.values())
        compiled = program(checked, parallelism=one.parallelism, key_groups=one.key_groups)
        answers = simulate_program(compiled, one.rows, seed=one.seed, steps=one.steps, pieces=one.pieces, drain=drain)
        aside = [sum(len(source.late) for source in arranged.values())]
        aside.append(sum(len(source.rejects) for source in arranged.values()))
        counts = [sum(len(a.late) for a in answers.values()), sum(len(a.rejects) for a in answers.values())]
        defined = {name: trace if drain else closed(trace) for name, trace in traces.items()}
        reached[0] += any(items_in(trace) for trace in defined.values())
        wrong = [name for name in defined if answers[name].trace != defined[name]]
        if wrong or aside != counts:
            name = wrong[0] if wrong else next(iter(defined))
            raise LawBroken(
                "TT310",
                f"dataflow {flow.name!r} gives another answer at sink {name!r} when it is deployed\n"
                f"    rows:     {'; '.join(f'{name}: {show(r, 400)}' for name, r in one.rows.items())}\n"
                f"    defined:  {text_of(defined[name])}, {aside[0]} late, {aside[1]} rejected\n"
                f"    deployed: {text_of(answers[name].trace)}, {counts[0]} late, {counts[1]} rejected\n"
                f"    with:     parallelism {one.parallelism}, {one.key_groups} key groups, seed {one.seed}, "
                f"{one.steps} steps of {one.pieces} pieces",
                fix="check the laws of its operators first (tracetypes test); if they all hold, please report this",
            )

    with suppress(Unsatisfiable):  # every example failed
        judge()
    if not judged[0]:
        first = (
            f"every random row made an operator fail, e.g. {failures[0].code} {failures[0].message}" if failures else ""
        )
        raise UsageError(
            "TT407",
            f"dataflow {flow.name!r}: {first or 'no row was drawn'}",
            fix="pass rows={source: strategy} with rows that the operators can take",
        )
    return reached[0]
