"""Recognises the monoid of an operator: which of its components are sums, smallest or largest values, which columns can
compute.

The tracer calls ``combine`` with two symbolic aggregates. If a component of the result depends only on the same
component of both aggregates, it is recognised by itself:

* ``a + b`` is a sum (of integers, floats or exact sums);
* a choice between ``a`` and ``b`` is the smallest or the largest value if it chooses right in every case that its
  conditions can distinguish: ``a`` smaller than, equal to or larger than ``b``; one or both missing; one or both NaN.
  There are few cases, and all are tried. So ``min(a, b)``, a conditional expression and a chain of ``if`` are
  recognised alike, and nothing else is;
* ``a & b``, ``a | b``, ``a ^ b`` of integers are taken bit by bit;
* ``a and b``, ``a or b`` of booleans are the smallest and the largest, like ``least`` and ``greatest`` of
  ``tracetypes.algebra``.

Plain sums of floats are computed as the author wrote them, although their last bits may differ between deployments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs

from tracetypes.blame import Called, called
from tracetypes.compiler.tracing.expr import Branch, Call, Const, Exact, Expr, Input, Kind, Leaf, Pack, Tree, Value
from tracetypes.compiler.tracing.operations import basic
from tracetypes.compiler.tracing.operations.operation import Operation
from tracetypes.compiler.tracing.symbolic.shapes import Given
from tracetypes.compiler.tracing.tracer import Nested, Untraceable, trace_lift, trace_method
from tracetypes.records import Boolean, Bytes, Date, Float, Integer, Optional, Schema, String, Timestamp
from tracetypes.self_description import SelfDescribing
from tracetypes.state_check import ResultCheck, aggregates_of
from tracetypes.templates import OpKeyedUnordered

__all__ = [
    "Monoid",
    "Part",
    "Reduction",
    "constant",
    "leaves",
    "monoid_of",
    "monoid_of_aggregate",
    "need_type",
    "results",
    "united",
]

Reduction: TypeAlias = Literal["sum", "min", "max", "and", "or", "xor"]


@attrs.frozen
class Part:
    """A scalar of an aggregate: where it lies, its kind (Optional where None stands for nothing), and how it is reduced."""

    path: tuple[int, ...]
    kind: Kind
    reduction: Reduction


@attrs.frozen(eq=False)
class Monoid:
    """A recognised monoid. ``lift``: traced, from ``key`` and ``value``. ``shape``: the structure of an aggregate, with
    its scalars as inputs named ``agg``. ``parts``: its scalars in the order of :func:`leaves`."""

    lift: Tree
    shape: Value
    parts: tuple[Part, ...]


def leaves(value: Value, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Expr]]:
    """The scalars of a structure with their places."""
    if isinstance(value, Pack):
        for at, part in enumerate(value.parts):
            yield from leaves(part, (*path, at))
    else:
        yield path, value


def results(tree: Tree) -> Iterator[Value | None]:
    """The results at the leaves of a tree, without those that raise."""
    match tree:
        case Leaf(raises=True):
            return
        case Leaf(result=result):
            yield result
        case Branch(then=then, otherwise=otherwise):
            yield from results(then)
            yield from results(otherwise)


def kind_of(value: Expr) -> Kind | None:
    """The kind of a scalar; None for None."""
    return value.kind


def united(values: list[Value], name: str, path: tuple[int, ...] = (), steps: tuple[str | int, ...] = ()) -> Value:
    """One structure for several values. Its scalars are inputs, optional if some value has None there.

    Raises :class:`Untraceable` if the values have no common structure.
    """
    packs = [value for value in values if isinstance(value, Pack)]
    if packs:
        first = packs[0]
        if len(packs) < len(values) or any(p.cls is not first.cls or p.names != first.names for p in packs):
            raise Untraceable("gives results of different structure")
        if any(len(p.parts) != len(first.parts) for p in packs):
            raise Untraceable("gives tuples of different length")
        parts = []
        for at in range(len(first.parts)):
            step = first.names[at] if first.names else at
            parts.append(united([p.parts[at] for p in packs], name, (*path, at), (*steps, step)))
        return Pack(first.cls, first.names, tuple(parts))
    kinds = {kind_of(value) for value in values if not isinstance(value, Pack)}
    bare = {k.item if isinstance(k, Optional) else k for k in kinds} - {None}
    if bare == {Integer(), Float()}:
        hint = "an int here and a float there: write 0.0 where 0 stands for a float"
        raise Untraceable(f"makes {_where(steps)}{hint}", kind=hint)
    if len(bare) != 1:
        types = "two types" if bare else "no type of its own"
        raise Untraceable(f"gives {_where(steps)}{types}", kind=types)
    kind: Any = bare.pop()
    if None in kinds or any(isinstance(k, Optional) for k in kinds):
        kind = Optional(kind)
    return Input((name, *steps), kind)


def _where(steps: tuple[str | int, ...]) -> str:
    return f"the part {_steps(steps)} of its result " if steps else "its result "


def constant(op: object, method: str) -> Value:
    """The result of a method without arguments, as constants. Raises :class:`Untraceable` if it is not constant."""
    tree = trace_method(op, method, [], emits=None)
    if not isinstance(tree, Leaf) or tree.raises or tree.result is None:
        raise Untraceable(f"has no constant {method}")
    return tree.result


def monoid_of(op: OpKeyedUnordered[Any, Any, Any, Any, Any, Any], key: Schema, value: Schema) -> Monoid:
    """The monoid of an operator. Raises :class:`Untraceable` with the reason if it is not a known one."""
    try:
        monoid = _monoid(op, trace_lift(op, key, value))
    except Untraceable as why:
        raise why if why.calls else _of_a_part(op, value, why) from None
    need_type(monoid.shape, aggregates_of(op))
    return monoid


_OF_KIND: Final[dict[type[Any], Any]] = {Boolean: True, Integer: 0, Float: 0.0, String: "", Bytes: b""}
"""A value of each kind of scalar."""


def need_type(value: Value, declared: ResultCheck) -> None:
    """Raises :class:`Untraceable` if states or aggregates of this structure are certainly not of the declared type: then they are
    made in Python, where the first one that is not stops the run."""
    if isinstance(value, Pack):
        examples: list[Any] = [()] if value.cls is tuple else []
    else:
        bare = value.kind.item if isinstance(value.kind, Optional) else value.kind
        examples = [_OF_KIND[type(bare)]] if type(bare) in _OF_KIND else []
        examples += [None] if value.kind is None or isinstance(value.kind, Optional) else []
    if not all(map(declared.admits, examples)):
        raise Untraceable(f"makes {declared.what} that is not of the declared type")


def _of_a_part(whole: Any, value: Schema, why: Untraceable, above: tuple[Called, ...] = ()) -> Untraceable:
    """The reason as that of the innermost aggregate that has it when it is by itself. Found by trying: which of its scalars came
    from which aggregate, the monoid of the whole does not tell."""
    calls = (*above, called(type(whole).combine, owner=whole))
    for _, part in whole._parts():
        if isinstance(part, SelfDescribing) and hasattr(part, "combine"):
            try:
                _monoid(part, trace_method(part, "lift", [Given("value", value)], emits=None))
            except Untraceable as inner:
                if not inner.calls and inner.kind == why.kind:
                    return _of_a_part(part, value, inner, calls)
    return Untraceable(why.what, calls, kind=why.kind)


def monoid_of_aggregate(aggregate: Any, value: Schema, above: tuple[Called, ...] = ()) -> Monoid:
    """The monoid of an aggregate, whose ``lift`` takes a value alone. ``above``: who calls it. Raises :class:`Untraceable`."""
    try:
        return _monoid(aggregate, trace_method(aggregate, "lift", [Given("value", value)], emits=None))
    except Untraceable as why:
        if why.calls:
            raise
        raise _of_a_part(aggregate, value, why, above) from None


def _monoid(op: Any, lift: Tree) -> Monoid:
    """The monoid of an operator or aggregate."""
    values = [result for result in results(lift) if result is not None]
    if not values:
        raise Untraceable("returns nothing from lift")
    shape = united([*values, constant(op, "identity")], "agg")
    combine = trace_method(op, "combine", [Nested("a", shape), Nested("b", shape)], emits=None)
    united([*[r for r in results(combine) if r is not None], shape], "agg")
    parts = []
    for path, at in leaves(shape):
        assert isinstance(at, Input)
        one = _projected(combine, path)
        reduction = _reduction(one, _renamed(at, "a"), _renamed(at, "b"))
        if reduction is None:
            raise _no_reduction(one, at)
        parts.append(Part(path, at.kind, reduction))
    return Monoid(lift, shape, tuple(parts))


def _renamed(at: Input, name: str) -> Input:
    return Input((name, *at.path[1:]), at.kind)


def _place(at: Input) -> str:
    return _steps(at.path[1:])


def _steps(steps: tuple[str | int, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def _projected(tree: Tree, path: tuple[int, ...]) -> Tree:
    """A tree that returns one scalar of what it returned, without the branches that make no difference to it."""
    match tree:
        case Leaf(raises=True):
            return tree
        case Leaf(result=result):
            for step in path:
                assert isinstance(result, Pack)
                result = result.parts[step]
            return Leaf(result=result)
        case Branch(condition=condition, then=then, otherwise=otherwise):
            yes, no = _projected(then, path), _projected(otherwise, path)
            ends = isinstance(yes, Leaf) and isinstance(no, Leaf) and not yes.raises and not no.raises
            if isinstance(yes, Leaf) and isinstance(no, Leaf) and ends and _same(yes.result, no.result):
                return yes
            return Branch(condition, yes, no)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Call) and isinstance(other, Call):
        pairs = zip(one.args, other.args, strict=False)
        return one.op is other.op and one.table is other.table and all(_same(a, b) for a, b in pairs)
    return bool(one == other)


_EXTREMES: Final[Mapping[Operation, Reduction]] = {
    basic.AND: "min",
    basic.OR: "max",
    basic.LEAST: "min",
    basic.GREATEST: "max",
}

_BITS: Final[Mapping[Operation, Reduction]] = {basic.BIT_AND: "and", basic.BIT_OR: "or", basic.BIT_XOR: "xor"}


def _reduction(tree: Tree, a: Input, b: Input) -> Reduction | None:
    if isinstance(tree, Leaf) and isinstance(tree.result, Call):
        call = tree.result
        both = len(call.args) == 2 and set(call.args) == {a, b}
        if both and call.op is basic.ADD and isinstance(call.kind, Integer | Float | Exact) and call.kind == a.kind:
            return "sum"
        if both and call.op in _EXTREMES:
            return _EXTREMES[call.op]
        if both and call.op in _BITS and isinstance(a.kind, Integer):
            return _BITS[call.op]
    if isinstance(a.kind, Optional):
        bare: Any = a.kind.item
    else:
        bare = a.kind
    if isinstance(bare, Integer | Timestamp | Date | Boolean | Float):
        for reduction, sign in (("min", -1), ("max", 1)):
            if all(_chosen(tree, case, a, b) in case.right(sign) for case in _cases(a.kind, bare)):
                return reduction  # type: ignore[return-value]
    return None


def _no_reduction(tree: Tree, at: Input) -> Untraceable:
    """Why a part is no sum, smallest or largest value."""
    a, b = _renamed(at, "a"), _renamed(at, "b")
    bare = at.kind.item if isinstance(at.kind, Optional) else at.kind
    if isinstance(bare, Float):
        for name, sign, better in (("minimum", -1, "smaller"), ("maximum", 1, "larger")):
            cases = [case for case in _cases(at.kind, bare) if not any(case.nan)]
            if all(_chosen(tree, case, a, b) in case.right(sign) for case in cases):
                return Untraceable(
                    f"takes the {name} of floats{_place(at)}, and with NaN it depends on the order of the two: "
                    f"{better} of tracetypes.algebra does not",
                    kind=name,
                )
    return Untraceable(f"combines by no sum, minimum or maximum{_place(at)}", kind="no sum")


@attrs.frozen
class Case:
    """A relation of two scalars. ``order``: -1, 0 or 1 if ``a`` is smaller, equal or larger."""

    order: int
    missing: tuple[bool, bool] = (False, False)
    nan: tuple[bool, bool] = (False, False)

    def right(self, sign: int) -> tuple[str, ...]:
        """Which of the two is the smallest (-1) or largest (1)."""
        if any(self.missing):
            return ("a", "b", "none") if all(self.missing) else ("b",) if self.missing[0] else ("a",)
        if any(self.nan):
            return ("a", "b") if all(self.nan) else ("a",) if self.nan[0] else ("b",)
        return ("a", "b") if self.order == 0 else ("a",) if self.order == sign else ("b",)


def _cases(kind: Kind, bare: Kind) -> list[Case]:
    cases = [Case(order) for order in (-1, 0, 1)]
    both = [(True, False), (False, True), (True, True)]
    if isinstance(kind, Optional):
        cases += [Case(0, missing=missing) for missing in both]
    if isinstance(bare, Float):
        cases += [Case(0, nan=nan) for nan in both]
    return cases


def _chosen(tree: Tree, case: Case, a: Input, b: Input) -> str | None:
    """Which of its two inputs a tree returns in a case; None when that cannot be told."""
    while isinstance(tree, Branch):
        truth = _truth(tree.condition, case, a, b)
        if truth is None:
            return None
        tree = tree.then if truth else tree.otherwise
    if tree.raises:
        return None
    return _picked(tree.result, case, a, b)


def _picked(result: Value | None, case: Case, a: Input, b: Input) -> str | None:
    match result:
        case Input(path=path):
            return "a" if path == a.path else "b" if path == b.path else None
        case Const(value=None):
            return "none"
        case Call(op=basic.IF, args=(condition, then, otherwise)):
            truth = _truth(condition, case, a, b)
            return None if truth is None else _picked(then if truth else otherwise, case, a, b)
        case _:
            return None


def _truth(condition: Expr, case: Case, a: Input, b: Input) -> bool | None:
    match condition:
        case Const(value=bool() as value):
            return value
        case Call(op=basic.NOT, args=(inner,)):
            truth = _truth(inner, case, a, b)
            return None if truth is None else not truth
        case Call(op=basic.AND | basic.OR as op, args=(one, other)):
            truths = [_truth(one, case, a, b), _truth(other, case, a, b)]
            if None in truths:
                return None
            return all(truths) if op is basic.AND else any(truths)
        case Call(op=basic.IS_NULL, args=(Input(path=path),)):
            return case.missing[0] if path == a.path else case.missing[1] if path == b.path else None
        case Call(op=basic.EQ | basic.LT | basic.LE as op, args=(Input(path=one), Input(path=other))):
            places = {a.path: 0, b.path: 1}
            if one not in places or other not in places or any(case.missing[places[p]] for p in (one, other)):
                return None
            if any(case.nan[places[p]] for p in (one, other)):
                return False
            order = 0 if one == other else case.order if places[one] == 0 else -case.order
            return {basic.EQ: order == 0, basic.LT: order < 0, basic.LE: order <= 0}[op]
        case _:
            return None
