"""Runs of ordered operators over columns, for the tests of their kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.strategies import some
from tracetypes import Checked, Dataflow, check, interpret_rows
from tracetypes.compiler.analysis.ordered_form import OrderedForm
from tracetypes.compiler.plan.in_python import in_python, names_of
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.ordered_base import OrderedKernel
from tracetypes.compiler.runtime.ordered_states import OrderedState
from tracetypes.compiler.trial.simulate import simulate

__all__ = ["Plans", "answers_differ", "check_runs", "count_runs", "plans_of", "refuse_objects", "run_of"]

Plans: TypeAlias = tuple[Checked, Plan, Plan]
"""A flow, its plan, and its plan in Python."""


def plans_of(flow: Dataflow) -> Plans:
    """The plans of a flow."""
    checked = check(flow)
    one = plan(checked, parallelism=2)
    return checked, one, in_python(one, list(names_of(one).values()))


def count_runs(monkeypatch: pytest.MonkeyPatch, *kernels: type[OrderedKernel]) -> Counter[str]:
    """Few items are many from here on. Counts the items and runs of kernels; a run that gives up counts for nothing."""
    counts = Counter[str]()
    for kernel in kernels:

        def counted(self: OrderedKernel, *args: Any, run: Any = kernel.run) -> Any:
            out = run(self, *args)
            counts["items"] += args[1].count
            counts["runs"] += 1
            return out

        monkeypatch.setattr(kernel, "run", counted)
    monkeypatch.setattr(limits, "MANY", 2)
    return counts


def refuse_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """States that become objects are an error from here on."""

    def refused(self: OrderedState) -> Any:
        raise AssertionError("states become objects")

    for cls in (OrderedState, *OrderedState.__subclasses__()):
        monkeypatch.setattr(cls, "to_objects", refused)


def check_runs(
    plans: Plans, form: type[OrderedForm], inputs: Mapping[str, st.SearchStrategy[Any]], tame: Any, counts: Counter[str]
) -> None:
    """Whole runs of an operator that is known as ``form`` tell what the definition does. ``inputs``: strategies of the rows of
    each source; ``tame``: rows of all sources that run over columns. ``counts``: as of :func:`count_runs`."""
    assert isinstance(plans[1].stages[-1].steps[-1].ordered, form)

    @settings(deadline=None, max_examples=some(15))
    @example(tame, 3, False)
    @given(st.fixed_dictionaries(dict(inputs)), st.integers(0, 1000), st.booleans())
    def one_run(rows: dict[str, Any], seed: int, changing: bool) -> None:
        assert answers_differ(plans, rows, seed, changing=changing) is None

    one_run()
    assert counts["items"]


def answers_differ(plans: Plans, rows: Mapping[str, Any], seed: int, *, changing: bool) -> tuple[Any, Any] | None:
    """What the definition and a simulated run give, where these differ. ``changing``: the run goes on in Python and over columns
    in turns."""
    checked, one, python = plans
    expected = run_of(lambda: interpret_rows(checked, rows)[0]["out"])
    then = [python, one, python, one] if changing else []
    actual = run_of(lambda: simulate(one, rows, seed=seed, steps=1 + seed % 5, pieces=1 + seed % 3, then=then).trace)
    return None if actual == expected else (expected, actual)


def run_of(run: Callable[[], Any]) -> Any:
    """What a function gives, or its error as text."""
    try:
        return run()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
