"""Laws of operators, and tests of them: what a template promises that no type checker can see.

The theorems of data-trace types (section 4, Theorems 4.2 and 4.3) rest on what the templates ask of their author: pure
functions, a commutative monoid, no memory but the state. :func:`laws` spells that out as equations; :func:`check_laws`
looks for a counter-example and reports the smallest one. ``docs/laws.md`` is the guide.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime as dt
import inspect
import itertools
import json
import math
import types as python_types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, Literal, NoReturn, TypeAlias, TypeVar, assert_never, get_args

import attrs

from tracetypes.check import Checked, check, is_frozen, unify
from tracetypes.edges import EdgeType
from tracetypes.errors import LawBroken, OperatorFailed, RunError, UsageError
from tracetypes.graph import Apply, Dataflow, Sort, Source
from tracetypes.interpreter import (
    _Emitter,
    _ordered,
    _stateless,
    _unordered,
    emitted_wrongly,
    guarded,
    interpret_rows,
    merge_channels,
)
from tracetypes.markers import Marker
from tracetypes.places import Orderable
from tracetypes.places import place as place_of
from tracetypes.records import (
    INT_MAX,
    UNIT,
    Boolean,
    Bytes,
    Date,
    Float,
    Integer,
    ListOf,
    Mismatch,
    OneOf,
    Optional,
    Record,
    Schema,
    String,
    Timestamp,
    UnitValue,
    canonical,
    conformer,
    datetime_of,
    hashable,
    key_problem,
    name_of,
    schema_of,
    show,
    show_type,
)
from tracetypes.recovery import Ran, check_recovery, define_scripts, run_scripts
from tracetypes.scripts import Script
from tracetypes.templates import (
    TEMPLATES,
    Operator,
    OpKeyedOrdered,
    OpKeyedUnordered,
    OpStateless,
    as_operator,
    substitute,
    template_types,
)
from tracetypes.trace import Element, Item, StreamType, blocks, closed, stream_type

try:
    from hypothesis import HealthCheck, Phase, Verbosity, given, reject, settings
    from hypothesis import strategies as st
    from hypothesis.errors import Flaky, Unsatisfiable
    from hypothesis.strategies import SearchStrategy
except ImportError as error:
    raise UsageError(
        "TT401", f"tests of laws need Hypothesis, which is not here ({error})", fix="pip install 'tracetypes[test]'"
    ) from None

V = TypeVar("V")

__all__ = [
    "Law",
    "Ran",
    "Script",
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

# ------------------------------------------------------------------------------------------------- values
#
# Everything is drawn from short pools, simplest first: counter-examples read like examples, equal values meet often,
# and the sequence of examples is the same on every machine.

_WHOLE: Final = tuple(sorted(range(-10, 11), key=lambda n: (abs(n), n < 0)))
_INTEGERS: Final = (*_WHOLE[:4] * 5, *_WHOLE, 100, -100, 1000, -1000)
_ROUNDED: Final = (0.1, 0.2, 0.3, -0.1, 0.7, 1.1, -2.6, 3.3, -4.5, 99.9, 1e-3, 1 / 3)
_FLOATS: Final = (
    *(0.0, 1.0, -1.0, 2.0, 0.5, -3.0),
    *_ROUNDED * 2,
    *(1000.0, 1e16, -1e16, -0.0, math.inf, -math.inf, math.nan, -0.0, math.nan),
)
_TEXTS: Final = ("a", "b", "c", "", "ab", "A", "é", "日本", "🙂", " ", "0")
_BYTES: Final = (b"a", b"b", b"", b"ab", b"\x00", b"\xff")
_MICROS: Final = tuple(round(s * 1_000_000) for s in (0, 1, 2, -1, 10, 60, 1000, -1000, 0.000001, 0.5))
_DAYS: Final = (0, 1, -1, 7, 31, 58, 59, 365, 789, -365)
_KEYS: Final = 4


def values(annotation: Any) -> SearchStrategy[Any]:
    """Values of a type that has a schema (or of a :data:`~tracetypes.records.Schema`), the awkward ones included.

    None, NaN, infinities, ``-0.0``, ``0.1``, empty and non-ASCII texts are among them. Numbers, times and dates stay
    within 1000 of zero (of the epoch, in seconds or days): a program that adds or multiplies a few of them stays within
    64 bits, and one that counts from one to the next ends. Give your own strategy where size is the point.
    """
    return _values(annotation if isinstance(annotation, get_args(Schema)) else schema_of(annotation), key=False)


def _keys(schema: Schema) -> SearchStrategy[Any]:
    """A few values only, so that items meet: no None, no NaN."""
    return _values(schema, key=True)


def _values(schema: Schema, *, key: bool) -> SearchStrategy[Any]:
    def pool(every: Sequence[Any]) -> SearchStrategy[Any]:
        return st.sampled_from(every[:_KEYS] if key else every)

    match schema:
        case Boolean():
            return st.sampled_from((False, True))
        case Integer():
            return pool(_INTEGERS)
        case Float():
            return pool(_FLOATS)
        case String():
            return st.sampled_from(("a", "b", "", "é")) if key else pool(_TEXTS)
        case Bytes():
            return pool(_BYTES)
        case Timestamp():
            return pool(_MICROS).map(datetime_of)
        case Date():
            return pool(_DAYS).map(lambda days: dt.date(1970, 1, 1) + dt.timedelta(days))
        case UnitValue():
            return st.just(UNIT)
        case Optional(item):
            return st.one_of(_values(item, key=key), st.none())
        case ListOf(item, frozen):
            inner = item.item if key and isinstance(item, Optional) else item
            listed = st.lists(_values(inner, key=key), max_size=2 if key else 3)
            return listed.map(tuple) if frozen else listed
        case Record(cls, fields):
            names = [name for name, _ in fields]
            parts = st.tuples(*(_values(inner, key=key) for _, inner in fields))
            return parts.map(lambda drawn: _record(cls, dict(zip(names, drawn, strict=True))))
        case OneOf(members):
            return st.one_of(*(_values(member, key=key) for member in members))
        case _:
            assert_never(schema)


def _record(cls: type[Any], fields: dict[str, Any]) -> Any:
    try:
        return cls(**fields)
    except Exception:  # the author's validators: no such value exists
        reject()


# ------------------------------------------------------------------------------------------------- equality


def same(one: Any, other: Any) -> bool:
    """Equality of states and aggregates: ``==``, with NaN equal to NaN, at any depth; plain objects by their fields."""
    try:
        equal = one == other
        if bool(equal.all() if hasattr(equal, "all") else equal):
            return True
    except Exception:  # an == that cannot cope, such as that of arrays of different lengths
        pass
    if isinstance(one, float) and isinstance(other, float):
        return one != one and other != other
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple | collections.deque):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    mine, theirs = _fields_of(one), _fields_of(other)
    return bool(mine) and mine.keys() == theirs.keys() and all(same(mine[name], theirs[name]) for name in mine)


def _fields_of(value: Any) -> dict[str, Any]:
    cls = type(value)
    if isinstance(value, type | python_types.FunctionType | python_types.BuiltinFunctionType):
        return {}
    if attrs.has(cls):
        return {a.name: getattr(value, a.name) for a in attrs.fields(cls) if a.eq}
    if dataclasses.is_dataclass(cls):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(cls) if f.compare}
    slots = [name for at in cls.__mro__ for name in _as_tuple(at.__dict__.get("__slots__", ()))]
    found = {name: getattr(value, name) for name in slots if name != "__weakref__" and hasattr(value, name)}
    return {**getattr(value, "__dict__", {}), **found}


def _as_tuple(names: Any) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _near(one: Any, other: Any) -> bool:
    """Do they differ, if at all, by the rounding of floats only?"""
    if isinstance(one, float) and isinstance(other, float):
        return same(one, other) or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_near, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_near(one[key], other[key]) for key in one)
    if same(one, other):
        return True
    mine, theirs = _fields_of(one), _fields_of(other)
    return bool(mine) and mine.keys() == theirs.keys() and all(_near(mine[name], theirs[name]) for name in mine)


def _floats(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, list | tuple | set | frozenset | collections.deque):
        for one in value:
            yield from _floats(one)
    elif isinstance(value, dict):
        for one in (*value.keys(), *value.values()):
            yield from _floats(one)
    else:
        for one in _fields_of(value).values():
            yield from _floats(one)


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception as error:
        raise UsageError(
            "TT407",
            f"{show(value)} cannot be copied: {type(error).__name__}: {error}",
            fix="build states and aggregates of plain data: they are saved and sent between processes",
        ) from None


# ------------------------------------------------------------------------------------------------- memory

_CONTAINERS: Final = (list, dict, set, bytearray, collections.deque)
_REMEMBERING: Final = (*_CONTAINERS, bool, int, float, str, bytes, tuple, frozenset, type(None))
_LARGEST: Final = 1000
_ABSENT: Final = object()


@attrs.frozen(eq=False)
class _Place:
    """Somewhere an operator could keep something. ``own``: on the instance itself."""

    name: str
    get: Callable[[], Any]
    put: Callable[[Any], None]
    before: Any
    own: bool = False


class _World:
    """All that an operator can reach besides its arguments, as it was: fields, class attributes, defaults, closures
    and the globals that its functions name. :meth:`reset` makes the next run start like one in a fresh process."""

    def __init__(self, op: Any) -> None:
        self.places: list[_Place] = []
        self.seen: set[int] = set()
        for name, value in _fields_of(op).items():
            self._place(f"self.{name}", value, partial(getattr, op, name, _ABSENT), _setter(op, name), own=True)
            self._function(value)
        for cls in type(op).__mro__:
            if cls not in (*TEMPLATES, object, Generic) and cls.__module__ != "abc":
                self._class(cls)

    def reset(self) -> None:
        """Undo what changed."""
        for place in self.places:
            now = place.get()
            if now is place.before and not isinstance(now, _CONTAINERS):
                continue
            if type(now) is not type(place.before) or not same(now, place.before):
                if isinstance(now, _CONTAINERS) and type(now) is type(place.before):
                    _refill(now, copy.deepcopy(place.before))
                else:
                    place.put(copy.deepcopy(place.before) if place.before is not _ABSENT else _ABSENT)

    def changes(self, *, own: bool = False) -> list[str]:
        """What is remembered now, in words. ``own``: on the instance only."""
        found = []
        for place in self.places:
            now = place.get()
            if (place.own or not own) and now is not place.before and not same(now, place.before):
                was = "did not exist" if place.before is _ABSENT else f"was {_brief(place.before)}"
                found.append(f"{place.name} {was} and became {_brief(now)}")
        return found

    def _place(
        self, name: str, value: Any, get: Callable[[], Any], put: Callable[[Any], None], own: bool = False
    ) -> None:
        if value is not _ABSENT:
            if not isinstance(value, _REMEMBERING):
                return
            if isinstance(value, (*_CONTAINERS, tuple, frozenset)) and len(value) > _LARGEST:
                return
            try:
                value = copy.deepcopy(value)
            except Exception:  # it holds what cannot be copied, and so cannot be put back either
                return
        self.places.append(_Place(name, get, put, value, own))

    def _class(self, cls: type[Any]) -> None:
        if id(cls) in self.seen:
            return
        self.seen.add(id(cls))
        for name, value in list(vars(cls).items()):
            if name.startswith("__") or name.startswith("_abc"):
                continue
            self._place(f"{cls.__name__}.{name}", value, partial(vars(cls).get, name, _ABSENT), _setter(cls, name))
            inner = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            self._function(inner.fget if isinstance(inner, property) else inner)

    def _function(self, function: Any) -> None:
        if not isinstance(function, python_types.FunctionType) or id(function) in self.seen:
            return
        self.seen.add(id(function))
        title = function.__qualname__.rpartition("<locals>.")[2]
        names = list(inspect.signature(function).parameters) if function.__defaults__ else []
        for at, value in enumerate(function.__defaults__ or ()):
            if isinstance(value, _CONTAINERS):
                name = names[at - len(function.__defaults__ or ())] if names else "?"
                self._place(f"the default of {title}({name})", value, partial(_itself, value), _keep)
        for name, value in (function.__kwdefaults__ or {}).items():
            if isinstance(value, _CONTAINERS):
                self._place(f"the default of {title}({name})", value, partial(_itself, value), _keep)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            value = _cell(cell)
            if isinstance(value, type):
                self._helper(value, function)
            else:
                self._place(name, value, partial(_cell, cell), partial(setattr, cell, "cell_contents"))
                self._function(value)
        space = function.__globals__
        for name in sorted(_names(function.__code__)):
            value = space.get(name, _ABSENT)
            if value is _ABSENT or isinstance(value, _REMEMBERING):
                self._place(name, value, partial(space.get, name, _ABSENT), _putter(space, name))
            else:
                self._helper(value, function)

    def _helper(self, value: Any, function: python_types.FunctionType) -> None:
        """Functions and classes of the same module may remember for the operator."""
        if getattr(value, "__module__", None) == function.__module__:
            if isinstance(value, type):
                if not issubclass(value, TEMPLATES):
                    self._class(value)
            else:
                self._function(value)


def _brief(value: Any) -> str:
    """Short, and the same in every run: a set has no order of its own."""
    if isinstance(value, set | frozenset) and value:
        return "{" + show(sorted(value, key=repr), 60)[1:-1] + "}"
    return show(value, 60)


def _cell(cell: python_types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return _ABSENT


def _itself(value: Any) -> Any:
    return value


def _keep(_: Any) -> None:
    """For places that are only ever refilled."""


def _setter(owner: Any, name: str) -> Callable[[Any], None]:
    def put(value: Any) -> None:
        if isinstance(owner, type):
            delattr(owner, name) if value is _ABSENT else setattr(owner, name, value)
        else:
            object.__setattr__(owner, name, value)

    return put


def _putter(space: dict[str, Any], name: str) -> Callable[[Any], None]:
    def put(value: Any) -> None:
        if value is _ABSENT:
            space.pop(name, None)
        else:
            space[name] = value

    return put


def _names(code: python_types.CodeType) -> set[str]:
    inner = (_names(const) for const in code.co_consts if isinstance(const, python_types.CodeType))
    return set(code.co_names).union(*inner)


def _refill(container: Any, content: Any) -> None:
    if isinstance(container, list | bytearray):
        container[:] = content
    else:
        container.clear()
        getattr(container, "extend" if isinstance(container, collections.deque) else "update")(content)


# ------------------------------------------------------------------------------------------------- runs

_MOST: Final = 1000
"""A run that emits more than this is not judged: the next example will be smaller."""


class _Abandon(BaseException):
    """This example cannot be judged. No Exception, so that an author's ``except Exception`` lets it pass."""


