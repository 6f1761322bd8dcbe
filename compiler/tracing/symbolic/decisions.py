"""Decisions: which way a condition goes, and what both ways have in common."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any, Final

from tracetypes.compiler.tracing.expr import Call, Const, Exact, Expr, Kind, Pack
from tracetypes.compiler.tracing.kinds import BOOLEAN, EXACT
from tracetypes.compiler.tracing.operations import basic
from tracetypes.compiler.tracing.symbolic.allowed import LENGTHS
from tracetypes.compiler.tracing.symbolic.core import Core
from tracetypes.compiler.tracing.symbolic.known import is_total
from tracetypes.compiler.tracing.symbolic.paths import Raised, Stop, Undo, isa, reach
from tracetypes.compiler.tracing.symbolic.proxies import (
    Proxy,
    TracedDeferred,
    TracedDuration,
    TracedMatch,
    TracedParts,
    TracedSymbol,
    word_of,
)
from tracetypes.records import (
    Boolean,
    Date,
    Float,
    Integer,
    Optional,
    String,
    Timestamp,
    UnitValue,
)

__all__ = ["Decisions"]

_ITS_OWN: Final = {"__bool__": "truth value", "__len__": "length"}
_MOST_CONDITIONS: Final = 200_000


class Decisions(Core):
    """Conditions, and expressions that depend on them."""

    def decide(self, condition: Expr) -> bool:
        """The outcome of a condition on this path."""
        run = self.now
        if isinstance(condition, Const):
            return bool(condition.value)
        if isinstance(condition, Call) and condition.op is basic.NOT:
            return not self.decide(condition.args[0])
        if (known := run.known.get(id(condition))) is not None:
            return known
        if run.trials:
            raise Undo
        at = len(run.trail)
        if at >= self.limit:
            self.refuse(f"takes more than {self.limit} decisions on one way")
        branch = run.forced[at] if at < len(run.forced) else True
        run.trail.append((condition, branch))
        run.known[id(condition)] = branch
        return branch

    def condition(self, value: Any) -> Any:
        """``bool(value)`` as a bool or a Boolean symbol."""
        value = self.settle(value)
        if isa(value, TracedDuration):
            return self.compare("NotEq", value._micros, 0)
        if isa(value, TracedParts):
            return self.compare("NotEq", self.length(value), 0)
        if isa(value, TracedMatch):
            return True
        if not isa(value, TracedSymbol):
            return self.truth_of_its_own(value)
        match self.kind(value):
            case Boolean():
                return value
            case Integer():
                return self.compare("NotEq", value, 0)
            case Float():
                return self.compare("NotEq", value, 0.0)
            case String():
                return self.compare("NotEq", self.length(value), 0)
            case Timestamp() | Date() | Exact():
                return True
            case kind:
                self.refuse(f"looks into a {word_of(kind)}")

    def truth_of_its_own(self, value: Any) -> Any:
        """``bool(value)`` of what is no scalar, as its class defines it."""
        if self.holds(value):
            for name in _ITS_OWN:
                method = getattr(type(value), name, None)
                if method is None or method in LENGTHS:
                    continue
                if name == "__len__" or not isa(method, types.FunctionType):
                    self.refuse(f"looks at a {type(value).__name__}, which has a {_ITS_OWN[name]} of its own")
                result = self.settle(self.call(method, value))
                if self.kind(result) != BOOLEAN:
                    raise TypeError("__bool__ should return bool")
                return result
        return bool(value)

    def truth(self, value: Any) -> bool:
        """A condition of ``if``, ``while`` and the like."""
        self.now.conditions += 1
        if self.now.conditions > _MOST_CONDITIONS:
            self.refuse("does not end")
        condition = self.condition(value)
        return self.decide(condition._expr) if isa(condition, TracedSymbol) else condition

    def known(self, condition: TracedSymbol) -> bool | None:
        """The outcome if it was decided."""
        expr, turned = condition._expr, False
        while isinstance(expr, Call) and expr.op is basic.NOT:
            expr, turned = expr.args[0], not turned
        fact = self.now.known.get(id(expr))
        return None if fact is None else fact != turned

    def attempt(self, thunk: Callable[[], Any]) -> tuple[Any, dict[int, Expr]] | None:
        """What an expression without effects gives, and what in it may be undefined; None if it takes a decision."""
        run = self.now
        before, run.partial = run.partial, {}
        ended = run.ended
        run.trials += 1
        try:
            result = self.settle(thunk())
            return result, run.partial
        except (Undo, Stop, Raised, Exception):
            run.ended = ended
            return None
        finally:
            run.trials -= 1
            run.partial = before

    def attempt_scalar(self, thunk: Callable[[], Any]) -> tuple[Any, bool] | None:
        """A scalar that says by itself all that may be undefined in it, and whether there is something; or None."""
        tried = self.attempt(thunk)
        if tried is None or (isa(tried[0], Proxy) and not isa(tried[0], TracedSymbol)):
            return None
        result, partial = tried
        if self.kind(result) is None or isinstance(self.kind(result), UnitValue):
            return None
        reached: set[int] = set()
        reach(self.expr(result), reached)
        return (result, bool(partial)) if reached.issuperset(partial) else None

    def choose(self, plain: bool, test: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        """``then if test else otherwise``. ``plain``: both may be evaluated on trial."""
        condition = self.condition(test)
        if isa(condition, TracedSymbol) and (known := self.known(condition)) is not None:
            condition = known
        if not isa(condition, TracedSymbol):
            return then() if condition else otherwise()
        if plain:
            first, second = self.attempt_scalar(then), self.attempt_scalar(otherwise)
            if first is not None and second is not None and self.kind(first[0]) == self.kind(second[0]):
                return self.counted(self.either(condition, first[0], second[0]), first[1] or second[1])
        return then() if self.decide(condition._expr) else otherwise()

    def call_chosen(self, condition: Any, function: Any, argument: Any, otherwise: Any, /) -> Any:
        """``chosen``: an expression for each scalar, where the function takes no decision."""
        condition = self.condition(condition)
        if isa(condition, TracedSymbol) and (known := self.known(condition)) is not None:
            condition = known
        if not isa(condition, TracedSymbol):
            return self.call(function, argument) if condition else otherwise
        pure, self.now.pure = self.now.pure, True
        try:
            tried = self.attempt(lambda: (self.call(function, argument),))
        finally:
            self.now.pure = pure
        if tried is not None:
            (result,), partial = tried
            exprs: list[Expr] = []
            if self.meet(result, otherwise, exprs):
                reached: set[int] = set()
                for expr in exprs:
                    reach(expr, reached)
                if reached.issuperset(partial):
                    return self.one_of(condition._expr, result, otherwise, bool(partial))
        return self.call(function, argument) if self.decide(condition._expr) else otherwise

    def meet(self, one: Any, other: Any, exprs: list[Expr]) -> bool:
        """Do two values consist of the same tuples of scalars of the same kinds, where None goes with any? Adds the
        expressions of ``one`` to ``exprs``."""
        if type(one) is tuple and type(other) is tuple and len(one) == len(other):
            return all(self.meet(a, b, exprs) for a, b in zip(one, other, strict=True))
        if not all(x is None or isa(x, TracedDeferred) or self.kind(x) is not None for x in (one, other)):
            return False
        kinds = set[Kind | None]()
        for x in (one, other):
            value = self.value_of(x, "has")
            assert not isinstance(value, Pack)
            kinds.add(value.kind.item if isinstance(value.kind, Optional) else value.kind)
            if x is one:
                exprs.append(value)
        if None in kinds and EXACT in kinds:
            return False
        return len(kinds - {None}) < 2 and UnitValue not in map(type, kinds)

    def one_of(self, condition: Expr, one: Any, other: Any, partial: bool) -> Any:
        """One of two values that :meth:`meet`."""
        if type(one) is tuple:
            return tuple([self.one_of(condition, a, b, partial) for a, b in zip(one, other, strict=True)])
        first, second = self.value_of(one, "has"), self.value_of(other, "has")
        assert not isinstance(first, Pack)
        assert not isinstance(second, Pack)
        kind = first.kind or second.kind
        if kind is None or first is second:
            return one
        bare: Any = kind.item if isinstance(kind, Optional) else kind
        sure = first.kind == second.kind == bare
        call = self.intern(Call(basic.IF, (condition, first, second), bare if sure else Optional(bare)))
        if partial:
            self.now.partial[id(call)] = call
        return TracedSymbol(self, call) if sure else TracedDeferred(self, call, bare)

    def counted(self, value: Any, partial: bool) -> Any:
        """The value, which may be undefined where Python raises if ``partial`` says so."""
        if partial:
            expr = self.expr(value)
            self.now.partial[id(expr)] = expr
        return value

    def either(self, condition: Any, then: Any, otherwise: Any) -> Any:
        """One of two scalars; without a decision if they are of one kind."""
        if not isa(condition, TracedSymbol):
            return then if condition else otherwise
        if (known := self.known(condition)) is not None:
            return then if known else otherwise
        kind = self.kind(then)
        if kind is None or kind != self.kind(otherwise) or isinstance(kind, UnitValue):
            return then if self.decide(condition._expr) else otherwise
        first, second = self.expr(then), self.expr(otherwise)
        if first is second:
            return then
        return self.make(basic.IF, kind, condition._expr, first, second)

    def all_of(self, plain: bool, first: Any, *others: Callable[[], Any]) -> Any:
        """``first and ...``."""
        return self.junction(plain, True, first, others)

    def any_of(self, plain: bool, first: Any, *others: Callable[[], Any]) -> Any:
        """``first or ...``."""
        return self.junction(plain, False, first, others)

    def junction(self, plain: bool, conjunction: bool, first: Any, others: Sequence[Callable[[], Any]]) -> Any:
        value = self.settle(first)
        for thunk in others:
            if plain and isa(value, TracedSymbol) and self.kind(value) == BOOLEAN and self.known(value) is None:
                other = self.attempt_scalar(thunk)
                if other is not None and self.kind(other[0]) == BOOLEAN:
                    value = self.counted(self.joined(conjunction, value, other[0]), other[1])
                    continue
            if self.truth(value) is not conjunction:
                return value
            value = self.settle(thunk())
        return value

    def joined(self, conjunction: bool, a: TracedSymbol, b: Any) -> Any:
        """``a and b`` or ``a or b`` of two Booleans."""
        if not isa(b, TracedSymbol):
            return a if b is conjunction else b
        second = self.expr(b)
        if is_total(second):
            return self.make(basic.AND if conjunction else basic.OR, BOOLEAN, a._expr, second)
        fixed = self.expr(not conjunction)
        return self.make(basic.IF, BOOLEAN, a._expr, *((second, fixed) if conjunction else (fixed, second)))

    def chain(self, names: tuple[str, ...], plain: bool, first: Any, *others: Callable[[], Any]) -> Any:
        """``a < b < c``."""
        left = [first]

        def step(name: str, thunk: Callable[[], Any]) -> Any:
            a, b = left[0], thunk()
            left[0] = b
            return self.compare(name, a, b)

        tried = self.attempt(lambda: [first, *(thunk() for thunk in others)]) if plain else None
        if tried is not None and not tried[1]:
            pairs = zip(names, tried[0], tried[0][1:], strict=False)
            steps = [functools.partial(self.compare, name, a, b) for name, a, b in pairs]
            return self.junction(True, True, steps[0](), steps[1:])
        return self.in_turn([functools.partial(step, name, thunk) for name, thunk in zip(names, others, strict=True)])

    def in_turn(self, steps: Sequence[Callable[[], Any]]) -> Any:
        value: Any = True
        for step in steps:
            value = step()
            if not self.truth(value):
                return value
        return value
