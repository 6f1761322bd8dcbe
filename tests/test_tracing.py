"""Traced methods mean what the methods do."""

from hypothesis import given
from hypothesis import strategies as st

from tests.programs import Program, Row, definable, expected, inputs_of, plain, programs, rows
from tracetypes.compiler.expr import Undefined, run
from tracetypes.compiler.tracing import Given, Untraceable, trace
from tracetypes.records import String, schema_of

ROW = (Given("key", String()), Given("v", schema_of(Row)))


@given(programs(), st.lists(rows(), min_size=1, max_size=6), st.lists(rows(edges=False), min_size=1, max_size=6))
def test_random_programs(program: Program, wild: list[Row], tame: list[Row]) -> None:
    try:
        tree = trace(program.function, ROW, emits="pairs", limit=100)
    except Untraceable:
        return
    for row in wild + tame:
        try:
            emitted, _ = run(tree, inputs_of(key="k", v=row))
        except Undefined:
            try:
                expected(program, "k", row)
            except Exception:
                continue
            assert not definable(program, "k", row), row
        else:
            assert plain(emitted) == plain(expected(program, "k", row))
