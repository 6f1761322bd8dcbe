"""An operator under test: its runs, its calls and its aggregates."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import Any, Final, TypeAlias, TypeVar, get_args

import attrs

from tracetypes.canonical import canonical
from tracetypes.conformance import hashable, key_problem
from tracetypes.edge_check import unify
from tracetypes.edges import EdgeType
from tracetypes.equations.equality import copied, largest_of, near, same
from tracetypes.equations.memory import LiveWorld, World
from tracetypes.errors import UsageError
from tracetypes.operator_calls import Emitter, call_operator, run_ordered, run_stateless, run_unordered
from tracetypes.records import INT_MAX, Mismatch, Optional, show
from tracetypes.schemas import show_type
from tracetypes.templates import TEMPLATES, Operator, OpKeyedOrdered, OpStateless, substitute, template_types
from tracetypes.trace import Element, Item, StreamType, blocks, stream_type

__all__ = ["Abandon", "Call", "Collector", "Drawn", "Elements", "Outcome", "Subject", "items_in", "subject_of", "text_of"]

Elements: TypeAlias = tuple[Element, ...]
Drawn: TypeAlias = tuple[Elements, ...]


_MOST: Final = 1000
"""A run that emits more than this is not judged: the next example will be smaller."""


class Abandon(BaseException):
    """This example cannot be judged. No Exception, so that an author's ``except Exception`` lets it pass."""


class Collector(Emitter):
    whole = True
    """Whether it has all that was emitted."""

    def pair(self, key: Any, value: Any) -> None:
        if len(self.out) >= _MOST:
            raise Abandon
        try:
            key, value = self.fit_key(key), self.fit_value(value)
        except Mismatch as error:
            if isinstance(error.found, int) and abs(error.found) >= INT_MAX:
                raise Abandon from None  # every deployment refuses such a number alike
            raise self.refuse(error, key, value) from None
        if problem := key_problem(self.schema, key):
            raise self.refuse(problem, key, value)
        self.out.append(Item(key, value))


@attrs.frozen(eq=False)
class Call:
    """A call of one of the author's methods; ``args`` are copies."""

    method: str
    args: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.method}({', '.join(f'{name}={show(value)}' for name, value in self.args.items())})"


@attrs.frozen(eq=False)
class Outcome:
    """What a call gave: what it emitted, in a normal form and as ``items``, and what it returned. ``items``: None if nothing can
    be emitted; ``returns``: whether it returns anything."""

    emitted: Any
    result: Any
    items: Sequence[Element] | None
    returns: bool
    before: dict[str, Any]
    after: dict[str, Any]

    @property
    def text(self) -> str:
        """What a message says of it."""
        parts = [] if self.items is None else [f"emitted {text_of(self.items)}"]
        if self.returns:
            parts.append(f"returned {show(self.result)}")
        return " and ".join(parts)

    def differs(self, other: Outcome) -> bool:
        return self.emitted != other.emitted or not same(self.result, other.result)


