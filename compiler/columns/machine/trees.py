"""Trees of :mod:`tracetypes.compiler.tracing.expr` as source text of machine code (:mod:`.code`).

An expression is a number of 64 bits, a float or a truth value in a variable. One that may be None has a second variable, which
says whether it is there. Where an expression has no value, the code gives up: it sets ``why`` and leaves the loop around it. What
has no operation here is computed over columns beforehand, and becomes an input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, final

import attrs

from tracetypes.compiler.tracing.expr import Branch, Call, Const, Expr, Input, Kind, Leaf, Tree
from tracetypes.compiler.tracing.operations import basic as ops
from tracetypes.compiler.tracing.operations.functions import POW
from tracetypes.compiler.tracing.operations.operation import Operation
from tracetypes.conformance import micros_of
from tracetypes.records import Boolean, Date, Float, Integer, Optional, String, Timestamp

__all__ = ["WITH_CODE", "NotMachine", "Operand", "Writer", "is_number", "zero"]

EXACT: Final = 1 << 53
"""Up to here a float is the integer that it is made of."""

FIRST: Final = -62_135_596_800_000_000
"""The first microsecond of the year 1."""

LAST: Final = 253_402_300_799_999_999
"""The last one of the year 9999."""


class NotMachine(Exception):
    """A tree has no machine code."""


def is_number(kind: Kind | None) -> bool:
    """Whether values of a kind are numbers in machine code."""
    return isinstance(kind, Boolean | Integer | Float | Timestamp | Date)


@final
@attrs.frozen
class Operand:
    """A variable or a number as text. ``there``: what says whether it is not None; None where it always is."""

    text: str
    there: str | None = None


@final
class Writer:
    """Writes the lines of a tree. ``input``: the operand of an input that is a number. ``aside``: the operand of an expression
    that is computed beforehand; raises :class:`NotMachine` where it cannot be. ``text``: the operand of what is no number, which
    is a place where it can be found. ``leaf``: writes what happens at a leaf. ``count``: of the variables that the function has;
    numba gives each one type."""

    def __init__(
        self,
        input: Callable[[Writer, Input], Operand],
        aside: Callable[[Writer, Call], Operand],
        text: Callable[[Writer, Expr], Operand],
        leaf: Callable[[Writer, Leaf, dict[int, Operand]], None],
        depth: int,
        count: int,
    ) -> None:
        self.input, self.aside, self.text, self.at_leaf = input, aside, text, leaf
        self.lines: list[str] = []
        self.depth = depth
        self.count = count
        self.numbers: set[str] = set()
        """Which numbers of texts are read: ``q`` for equal ones, ``r`` for their order."""

    # ------------------------------------------------------------------------------------------------- lines

    def put(self, text: str) -> None:
        """Add a line."""
        self.lines.append("    " * self.depth + text)

    def begin(self, line: str) -> None:
        """Add a line that begins a block."""
        self.put(line)
        self.depth += 1

    def end(self) -> None:
        """End a block."""
        self.put("pass")
        self.depth -= 1

    def fresh(self, text: str) -> str:
        """A new variable."""
        self.count += 1
        self.put(f"t{self.count} = {text}")
        return f"t{self.count}"

    def give_up(self, condition: str) -> None:
        """Leave the loop where a condition holds."""
        self.begin(f"if {condition}:")
        self.put("why = 1")
        self.put("break")
        self.depth -= 1

    # ------------------------------------------------------------------------------------------------- trees

    def tree(self, tree: Tree, known: dict[int, Operand]) -> None:
        """Write a tree."""
        if isinstance(tree, Branch):
            condition = self.present(self.expr(tree.condition, known))
            if tree.then is tree.otherwise:  # asked only whether it has a value
                self.tree(tree.then, known)
                return
            self.begin(f"if {condition}:")
            self.tree(tree.then, dict(known))
            self.end()
            self.begin("else:")
            self.tree(tree.otherwise, dict(known))
            self.end()
        elif tree.raises:
            self.put("why = 1")
            self.put("break")
        else:
            self.at_leaf(self, tree, known)

    def present(self, operand: Operand) -> str:
        """The text of an operand that must not be None."""
        if operand.there is not None:
            self.give_up(f"not {operand.there}")
        return operand.text

    def expr(self, expr: Expr, known: dict[int, Operand]) -> Operand:
        """The operand of an expression."""
        bare = expr.kind.item if isinstance(expr.kind, Optional) else expr.kind
        if bare is not None and not is_number(bare) and not (isinstance(expr, Call) and expr.op is ops.IF):
            return self.text(self, expr)
        match expr:
            case Const(value, kind):
                return constant(value, kind)
            case Input():
                return self.input(self, expr)
            case Call():
                operand = known.get(id(expr))
                if operand is None:
                    operand = known[id(expr)] = self.call(expr, known)
                return operand

    def call(self, call: Call, known: dict[int, Operand]) -> Operand:
        """The operand of an operation."""
        if call.op in COMPARISONS and is_text(call.args[0].kind) and is_text(call.args[1].kind):
            return self.compared(call, known)
        if not hoisted(call):
            if call.op is ops.IF:
                return self.choice(call, known)
            if call.op is ops.IS_NULL:
                there = self.expr(call.args[0], known).there
                return Operand("False" if there is None else f"(not {there})")
            write = _OPERATIONS.get(call.op)
            if write is None:
                raise NotMachine(call.op.name)
            args = [self.present(self.expr(arg, known)) for arg in call.args]
            return Operand(write(self, call, args))
        return self.aside(self, call)

    def compared(self, call: Call, known: dict[int, Operand]) -> Operand:
        """Texts are compared by numbers of theirs, which columns compute beforehand; but for those that depend on no state."""
        try:
            return self.aside(self, call)
        except NotMachine:
            pass
        operands = [self.expr(arg, known) for arg in call.args]
        a, b = (self.numbered(operand, call) for operand in operands)
        return Operand(self.fresh(f"{a} {COMPARISONS[call.op]} {b}"))

    def numbered(self, operand: Operand, call: Call) -> str:
        """The number of a text."""
        name = "q" if call.op is ops.EQ else "r"
        self.numbers.add(name)
        return f"{name}[{self.present(operand)}]"

    def choice(self, call: Call, known: dict[int, Operand]) -> Operand:
        """``then if condition else otherwise``: only the chosen one is evaluated."""
        bare = call.kind.item if isinstance(call.kind, Optional) else call.kind
        condition = self.present(self.expr(call.args[0], known))
        self.count += 1
        name, there = f"t{self.count}", f"h{self.count}" if isinstance(call.kind, Optional) else None
        for line, arg in ((f"if {condition}:", call.args[1]), ("else:", call.args[2])):
            self.begin(line)
            chosen = self.expr(arg, dict(known))
            if there is None:
                self.put(f"{name} = {self.present(chosen)}")
            else:
                self.put(f"{name} = {chosen.text if chosen.text != 'None' else zero(bare)}")
                self.put(f"{there} = {chosen.there or 'True'}")
            self.end()
        return Operand(name, there)


def is_text(kind: Kind | None) -> bool:
    """Whether values of a kind are text, or None."""
    return isinstance(kind.item if isinstance(kind, Optional) else kind, String)


COMPARISONS: Final[Mapping[Operation, str]] = {ops.EQ: "==", ops.LT: "<", ops.LE: "<="}


def zero(kind: Kind | None) -> str:
    """What stands for no number of a kind."""
    return "0.0" if isinstance(kind, Float) else "False" if isinstance(kind, Boolean) else "int64(0)"


def constant(value: Any, kind: Kind | None) -> Operand:
    """A number as text; None as one that is not there."""
    if value is None:
        return Operand("None", "False")
    bare = kind.item if isinstance(kind, Optional) else kind
    if isinstance(bare, Boolean):
        return Operand(repr(bool(value)))
    if isinstance(bare, Float):
        if math.isfinite(value):
            return Operand(f"float64({value!r})")
        return Operand({"inf": "(float64(1e308) * 10.0)", "-inf": "(float64(-1e308) * 10.0)"}.get(str(value), "not_a_number"))
    if isinstance(bare, Integer):
        return Operand(f"int64({int(value)})")
    if isinstance(bare, Timestamp):
        return Operand(f"int64({micros_of(value)})")
    raise NotMachine("a constant that is no number")


def hoisted(call: Call) -> bool:
    """Whether an operation has to be computed beforehand: it has no machine code, or is about something else than numbers."""
    if call.op in (ops.IS_NULL, ops.IF):
        return False
    if call.op not in _OPERATIONS:
        return True
    return not (is_number(call.kind) and all(is_number(arg.kind) for arg in call.args if arg.kind is not None))


# --------------------------------------------------------------------------------------------------- operations


def _integers(call: Call) -> bool:
    return isinstance(call.args[0].kind, Integer)


def _over(name: str, sign: str) -> Callable[[Writer, Call, list[str]], str]:
    def write(writer: Writer, call: Call, args: list[str]) -> str:
        a, b = args
        if not _integers(call):
            return writer.fresh(f"{a} {sign} {b}")
        writer.count += 1
        result, over = f"t{writer.count}", f"o{writer.count}"
        writer.put(f"{result}, {over} = {name}(int64({a}), int64({b}))")
        writer.give_up(over)
        return result

    return write


def _negative(writer: Writer, call: Call, args: list[str]) -> str:
    if not _integers(call):
        return writer.fresh(f"-{args[0]}")
    writer.give_up(f"{args[0]} == int64({-(2**63)})")
    return writer.fresh(f"-{args[0]}")


def _absolute(writer: Writer, call: Call, args: list[str]) -> str:
    if _integers(call):
        writer.give_up(f"{args[0]} == int64({-(2**63)})")
    return writer.fresh(f"abs({args[0]})")


def _division(sign: str) -> Callable[[Writer, Call, list[str]], str]:
    def write(writer: Writer, call: Call, args: list[str]) -> str:
        if not _integers(call):
            raise NotMachine(call.op.name)
        a, b = args
        writer.give_up(f"{b} == 0 or {b} == -1")
        return writer.fresh(f"{a} {sign} {b}")

    return write


def _quotient(writer: Writer, call: Call, args: list[str]) -> str:
    writer.give_up(f"{args[1]} == 0")
    if _integers(call):
        for one in args:
            writer.give_up(f"{one} > {EXACT} or {one} < {-EXACT}")
        args = [f"float64({one})" for one in args]
    return writer.fresh(f"{args[0]} / {args[1]}")


def _whole(function: str) -> Callable[[Writer, Call, list[str]], str]:
    def write(writer: Writer, call: Call, args: list[str]) -> str:
        if isinstance(call.args[0].kind, Boolean):
            return writer.fresh(f"int64({args[0]})")
        writer.give_up(f"not ({args[0]} > -9.2e18 and {args[0]} < 9.2e18)")
        return writer.fresh(f"int64({function.format(args[0])})")

    return write


def _comparison(sign: str) -> Callable[[Writer, Call, list[str]], str]:
    return lambda writer, call, args: writer.fresh(f"{args[0]} {sign} {args[1]}")


def _joined(sign: str) -> Callable[[Writer, Call, list[str]], str]:
    return lambda writer, call, args: "(" + f" {sign} ".join(args) + ")"


def _power(writer: Writer, call: Call, args: list[str]) -> str:
    result = writer.fresh(f"power({args[0]}, {args[1]})")
    writer.give_up(f"not isfinite({result})")
    return result


def _time(writer: Writer, call: Call, args: list[str]) -> str:
    writer.count += 1
    result, over = f"t{writer.count}", f"o{writer.count}"
    writer.put(f"{result}, {over} = add_over(int64({args[0]}), int64({args[1]}))")
    writer.give_up(f"{over} or {result} < {FIRST} or {result} > {LAST}")
    return result


def _bits(sign: str) -> Callable[[Writer, Call, list[str]], str]:
    return lambda writer, call, args: writer.fresh(f"{args[0]} {sign} {args[1]}")


_OPERATIONS: Final[Mapping[Operation, Callable[[Writer, Call, list[str]], str]]] = {
    ops.ADD: _over("add_over", "+"),
    ops.SUB: _over("sub_over", "-"),
    ops.MUL: _over("mul_over", "*"),
    ops.NEG: _negative,
    ops.ABS: _absolute,
    ops.FLOORDIV: _division("//"),
    ops.MOD: _division("%"),
    ops.TRUEDIV: _quotient,
    ops.TO_FLOAT: lambda writer, call, args: writer.fresh(f"float64({args[0]})"),
    ops.TO_INT: _whole("{}"),
    ops.EQ: _comparison("=="),
    ops.LT: _comparison("<"),
    ops.LE: _comparison("<="),
    ops.NOT: lambda writer, call, args: f"(not {args[0]})",
    ops.AND: _joined("and"),
    ops.OR: _joined("or"),
    POW: _power,
    ops.MICROS: lambda writer, call, args: args[0],
    ops.ADD_MICROS: _time,
    ops.BIT_AND: _bits("&"),
    ops.BIT_OR: _bits("|"),
    ops.BIT_XOR: _bits("^"),
    ops.INVERT: lambda writer, call, args: writer.fresh(f"~{args[0]}"),
}
"""Operations of numbers. ``if`` and ``is_null`` look at more than numbers."""

WITH_CODE: Final = frozenset({*_OPERATIONS, ops.IF, ops.IS_NULL})
"""Operations that have machine code, of numbers. Any other one is computed over columns beforehand, or keeps its tree from having
code if it follows from the state."""
