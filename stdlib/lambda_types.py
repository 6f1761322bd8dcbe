"""The type that a lambda returns, by its source and the types of its arguments.

The answer is the one of a type checker, or None where this module does not know. Nothing is called.
"""

from __future__ import annotations

import ast
import builtins
import datetime as dt
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Final, Optional, TypeVar, get_args, get_origin

import attrs

from tracetypes.errors import DataError
from tracetypes.function_source import NoSource, node_of
from tracetypes.records import Record
from tracetypes.schemas import schema_of, without_column

__all__ = ["missing_attribute", "type_of_lambda"]

_NONE: Final = type(None)
_NUMBERS: Final = (bool, int, float)
_ARITHMETIC: Final = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
_TIMES: Final[Mapping[tuple[Any, type[ast.operator], Any], Any]] = {
    (dt.datetime, ast.Sub, dt.datetime): dt.timedelta,
    (dt.datetime, ast.Add, dt.timedelta): dt.datetime,
    (dt.datetime, ast.Sub, dt.timedelta): dt.datetime,
    (dt.date, ast.Sub, dt.date): dt.timedelta,
    (dt.timedelta, ast.Div, dt.timedelta): float,
    (dt.timedelta, ast.FloorDiv, dt.timedelta): int,
}
_ALWAYS: Final[Mapping[object, Any]] = {
    builtins.int: int,
    builtins.float: float,
    builtins.str: str,
    builtins.bool: bool,
    builtins.bytes: bytes,
    builtins.len: int,
    builtins.repr: str,
    builtins.ord: int,
    builtins.chr: str,
    builtins.isinstance: bool,
    builtins.any: bool,
    builtins.all: bool,
    builtins.range: range,
}
"""Builtins whose result has one type."""
_TEXT_METHODS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("lower", "upper", "strip", "lstrip", "rstrip", "title", "replace", "removeprefix", "removesuffix"), str),
    **dict.fromkeys(("startswith", "endswith", "isdigit", "isalpha", "isupper", "islower"), bool),
    **dict.fromkeys(("count", "find"), int),
    "split": list[str],
    "encode": bytes,
}
_TIME_METHODS: Final[Mapping[tuple[Any, str], Any]] = {
    (dt.datetime, "timestamp"): float,
    (dt.datetime, "isoformat"): str,
    (dt.datetime, "date"): dt.date,
    (dt.date, "isoformat"): str,
    (dt.timedelta, "total_seconds"): float,
}


