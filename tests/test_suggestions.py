"""Messages for what people write at first."""

from typing import Any

import attrs
import pytest

import tracetypes as tt
from tests.test_method_check import Row, stateless
from tests.test_state_check import flow_of, interpreted, run_locally
from tracetypes import Dataflow, OpStateless, U, UsageError, check, every, interpret_rows, stdlib
from tracetypes.check import violations
from tracetypes.errors import OperatorFailed

ts: Any = stdlib


def stream() -> Any:
    flow = Dataflow("test")
    return flow.source("in", U[str, Row], key=lambda r: r.name, markers=every(seconds=10, time=lambda r: r.ts))


@pytest.mark.parametrize("name", [*stdlib.__all__, "sort", "merge", "sink"])
def test_a_stream_has_no_methods_and_says_what_to_write(name: str) -> None:
    for one in (stream(), stream().through(ts.filter(lambda key, row: True))):
        with pytest.raises(AttributeError, match=name) as caught:
            getattr(one, name)
        assert "; " in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("filter", ".through(filter(...))"),
        ("sum", ".through(aggregate(sum(...)))"),
        ("deduplicate", ".through(deduplicate(...))"),
        ("table_join", "write table_join(stream, other, ...)"),
        ("sort", ".through(sort(by=...))"),
        ("mapvalues", "did you mean map_values?"),
    ],
)
def test_each_kind_of_name_has_its_own_words(name: str, text: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(stream(), name)
    assert text in str(caught.value)


def test_other_names_are_not_explained() -> None:
    for name in ("zzzzzz", "_secret", "__wrapped__"):
        assert not hasattr(stream(), name)


def test_TT116_an_aggregate_is_no_operator() -> None:
    with pytest.raises(UsageError, match=r"TT116 count\(...\) is an aggregate and no operator") as caught:
        stream().through(ts.count())
    assert "aggregate(count(...))" in caught.value.fix


def test_TT116_a_source_without_markers() -> None:
    flow: Any = Dataflow("test")
    with pytest.raises(UsageError, match="TT116 source 'in' has no markers") as caught:
        flow.source("in", U[str, Row])
    assert "markers=every(" in caught.value.fix


@attrs.frozen
class Holds(OpStateless[str, Row, str, int]):
    numbers: Any

    def on_item(self, key: str, value: Row, emit: Any) -> None:
        emit(key, next(self.numbers))


def test_TT111_a_generator_cannot_be_sent() -> None:
    (one,) = violations(flow_of(Holds(number for number in (1, 2))))
    assert (one.code, one.fix) == ("TT111", "a generator can be read once, in this process: pass list(...) of it")


@pytest.mark.parametrize("run", [interpreted, run_locally])
def test_TT202_emit_with_one_argument(run: Any) -> None:
    with pytest.raises(OperatorFailed) as caught:
        run(stateless(lambda self, key, value, emit: emit(value.number)))
    assert "raised TypeError: emit() missing 1 required positional argument: 'value'" in caught.value.message
    assert caught.value.fix.startswith("call emit(key, value); ")


# ------------------------------------------------------------------------------------------------- rows


DICTS = [{"name": "a", "number": 1, "ts": 1}, {"name": "b", "ts": 2, "number": 2}]


def passed_on() -> Dataflow:
    flow = Dataflow("test")
    rows = flow.source("in", U[str, Row], key=lambda r: r.name, markers=every(seconds=10, time=lambda r: r.ts))
    flow.sink("out", rows)
    return flow


@pytest.mark.parametrize("given", [list, iter])
def test_rows_may_be_dicts(given: Any) -> None:
    out: list[Any] = []
    result = tt.run(passed_on(), inputs={"in": given(DICTS)}, outputs={"out": out}, backend="local")
    assert (sum(result.rejects.values()), sorted(out)) == (0, [("a", Row("a", 1, 1)), ("b", Row("b", 2, 2))])
    records = [Row("a", 1, 1), Row("b", 2, 2)]
    assert interpret_rows(check(passed_on()), {"in": DICTS})[0] == interpret_rows(check(passed_on()), {"in": records})[0]


@pytest.mark.parametrize("number", [{}, {"number": "x"}, {"number": 1.5}])
def test_dicts_are_checked_like_JSON(number: dict[str, Any]) -> None:
    wrong = {"name": "a", "ts": 1, **number}
    out: list[Any] = []
    result = tt.run(passed_on(), inputs={"in": [*DICTS, wrong]}, outputs={"out": out}, backend="local")
    assert (result.rejects, len(out)) == ({"in": 1}, 2)
    assert len(interpret_rows(check(passed_on()), {"in": [*DICTS, wrong]})[1]["in"].rejects) == 1


def test_a_struct_takes_a_part_for_an_optional_field() -> None:
    @attrs.frozen
    class Two:
        mean: float | None
        count: int | None

    ts.struct(Two, mean=ts.mean(lambda r: r.number), count=ts.count())
    with pytest.raises(UsageError, match="TT121"):
        ts.struct(Two, mean=ts.count(), count=ts.mean(lambda r: r.number))