class _Collector(_Emitter):
    def pair(self, key: Any, value: Any) -> None:
        if len(self.out) >= _MOST:
            raise _Abandon
        try:
            key, value = self.fit_key(key), self.fit_value(value)
        except Mismatch as error:
            if isinstance(error.found, int) and abs(error.found) >= INT_MAX:
                raise _Abandon from None  # every deployment refuses such a number alike
            raise emitted_wrongly(self.op, error, key, value) from None
        if problem := key_problem(self.schema, key):
            raise emitted_wrongly(self.op, problem, key, value)
        self.out.append(Item(key, value))


@attrs.frozen(eq=False)
class _Call:
    """A call of one of the author's methods; ``args`` are copies."""

    method: str
    args: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.method}({', '.join(f'{name}={show(value)}' for name, value in self.args.items())})"


@attrs.frozen(eq=False)
class _Outcome:
    """What a call gave: what it emitted, in a normal form and as text, and what it returned."""

    emitted: Any
    result: Any
    text: str
    before: dict[str, Any]
    after: dict[str, Any]

    def differs(self, other: _Outcome) -> bool:
        return self.emitted != other.emitted or not same(self.result, other.result)


Elements: TypeAlias = tuple[Element, ...]
Drawn: TypeAlias = tuple[Elements, ...]


