"""Functions of the module ``operator`` are the operators that they are, for the tracer and over columns."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.grammar.judging import Tally, judge
from tests.grammar.writer import Text
from tests.strategies import some
from tracetypes.compiler.tracing.symbolic.known import OPERATOR_FUNCTIONS

BINARY: Final = {
    **{"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "matmul": "@"},
    **{"and_": "&", "or_": "|", "xor": "^", "is_": "is", "is_not": "is not"},
    **{"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="},
}
GROWING: Final = {"pow": "**", "lshift": "<<", "rshift": ">>"}
"""Those whose second argument is small here, because Python's own result would fill the memory."""

UNARY: Final = {"neg": "-", "pos": "+", "invert": "~", "not_": "not ", "abs": "abs", "truth": "bool"}
NUMBERS: Final = ("v.i", "v.j", "v.f", "v.g", "v.b", "0", "-1", "2", "0.0", "2.5", "INT_MAX", "2**70")
OTHERS: Final = ("v.oi", "v.of", "v.s", "v.t", "v.ts", "v.tu", "v.day", "v.sub", "v.osub", "None", "'a'", "(v.i, 1)", "[v.i]")


def outcome(expression: str) -> tuple[int, int, Counter[str]]:
    """What becomes of a function that returns an expression, which is compared with Python on rows of edge values."""
    tally = Tally()
    judge(Text(f"\n---\nreturn {expression}", frozenset()), "result", tally)
    return tally.traced, tally.answered, tally.refused


def test_all_functions_are_tried() -> None:
    assert len({*BINARY, *GROWING, *UNARY, "getitem"}) == len(OPERATOR_FUNCTIONS)


@settings(deadline=None, max_examples=some(60))
@given(st.sampled_from(sorted(BINARY)), st.sampled_from(NUMBERS), st.sampled_from(NUMBERS) | st.sampled_from(OTHERS))
@example("truediv", "v.i", "v.j")
@example("truediv", "v.f", "v.oi")
@example("floordiv", "v.i", "v.b")
@example("mod", "v.f", "v.g")
@example("mul", "v.i", "v.j")
@example("eq", "v.oi", "None")
def test_two_arguments(name: str, a: str, b: str) -> None:
    assert outcome(f"operator.{name}({a}, {b})") == outcome(f"(lambda a, b: a {BINARY[name]} b)({a}, {b})")


@settings(deadline=None, max_examples=some(20))
@given(st.sampled_from(sorted(GROWING)), st.sampled_from(NUMBERS), st.sampled_from(("v.b", "2", "-1", "2.5", "None")))
def test_results_that_grow(name: str, a: str, b: str) -> None:
    assert outcome(f"operator.{name}({a}, {b})") == outcome(f"(lambda a, b: a {GROWING[name]} b)({a}, {b})")


@settings(deadline=None, max_examples=some(30))
@given(st.sampled_from(sorted(UNARY)), st.sampled_from(NUMBERS) | st.sampled_from(OTHERS))
@example("neg", "v.i")
@example("not_", "v.oi")
def test_one_argument(name: str, a: str) -> None:
    assert outcome(f"operator.{name}({a})") == outcome(f"{UNARY[name]}({a})")


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "eq", "ne", "lt", "le", "gt", "ge"])
def test_numbers_are_traced(name: str) -> None:
    traced, answered, _ = outcome(f"operator.{name}(v.i, v.f)")
    assert traced
    assert answered


@pytest.mark.parametrize(
    "expression",
    [
        "functools.reduce(operator.add, (v.i, v.j, 1))",
        "functools.partial(operator.mul, 2)(v.j)",
        "[*map(operator.neg, (v.i, v.j))][1]",
        "operator.getitem((v.i, v.j), 1)",
        "sorted((v.i, v.j), key=operator.neg)[0]",
        "operator.itemgetter(1, 0)((v.i, v.f))[0]",
        "operator.attrgetter('sub.x', 'i')(v)[0]",
    ],
)
def test_functions_are_values(expression: str) -> None:
    assert outcome(expression)[0]


@pytest.mark.parametrize("expression", ["operator.iadd([v.i], [1])[0]", "operator.add(v.i)", "operator.concat('a', v.s)"])
def test_others_are_refused(expression: str) -> None:
    assert not outcome(expression)[0]
