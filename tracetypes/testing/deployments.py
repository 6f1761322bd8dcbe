"""Random deployments of a dataflow against its definition."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import attrs
from hypothesis import given, reject
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import SearchStrategy

from tracetypes.check import check
from tracetypes.errors import LawBroken, OperatorFailed, RunError, UsageError
from tracetypes.graph import Dataflow
from tracetypes.interpreter import interpret_rows
from tracetypes.records import show
from tracetypes.testing.strategies import rows_of, search
from tracetypes.testing.subject import items_in, text_of
from tracetypes.trace import closed

__all__ = ["check_deployments"]


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
    """Run a flow at random parallelism, splits, interleavings and block boundaries, against its definition.

    :func:`tracetypes.compiler.trial.simulate.simulate_program` executes the compiled program and does with the data whatever
    a backend may do; the answer must be the interpreter's, late items and rejects included. ``rows``: for some or all
    sources a strategy of their rows in order of arrival (values, or pairs ``(key, value)`` where the rows have a key
    column); default: lists of :func:`values` of the source's type. Rows on which an operator raises are passed over.

    Returns in how many examples something reached the sink: 0 means that nothing was tested but the sources.
    Raises :class:`CheckFailed` for a flow that is refused, :class:`UsageError` ``TT407`` when no rows could be judged,
    and :class:`LawBroken` ``TT310`` with the smallest rows and the deployment that differ. Deterministic.
    """
    __tracebackhide__ = True
    from tracetypes.compiler.plan.program import program
    from tracetypes.compiler.trial.simulate import simulate_program

    checked = check(flow)
    chosen = {source.name: rows_of(checked, source, rows) for source in checked.graph.sources}
    deployments = st.builds(
        _Deployment,
        rows=st.fixed_dictionaries(chosen),
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
        told = [sum(len(a.late) for a in answers.values()), sum(len(a.rejects) for a in answers.values())]
        defined = {name: trace if drain else closed(trace) for name, trace in traces.items()}
        reached[0] += any(items_in(trace) for trace in defined.values())
        wrong = [name for name in defined if answers[name].trace != defined[name]]
        if wrong or aside != told:
            name = wrong[0] if wrong else next(iter(defined))
            raise LawBroken(
                "TT310",
                f"dataflow {flow.name!r} gives another answer at sink {name!r} when it is deployed\n"
                f"    rows:     {'; '.join(f'{name}: {show(r, 400)}' for name, r in one.rows.items())}\n"
                f"    defined:  {text_of(defined[name])}, {aside[0]} late, {aside[1]} rejected\n"
                f"    deployed: {text_of(answers[name].trace)}, {told[0]} late, {told[1]} rejected\n"
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