class _Recorder:
    """Passes every call on to the operator and keeps a copy of its arguments."""

    def __init__(self, subject: _Subject) -> None:
        self.subject = subject
        self.calls: list[_Call] = []

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            names = self.subject.parameters(method)
            self.calls.append(_Call(method, dict(zip(names, _copied(args[: len(names)]), strict=True))))
            return getattr(self.subject.op, method)(*args)

        return call


@attrs.define(eq=False)
class _Subject:
    """An operator under test."""

    op: Any
    takes: StreamType
    gives: StreamType
    items: SearchStrategy[Item]
    world: _World = attrs.field(init=False)

    @property
    def name(self) -> str:
        return type(self.op).__name__

    @property
    def template(self) -> type[Any]:
        return next(t for t in TEMPLATES if isinstance(self.op, t))

    def parameters(self, method: str) -> list[str]:
        """Parameters of a method in its template, without ``self`` and ``emit``."""
        return [p for p in inspect.signature(getattr(self.template, method)).parameters if p not in ("self", "emit")]

    def run(self, stream: Iterable[Element], op: Any = None) -> Elements:
        """What the interpreter, which is the definition, makes of a stream in a fresh process."""
        self.world.reset()
        emitter, channel, op = _Collector(self.op, self.gives), _copied(list(stream)), op or self.op
        if self.template is OpStateless:
            _stateless(op, channel, emitter, speaks=True)
        elif self.template is OpKeyedOrdered:
            _ordered(op, channel, emitter)
        else:
            _unordered(op, channel, emitter)
        return tuple(emitter.out)

    def equal(self, one: Elements, other: Elements) -> bool:
        """Are two outputs the same trace?"""
        return self.gives.normal_form(one) == self.gives.normal_form(other)

    def calls(self, stream: Elements) -> list[_Call]:
        """Every call that a run makes."""
        recorder = _Recorder(self)
        self.run(stream, recorder)
        return recorder.calls

    def invoke(self, call: _Call) -> _Outcome:
        """Make a call, on copies of its arguments."""
        args = _copied(call.args)
        emitter = _Collector(self.op, self.gives)
        key = call.args.get("key")
        emits = "emit" in inspect.signature(getattr(self.template, call.method)).parameters
        emit = partial(emitter.pair, key) if self.template is OpKeyedOrdered else emitter.pair
        extra = [emit] if emits else []
        result = guarded(self.op, call.method, str(call), getattr(self.op, call.method), *args.values(), *extra)
        emitted = self.gives.normal_form(emitter.out)
        result = _copied(result)
        parts = [f"emitted {_elements(emitter.out)}"] if emits else []
        if not emits or self.template is OpKeyedOrdered:
            parts.append(f"returned {show(result)}")
        return _Outcome(emitted, result, " and ".join(parts), call.args, args)

    def aggregate(self, items: Elements) -> Any:
        """An aggregate that a run can reach: the items lifted and combined from the left."""
        made = [guarded(self.op, "lift", f"item {i}", self.op.lift, i.key, _copied(i.value)) for i in _items(items)]
        if not made:
            return guarded(self.op, "identity", "identity", self.op.identity)
        total = made[0]
        for one in made[1:]:
            total = self.combine(total, one)
        return total

    def combine(self, a: Any, b: Any) -> Any:
        """``combine``, on copies."""
        return guarded(
            self.op, "combine", f"a = {show(a)}, b = {show(b)}", self.op.combine, *_copied([a]), *_copied([b])
        )


