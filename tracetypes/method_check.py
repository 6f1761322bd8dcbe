"""What an operator or aggregate forgets: methods that never run, that emit nothing although they return something, or that return
nothing although their result is used; and functions given to it that take other arguments, or read what no value has.

It looks at code and types only, and calls nothing. What cannot be decided is accepted.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, Union, get_args, get_origin

import attrs

from tracetypes.attributes import missing_attribute
from tracetypes.errors import DataError, Location, counted
from tracetypes.function_code import Plain, plain
from tracetypes.record_classes import member_of
from tracetypes.records import Schema
from tracetypes.schemas import schema_of, show_type
from tracetypes.self_description import SelfDescribing
from tracetypes.templates import substitute, type_arguments
from tracetypes.value_tests import excludes_none, value_test

__all__ = ["Fault", "Method", "faults", "function_faults", "methods_of"]


@attrs.frozen
class Fault:
    """What is wrong with a method or function. ``where``: its line."""

    code: str
    where: Location
    found: str
    expected: str
    fix: str


@attrs.frozen
class Method:
    """A method as its template declares it. ``emitter``: the number of the argument ``emit``, if it has one. ``emits``: how it is
    called. ``returns``: the type of the result, with type variables of the template; that of None: the result is thrown away."""

    emitter: int | None
    emits: str
    returns: Any


@cache
def methods_of(template: type[Any]) -> Mapping[str, Method]:
    """The methods that a template declares."""
    methods: dict[str, Method] = {}
    for name, function in vars(template).items():
        if name.startswith("_") or not isinstance(function, types.FunctionType):
            continue
        names = list(inspect.signature(function).parameters)[1:]
        returns = typing.get_type_hints(function).get("return", Any)
        emitter = names.index("emit") if "emit" in names else None
        keeps_key = emitter is not None and _keeps_key(function)
        methods[name] = Method(emitter, "emit(value)" if keeps_key else "emit(key, value)", returns)
    return methods


def _keeps_key(function: Callable[..., Any]) -> bool:
    """Does the emitter of a method take the value only?"""
    return len(get_args(typing.get_type_hints(function)["emit"])[0]) == 1


def faults(part: SelfDescribing, bound: Mapping[Any, Any]) -> Iterator[Fault]:
    """What is wrong with the methods of an operator or aggregate, and with the functions and aggregates given to it. ``bound``:
    the types that the stream gives its type variables."""
    template = next((at for at in type(part).__mro__ if vars(at).get("_is_template")), None)
    if template is None:
        return
    arguments = dict(zip(template.__parameters__, type_arguments(part, template), strict=True))  # type: ignore[attr-defined]
    for name, method in methods_of(template).items():
        if (function := plain(getattr(part, name, None))) is not None:
            returns = substitute(substitute(method.returns, arguments), dict(bound))
            yield from _of_method(f"{part._name()}.{name}", function, method, returns)
            yield from _thrown_away(f"{part._name()}.{name}", function, type(part))
    yield from _misspelt(part, template)
    for owner, name, annotation, value in _given(part):
        annotation = substitute(annotation, dict(bound))
        used = owner.__module__.startswith("tracetypes.")  # the library throws no result away
        for one in _some(value):
            if isinstance(one, SelfDescribing):
                yield from _of_part(one, annotation)
            else:
                yield from _of_function(f"{part._name()}: {name}", one, annotation, used=used)


# ------------------------------------------------------------------------------------------------- methods


def _of_method(name: str, function: Plain, method: Method, returns: Any) -> Iterator[Fault]:
    discarded = method.returns is types.NoneType
    if (later := function.runs_later) is not None:
        if method.emitter is not None or discarded or _excludes_later(returns):
            fix = f"call {method.emits} for each result" if method.emitter is not None else "return the value itself"
            fix = f"{fix}, in a method without yield, async or await"
            yield Fault("TT131", function.where, f"{name} is {later}", "a method that runs when it is called", fix)
    elif discarded:
        if method.emitter is not None and function.forgets(method.emitter):
            found = f"{name} returns a value, which is thrown away, and never uses its emitter"
            fix = f"call {method.emits} instead of returning it"
            yield Fault("TT131", function.where, found, "results that are emitted", fix)
    elif function.returns_nothing and excludes_none(returns):
        yield _returns_nothing(name, function, returns)


def _thrown_away(name: str, function: Plain, owner: type[Any] | None = None) -> Iterator[Fault]:
    for what, where in function.thrown_away(owner):
        fix = "write a function without async" if what == "a coroutine" else "loop over it: for ... in ..."
        yield Fault("TT131", where, f"{name} makes {what} and throws it away, so its code never runs", "code that runs", fix)


def _misspelt(part: SelfDescribing, template: Any) -> Iterator[Fault]:
    """Methods with almost the name of a method of the template that the class does not define, which no method calls."""
    classes: Sequence[Any] = type(part).__mro__
    own = [at for at in classes if not at.__module__.startswith("tracetypes.") and not vars(at).get("_is_template")]
    functions = {name: one for at in own for name, one in vars(at).items() if isinstance(one, types.FunctionType)}
    read = {name for one in functions.values() for name in _names(one.__code__)}
    declared: Mapping[str, Method] = methods_of(template)
    for name, function in functions.items():
        if name.startswith("_") or name in read or hasattr(template, name):
            continue
        near = get_close_matches(name, [one for one in declared if getattr(type(part), one) is getattr(template, one)], 1, _CLOSE)
        if near:
            found = f"{part._name()}.{name}, which nothing calls"
            fix = f"call it {near[0]} if that is meant, otherwise give it another name"
            where = Location(function.__code__.co_filename, function.__code__.co_firstlineno)
            yield Fault("TT131", where, found, f"a method of {template.__name__}, such as {near[0]}", fix)


_CLOSE = 0.85
"""How much of a name of the template is in a name that is taken for a slip."""


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _names(one)


def _returns_nothing(name: str, function: Plain, returns: Any) -> Fault:
    found = f"{name} returns nothing on any path, so its result is None"
    expected = "a result" if returns is Any else f"a result of {show_type(returns)}"
    return Fault("TT131", function.where, found, expected, "end it with return and the result")


def _excludes_later(returns: Any) -> bool:
    """Whether a generator or coroutine is certainly no value of the type."""
    test = value_test(returns)
    return test is not None and not test(_NEVER)


def _nothing() -> Iterator[None]:
    yield


_NEVER = _nothing()


# ------------------------------------------------------------------------------------------------- functions and parts


def _given(part: SelfDescribing) -> Iterator[tuple[type[Any], str, Any, object]]:
    """What an author gave to an operator or aggregate: the classes and names of its fields, their types, and their values."""
    for at in type(part).__mro__:
        annotations = vars(at).get("__annotations__") or getattr(at, "__annotate__", None)
        if not annotations or not (attrs.has(at) or hasattr(at, "__dataclass_fields__")):
            continue
        try:
            hints = inspect.get_annotations(at, eval_str=True)
            known = dict(zip(at.__parameters__, type_arguments(part, at), strict=True)) if hasattr(at, "__parameters__") else {}
        except Exception:  # a name that only a type checker sees, or types that are refused elsewhere
            continue
        for name, annotation in hints.items():
            yield at, name, substitute(annotation, known), getattr(part, name, None)


def _some(value: object) -> Iterable[object]:
    """The functions and parts in the value of a field."""
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else (value,)
    classes = {cls for cls in set(map(type, values)) if issubclass(cls, SelfDescribing) or member_of(cls, "__call__") is not None}
    return [one for one in values if type(one) in classes] if classes else ()  # of large tables there are none


def _alternatives(annotation: Any) -> list[Any]:
    """The types of functions and parts in the type of a field."""
    if get_origin(annotation) is Union or isinstance(annotation, types.UnionType):
        return [one for arg in get_args(annotation) for one in _alternatives(arg)]
    origin = get_origin(annotation)
    if isinstance(origin, type) and issubclass(origin, tuple | list | Mapping):
        return [one for arg in get_args(annotation) if arg is not ... for one in _alternatives(arg)]
    return [annotation]


def _of_part(part: SelfDescribing, annotation: Any) -> Iterator[Fault]:
    """What is wrong with an aggregate, whose values have the type that the field says."""
    for one in _alternatives(annotation):
        origin = get_origin(one)
        if isinstance(origin, type) and isinstance(part, origin) and issubclass(origin, SelfDescribing):
            bound: dict[Any, Any] = {}
            for ours, theirs in zip(type_arguments(part, origin), get_args(one), strict=False):
                _bind(ours, theirs, bound)
            yield from faults(part, bound)
            return


def _bind(pattern: Any, got: Any, bound: dict[Any, Any]) -> None:
    """Bind the type variables of a pattern to what stands in their place."""
    if isinstance(pattern, typing.TypeVar):
        if not isinstance(got, typing.TypeVar) and got is not Any:
            bound.setdefault(pattern, got)
        return
    ours, theirs = get_args(pattern), get_args(got)
    if len(ours) == len(theirs):
        for one, other in zip(ours, theirs, strict=True):
            _bind(one, other, bound)


def _of_function(name: str, value: object, annotation: Any, *, used: bool) -> Iterator[Fault]:
    """What is wrong with a function, by the type of the field that holds it. ``used``: as of :func:`function_faults`."""
    signature = next((one for one in _alternatives(annotation) if get_origin(one) is get_origin(Callable[..., Any])), None)
    if signature is not None:
        yield from function_faults(name, value, *get_args(signature), used=used)


def function_faults(name: str, value: object, takes: Any, returns: Any, *, used: bool = False) -> Iterator[Fault]:
    """What is wrong with a function. ``takes``: the types of its arguments; no list: any. ``returns``: the type of its result.
    ``used``: its result is used even if that is ``Any``, so it returns something on some path. (A lambda forgets no return:
    its None is meant, as a key that no table has.)"""
    if (function := plain(value)) is None:
        return
    if isinstance(takes, list):
        if not function.takes(len(takes)):
            yield _wrong_count(name, function, [*map(show_type, takes)])
            return
        if (fault := _missing_attribute(name, value, takes)) is not None:
            yield fault
            return
    yield from _thrown_away(name, function)
    if (later := function.runs_later) is not None:
        if _excludes_later(returns):
            fix = "return the value itself, without yield, async or await"
            yield Fault("TT131", function.where, f"{name} is {later}", f"a function that returns {show_type(returns)}", fix)
    elif function.returns_nothing and (excludes_none(returns) or (used and returns is Any and not function.is_lambda)):
        yield _returns_nothing(name, function, returns)


def _wrong_count(name: str, function: Plain, takes: Sequence[str]) -> Fault:
    count = len(takes)
    expected = f"a function of {counted(count, 'argument')}: {', '.join(takes)}"
    names = ("key, value" if count == 2 else "value") if count < 3 else ", ".join("abcdefgh"[:count])
    found = f"{name} takes {counted(function.parameters, 'argument')}"
    return Fault("TT132", function.where, found, expected, f"give it {counted(count, 'parameter')}, such as lambda {names}: ...")


def _missing_attribute(name: str, function: Any, takes: Sequence[Any]) -> Fault | None:
    """An attribute that a function reads of an argument although no value of its type has it."""
    missing = missing_attribute(function, [_schema(one) for one in takes])
    if missing is None:
        return None
    of, fields = missing.cls.__name__, missing.fields
    near = get_close_matches(missing.name, fields, 1)
    return Fault(
        "TT123",
        missing.where,
        f"{name} reads {of}.{missing.name}",
        f"a field of {of}: {', '.join(fields)}",
        f"read {of}.{near[0]}" if near else f"read a field of {of}, or add {missing.name} to it",
    )


def _schema(annotation: Any) -> Schema | None:
    try:
        return schema_of(annotation)
    except DataError:
        return None
