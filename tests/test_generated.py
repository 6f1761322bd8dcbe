"""Code of trees: what it computes is what the definition says, and what is computed node by node, bit by bit."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from tests.expressions import BOOLEAN, FLOAT, INPUTS, INTEGER, TIMESTAMP, expressions, rows
from tests.test_simulate import FIRST
from tests.test_vector import KINDS, coded_columns_of, columns_of, runs, trees
from tracetypes.compiler.columns import code_of_trees, evaluation, generated
from tracetypes.compiler.columns.code_of_trees import code_of
from tracetypes.compiler.columns.column import Column, Struct, bare_kind, constant
from tracetypes.compiler.columns.expressions import Rows
from tracetypes.compiler.columns.pending_take import array_of
from tracetypes.compiler.tracing.expr import Branch, Call, Const, Emission, Input, Kind, Leaf, Pack, Tree, Undefined
from tracetypes.compiler.tracing.operations import basic

MANY = settings(deadline=None)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree has code from its first evaluation."""
    monkeypatch.setattr(code_of_trees, "CALLS", 0)


@MANY
@given(trees(), rows(12))
def test_random_trees(tree: Tree, table: list[dict[str, Any]]) -> None:
    runs(tree, table)


@MANY
@given(trees(), rows(6), st.integers(1, 8), st.integers(0, 99))
def test_random_trees_over_dictionaries(tree: Tree, table: list[dict[str, Any]], repeat: int, seed: int) -> None:
    runs(tree, table * repeat, coded_columns_of(random.Random(seed)))


def with_numbers(names: frozenset[str]) -> Callable[[Sequence[dict[str, Any]]], Callable[[Input], Column]]:
    """Columns of which some are one value for all rows."""

    def columns(table: Sequence[dict[str, Any]]) -> Callable[[Input], Column]:
        whole = columns_of(table)

        def find(one: Input) -> Column:
            if not (table and one.path[1] in names):
                return whole(one)
            column = constant(table[0][str(one.path[1])], bare_kind(one.kind))
            assert column is not None
            return column

        return find

    return columns


def one_value(table: list[dict[str, Any]], names: frozenset[str]) -> list[dict[str, Any]]:
    """The table with the same values in each row for these names."""
    return [row | {name: table[0][name] for name in names} for row in table]


NAMES = st.frozensets(st.sampled_from([str(one.path[1]) for one in INPUTS]), max_size=4)


@MANY
@given(trees(), rows(6), NAMES, NAMES)
def test_random_trees_with_numbers(
    tree: Tree, table: list[dict[str, Any]], names: frozenset[str], others: frozenset[str]
) -> None:
    """The second evaluation has the code for what the first has learned; then other columns are numbers."""
    for some in (names, names, others, names):
        runs(tree, one_value(table, some), with_numbers(some))


@MANY
@given(st.one_of([expressions(kind, 3) for kind in (BOOLEAN, INTEGER, FLOAT, TIMESTAMP)]), rows(6), NAMES)
def test_the_same_bits_with_numbers(expr: Any, table: list[dict[str, Any]], names: frozenset[str]) -> None:
    leaf = Leaf((Emission(None, expr),), expr)
    inputs, count = with_numbers(names)(one_value(table, names)), len(table)
    try:
        expected = evaluation.interpreted(leaf, inputs, count)
    except Undefined:
        return
    for _ in range(2):
        assert parts_of(evaluation.run(leaf, inputs, count)) == parts_of(expected)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
@settings(deadline=None)
@given(data=st.data())
def test_random_expressions(kind: Kind, data: st.DataObject) -> None:
    expr = data.draw(expressions(kind, 4))
    runs(Leaf((), expr), data.draw(rows(12)))


def bits(columns: Any) -> Any:
    """Columns with everything that is stored of them."""
    if isinstance(columns, Struct):
        return columns.cls, columns.names, [bits(part) for part in columns.parts], repr(columns.valid)
    if not isinstance(columns, Column):
        return columns
    stored = array_of(columns.storage)
    if isinstance(stored, np.ndarray):
        stored = str(stored.dtype), stored.tobytes()
    return columns.kind, repr(stored), repr(columns.valid), repr(columns.undefined)


def parts_of(ran: evaluation.Ran) -> Any:
    emissions = [(repr(one.rows), one.number, bits(one.key), bits(one.value)) for one in ran.emissions]
    return emissions, bits(ran.result)