class _Recorder:
    """Passes every call on to the operator and keeps a copy of its arguments."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.calls: list[Call] = []

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            names = self.subject.parameters(method)
            self.calls.append(Call(method, dict(zip(names, copied(args[: len(names)]), strict=True))))
            return getattr(self.subject.op, method)(*args)

        return call


@attrs.define(eq=False)
class Subject:
    """An operator under test."""

    op: Any
    takes: StreamType
    gives: StreamType
    world: World | LiveWorld = attrs.Factory(LiveWorld)
    rounds: bool = False
    """Floats that were added up in another order are equal."""
    largest: float = 0.0
    """The largest number among the items, where it rounds."""
    template: Any = attrs.field(
        init=False, default=attrs.Factory(lambda self: next(t for t in TEMPLATES if isinstance(self.op, t)), takes_self=True)
    )

    @property
    def name(self) -> str:
        return type(self.op).__name__

    def parameters(self, method: str) -> tuple[str, ...]:
        """Parameters of a method in its template, without ``self`` and ``emit``."""
        return _arguments(self.template, method)

    def run(self, stream: Iterable[Element], op: Any = None) -> Elements:
        """What the interpreter, which is the definition, makes of a stream in a fresh process."""
        self.world.reset()
        emitter, channel, op = Collector(self.op, self.gives), copied(list(stream)), op or self.op
        if self.template is OpStateless:
            run_stateless(op, channel, emitter, emits_at_markers=True)
        elif self.template is OpKeyedOrdered:
            run_ordered(op, channel, emitter)
        else:
            run_unordered(op, channel, emitter)
        emitter.judge()
        return tuple(emitter.out)

    def equal(self, one: Elements, other: Elements) -> bool:
        """Are two outputs the same trace?"""
        if self.gives.normal_form(one) == self.gives.normal_form(other):
            return True
        return self.rounds and _near(self.gives, one, other, max(self.largest, largest_of([one, other])))

    def agree(self, one: Any, other: Any, operands: Sequence[Any]) -> bool:
        """Are two aggregates equal that were made of others?"""
        return same(one, other) or (self.rounds and near(one, other, largest_of(operands)))

    def calls(self, stream: Elements) -> list[Call]:
        """Every call that a run makes."""
        recorder = _Recorder(self)
        self.run(stream, recorder)
        return recorder.calls

    def invoke(self, call: Call) -> Outcome:
        """Make a call, on copies of its arguments."""
        args = copied(call.args)
        extra: list[Any] = []
        emitter: Collector | None = None
        if "emit" in _parameters(getattr(self.template, call.method)):
            emitter = Collector(self.op, self.gives)
            extra = [partial(emitter.pair, call.args["key"]) if self.template is OpKeyedOrdered else emitter.pair]
        result = call_operator(self.op, call.method, str(call), getattr(self.op, call.method), *args.values(), *extra)
        if emitter is not None:
            emitter.judge()
        return self.outcome(call, args, emitter, result)

    def outcome(self, call: Call, after: dict[str, Any], emitter: Collector | None, result: Any) -> Outcome:
        """What a call has given. ``after``: its arguments then."""
        result = copied(result)
        returns = emitter is None or self.template is OpKeyedOrdered
        items, emitted = (None, ()) if emitter is None else (emitter.out, self.gives.normal_form(emitter.out))
        return Outcome(emitted, result, items, returns, call.args, after)

    def aggregate(self, items: Elements) -> Any:
        """An aggregate that a run can reach: the items lifted and combined from the left."""
        lifted = [call_operator(self.op, "lift", f"item {i}", self.op.lift, i.key, copied(i.value)) for i in items_in(items)]
        if not lifted:
            return call_operator(self.op, "identity", "identity", self.op.identity)
        total = lifted[0]
        for one in lifted[1:]:
            total = self.combine(total, one)
        return total

    def combine(self, a: Any, b: Any) -> Any:
        """``combine``, on copies."""
        return call_operator(self.op, "combine", f"a = {show(a)}, b = {show(b)}", self.op.combine, *copied([a]), *copied([b]))


@cache
def _arguments(template: type[Any], method: str) -> tuple[str, ...]:
    return tuple(name for name in _parameters(getattr(template, method)) if name != "emit")


@cache
def _parameters(method: Callable[..., Any]) -> tuple[str, ...]:
    """Parameters of a method of a template, without ``self``."""
    return tuple(name for name in inspect.signature(method).parameters if name != "self")


def _near(gives: StreamType, one: Elements, other: Elements, largest: float) -> bool:
    """Are two outputs the same but for the rounding of floats?"""
    order = canonical(gives.key)

    def sorted_blocks(stream: Elements) -> list[Any]:
        forms: list[Any] = []
        for block in blocks(stream):
            items = sorted(block.items, key=lambda item: order(item.key))
            if not gives.ordered:
                whole = canonical(gives.value)
                items.sort(key=lambda item: (order(item.key), whole(item.value)))
            forms.append(([(item.key, item.value) for item in items], block.marker))
        return forms

    return near(sorted_blocks(one), sorted_blocks(other), largest)


def items_in(stream: Iterable[Element]) -> list[Item]:
    return [element for element in stream if isinstance(element, Item)]


def text_of(stream: Iterable[Element], limit: int = 400) -> str:
    text = " ".join(map(repr, stream)) or "nothing"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def subject_of(op: Operator, types: tuple[Any, Any] | None) -> Subject:
    """An operator with the types of its streams. ``types``: ``(K, V)`` where it leaves them open."""
    given_op: object = op
    if not isinstance(given_op, TEMPLATES):
        raise UsageError(
            "TT406", f"{show(given_op)} is no operator", fix="pass an instance of a class that fills a template in"
        )
    name = type(op).__name__
    takes, gives = template_types(op)
    bound: dict[Any, Any] = {}
    if types is not None and not (unify(takes.key, types[0], bound) and unify(takes.value, types[1], bound)):
        raise UsageError(
            "TT406",
            f"{name} takes ({show_type(takes.key)}, {show_type(takes.value)}), which types={types!r} does not fit",
            fix="pass types=(K, V), the types of its keys and values",
        )
    closed = [_closed(edge, bound) for edge in (takes, gives)]
    if unknown := [v for edge in closed for v in _variables(edge)]:
        raise UsageError(
            "TT406",
            f"{name} is generic: the types {', '.join(sorted({v.__name__ for v in unknown}))} are not known",
            fix=f"pass them, e.g. check_laws({name}(...), types=(str, int)), or derive a class with concrete types",
        )
    into, out = map(stream_type, closed)
    for edge, stream in zip(closed, (into, out), strict=True):
        if isinstance(stream.key, Optional) or not hashable(stream.key):
            raise UsageError(
                "TT406",
                f"{name} has keys of type {show_type(edge.key)} in {edge}",
                fix="use a scalar, a tuple or a frozen record as a key",
            )
    return Subject(op, into, out)


def _closed(edge: EdgeType, bound: dict[Any, Any]) -> EdgeType:
    return EdgeType(edge.ordered, substitute(edge.key, bound), substitute(edge.value, bound))


def _variables(edge: EdgeType) -> Iterator[Any]:
    for annotation in (edge.key, edge.value):
        if isinstance(annotation, TypeVar):
            yield annotation
        elif get_args(annotation):
            yield from getattr(annotation, "__parameters__", ())
