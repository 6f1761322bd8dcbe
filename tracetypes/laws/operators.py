"""The laws of an operator, by its template."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tracetypes.equations.idle import (
    is_silent_when_idle,
    is_silent_when_unseen,
    leaves_unseen_keys,
    skips_without_trace,
)
from tracetypes.equations.monoid import associates, commutes, has_identity
from tracetypes.equations.needed import needs_what_it_chooses
from tracetypes.equations.order import ignores_order, keeps_keys_apart
from tracetypes.equations.purity import emits_its_types, is_pure, never_raises, stays_frozen
from tracetypes.equations.silence import (
    Timed,
    answers_panes,
    answers_whole_windows,
    says_when_it_is_due,
    speaks_no_longer,
)
from tracetypes.equations.subject import Subject, subject_of
from tracetypes.errors import LawBroken
from tracetypes.laws.law import Law
from tracetypes.laws.strategies import item_strategy, streams_of
from tracetypes.markers import TimeUnit
from tracetypes.templates import Operator, OpKeyedOrdered, OpKeyedUnordered, OpStateless, overrides

__all__ = ["check_laws", "law_tests", "laws"]


def laws(
    op: Operator,
    *,
    items: SearchStrategy[tuple[Any, Any]] | None = None,
    types: tuple[Any, Any] | None = None,
    time: Timed | None = None,
    unit: TimeUnit = "s",
) -> tuple[Law, ...]:
    """The laws of an operator.

    ``items``: a strategy of ``(key, value)`` pairs, for an operator that assumes something of its input; by default
    every pair of its types. ``types``: ``(K, V)`` of a generic operator that leaves them open. ``time`` and ``unit``: as in
    :func:`tracetypes.every`, for an operator that lingers for a time: what it emits in silence can be tried only where the
    markers fit the times of the values.
    """
    subject = subject_of(op, types)
    drawn = item_strategy(subject, items)
    streams, bag = (
        streams_of(drawn, blocks=3, size=4),
        st.lists(drawn, min_size=1, max_size=3).map(tuple),
    )
    three = st.tuples(bag, bag, bag)

    def law(
        name: str,
        code: str,
        equation: str,
        examine: Callable[[Subject, Any, str], LawBroken | None],
        examples: SearchStrategy[Any] = streams,
    ) -> Law:
        return Law(name=name, code=code, equation=equation, subject=subject, examine=examine, examples=examples)

    laws = [
        law("frozen", "TT309", "no attribute of the operator can be assigned", stays_frozen, st.none()),
        law("total", "TT308", "no method raises, whatever the items are", never_raises),
        law("types", "TT309", "what is emitted is of the declared types", emits_its_types),
    ]
    locality = law("key locality", "TT305", "run(items) == merge(run(items of key) for each key)", keeps_keys_apart)
    purity = law(
        "purity",
        "TT304",
        "f(x) == f(x), whatever was called in between, and x is as before",
        is_pure,
        streams_of(drawn, blocks=2, size=3),
    )
    order = law("order insensitivity", "TT306", "run(block) == run(the block in another order)", ignores_order)
    if isinstance(op, OpStateless):
        laws += [purity, order]
    elif isinstance(op, OpKeyedOrdered):
        laws += [locality, purity]
        if op.forgets_idle:
            law_of_unseen = "on_marker(initial_state(), ...) emits nothing and returns initial_state()"
            laws.append(law("keys never seen are silent", "TT307", law_of_unseen, leaves_unseen_keys))
    else:
        laws += [
            purity,
            law("identity", "TT301", "combine(a, identity()) == a == combine(identity(), a)", has_identity, three),
            law("commutativity", "TT303", "combine(a, b) == combine(b, a)", commutes, three),
            law(
                "associativity",
                "TT302",
                "combine(a, combine(b, c)) == combine(combine(a, b), c)",
                associates,
                three,
            ),
            order,
            locality,
        ]
        if op.skips_untouched:
            laws += [
                law(
                    "idle keys are silent",
                    "TT307",
                    "on_marker(update_state(state, identity()), ...) emits nothing",
                    is_silent_when_idle,
                ),
                law(
                    "idle keys leave no trace",
                    "TT307",
                    "run(items) == run(items) without idle visits",
                    skips_without_trace,
                ),
            ]
        if op.forgets_idle:
            law_of_unseen = "on_marker(state of a key never seen, ...) emits nothing"
            longer = streams_of(drawn, blocks=8, size=2)
            laws.append(law("keys never seen are silent", "TT307", law_of_unseen, is_silent_when_unseen, longer))
        if op.chooses():
            some = "run(items) == run(the items of each block and key that it chooses)"
            laws.append(law("choices", "TT314", some, needs_what_it_chooses))
    return (*laws, *_of_silence(op, time, unit, law))


def _of_silence(op: Operator, time: Timed | None, unit: TimeUnit, law: Callable[..., Law]) -> list[Law]:
    """The laws of ``linger`` and ``next_due``, where the operator defines them."""
    laws: list[Law] = []
    if isinstance(op, OpStateless):
        return laws
    if overrides(op, "linger") and (isinstance(op.linger(), int) or time is not None):
        examine = partial(speaks_no_longer, time, unit)
        laws.append(law("silence", "TT314", "behind what it lingers for it emits nothing", examine))
    if isinstance(op, OpKeyedUnordered) and op.tumbles() is not None:
        joined = "run(items) == run(items) with the blocks of a window joined"
        laws.append(law("windows", "TT314", joined, answers_whole_windows))
    if isinstance(op, OpKeyedUnordered) and op.coarser() is not None:
        panes = "run(items) == run(items of joined blocks) by the operator that it names"
        laws.append(law("panes", "TT314", panes, answers_panes))
    if isinstance(op, OpKeyedOrdered) and overrides(op, "next_due"):
        laws.append(law("due", "TT314", "run(items) == run(items) without markers before next_due", says_when_it_is_due))
    return laws


def check_laws(
    op: Operator,
    *,
    items: SearchStrategy[tuple[Any, Any]] | None = None,
    types: tuple[Any, Any] | None = None,
    max_examples: int = 200,
    time: Timed | None = None,
    unit: TimeUnit = "s",
) -> None:
    """Check all laws of an operator; see :func:`laws` for ``items``, ``types``, ``time`` and ``unit``.

    Raises :class:`LawBroken` with the smallest counter-example to the first law that is broken. Deterministic, silent,
    and needs no pytest. ``max_examples``: how many examples each law is tried on.
    """
    __tracebackhide__ = True
    for law in laws(op, items=items, types=types, time=time, unit=unit):
        law.check(max_examples)


def law_tests(
    *ops: Operator,
    items: SearchStrategy[tuple[Any, Any]] | None = None,
    types: tuple[Any, Any] | None = None,
    max_examples: int = 200,
    time: Timed | None = None,
    unit: TimeUnit = "s",
) -> Callable[[Law], None]:
    """A test function for pytest with one test for each law of each operator: ``test_laws = law_tests(Total(), Mean())``."""
    import pytest

    every = [law for op in ops for law in laws(op, items=items, types=types, time=time, unit=unit)]

    @pytest.mark.parametrize("law", every, ids=[f"{law}".replace(": ", "-").replace(" ", "_") for law in every])
    def test_law(law: Law) -> None:
        __tracebackhide__ = True
        law.check(max_examples)

    return test_law