@MANY
@given(st.one_of([expressions(kind, 3) for kind in (BOOLEAN, INTEGER, FLOAT, TIMESTAMP)]), rows(12))
def test_the_same_bits_as_node_by_node(expr: Any, table: list[dict[str, Any]]) -> None:
    leaf = Leaf((Emission(None, expr),), expr)
    inputs, count = columns_of(table), len(table)
    try:
        expected = evaluation.interpreted(leaf, inputs, count)
    except Undefined:
        return
    assert parts_of(evaluation.run(leaf, inputs, count)) == parts_of(expected)


def number(name: str) -> Input:
    return Input(("row", name), INTEGER)


A, B = number("integer0"), number("integer1")
SUM = Call(basic.ADD, (A, B), INTEGER)
TREE = Branch(
    Call(basic.LT, (SUM, Const(10, INTEGER)), BOOLEAN),
    Leaf((Emission(None, Pack(tuple, (), (SUM, Call(basic.MUL, (Call(basic.ADD, (A, B), INTEGER), A), INTEGER)))),)),
    Leaf((Emission(None, Pack(tuple, (), (SUM, A))),)),
)


def table_of(*pairs: tuple[int, int]) -> Callable[[Input], Column]:
    table = np.array(pairs, np.int64)
    return lambda leaf: Column(leaf.kind, table[:, int(str(leaf.path[1])[-1])])


def test_code_is_used_where_all_values_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "interpreted", lambda *args: pytest.fail("node by node"))
    monkeypatch.setattr(Rows, "call", lambda *args: pytest.fail("node by node"))
    first, second = evaluation.run(TREE, table_of((1, 2), (20, 1), (3, 4)), 3).emissions
    assert isinstance(first.value, Struct)
    assert [part.values.tolist() for part in first.value.parts if isinstance(part, Column)] == [[3, 7], [3, 21]]
    assert (first.rows.tolist(), second.rows.tolist()) == ([0, 2], [1])


