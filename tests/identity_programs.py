"""Programs for tests of identity: the text of a module with a dataflow, from a model of what it computes and a style in
which it is written. Run as a script, it prints the identities of some programs, for other interpreters.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

__all__ = ["CHANGES", "PLAIN", "Program", "Style", "identities_of", "some_programs", "text_of"]


@dataclass(frozen=True)
class Program:
    """What a program computes."""

    rate: int = 3
    offset: int = 4
    limit: int = 90
    table: tuple[int, int] = (5, 6)
    near: str = "+"
    far: str = "*"
    default: int = 7
    cell: int = 8
    parameter: int = 9
    in_class: int = 10
    in_lambda: int = 11
    extra_type: str = "int"
    field_default: int = 12
    validator: str = "ge"
    bound: int = -1000
    in_method: int = 13
    in_property: int = 14
    in_base: int = 15
    caught: str = "ZeroDivisionError"
    nested: int = 16
    steps: int = 17
    member: str = "fast"
    second: str = "min"
    threshold: int = 18
    by: str = "n"
    period: int = 10
    delay: int = 5
    swapped: bool = False
    sorted: bool = True
    annotation: str = "int"


@dataclass(frozen=True)
class Style:
    """How it is written, which does not count."""

    record: str = "Row"
    operator: str = "Scale"
    enum: str = "Mode"
    base: str = "Counted"
    local: str = "total"
    inner: str = "step"
    helper: str = "scaled"
    deeper: str = "shifted"
    constant: str = "RATE"
    module: str = "plain"
    comments: bool = False
    docs: str = ""
    annotated: bool = False
    backwards: bool = False
    alias: bool | None = False
    parallelism: int | None = None
    flow: str = "flow"


PLAIN = Style()


def text_of(p: Program, s: Style) -> str:
    """The text of the module."""
    note = "    # nothing of this counts\n\n" if s.comments else ""
    docs = f'    """{s.docs}"""\n' if s.docs else ""
    typed = ": int" if s.annotated else ""
    v, w = s.local, s.inner
    own = "isqrt = abs"  # nothing of the standard library, whose version counts
    maths = own if s.alias is None else "import math as numbers" if s.alias else "from math import isqrt"
    root = "numbers.isqrt" if s.alias else "isqrt"
    definitions = [
        f"def {s.deeper}(n):\n{docs}{note}    return n {p.far} OFFSET + {root}(abs(n))\n",
        f"def {s.helper}(n, by={p.default}):\n{docs}    {v}{typed} = {s.deeper}(n) {p.near} {s.constant}\n"
        f"{note}    return {v} + by + TABLE['a'] + sum({w} for {w} in TABLE.values())\n",
        "def even(n):\n    return True if n <= 0 else odd(n - 1)\n",
        f"def odd(n):\n    return n == {p.steps} or (n > 0 and even(n - 1))\n",
        f"def careful(n):\n{docs}    {v} = 0\n    def {w}(more):\n        nonlocal {v}\n        {v} += more + {p.nested}\n"
        f"        return {v}\n    try:\n        {w}(100 // n)\n    except {p.caught} as {w}_failed:\n"
        f"        {v} = len({w}_failed.args)\n"
        f"    return [{v} for {v} in range(3) if ({w}_seen := {v}) < 2 or {w}_seen][-1] + {v}\n",
    ]
    if s.backwards:
        definitions.reverse()
    first, second = ("right", "left") if p.swapped else ("left", "right")
    wide = "" if s.parallelism is None else f", parallelism={s.parallelism}"
    in_order = ".through(sort(by=lambda row: row.ts))" if p.sorted else ""
    return f'''"""{s.docs}"""
import enum
{maths}

import attrs

from tracetypes import Dataflow, OpStateless, OpKeyedUnordered, U, Unit, every, merge, sort
from tracetypes.stdlib import filter, map
{note}
{s.constant} = {p.rate}
OFFSET = {p.offset}
LIMIT = {p.limit}
TABLE = {{"a": {p.table[0]}, "b": {p.table[1]}}}


class {s.enum}(enum.Enum):
    SLOW = "slow"
    FAST = "{p.member}"


def large(instance, attribute, value):
    if not value >= {p.bound}:
        raise ValueError

def ge(instance, attribute, value):
    if not value > {p.bound}:
        raise ValueError


@attrs.frozen
class {s.record}:
{docs}    ts: int
    n: int
    extra: {p.extra_type} = attrs.field(default={p.field_default}, validator={"large" if p.validator == "large" else "ge"})

    def weighed(self):
{note}        return self.n * {p.in_method}

    @property
    def half(self):
        return self.n // {p.in_property}

    def unreached(self):
        return "{s.docs}"


{chr(10).join(definitions)}

def around(k):
    def inside(n):
        return n + k
    return inside

CLOSURE = around({p.cell})

class {s.base}:
    def base(self, n):
        return n + {p.in_base}


@attrs.frozen
class {s.operator}({s.base}, OpStateless[Unit, {s.record}, int, {s.record}]):
{docs}    by: int
    STEP = {p.in_class}

    def base(self, n):
        return super().base(n) + self.STEP

    def on_item(self, key, value, emit):
        {v}{typed} = {s.helper}(value.n) + self.base(self.by) + CLOSURE(value.weighed()) + value.half
        {w} = careful({v}) + even({v} % 4) + ({s.enum}("fast") is {s.enum}.FAST)
        if isinstance(value, {s.record}) and {w} < LIMIT:
            emit({w} % 7, {s.record}(ts=value.ts, n={w}))


@attrs.frozen
class Least(OpKeyedUnordered[int, {s.record}, int, {p.annotation}, int, int]):
    def lift(self, key, value):
        return value.n

    def identity(self):
        return {p.threshold}

    def combine(self, a, b):
        return {p.second}(a, b)

    def initial_state(self):
        return 0

    def update_state(self, state, agg):
        return agg

    def on_marker(self, new_state, key, marker, emit):
        emit(key, new_state)


def build():
    {s.flow} = Dataflow("{s.flow}")
    markers = every(seconds={p.period}, time=lambda row: row.ts, delay={p.delay})
    left = {s.flow}.source("left", U[Unit, {s.record}], markers=markers)
    right = {s.flow}.source("right", U[Unit, {s.record}], markers=every(seconds={p.period}, time=lambda row: row.ts))
    big = left.through(filter(lambda key, row: row.{p.by} > {p.in_lambda}))
    left_all = big.through({s.operator}({p.parameter}))
    right_all = right.through({s.operator}({p.parameter}))
    both = merge({first}_all, {second}_all)
    {s.flow}.sink("least", both.through(Least(){wide}))
    {s.flow}.sink("rows", {first}_all{in_order})
    return {s.flow}
'''


def _other(*choices: str) -> Callable[[str], str]:
    return lambda old: next(one for one in choices if one != old)


def _next(name: str, program: Program) -> Program:
    more: Any = {name: getattr(program, name) + 1}
    return replace(program, **more)


CHANGES: dict[str, Callable[[Program], Program]] = {
    one.name: partial(_next, one.name) for one in fields(Program) if one.type == "int"
} | {
    "table": lambda p: replace(p, table=(p.table[0], p.table[1] + 1)),
    "near": lambda p: replace(p, near=_other("+", "-")(p.near)),
    "far": lambda p: replace(p, far=_other("*", "-")(p.far)),
    "extra_type": lambda p: replace(p, extra_type=_other("int", "float", "str")(p.extra_type)),
    "validator": lambda p: replace(p, validator=_other("ge", "large")(p.validator)),
    "caught": lambda p: replace(p, caught=_other("ZeroDivisionError", "ArithmeticError")(p.caught)),
    "member": lambda p: replace(p, member=_other("fast", "quick")(p.member)),
    "second": lambda p: replace(p, second=_other("min", "max")(p.second)),
    "by": lambda p: replace(p, by=_other("n", "ts")(p.by)),
    "sorted": lambda p: replace(p, sorted=not p.sorted),
    "swapped": lambda p: replace(p, swapped=not p.swapped),
    "annotation": lambda p: replace(p, annotation=_other("int", "float")(p.annotation)),
}
"""Of each field of a program, what gives it another value."""


def identities_of(program: Program, style: Style) -> list[str]:
    """The identities of the nodes of a program, in order."""
    from tests.source_modules import modules
    from tracetypes import check
    from tracetypes.compiler.analysis.identity.identities import Unique, identities

    with modules(**{style.module: text_of(program, style)}) as made:
        checked = check(made[style.module].build())
        places = {name: f"files {name}" for name in ("left", "right", "least", "rows")}
        found = identities(checked, inputs=places, outputs=places)
    reasons = [one.reason for one in found.values() if isinstance(one, Unique)]
    assert not reasons, reasons
    return [one.text for one in found.values()]


def some_programs(count: int) -> list[Program]:
    """Programs drawn at random, the same every time."""
    draw, programs = random.Random(7), list[Program]()
    for _ in range(count):
        program = Program()
        for change in draw.sample(sorted(CHANGES), 5):
            program = CHANGES[change](program)
        programs.append(program)
    return programs


if __name__ == "__main__":
    for one in [Program(), *some_programs(int(sys.argv[1]))]:
        print(*identities_of(one, replace(PLAIN, alias=None if "--own" in sys.argv else False)))
