"""Laws of every operator: frozen, total, typed, and pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tracetypes.check import is_frozen
from tracetypes.equations.equality import same
from tracetypes.equations.messages import message_of
from tracetypes.equations.subject import Call, Elements, Outcome, Subject, items_in, text_of
from tracetypes.errors import LawBroken, OperatorFailed
from tracetypes.method_check import faults
from tracetypes.record_copies import unequal_copy
from tracetypes.records import show
from tracetypes.templates import OpKeyedOrdered, OpKeyedUnordered, OpStateless
from tracetypes.trace import Item, StreamType

__all__ = [
    "FORGET",
    "PURE",
    "TYPED",
    "changed",
    "emits_its_types",
    "is_pure",
    "is_pure_alone",
    "never_raises",
    "not_its_fields",
    "not_pure",
    "stays_frozen",
]


def stays_frozen(subject: Subject, _: Any, law: str) -> LawBroken | None:
    if is_frozen(subject.op):
        return None
    name = subject.name
    return LawBroken(
        "TT309",
        message_of(f"{name} can be assigned to", law, [("found", f"{name} is a plain class")]),
        fix=f"decorate {name} with @attrs.frozen and declare its parameters as fields",
    )


def never_raises(subject: Subject, stream: Elements, law: str) -> LawBroken | None:
    try:
        subject.run(stream)
        if subject.template is OpKeyedUnordered:
            lifted = [subject.aggregate((item,)) for item in items_in(stream)]
            total = subject.aggregate(())
            for one in reversed(lifted):
                total = subject.combine(one, total)
    except OperatorFailed as error:
        if error.code in ("TT206", "TT224"):
            return None  # the law of types says so
        if error.code != "TT202":
            raise
        heading, _, at = error.message.partition("\n    at:       ")
        return LawBroken(
            "TT308",
            message_of(heading, law, [("at", at), ("items", text_of(stream))]),
            fix="handle the value; if it cannot occur, say so: check_laws(op, items=<strategy of (key, value) pairs>)",
            where=error.where,
            line=error.line,
        )
    return None


def emits_its_types(subject: Subject, stream: Elements, law: str) -> LawBroken | None:
    """Methods emit and return what their types say, and every record of a stream is equal to a copy made of its fields."""
    if (fault := next(faults(subject.op, {}), None)) is not None:
        return LawBroken("TT309", message_of(fault.found, law, [("expected", fault.expected)]), fix=fault.fix)
    try:
        emitted = subject.run(stream)
    except OperatorFailed as error:
        if error.code not in ("TT206", "TT224"):
            raise
        return LawBroken("TT309", message_of(error.message, law, [("items", text_of(stream))]), fix=error.fix)
    for edge, elements in ((subject.takes, stream), (subject.gives, emitted)):
        for item in items_in(elements):
            if broken := not_its_fields(subject, edge, item, [("items", text_of(stream))], law):
                return broken
    return None


def not_its_fields(
    subject: Subject, edge: StreamType, item: Item, lines: Sequence[tuple[str, str]], law: str
) -> LawBroken | None:
    """The error of an item of a stream that is not equal to a copy made of the fields of its records."""
    problem = unequal_copy(edge.key, item.key) or unequal_copy(edge.value, item.value)
    if problem is None:
        return None
    return LawBroken(
        "TT309",
        message_of(f"{subject.name}: {problem}", law, lines),
        fix="let records hold their fields only, and let __eq__ and __hash__ look at nothing else",
    )


TYPED: Final = "what is emitted is of the declared types"
PURE: Final = "f(x) == f(x), whatever was called in between, and x is as before"

_MAY_CHANGE: Final = {(OpKeyedOrdered, "on_item"): "state", (OpKeyedOrdered, "on_marker"): "state"}


def is_pure(subject: Subject, stream: Elements, law: str) -> LawBroken | None:
    calls = subject.calls(stream)
    alone: list[Outcome] = []
    for call in calls:
        subject.world.reset()
        alone.append(subject.invoke(call))
        if broken := changed(subject, call, alone[-1], law):
            return broken
    subject.world.reset()
    order = (*range(len(calls)), *reversed(range(len(calls))))
    for done, at in enumerate(order):
        again = subject.invoke(calls[at])
        if alone[at].differs(again):
            return _remembered(subject, calls[at], [calls[i] for i in order[:done]], alone[at], again, law)
    return None


def is_pure_alone(subject: Subject, call: Call) -> LawBroken | None:
    """Whether a call does the same twice, and changes nothing. One that raises is left to whoever needs it."""
    try:
        first, again = subject.invoke(call), subject.invoke(call)
    except OperatorFailed:
        return None
    if broken := changed(subject, call, first, PURE):
        return broken
    return not_pure(subject, call, first.text, "the same call", again.text, PURE) if first.differs(again) else None


def changed(subject: Subject, call: Call, outcome: Outcome, law: str) -> LawBroken | None:
    """Whether a call has changed what it must leave as it is."""
    method = f"{subject.name}.{call.method}"
    for name, after in outcome.after.items():
        if name != _MAY_CHANGE.get((subject.template, call.method)) and not same(outcome.before[name], after):
            return LawBroken(
                "TT304",
                message_of(
                    f"{method} is not pure: it changes its argument {name}",
                    law,
                    [
                        ("call", str(call)),
                        ("before", f"{name} = {show(call.args[name])}"),
                        ("after", f"{name} = {show(after)}"),
                    ],
                ),
                fix=f"build a new value and return it; leave {name} as it is",
            )
    if own := subject.world.changes(own=True):
        return LawBroken(
            "TT304",
            message_of(
                f"{method} is not pure: it changes the operator itself", law, [("call", str(call)), ("memory", own[0])]
            ),
            fix=FORGET[subject.template],
        )
    return None


FORGET: Final[dict[type[Any], str]] = {
    OpStateless: "an OpStateless has no memory: use OpKeyedUnordered or OpKeyedOrdered, and keep this in the state",
    OpKeyedOrdered: "keep what must be remembered in the state, which is passed in and returned",
    OpKeyedUnordered: "keep what must be remembered in the state: update_state returns it, nothing else is kept",
}


def _remembered(
    subject: Subject, call: Call, before: Sequence[Call], first: Outcome, again: Outcome, law: str
) -> LawBroken:
    """The shortest story of a call that gave something else after others: few calls before it, or all of them."""
    stories = [
        ("the same call", [call]),
        ("the same call, twice", [call, call]),
        *[(str(other), [other]) for other in before],
        (f"{len(before)} other calls", before),
    ]
    for after, story in stories:  # noqa: B007
        subject.world.reset()
        for other in story:
            subject.invoke(other)
        then = subject.invoke(call)
        if first.differs(then):
            break
    else:
        then = again
    return not_pure(subject, call, first.text, after, then.text, law)


def not_pure(subject: Subject, call: Call, first: str, after: str, then: str, law: str) -> LawBroken:
    """The error of a call that did ``first`` at first, and something else ``after`` others."""
    return LawBroken(
        "TT304",
        message_of(
            f"{subject.name}.{call.method} is not pure: what it gives depends on what was called before",
            law,
            [
                ("call", str(call)),
                ("at first", first),
                ("after", after),
                ("then", then),
                *[("memory", change) for change in subject.world.changes()[:3]],
            ],
        ),
        fix=FORGET[subject.template],
    )