def type_of_lambda(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """The type that a lambda, or a builtin function, returns for ``arguments`` of these types, as an annotation. None: it is not
    known, or the function is no lambda with these parameters."""
    if _hashable(function) and function in _ALWAYS:
        return _ALWAYS[function]
    if function is builtins.abs and len(arguments) == 1:
        return _number(_plain(arguments[0]))
    found = _lambda(function, arguments)
    return None if found is None else found[0].of(found[1].body)


_PLAIN: Final = (bool, int, float, str, bytes, Decimal, dt.date, dt.datetime)
"""Types of Python whose attributes are known."""


def missing_attribute(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[type[Any], str, list[str]] | None:
    """The first attribute that a lambda reads of a record, or of a value of a type of Python, and that this does not have: the
    type, the name, and the fields of a record."""
    found = _lambda(function, arguments)
    for node in () if found is None else ast.walk(found[1].body):
        of = found[0].of(node.value) if found is not None and isinstance(node, ast.Attribute) else None
        if isinstance(node, ast.Attribute) and isinstance(of, type) and not hasattr(of, node.attr):
            fields = _fields(of)
            if (fields and node.attr not in fields) or of in _PLAIN:
                return of, node.attr, list(fields or ())
    return None


def _lambda(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[_Types, ast.Lambda] | None:
    """The types around a lambda with such arguments, and its source."""
    if not isinstance(function, types.FunctionType) or function.__code__.co_name != "<lambda>":
        return None
    try:
        node = node_of(function.__code__)
    except NoSource:
        return None
    names = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]
    if not isinstance(node, ast.Lambda) or len(names) != len(arguments) or node.args.vararg or node.args.kwonlyargs:
        return None
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    outer = {name: cell.cell_contents for name, cell in cells if cell != types.CellType()}
    return _Types(dict(zip(names, arguments, strict=True)), {**vars(builtins), **function.__globals__, **outer}, {}), node


@attrs.frozen(eq=False)
class _Types:
    """``arguments``: the types of the parameters. ``outer``: the values of all other names. ``known``: narrower types of
    expressions in one branch, by their text."""

    arguments: Mapping[str, Any]
    outer: Mapping[str, Any]
    known: Mapping[str, Any]

    def of(self, node: ast.expr) -> Any:
        """The type of an expression; None if it is not known."""
        narrower = self.known.get(ast.dump(node))
        return narrower if narrower is not None else self._of(node)

    def _of(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return _of_value(value)
            case ast.Name(id=name):
                if name in self.arguments:
                    return self.arguments[name]
                return _of_value(self.outer.get(name, ...))
            case ast.Attribute(value=of, attr=name):
                constant = self._outer(node)
                return _of_value(constant) if constant is not ... else _attribute(self.of(of), name)
            case ast.UnaryOp(op=ast.Not()):
                return bool
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=inner):
                return _number(_plain(self.of(inner)))
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(_plain(self.of(left)), op, _plain(self.of(right)), right)
            case ast.Compare(left=left, comparators=others):
                return bool if all(_compares(_plain(self.of(one))) for one in (left, *others)) else None
            case ast.BoolOp(op=op, values=values):
                return self._any(op, values)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return _join(self._where(test, True).of(body), self._where(test, False).of(orelse))
            case ast.Call():
                return self._call(node)
            case ast.JoinedStr():
                return str
            case ast.List(elts=elements) if elements:
                one = _all([self.of(element) for element in elements])
                return None if one is None else types.GenericAlias(list, (one,))
            case ast.ListComp(elt=element, generators=generators):
                inside = self._turns(generators)
                one = None if inside is None else inside.of(element)
                return None if one is None else types.GenericAlias(list, (one,))
            case ast.GeneratorExp(elt=element, generators=generators):
                inside = self._turns(generators)
                one = None if inside is None else inside.of(element)
                return None if one is None else types.GenericAlias(Iterator, (one,))
            case ast.Tuple(elts=elements) if elements:
                several = [self.of(element) for element in elements]
                return None if None in several else types.GenericAlias(tuple, tuple(several))
            case ast.Subscript(value=of, slice=index):
                return _element(self.of(of), index)
            case _:
                return None

    def _turns(self, generators: Sequence[ast.comprehension]) -> _Types | None:
        """The types inside of a comprehension."""
        at = self
        for each in generators:
            named = at._named(each.target, _item(at.of(each.iter)))
            if named is None:
                return None
            at = attrs.evolve(at, arguments={**at.arguments, **named}, known={})
            for test in each.ifs:
                at = at._where(test, True)
        return at

    def _named(self, target: ast.expr, annotation: Any) -> dict[str, Any] | None:
        """The types of the names to which a value of a type is assigned."""
        if annotation is None:
            return None
        if isinstance(target, ast.Name):
            return {target.id: annotation}
        parts = get_args(annotation)
        if not isinstance(target, ast.Tuple) or get_origin(annotation) is not tuple or len(parts) != len(target.elts):
            return None
        names: dict[str, Any] = {}
        for element, part in zip(target.elts, parts, strict=True):
            inner = self._named(element, part)
            if part is ... or inner is None:
                return None
            names |= inner
        return names

    def _outer(self, node: ast.expr) -> Any:
        """The value of ``name`` or ``module.name`` outside of the lambda; ``...`` if it is none."""
        if isinstance(node, ast.Name):
            return ... if node.id in self.arguments else self.outer.get(node.id, ...)
        if isinstance(node, ast.Attribute):
            of = self._outer(node.value)
            return getattr(of, node.attr, ...) if isinstance(of, types.ModuleType | type) else ...
        return ...

    def _binary(self, left: Any, op: ast.operator, right: Any, exponent: ast.expr) -> Any:
        if left in _NUMBERS and right in _NUMBERS:
            if isinstance(op, ast.Div):
                return float
            if isinstance(op, _ARITHMETIC):
                return float if float in (left, right) else int
            if isinstance(op, ast.Pow) and isinstance(exponent, ast.Constant) and type(exponent.value) is int:
                return left if left is float else int
            if isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor) and float not in (left, right):
                return bool if left is right is bool else int
        if isinstance(op, ast.Add) and left == right and (left in (str, bytes) or get_origin(left) is list):
            return left
        if left is str and isinstance(op, ast.Mod):
            return str
        if isinstance(op, ast.Mult) and right is int and (left in (str, bytes) or get_origin(left) is list):
            return left
        return _TIMES.get((left, type(op), right)) if _hashable(left) and _hashable(right) else None

    def _any(self, op: ast.boolop, values: Sequence[ast.expr]) -> Any:
        """The type of ``a or b`` and of ``a and b``."""
        at, types_before = self, []
        for one in values[:-1]:
            types_before.append(_without_none(at.of(one)) if isinstance(op, ast.Or) else at.of(one))
            at = at._where(one, isinstance(op, ast.And))
        return _all([*types_before, at.of(values[-1])])

    def _where(self, test: ast.expr, holds: bool) -> _Types:
        """The types where a test holds, or does not: what is no longer None."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return self._where(inner, not holds)
            case ast.BoolOp(op=op, values=values) if isinstance(op, ast.And) is holds:
                at = self
                for one in values:
                    at = at._where(one, holds)
                return at
            case ast.Compare(left=left, ops=[ast.IsNot() | ast.NotEq()], comparators=[ast.Constant(value=None)]) if holds:
                return self._not_none(left)
            case ast.Compare(left=left, ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=None)]) if not holds:
                return self._not_none(left)
            case ast.Name() | ast.Attribute() if holds:
                return self._not_none(test)
            case _:
                return self

    def _not_none(self, node: ast.expr) -> _Types:
        annotation = self.of(node)
        return self if annotation is None else attrs.evolve(self, known={**self.known, ast.dump(node): _without_none(annotation)})

    def _call(self, node: ast.Call) -> Any:
        callee = self._outer(node.func)
        if callee is ... and isinstance(node.func, ast.Attribute):
            return _method(_plain(self.of(node.func.value)), node.func.attr)
        if _hashable(callee) and callee in _ALWAYS:
            return _ALWAYS[callee]
        arguments = [self.of(one) for one in node.args]
        if callee is builtins.abs and len(arguments) == 1:
            return _number(_plain(arguments[0]))
        if callee is builtins.round and arguments:
            return int if len(arguments) == 1 else _number(_plain(arguments[0]))
        if callee in (builtins.min, builtins.max) and len(arguments) > 1 and not node.keywords:
            return _all(arguments)
        if callee in (builtins.sorted, builtins.list) and len(arguments) == 1 and get_origin(arguments[0]) is list:
            return arguments[0]
        if isinstance(callee, type):
            return callee if callee.__module__ != "builtins" and not getattr(callee, "__parameters__", ()) else None
        return _declared(callee)


def _of_value(value: Any) -> Any:
    """The type of a constant."""
    if value is None:
        return _NONE
    return type(value) if type(value) in (bool, int, float, str, bytes, dt.datetime, dt.date, dt.timedelta) else None


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _plain(annotation: Any) -> Any:
    """The type without what ``Annotated`` adds. Numbers that are declared more narrowly, such as ``decimal(9, 2)``, stay."""
    if get_origin(annotation) is Annotated and get_args(annotation)[0] in (bool, int, float, str, bytes):
        return get_args(annotation)[0]
    return annotation


def _number(annotation: Any) -> Any:
    if annotation is bool:
        return int
    return annotation if annotation in (int, float, dt.timedelta) else None


def _compares(annotation: Any) -> bool:
    """Whether a comparison of such a value is certainly a bool."""
    return annotation in (*_NUMBERS, str, bytes, dt.datetime, dt.date, dt.timedelta, _NONE) or (
        get_origin(annotation) in (typing.Union, types.UnionType) and all(_compares(one) for one in get_args(annotation))
    )


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation
    return typing.Union[tuple(one for one in get_args(annotation) if one is not _NONE)]  # noqa: UP007


def _join(a: Any, b: Any) -> Any:
    """The type of a value that has one of two types; None if there is no such type here."""
    if a is None or b is None or a == b:
        return None if a is None or b is None else a
    if a is _NONE or b is _NONE:
        return Optional[b if a is _NONE else a]  # noqa: UP045
    optional = _without_none(a) != a or _without_none(b) != b
    left, right = _without_none(a), _without_none(b)
    if left in (int, float) and right in (int, float):  # a bool is refused where an int is declared
        both: Any = float if float in (left, right) else int
    elif left == right:
        both = left
    else:
        return None
    return Optional[both] if optional else both  # noqa: UP045


def _all(several: Sequence[Any]) -> Any:
    result = several[0]
    for one in several[1:]:
        result = _join(result, one)
    return result


def _fields(annotation: type[Any]) -> Mapping[str, Any] | None:
    """The fields of a record; none of another class, and None of one without a schema."""
    try:
        return typing.get_type_hints(annotation, include_extras=True) if isinstance(schema_of(annotation), Record) else {}
    except (DataError, NameError, TypeError):
        return None


def _attribute(annotation: Any, name: str) -> Any:
    if not isinstance(annotation, type):
        return None
    hints = _fields(annotation)
    if hints is None:
        return None
    if name in hints:
        return without_column(hints[name])[0]
    member = getattr(annotation, name, None)
    return _declared(member.fget) if isinstance(member, property) else None


def _method(annotation: Any, name: str) -> Any:
    if annotation is str:
        return _TEXT_METHODS.get(name)
    if annotation in (dt.datetime, dt.date, dt.timedelta):
        return _TIME_METHODS.get((annotation, name))
    if isinstance(annotation, type) and annotation.__module__ != "builtins":
        return _declared(getattr(annotation, name, None))
    return None


def _item(annotation: Any) -> Any:
    """The type of what a value of a type is iterated over."""
    if annotation in (str, range):
        return str if annotation is str else int
    args = get_args(annotation)
    if get_origin(annotation) is list or (get_origin(annotation) is tuple and args[1:] == (...,)):
        return args[0]
    return None


def _element(annotation: Any, index: ast.expr) -> Any:
    args = get_args(annotation)
    if annotation is str:
        return str
    if get_origin(annotation) is list:
        return annotation if isinstance(index, ast.Slice) else args[0]
    if get_origin(annotation) is not tuple or isinstance(index, ast.Slice):
        return None
    if args[1:] == (...,):
        return args[0]
    if isinstance(index, ast.Constant) and type(index.value) is int and index.value < len(args):
        return args[index.value]
    return None


def _declared(function: Any) -> Any:
    """The return type of a function of the author, by its annotation."""
    if not isinstance(function, types.FunctionType):
        return None
    try:
        annotation = typing.get_type_hints(function, include_extras=True).get("return")
    except (NameError, TypeError):
        return None
    parameters: tuple[Any, ...] = getattr(annotation, "__parameters__", ())
    return None if isinstance(annotation, TypeVar) or parameters else annotation