def _items(stream: Iterable[Element]) -> list[Item]:
    return [element for element in stream if isinstance(element, Item)]


def _elements(stream: Iterable[Element], limit: int = 400) -> str:
    text = " ".join(map(repr, stream)) or "nothing"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _message(heading: str, law: str, lines: Iterable[tuple[str, str]]) -> str:
    body = [f"    {label + ':':<9} {text}" for label, text in [("law", law), *lines]]
    return "\n".join([heading, *body])


def _swap_orders(stream: Elements) -> Iterator[Elements]:
    """The stream with each block reversed, turned by one, and with its first two items exchanged.

    Turning and exchanging generate all permutations, so an output that survives both for every stream survives all;
    reversal shortens the way.
    """
    hows: list[Callable[[list[Item]], list[Item]]] = [
        lambda block: block[::-1],
        lambda block: block[1:] + block[:1],
        lambda block: block[1::-1] + block[2:],
    ]
    for how in hows:
        out: list[Element] = []
        for block in blocks(stream):
            out += how(list(block.items))
            if block.marker is not None:
                out.append(block.marker)
        if any(one is not other for one, other in zip(out, stream, strict=True)):  # 0.0 == -0.0, and yet it is a swap
            yield tuple(out)


# ------------------------------------------------------------------------------------------------- laws


@attrs.frozen(eq=False, kw_only=True)
class Law:
    """One law of one operator. ``equation`` is a line of text; ``code`` is that of the error when it is broken."""

    name: str
    equation: str
    code: str
    _subject: _Subject
    _examples: SearchStrategy[Any]
    _examine: Callable[[_Subject, Any, str], LawBroken | None]

    def __str__(self) -> str:
        return f"{self._subject.name}: {self.name}"

    def __repr__(self) -> str:
        return f"<law {self}: {self.equation}>"

    def check(self, max_examples: int = 200) -> None:
        """Look for a counter-example. Raises :class:`LawBroken` with the smallest one found.

        The examples are the same in every run. The operator's class and module are put back as they were.
        """
        __tracebackhide__ = True
        subject, found = self._subject, list[LawBroken]()
        subject.world = _World(subject.op)
        failures, judged = list[OperatorFailed](), [0]

        @settings(
            max_examples=max_examples,
            derandomize=True,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
            verbosity=Verbosity.quiet,
        )
        @given(self._examples)
        def judge(example: Any) -> None:
            try:
                broken = self._examine(subject, example, self.equation)
            except _Abandon:
                reject()
            except OperatorFailed as error:  # the laws "total" and "types" speak of these
                failures.append(error)
                reject()
            judged[0] += example is None or any(map(_items, example if isinstance(example[0], tuple) else [example]))
            if broken is not None:
                found.append(broken)
                raise broken

        try:
            judge()
            if judged[0]:
                return
            self._unjudged(failures)
        except LawBroken as error:
            smallest = error
        except UsageError as error:  # without what Hypothesis has to say about it
            raise UsageError(error.code, error.message, fix=error.fix) from None
        except Flaky:
            # It does not fail again: the operator remembers where we cannot put back, or draws lots.
            if not found:
                raise
            smallest = min(found, key=lambda broken: len(broken.message))
        except Unsatisfiable:
            self._unjudged(failures)
        finally:
            subject.world.reset()
        raise LawBroken(smallest.code, smallest.message, fix=smallest.fix) from None

    def _unjudged(self, failures: Sequence[OperatorFailed]) -> NoReturn:
        first = failures[0].message.partition("\n")[0] if failures else ""
        why = f"every item failed, e.g. {first}" if failures else "no value was accepted"
        raise UsageError(
            "TT407",
            f"{self}: no example could be judged: {why}",
            fix="give a strategy of (key, value) pairs that the operator accepts: check_laws(op, items=...)",
        ) from None


def _frozen(subject: _Subject, _: Any, law: str) -> LawBroken | None:
    if is_frozen(subject.op):
        return None
    name = subject.name
    return LawBroken(
        "TT309",
        _message(f"{name} can be assigned to", law, [("found", f"{name} is a plain class")]),
        fix=f"decorate {name} with @attrs.frozen and declare its parameters as fields",
    )


def _total(subject: _Subject, stream: Elements, law: str) -> LawBroken | None:
    try:
        subject.run(stream)
        if subject.template is OpKeyedUnordered:
            lifted = [subject.aggregate((item,)) for item in _items(stream)]
            total = subject.aggregate(())
            for one in reversed(lifted):
                total = subject.combine(one, total)
    except OperatorFailed as error:
        if error.code != "TT202":
            raise
        heading, _, at = error.message.partition("\n    at:       ")
        return LawBroken(
            "TT308",
            _message(heading, law, [("at", at), ("items", _elements(stream))]),
            fix="handle the value; if it cannot occur, say so: check_laws(op, items=<strategy of (key, value) pairs>)",
            where=error.where,
            line=error.line,
        )
    return None


