"""The equations of an operator, by its template and by what its class declares."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeAlias, final

import attrs

from tracetypes.equations.idle import (
    is_silent_when_idle,
    is_silent_when_unseen,
    leaves_unseen_keys,
    skips_without_trace,
)
from tracetypes.equations.monoid import associates, commutes, has_identity
from tracetypes.equations.needed import needs_what_it_chooses
from tracetypes.equations.order import ignores_order, keeps_keys_apart
from tracetypes.equations.purity import PURE, TYPED, emits_its_types, is_pure, never_raises, stays_frozen
from tracetypes.equations.silence import (
    Timed,
    answers_panes,
    answers_whole_windows,
    says_when_it_is_due,
    speaks_no_longer,
)
from tracetypes.equations.subject import Subject
from tracetypes.errors import LawBroken
from tracetypes.markers import TimeUnit
from tracetypes.templates import Operator, OpKeyedOrdered, OpKeyedUnordered, OpStateless, overrides

__all__ = ["Equation", "Examples", "equations_of"]

Examples: TypeAlias = Literal["nothing", "streams", "short streams", "long streams", "three bags"]
"""What an equation is tried on. Three bags: items of three aggregates."""


@final
@attrs.frozen(eq=False)
class Equation:
    """One law of one operator. ``text`` is a line; ``code`` is that of the error when it is broken. ``declared``: the law is of
    something that the class declares, and may be tried on any stream of its items."""

    name: str
    code: str
    text: str
    examine: Callable[[Subject, Any, str], LawBroken | None]
    of: Examples = "streams"
    declared: bool = False


def equations_of(
    op: Operator, *, time: Timed | None = None, unit: TimeUnit = "s", period: int | None = None
) -> list[Equation]:
    """The equations of an operator. ``time`` and ``unit``: of its values, where they are known. ``period``: of the markers of the
    streams that they are tried on, in microseconds, where the blocks of these are those of a source."""
    equations = [
        Equation("frozen", "TT309", "no attribute of the operator can be assigned", stays_frozen, "nothing"),
        Equation("total", "TT308", "no method raises, whatever the items are", never_raises),
        Equation("types", "TT309", TYPED, emits_its_types),
    ]
    purity = Equation("purity", "TT304", PURE, is_pure, "short streams")
    order = Equation("order insensitivity", "TT306", "run(block) == run(the block in another order)", ignores_order)
    locality = Equation("key locality", "TT305", "run(items) == merge(run(items of key) for each key)", keeps_keys_apart)
    match op:
        case OpStateless():
            return [*equations, purity, order]
        case OpKeyedOrdered():
            equations += [locality, purity]
        case OpKeyedUnordered():
            equations += [purity, *_of_aggregates(), order, locality]
    return [*equations, *_of_idle_keys(op), *_of_silence(op, time, unit, period)]


def _of_aggregates() -> list[Equation]:
    identity = "combine(a, identity()) == a == combine(identity(), a)"
    association = "combine(a, combine(b, c)) == combine(combine(a, b), c)"
    return [
        Equation("identity", "TT301", identity, has_identity, "three bags"),
        Equation("commutativity", "TT303", "combine(a, b) == combine(b, a)", commutes, "three bags"),
        Equation("associativity", "TT302", association, associates, "three bags"),
    ]


def _of_idle_keys(op: OpKeyedOrdered[Any, Any, Any, Any] | OpKeyedUnordered[Any, Any, Any, Any, Any, Any]) -> list[Equation]:
    """The laws of ``skips_untouched``, ``forgets_idle`` and ``chooses``."""
    equations: list[Equation] = []
    unseen = "keys never seen are silent"
    if isinstance(op, OpKeyedOrdered):
        if op.forgets_idle:
            text = "on_marker(initial_state(), ...) emits nothing and returns initial_state()"
            equations.append(Equation(unseen, "TT307", text, leaves_unseen_keys, declared=True))
        return equations
    if op.skips_untouched:
        silent = "on_marker(update_state(state, identity()), ...) emits nothing"
        traceless = "run(items) == run(items) without idle visits"
        equations.append(Equation("idle keys are silent", "TT307", silent, is_silent_when_idle, declared=True))
        equations.append(Equation("idle keys leave no trace", "TT307", traceless, skips_without_trace, declared=True))
    if op.forgets_idle:
        text = "on_marker(state of a key never seen, ...) emits nothing"
        equations.append(Equation(unseen, "TT307", text, is_silent_when_unseen, "long streams", declared=True))
    if op.chooses():
        text = "run(items) == run(the items of each block and key that it chooses)"
        equations.append(Equation("choices", "TT314", text, needs_what_it_chooses, declared=True))
    return equations


def _of_silence(
    op: OpKeyedOrdered[Any, Any, Any, Any] | OpKeyedUnordered[Any, Any, Any, Any, Any, Any],
    time: Timed | None,
    unit: TimeUnit,
    period: int | None,
) -> list[Equation]:
    """The laws of ``linger``, ``tumbles``, ``coarser`` and ``next_due``, where the operator defines them."""
    equations: list[Equation] = []
    if overrides(op, "linger") and (isinstance(op.linger(), int) or time is not None or period is not None):
        silence, examine = "behind what it lingers for it emits nothing", partial(speaks_no_longer, time, unit, period)
        equations.append(Equation("silence", "TT314", silence, examine, declared=period is not None))
    if isinstance(op, OpKeyedUnordered) and op.tumbles() is not None:
        joined = "run(items) == run(items) with the blocks of a window joined"
        equations.append(Equation("windows", "TT314", joined, answers_whole_windows, declared=True))
    if isinstance(op, OpKeyedUnordered) and op.coarser() is not None:
        panes = "run(items) == run(items of joined blocks) by the operator that it names"
        equations.append(Equation("panes", "TT314", panes, answers_panes, declared=True))
    if isinstance(op, OpKeyedOrdered) and overrides(op, "next_due"):
        text = "run(items) == run(items) without markers before next_due"
        equations.append(Equation("due", "TT314", text, says_when_it_is_due, declared=True))
    return equations
