"""Times that a text names: ``strptime`` and ``fromisoformat``, in whatever zone."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dictionaries import arrow_inputs, encoded
from tests.programs import inputs_of
from tests.strategies import some
from tracetypes.compiler.columns import evaluation
from tracetypes.compiler.columns.arrow import array, arrow_type
from tracetypes.compiler.columns.conversion import to_arrow, values_of
from tracetypes.compiler.tracing.expr import run
from tracetypes.compiler.tracing.kinds import BOOLEAN, DATE, FLOAT, INTEGER, STRING, TIMESTAMP
from tracetypes.compiler.tracing.operations.operation import Undefined
from tracetypes.compiler.tracing.tracer import Given, Untraceable, trace, trace_function
from tracetypes.schemas import schema_of

FORM = "%Y-%m-%dT%H:%M:%S%z"

UTC_TEXTS = ("2024-02-29T23:59:59+00:00", "1970-01-01T00:00:00Z", "2024-02-29T23:59:59+0000")

TEXTS = (*UTC_TEXTS, "2024-02-29T23:59:59+02:00", "2024-12-31T23:00:00-0700", "2024-02-29T23:59:59+00:00")

INSTANTS: Sequence[Callable[[str], Any]] = (
    lambda v: dt.datetime.strptime(v, FORM),
    lambda v: dt.datetime.fromisoformat(v),
    lambda v: dt.datetime.strptime(v, FORM) + dt.timedelta(hours=5),
    lambda v: max(dt.datetime.strptime(v, FORM), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
    lambda v: dt.datetime.strptime(v, FORM).timestamp(),
    lambda v: dt.datetime.strptime(v, FORM) > dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
    lambda v: (dt.datetime.strptime(v, FORM) - dt.datetime(2024, 1, 1, tzinfo=dt.UTC)).total_seconds(),
    lambda v: dt.datetime.strptime(v, FORM).astimezone(dt.UTC).hour,
    lambda v: dt.datetime.fromisoformat(v).astimezone(dt.UTC).isoformat(),
    lambda v: dt.datetime.strptime(v, FORM).replace(tzinfo=dt.UTC),
    lambda v: dt.datetime.fromisoformat(v).replace(tzinfo=dt.UTC).isoformat(),
    lambda v: dt.datetime.strptime(v[:10], "%Y-%m-%d").date(),
    lambda v: dt.datetime.strptime(v[:10], "%Y-%m-%d").weekday(),
    lambda v: dt.datetime.strptime(v[:19], "%Y-%m-%dT%H:%M:%S").hour,
    lambda v: dt.datetime.strptime(v[:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=dt.UTC).hour,
)
"""Programs of which each text has a value, whatever its zone."""

LOCAL = (7, 8)
"""Those that take a time without a zone for one of the machine's zone: such a row is left to Python."""

CLOCKS: Sequence[Callable[[str], Any]] = (
    lambda v: dt.datetime.strptime(v, FORM).hour,
    lambda v: dt.datetime.strptime(v, FORM).date(),
    lambda v: dt.datetime.strptime(v, FORM).isoformat(),
    lambda v: f"{dt.datetime.strptime(v, FORM):%H}",
    lambda v: str(dt.datetime.fromisoformat(v)),
    lambda v: (dt.datetime.fromisoformat(v) + dt.timedelta(hours=5)).day,
    lambda v: dt.datetime.fromisoformat(v).replace(hour=0),
    lambda v: dt.datetime.fromisoformat(v).weekday(),
)
"""Programs that read the clock of the zone: a text of another zone than UTC has no value."""


def in_utc(value: Any) -> Any:
    return value.astimezone(dt.UTC) if isinstance(value, dt.datetime) else value


def emitted(program: Callable[[str], Any], texts: Sequence[str]) -> Any:
    """What a program emits, by a tree in Python and over columns."""
    tree = trace(lambda v, emit: emit(program(v)), [Given("v", STRING)], emits="values")
    by_row = [run(tree, inputs_of(v=text))[0][0][1] for text in texts]
    emissions = evaluation.run(tree, arrow_inputs({"v": (STRING, array(STRING, texts))}), len(texts)).emissions
    assert values_of(emissions[0].value, len(texts)) == by_row
    return by_row


@pytest.mark.parametrize("number", range(len(INSTANTS)))
def test_an_instant_has_no_zone(number: int) -> None:
    program = INSTANTS[number]
    wanted = [in_utc(program(text)) for text in TEXTS]
    assert emitted(program, TEXTS) == wanted
    assert [getattr(one, "tzinfo", None) for one in emitted(program, TEXTS)] == [getattr(one, "tzinfo", None) for one in wanted]


@pytest.mark.parametrize("number", range(len(CLOCKS)))
def test_a_clock_of_another_zone_has_no_value(number: int) -> None:
    program = CLOCKS[number]
    assert emitted(program, UTC_TEXTS) == list(map(program, UTC_TEXTS))
    with pytest.raises(Undefined):
        emitted(program, TEXTS)