def _types(subject: _Subject, stream: Elements, law: str) -> LawBroken | None:
    try:
        subject.run(stream)
    except OperatorFailed as error:
        if error.code != "TT206":
            raise
        return LawBroken("TT309", _message(error.message, law, [("items", _elements(stream))]), fix=error.fix)
    return None


_MAY_CHANGE: Final = {OpKeyedOrdered: ("state",)}


def _purity(subject: _Subject, stream: Elements, law: str) -> LawBroken | None:
    calls = subject.calls(stream)
    alone: list[_Outcome] = []
    for call in calls:
        subject.world.reset()
        alone.append(subject.invoke(call))
        if broken := _changed(subject, call, alone[-1], law):
            return broken
    subject.world.reset()
    order = (*range(len(calls)), *reversed(range(len(calls))))
    for done, at in enumerate(order):
        again = subject.invoke(calls[at])
        if alone[at].differs(again):
            return _remembered(subject, calls[at], [calls[i] for i in order[:done]], alone[at], again, law)
    return None


def _changed(subject: _Subject, call: _Call, outcome: _Outcome, law: str) -> LawBroken | None:
    method = f"{subject.name}.{call.method}"
    for name, after in outcome.after.items():
        if name not in _MAY_CHANGE.get(subject.template, ()) and not same(outcome.before[name], after):
            return LawBroken(
                "TT304",
                _message(
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
            _message(
                f"{method} is not pure: it changes the operator itself", law, [("call", str(call)), ("memory", own[0])]
            ),
            fix=_FORGET[subject.template],
        )
    return None


_FORGET: Final[dict[type[Any], str]] = {
    OpStateless: "an OpStateless has no memory: use OpKeyedUnordered or OpKeyedOrdered, and keep this in the state",
    OpKeyedOrdered: "keep what must be remembered in the state, which is passed in and returned",
    OpKeyedUnordered: "keep what must be remembered in the state: update_state returns it, nothing else is kept",
}


def _remembered(
    subject: _Subject, call: _Call, before: Sequence[_Call], first: _Outcome, again: _Outcome, law: str
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
    memory = subject.world.changes()
    return LawBroken(
        "TT304",
        _message(
            f"{subject.name}.{call.method} is not pure: what it gives depends on what was called before",
            law,
            [
                ("call", str(call)),
                ("at first", first.text),
                ("after", after),
                ("then", then.text),
                *[("memory", change) for change in memory[:3]],
            ],
        ),
        fix=_FORGET[subject.template],
    )


def _key_locality(subject: _Subject, stream: Elements, law: str) -> LawBroken | None:
    together = subject.run(stream)
    keys = list(dict.fromkeys(item.key for item in _items(stream)))
    markers = [element for element in stream if isinstance(element, Marker)]
    runs = [subject.run([e for e in stream if isinstance(e, Marker) or e.key == key]) for key in keys]
    apart = tuple(merge_channels([markers, *runs], True, None))
    if subject.equal(together, apart):
        return None
    subject.run(stream)
    memory = subject.world.changes()
    shared = memory[:3] or ["initial_state() may give every key the same object, which on_item then changes"]
    return LawBroken(
        "TT305",
        _message(
            f"{subject.name}: the keys are not independent of each other",
            law,
            [
                ("items", _elements(stream)),
                ("together", _elements(together)),
                ("apart", _elements(apart)),
                *([("memory", one) for one in shared] if memory or subject.template is OpKeyedOrdered else []),
            ],
        ),
        fix="keep nothing outside the state, and let initial_state() build a new object at every call",
    )


def _order(subject: _Subject, stream: Elements, law: str) -> LawBroken | None:
    one = subject.run(stream)
    for swapped in _swap_orders(stream):
        other = subject.run(swapped)
        if not subject.equal(one, other):
            subject.run(stream)
            memory = subject.world.changes()
            return LawBroken(
                "TT306",
                _message(
                    f"{subject.name}: the order of the items of a block changes the output",
                    law,
                    [
                        ("order 1", _elements(stream)),
                        ("gives", _elements(one)),
                        ("order 2", _elements(swapped)),
                        ("gives", _elements(other)),
                        *[("memory", change) for change in memory[:3]],
                    ],
                ),
                fix=_advice((stream,), one, other)
                or (
                    _FORGET[subject.template]
                    if memory
                    else "make the output depend on the bag of items alone; where order matters use sort and OpKeyedOrdered"
                ),
            )
    return None


def _advice(drawn: Sequence[Elements], left: Any, right: Any) -> str:
    """A fix for the counter-examples that floats are famous for, or nothing."""
    inputs = [f for stream in drawn for item in _items(stream) for f in _floats((item.key, item.value))]
    seen = [*inputs, *_floats(left), *_floats(right)]
    if _near(left, right) and not same(left, right):
        return (
            "floating-point addition rounds, so the order shows: sum with tracetypes.ExactSum (lift to ExactSum.of(x), "
            "combine with +, read with .value())"
        )
    if any(f != f for f in inputs):
        return (
            "NaN is neither larger nor smaller than anything, so max, min and sorted depend on the order: leave NaN out "
            "or give it a place of its own"
        )
    if any(f == 0.0 and math.copysign(1.0, f) < 0 for f in seen) and same(left, right):
        return "0.0 and -0.0 are equal and yet two values: lift x + 0.0 instead of x, which is never -0.0"
    return ""


def _monoid(
    code: str,
    letters: int,
    heading: str,
    sides: Callable[..., Iterable[tuple[str, Any, Any]]],
    fix: str,
) -> Callable[[_Subject, Drawn, str], LawBroken | None]:
    """A law on so many aggregates ``a``, ``b``, ``c``, tried on those that were drawn in every arrangement."""

    def examine(subject: _Subject, drawn: Drawn, law: str) -> LawBroken | None:
        subject.world.reset()
        known = [(subject.aggregate(items), items) for items in (drawn if letters > 1 else (*drawn, ()))]
        for chosen in itertools.permutations(known, letters):
            texts = [f"{show(made)}, from {_term(items)}" for made, items in chosen]
            for what, left, right in sides(subject, *(made for made, _ in chosen)):
                if not same(left, right):
                    lines = [*zip("abc", texts, strict=False), ("left", show(left)), ("right", show(right))]
                    advice = _monoid_advice(code, [items for _, items in chosen], left, right) or fix
                    return LawBroken(code, _message(f"{subject.name}: {heading}{what}", law, lines), fix=advice)
        return None

    return examine


def _monoid_advice(code: str, drawn: Sequence[Elements], left: Any, right: Any) -> str:
    if advice := _advice(drawn, left, right):
        return advice
    if code == "TT303" and _shuffled(left, right):
        return (
            "both sides hold the same parts in another order: use a bag such as collections.Counter, or sort in combine; "
            "where order matters use sort and OpKeyedOrdered"
        )
    if code == "TT302" and any(True for _ in _floats([left, right])):
        return f"{_ADD_UP}; sum floats with tracetypes.ExactSum, for float addition is not associative either"
    return ""


def _term(items: Elements) -> str:
    """How an aggregate was made."""
    if not items:
        return "identity()"
    lifts = [f"lift({show(item.key)}, {show(item.value)})" for item in _items(items)]
    term = lifts[0]
    for one in lifts[1:]:
        term = f"combine({term}, {one})"
    return term


def _shuffled(left: Any, right: Any) -> bool:
    return (
        type(left) is type(right)
        and isinstance(left, list | tuple | str | bytes)
        and sorted(map(repr, left)) == sorted(map(repr, right))
    )


def _identity_sides(subject: _Subject, a: Any) -> Iterator[tuple[str, Any, Any]]:
    neutral = subject.aggregate(())
    yield ": combine(a, identity()) is not a", subject.combine(a, neutral), a
    yield ": combine(identity(), a) is not a", subject.combine(neutral, a), a


def _commutativity_sides(subject: _Subject, a: Any, b: Any) -> Iterator[tuple[str, Any, Any]]:
    yield "", subject.combine(a, b), subject.combine(b, a)


def _associativity_sides(subject: _Subject, a: Any, b: Any, c: Any) -> Iterator[tuple[str, Any, Any]]:
    yield "", subject.combine(a, subject.combine(b, c)), subject.combine(subject.combine(a, b), c)


_ADD_UP: Final = (
    "aggregate what adds up (sums and counts, not means or differences), and compute the rest in update_state"
)
_identity = _monoid(
    "TT301",
    1,
    "identity() is not neutral",
    _identity_sides,
    "let identity() return the value that combine leaves alone: 0 for a sum, None (and a test for it) for a maximum",
)
_commutativity = _monoid(
    "TT303",
    2,
    "combine is not commutative",
    _commutativity_sides,
    "let combine decide by what the items hold, not by which came first; where order matters use sort and OpKeyedOrdered",
)
_associativity = _monoid("TT302", 3, "combine is not associative", _associativity_sides, _ADD_UP)


def _visit(
    subject: _Subject, stream: Elements, *, skipping: bool
) -> tuple[Elements, list[tuple[Any, Marker, Sequence[Element]]]]:
    """Table 3 of the paper, without the visits of untouched keys if ``skipping``; and what such visits emitted."""
    subject.world.reset()
    op, emitter = subject.op, _Collector(subject.op, subject.gives)
    states: dict[Any, Any] = {}
    aggregates: dict[Any, Any] = {}
    noise: list[tuple[Any, Marker, Sequence[Element]]] = []
    start = guarded(op, "initial_state", "the start", op.initial_state)
    for item in _copied(list(stream)):
        at = repr(item)
        if isinstance(item, Marker):
            for key in states:
                if key not in aggregates and skipping:
                    continue
                agg = aggregates[key] if key in aggregates else guarded(op, "identity", at, op.identity)
                states[key] = guarded(op, "update_state", at, op.update_state, states[key], agg)
                before = len(emitter.out)
                guarded(op, "on_marker", at, op.on_marker, states[key], key, item, emitter.pair)
                if key not in aggregates and len(emitter.out) > before:
                    noise.append((key, item, emitter.out[before:]))
            aggregates.clear()
            if not skipping:
                start = guarded(op, "update_state", at, op.update_state, start, op.identity())
            emitter.out.append(item)
        else:
            if item.key not in states:
                states[item.key] = start
            guarded(op, "on_item", at, op.on_item, states[item.key], item.key, item.value, emitter.pair)
            lifted = guarded(op, "lift", at, op.lift, item.key, item.value)
            if item.key not in aggregates:
                aggregates[item.key] = guarded(op, "identity", at, op.identity)
            aggregates[item.key] = guarded(op, "combine", at, op.combine, aggregates[item.key], lifted)
    return tuple(emitter.out), noise


def _silent(subject: _Subject, stream: Elements, law: str) -> LawBroken | None:
    _, noise = _visit(subject, stream, skipping=False)
    if not noise:
        return None
    key, marker, emitted = noise[0]
    return LawBroken(
        "TT307",
        _message(
            f"{subject.name}: skips_untouched is declared, but a key without items in a block emits at its marker",
            law,
            [
                ("items", _elements(stream)),
                ("emitted", f"{_elements(emitted)} at {marker} for the key {show(key)}"),
                ("expected", "nothing"),
            ],
        ),
        fix="remember in the state whether the block held anything, and emit only then; or remove skips_untouched = True",
    )


def _no_trace(subject: _Subject, stream: Elements, law: str) -> LawBroken | None:
    visited, _ = _visit(subject, stream, skipping=False)
    skipped, _ = _visit(subject, stream, skipping=True)
    if subject.equal(visited, skipped):
        return None
    return LawBroken(
        "TT307",
        _message(
            f"{subject.name}: skips_untouched is declared, but leaving the identity update out changes the output",
            law,
            [("items", _elements(stream)), ("visited", _elements(visited)), ("skipped", _elements(skipped))],
        ),
        fix="let update_state(state, identity()) change nothing that is ever emitted; or remove skips_untouched = True",
    )


def _unseen(subject: _Subject, stream: Elements, law: str) -> LawBroken | None:
    subject.world.reset()
    op, emitter = subject.op, _Collector(subject.op, subject.gives)
    keys = {repr(item.key): item.key for item in _items(stream)}.values()
    start = guarded(op, "initial_state", "the start", op.initial_state)
    markers = 0
    for item in stream:
        if not isinstance(item, Marker):
            continue
        at = repr(item)
        start = guarded(op, "update_state", at, op.update_state, start, guarded(op, "identity", at, op.identity))
        markers += 1
        for key in keys:
            guarded(op, "on_marker", at, op.on_marker, start, key, item, emitter.pair)
            if emitter.out:
                lines = [
                    ("key", show(key)),
                    (
                        "state",
                        f"{show(start)}, from initial_state() and {markers} identity update{'s' * (markers > 1)}",
                    ),
                    ("emitted", f"{_elements(emitter.out)} at {item}"),
                    ("expected", "nothing"),
                ]
                what = f"{subject.name}: forgets_idle is declared, but a key that was never seen would emit at a marker"
                fix = "emit only where the state holds something of the key's items; or remove forgets_idle = True"
                return LawBroken("TT307", _message(what, law, lines), fix=fix)
    return None


# ------------------------------------------------------------------------------------------------- the calls


def laws(
    op: Operator, *, items: SearchStrategy[tuple[Any, Any]] | None = None, types: tuple[Any, Any] | None = None
) -> tuple[Law, ...]:
    """The laws of an operator.

    ``items``: a strategy of ``(key, value)`` pairs, for an operator that assumes something of its input; by default
    every pair of its types. ``types``: ``(K, V)`` of a generic operator that leaves them open.
    """
    subject = _subject(op, items, types)
    streams, bag = _streams(subject.items, blocks=3, size=4), st.lists(subject.items, min_size=1, max_size=3).map(tuple)
    three = st.tuples(bag, bag, bag)

    def law(
        name: str,
        code: str,
        equation: str,
        examine: Callable[[_Subject, Any, str], LawBroken | None],
        examples: SearchStrategy[Any] = streams,
    ) -> Law:
        return Law(name=name, code=code, equation=equation, subject=subject, examine=examine, examples=examples)

    found = [
        law("frozen", "TT309", "no attribute of the operator can be assigned", _frozen, st.none()),
        law("total", "TT308", "no method raises, whatever the items are", _total),
        law("types", "TT309", "what is emitted is of the declared types", _types),
    ]
    locality = law("key locality", "TT305", "run(items) == merge(run(items of key) for each key)", _key_locality)
    purity = law(
        "purity",
        "TT304",
        "f(x) == f(x), whatever was called in between, and x is as before",
        _purity,
        _streams(subject.items, blocks=2, size=3),
    )
    order = law("order insensitivity", "TT306", "run(block) == run(the block in another order)", _order)
    if isinstance(op, OpStateless):
        found += [purity, order]
    elif isinstance(op, OpKeyedOrdered):
        found += [locality, purity]
    else:
        found += [
            purity,
            law("identity", "TT301", "combine(a, identity()) == a == combine(identity(), a)", _identity, three),
            law("commutativity", "TT303", "combine(a, b) == combine(b, a)", _commutativity, three),
            law(
                "associativity",
                "TT302",
                "combine(a, combine(b, c)) == combine(combine(a, b), c)",
                _associativity,
                three,
            ),
            order,
            locality,
        ]
        if op.skips_untouched:
            found += [
                law(
                    "idle keys are silent",
                    "TT307",
                    "on_marker(update_state(state, identity()), ...) emits nothing",
                    _silent,
                ),
                law("idle keys leave no trace", "TT307", "run(items) == run(items) without idle visits", _no_trace),
            ]
        if op.forgets_idle:
            law_of_unseen = "on_marker(state of a key never seen, ...) emits nothing"
            longer = _streams(subject.items, blocks=8, size=2)
            found.append(law("keys never seen are silent", "TT307", law_of_unseen, _unseen, longer))
    return tuple(found)


def check_laws(
    op: Operator,
    *,
    items: SearchStrategy[tuple[Any, Any]] | None = None,
    types: tuple[Any, Any] | None = None,
    max_examples: int = 200,
) -> None:
    """Check all laws of an operator; see :func:`laws` for ``items`` and ``types``.

    Raises :class:`LawBroken` with the smallest counter-example to the first law that is broken. Deterministic, silent,
    and needs no pytest. ``max_examples``: how many examples each law is tried on.
    """
    __tracebackhide__ = True
    for law in laws(op, items=items, types=types):
        law.check(max_examples)


def law_tests(
    *ops: Operator,
    items: SearchStrategy[tuple[Any, Any]] | None = None,
    types: tuple[Any, Any] | None = None,
    max_examples: int = 200,
) -> Callable[[Law], None]:
    """A test function for pytest with one test for each law of each operator: ``test_laws = law_tests(Total(), Mean())``."""
    import pytest

    every = [law for op in ops for law in laws(op, items=items, types=types)]

    @pytest.mark.parametrize("law", every, ids=[f"{law}".replace(": ", "-").replace(" ", "_") for law in every])
    def test_law(law: Law) -> None:
        __tracebackhide__ = True
        law.check(max_examples)

    return test_law


def _subject(op: Operator, items: SearchStrategy[tuple[Any, Any]] | None, types: tuple[Any, Any] | None) -> _Subject:
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
    drawn = st.tuples(_keys(into.key), values(into.value)) if items is None else items
    return _Subject(op, into, out, drawn.map(lambda pair: _fitted(into, pair)))


def _closed(edge: EdgeType, bound: dict[Any, Any]) -> EdgeType:
    return EdgeType(edge.ordered, substitute(edge.key, bound), substitute(edge.value, bound))


def _variables(edge: EdgeType) -> Iterator[Any]:
    for annotation in (edge.key, edge.value):
        if isinstance(annotation, TypeVar):
            yield annotation
        elif get_args(annotation):
            yield from getattr(annotation, "__parameters__", ())


def _fitted(stream: StreamType, pair: Any) -> Item:
    try:
        key, value = pair
        if problem := key_problem(stream.key, key):
            raise ValueError(problem)
        return Item(conformer(stream.key)(key), conformer(stream.value)(value))
    except (Mismatch, TypeError, ValueError) as error:
        wanted = f"({name_of(stream.key)}, {name_of(stream.value)})"
        raise UsageError(
            "TT407", f"items drew {show(pair)}: {error}", fix=f"let the strategy draw pairs {wanted}"
        ) from None


_GAPS: Final = (10, 1, 1000)


def _streams(items: SearchStrategy[Item], *, blocks: int, size: int) -> SearchStrategy[Elements]:
    """Up to so many blocks of up to so many items; markers some seconds apart."""
    block = st.tuples(st.lists(items, max_size=size), st.sampled_from(_GAPS))

    def joined(drawn: list[tuple[list[Item], int]]) -> Elements:
        out: list[Element] = []
        seconds = 0
        for held, gap in drawn:
            seconds += gap
            out += [*held, Marker(seconds * 1_000_000)]
        return tuple(out)

    return st.lists(block, min_size=1, max_size=blocks).map(joined)


# ------------------------------------------------------------------------------------------------- deployments


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
    chosen = {source.name: _rows(checked, source, rows) for source in checked.graph.sources}
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

    @settings(
        max_examples=max_examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
    )
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
        reached[0] += any(_items(trace) for trace in defined.values())
        wrong = [name for name in defined if answers[name].trace != defined[name]]
        if wrong or aside != told:
            name = wrong[0] if wrong else next(iter(defined))
            raise LawBroken(
                "TT310",
                f"dataflow {flow.name!r} gives another answer at sink {name!r} when it is deployed\n"
                f"    rows:     {'; '.join(f'{name}: {show(r, 400)}' for name, r in one.rows.items())}\n"
                f"    defined:  {_elements(defined[name])}, {aside[0]} late, {aside[1]} rejected\n"
                f"    deployed: {_elements(answers[name].trace)}, {told[0]} late, {told[1]} rejected\n"
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


def check_order(by: Callable[[V], Orderable], value: type[V], *, max_examples: int = 200) -> None:
    """The law of a SORT: whatever order values come in, they go out in one. What ``by`` gives must have a place in the order
    (:mod:`tracetypes.places`), and be the same each time.

    ``by``: as of ``sort`` or ``ordered_by``; ``value``: the type of the values. Raises :class:`LawBroken` ``TT312`` with the
    smallest values that break it. Deterministic.
    """
    __tracebackhide__ = True
    sort_law(by, schema_of(value), max_examples)


def sort_law(by: Callable[[Any], Any], schema: Schema, max_examples: int) -> None:
    """See :func:`check_order`."""
    whole = canonical(schema)

    def ordered(some: Iterable[Any]) -> list[Any]:
        return [at for _, at in sorted((place_of(by(one)), whole(one)) for one in some)]

    @settings(
        max_examples=max_examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
    )
    @given(st.lists(_values(schema, key=False), min_size=1, max_size=4))
    def judge(some: list[Any]) -> None:
        try:
            one, other = ordered(some), ordered(reversed(some))
        except Exception as error:
            raise LawBroken(
                "TT312",
                f"by fails or gives what has no place in an order: {type(error).__name__}: {error}\n    values:   {show(some)}",
                fix="let by give a number other than NaN, a text, bytes, a time, a day or a tuple of these for every value",
            ) from None
        if one != other:
            raise LawBroken(
                "TT312",
                f"two orders of arrival, two answers: by gives different places for equal values\n    values:   {show(some)}",
                fix="let by depend on the value alone",
            )

    try:
        judge()
    except Flaky as error:  # it does not fail again: by draws lots
        raise LawBroken(
            "TT312",
            f"two calls of by, two answers: {str(error).partition(chr(10))[0]}",
            fix="let by depend on the value alone",
        ) from None


def slices(rows: Sequence[Any], size: int = 40) -> SearchStrategy[list[Any]]:
    """Pieces of a recorded input, in its order: for ``rows`` of :func:`check_deployments`."""
    starts = st.integers(0, max(0, len(rows) - 1))
    return st.builds(lambda start, length: list(rows[start : start + length]), starts, st.integers(0, size))


def _rows(
    checked: Checked, source: Source, given: Mapping[str, SearchStrategy[list[Any]]] | None
) -> SearchStrategy[list[Any]]:
    if given is not None and source.name in given:
        return given[source.name]
    layout = checked.layout(source)
    row = values(layout.value)
    if layout.keyed:
        return st.lists(st.tuples(values(layout.key), row), max_size=20)
    return st.lists(row, max_size=20)


def check_flow(
    flow: Dataflow,
    *,
    rows: Mapping[str, SearchStrategy[list[Any]]] | None = None,
    max_examples: int = 100,
    say: Callable[[str], None] = print,
    elsewhere: Callable[[], Iterable[str]] | None = None,
) -> int:
    """What ``tracetypes test`` does: the laws of every operator, random deployments, and another process. The exit status.

    ``elsewhere``: gives the lines of :func:`answers` in another process.
    """
    checked = check(flow)
    broken = unknown = 0

    def tell(name: str, test: Callable[[], None]) -> None:
        nonlocal broken, unknown
        found = _told(name, test, say)
        broken, unknown = broken + (found == "BROKEN"), unknown + (found == "unknown")

    for node in checked.graph.nodes:
        if isinstance(node, Sort):
            value = schema_of(checked.types[node.inputs[0]].value)
            tell(f"SORT at {node.where}: order", partial(sort_law, node.by, value, max_examples))
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
    """What a flow means for random rows: a line of JSON for each example, with its rows and what is at each sink.

    The lines are the same in every process, unless an operator depends on its process."""
    checked = check(flow)
    chosen = {source.name: _rows(checked, source, rows) for source in checked.graph.sources}
    found: list[str] = []

    @settings(
        max_examples=max_examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @given(st.fixed_dictionaries(chosen))
    def take(drawn: dict[str, list[Any]]) -> None:
        try:
            traces, _ = interpret_rows(checked, drawn)
        except (OperatorFailed, RunError) as error:
            sinks = {"": error.code}
        else:
            sinks = {name: repr(trace.normal_form) for name, trace in traces.items()}
        shown = {name: [repr(row) for row in some] for name, some in drawn.items()}
        found.append(json.dumps({"rows": shown, "sinks": sinks}))

    take()
    yield from found


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


def _told(name: str, test: Callable[[], None], say: Callable[[str], None]) -> Literal["ok", "BROKEN", "unknown"]:
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