@pytest.mark.parametrize("then", [True, False])
def test_rows_without_emission_are_not_looked_for(then: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[list[int]] = []
    real = Rows.part

    def part(rows: Rows, within: Any) -> Rows:
        parts.append(within.tolist())
        return real(rows, within)

    monkeypatch.setattr(Rows, "part", part)
    some, none = Leaf((Emission(None, A),)), Leaf()
    condition = Call(basic.LT, (A, Const(10, INTEGER)), BOOLEAN)
    tree = Branch(condition, some, none) if then else Branch(condition, none, some)
    for table, below, others in (((1, 20, 3), [0, 2], [1]), ((1, 2), None, []), ((20, 30), [], None)):
        emitted = evaluation.run(tree, table_of(*((number, 0) for number in table)), len(table)).emissions
        expected = below if then else others
        assert [one.rows if one.rows is None else one.rows.tolist() for one in emitted] == [expected] * (expected != [])
    assert parts == ([[0, 2]] if then else [[1]])


AT = Input(("marker", "micros"), INTEGER)

AT_MARKER = Branch(
    Call(basic.LT, (Const(0, INTEGER), Call(basic.ADD, (A, AT), INTEGER)), BOOLEAN),
    Leaf((Emission(None, Pack(tuple, (), (Call(basic.FLOORDIV, (AT, Const(1_000_000, INTEGER)), INTEGER), A))),)),
    Leaf(()),
)


def test_the_time_of_a_marker_is_a_number_in_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once an evaluation node by node has seen that it is one."""
    table = table_of((1, 0), (-9_000_000, 0), (3, 0))
    whole = attrs.evolve(AT_MARKER)

    def inputs(leaf: Input) -> Column:
        return Column(INTEGER, 7_000_000) if leaf is AT else table(leaf)

    def answers() -> Any:
        (one,) = evaluation.run(whole, inputs, 3).emissions
        assert isinstance(one.value, Struct)
        return [part.values if part.scalar else part.values.tolist() for part in one.value.parts if isinstance(part, Column)]

    assert answers() == [7, [1, 3]]
    monkeypatch.setattr(evaluation, "interpreted", lambda *args: pytest.fail("node by node"))
    assert answers() == [7, [1, 3]]


def test_what_is_a_number_now_and_then_is_none_in_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the code is not written anew again and again."""
    versions: list[frozenset[Any]] = []
    write = generated.generated

    def note(tree: Tree, numbers: frozenset[Any]) -> Any:
        versions.append(numbers)
        return write(tree, numbers)

    monkeypatch.setattr(code_of_trees, "generated", note)
    leaf, table = Leaf((), attrs.evolve(SUM)), table_of((1, 2), (3, 4))
    inputs = [table, lambda one: Column(INTEGER, 5) if one is B else table(one)]
    for turn in range(9):
        result = evaluation.run(leaf, inputs[turn % 2], 2).result
        assert isinstance(result, Column)
        assert result.values.tolist() == ([6, 8] if turn % 2 else [3, 7])
    assert versions == [frozenset(), {B.path}, frozenset()]


def test_what_another_thread_learns_while_code_is_written_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    write = generated.generated
    leaf, table = Leaf((), attrs.evolve(SUM)), table_of((1, 2), (3, 4))

    def inputs(one: Input) -> Column:
        return Column(INTEGER, 5) if one is B else table(one)

    def meanwhile(tree: Tree, numbers: frozenset[Any]) -> Any:
        monkeypatch.setattr(code_of_trees, "generated", write)
        evaluation.interpreted(leaf, inputs, 2)
        return write(tree, numbers)

    monkeypatch.setattr(code_of_trees, "generated", meanwhile)
    for _ in range(2):
        evaluation.run(leaf, inputs, 2)
    monkeypatch.setattr(evaluation, "interpreted", lambda *args: pytest.fail("node by node"))
    result = evaluation.run(leaf, inputs, 2).result
    assert isinstance(result, Column)
    assert result.values.tolist() == [6, 8]


def test_a_side_of_a_choice_by_a_number_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    early = Call(basic.LT, (AT, Const(9_000_000, INTEGER)), BOOLEAN)
    leaf = Leaf((), Call(basic.IF, (early, Call(basic.FLOORDIV, (A, B), INTEGER), Const(0, INTEGER)), INTEGER))
    writer = generated._Writer(frozenset({AT.path}))
    writer.node(leaf, frozenset())
    assert not any("= act_" in line for line in writer.lines)


def test_an_equal_call_is_computed_once() -> None:
    writer = generated._Writer()
    writer.node(TREE, frozenset())
    assert sum("= act_" in line for line in writer.lines) == 4  # the sum, the comparison, and in a leaf the sum and the product


def test_code_gives_up_where_a_row_has_no_value() -> None:
    code = code_of(TREE)
    assert code is not None
    assert code(table_of((2**62, 1), (2**62, 2**62)), 2) is None
    with pytest.raises(Undefined) as error:
        evaluation.run(TREE, table_of((2**62, 1), (2**62, 2**62)), 2)
    assert error.value.args == (1,)


def test_a_tree_gets_code_when_it_was_evaluated_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_of_trees, "CALLS", 2)
    tree = Leaf((), SUM)
    assert [code_of(tree) is not None for _ in range(4)] == [False, False, True, True]


def test_a_large_tree_has_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated, "_MOST", 4)
    assert generated.generated(TREE) is None


def test_a_tree_whose_parts_are_shared_is_found_too_large_at_once() -> None:
    """Each level has the one below twice: as often as they are met they are two to the power of sixty."""
    total: Any = A
    whole: Tree = Leaf((), A)
    for _ in range(60):
        total = Call(basic.ADD, (total, total), INTEGER)
        whole = Branch(Call(basic.LT, (A, B), BOOLEAN), whole, whole)
    assert generated.generated(Leaf((), total)) is None
    assert generated.generated(whole) is None


def caught() -> bool:
    """Is there a tree for which the code is wrong?"""

    def differs(case: tuple[Tree, list[dict[str, Any]]]) -> bool:
        try:
            runs(*case)
        except (Exception, pytest.fail.Exception):
            return True
        return False

    try:
        find(st.tuples(trees(), rows(6)), differs, settings=FIRST)
    except NoSuchExample:
        return False
    return True


def test_code_that_never_gives_up_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated._Body, "give_up", lambda self, when: None)
    assert caught()


@pytest.mark.nightly
def test_the_wrong_rows_of_a_branch_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    branch = generated._Body.branch
    monkeypatch.setattr(generated._Body, "branch", lambda self, tree: [line.replace("~", "") for line in branch(self, tree)])
    assert caught()


@pytest.mark.nightly
def test_calls_that_are_one_only_by_their_operation_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    array = generated._Body.array
    monkeypatch.setattr(generated._Body, "array", lambda self, at, written, kind: array(self, kind, written, kind))
    assert caught()