@settings(max_examples=some(100), deadline=None)
@given(
    st.lists(st.datetimes(dt.datetime(1000, 1, 2), dt.datetime(9999, 12, 30)), min_size=1, max_size=5),
    st.lists(st.sampled_from(["", "Z", "+00:00", "+0530", "-11:59", "+01:00:01", " +01:00", "x"]), min_size=5, max_size=5),
    st.integers(0, len(INSTANTS) - 1),
)
def test_a_text_has_the_value_that_python_gives(times: list[dt.datetime], zones: list[str], number: int) -> None:
    """Or none, where Python raises or gives a time without a zone."""
    program = INSTANTS[number]
    for time, zone in zip(times, zones, strict=False):
        text = time.isoformat(timespec="seconds") + zone
        try:
            wanted = program(text)
        except (ValueError, OverflowError, TypeError):
            wanted = dt.datetime.min
        if isinstance(wanted, dt.datetime) and wanted.tzinfo is None:
            with pytest.raises(Undefined):
                emitted(program, [text])
        elif zone or number not in LOCAL:
            assert emitted(program, [text, text]) == [in_utc(wanted)] * 2


@pytest.mark.parametrize("keep_codes", [False, True])
@pytest.mark.parametrize(
    ("program", "kind"),
    [
        (lambda v: dt.datetime.fromisoformat(v), TIMESTAMP),
        (lambda v: dt.date.fromisoformat(v[:10]), DATE),
        (lambda v: v.startswith("2024"), BOOLEAN),
        (lambda v: int(v[:4]), INTEGER),
        (lambda v: float(v[:4]), FLOAT),
        (lambda v: v[:4], STRING),
    ],
)
def test_what_is_computed_of_coded_text_has_its_type(program: Callable[[str], Any], kind: Any, keep_codes: bool) -> None:
    texts = [*TEXTS] * 3
    tree = trace(lambda v, emit: emit(program(v)), [Given("v", STRING)], emits="values")
    inputs = arrow_inputs({"v": (STRING, encoded(STRING, array(STRING, texts), random.Random(1)))})
    (emitted,) = evaluation.run(tree, inputs, len(texts)).emissions
    made = to_arrow(kind, emitted.value, len(texts), keep_codes=keep_codes)
    is_coded = pa.types.is_dictionary(made.type)
    assert (made.type.value_type if is_coded else made.type) == arrow_type(kind)
    assert is_coded == (keep_codes and kind == STRING)
    assert (made.dictionary_decode() if is_coded else made).to_pylist() == [in_utc(program(text)) for text in texts]


def choices(depth: int, first: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A time that is chosen again and again: each choice has the one before in both of its parts."""

    def program(v: Any) -> Any:
        time = first(v)
        for at in range(depth):
            time = max(time, v.at) if v.number > at else time
        return time.hour

    return program


@attrs.frozen
class Choice:
    start: dt.datetime
    at: dt.datetime
    text: str
    number: int


@pytest.mark.parametrize("first", [lambda v: v.start, lambda v: dt.datetime.strptime(v.text, FORM)])
def test_each_choice_of_a_chain_is_looked_at_once(first: Callable[[Any], Any]) -> None:
    """Twice for each would be two to the fortieth."""
    program, schema = choices(40, first), schema_of(Choice)
    time = dt.datetime(2024, 1, 1, 7, tzinfo=dt.UTC)
    row = Choice(time, time, "2024-01-01T07:00:00Z", 17)
    assert run(trace_function(program, schema), inputs_of(value=row))[1] == program(row) == 7


@pytest.mark.parametrize("program", [lambda v: dt.datetime.strptime(v, "%Y"), lambda v: (dt.datetime.strptime(v, "%%z%Y"), 1)])
def test_a_time_without_a_zone_is_no_result(program: Callable[[str], Any]) -> None:
    with pytest.raises(Untraceable, match="emits a datetime without a time zone"):
        trace(lambda v, emit: emit(program(v)), [Given("v", STRING)], emits="values")
    with pytest.raises(Untraceable, match="returns a datetime without a time zone"):
        trace(program, [Given("v", STRING)], emits=None)


def test_what_a_method_returns_keeps_its_zone() -> None:
    """A state is no emission: it stays in its zone, so one of another zone has no value."""
    program = INSTANTS[0]
    tree = trace(program, [Given("v", STRING)], emits=None)
    assert run(tree, inputs_of(v=UTC_TEXTS[0]))[1] == program(UTC_TEXTS[0])
    with pytest.raises(Undefined):
        run(tree, inputs_of(v=TEXTS[3]))
    assert run(trace_function(program, STRING, instants=True), inputs_of(value=TEXTS[3]))[1] == program(TEXTS[3])


@pytest.mark.parametrize(
    "program",
    [
        lambda v: dt.datetime.strptime(v, FORM).tzinfo,
        lambda v: dt.datetime.strptime(v, "%Y").isoformat(),
        lambda v: dt.datetime.strptime("2024", v),
    ],
)
def test_the_rest_is_refused(program: Callable[[str], Any]) -> None:
    with pytest.raises(Untraceable):
        trace(program, [Given("v", STRING)], emits=None)
