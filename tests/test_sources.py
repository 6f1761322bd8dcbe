"""What a source makes of its rows: items, markers, and rejects that say why."""

import math
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from tracetypes import ROW_POSITION, UNIT, Dataflow, O, U, Unit, check, every, in_band
from tracetypes.edges import EdgeType
from tracetypes.markers import Markers
from tracetypes.nodes import Source
from tracetypes.parsing import Row
from tracetypes.sources import reader


@attrs.frozen
class Sample:
    ts: float
    id: float = 0.0
    end: bool = False


TICKS = every(seconds=10, time=lambda s: s.ts)
IN_BAND = in_band(is_marker=lambda s: s.end, time=lambda s: s.ts)


def read(*row: Any, edge: Any = U[Unit, Sample], markers: Markers = TICKS, **given: Any) -> Row:
    """What the reader of such a source makes of a row."""
    flow = Dataflow("test")
    flow.sink("out", flow.source("in", edge, markers=markers, **given))
    (source, _) = check(flow).graph.nodes
    assert isinstance(source, Source)
    made = reader(source)
    assert made.source is source
    return made.read(*row)


def test_an_item() -> None:
    assert read(UNIT, Sample(5.5)) == Row("item", UNIT, Sample(5.5), 5_500_000)
    assert read("k", Sample(5.0), edge=U[str, Sample]) == Row("item", "k", Sample(5.0), 5_000_000)


def test_values_and_keys_are_made_to_fit() -> None:
    row = read(-0.0, Sample(5), edge=U[float, Sample])
    assert (type(row.value.ts), repr(row.key)) == (float, "0.0")


def test_a_key_function_takes_the_place_of_the_key() -> None:
    assert read("ignored", Sample(5.0, id=7.0), edge=U[float, Sample], key=lambda s: s.id).key == 7.0


def test_markers_in_band() -> None:
    assert read(UNIT, Sample(5.0, end=True), markers=IN_BAND) == Row("marker", time=5_000_000)
    assert read(UNIT, Sample(5.0), markers=IN_BAND) == Row("item", UNIT, Sample(5.0), 0)


def test_a_marker_in_band_needs_no_key() -> None:
    def fails(value: Sample) -> float:
        raise RuntimeError("no key")

    assert read(None, Sample(5.0, end=True), markers=IN_BAND, edge=U[float, Sample], key=fails).kind == "marker"


def time_of_sample(value: Sample) -> float:
    return value.ts


def boom(*_: object) -> Any:
    raise KeyError("k")


def no_time(sample: Sample) -> Any:
    return getattr(sample, "absent", None)


@pytest.mark.parametrize(
    ("given", "row", "reason"),
    [
        ({}, (UNIT, 5), ".value is 5, expected Sample"),
        ({}, (UNIT, Sample("5")), ".ts is '5', expected float"),  # type: ignore[arg-type]
        ({}, (None, Sample(5.0)), ".key is None, expected Unit"),
        ({"edge": U[str, Sample]}, (5, Sample(5.0)), ".key is 5, expected str"),
        (
            {"edge": U[float, Sample]},
            (math.nan, Sample(5.0)),
            ".key is nan, expected a key (the key is NaN, which equals nothing, not even itself)",
        ),
        ({"edge": U[float, Sample], "key": boom}, (UNIT, Sample(5.0)), "key raised KeyError: 'k' for Sample("),
        ({"edge": U[str, Sample], "key": lambda s: s.id}, (UNIT, Sample(5.0)), ".key is 0.0, expected str"),
        ({}, (UNIT, Sample(math.nan)), "time: the time is nan"),
        ({}, (UNIT, Sample(1e305)), "time: the time 1e+305 s is beyond the year 148,000: is the unit right?"),
        ({"markers": every(seconds=1, time=boom)}, (UNIT, Sample(5.0)), "time raised KeyError: 'k' for Sample("),
        (
            {"markers": every(seconds=1, time=no_time)},
            (UNIT, Sample(5.0)),
            "time: the time is None, expected",
        ),
        (
            {"markers": in_band(is_marker=boom, time=time_of_sample)},
            (UNIT, Sample(5.0)),
            "is_marker raised KeyError: 'k' for Sample(",
        ),
        ({"markers": in_band(is_marker=lambda s: True, time=boom)}, (UNIT, Sample(5.0)), "time raised KeyError"),
        ({"markers": IN_BAND}, (UNIT, Sample(math.inf, end=True)), "time: the time is inf"),
        (
            {"edge": O[Unit, Sample], "ordered_by": lambda s: (s.ts, math.nan)},
            (UNIT, Sample(5.0)),
            ".ordered_by is (5.0, nan), expected a value that has a place in an order",
        ),
        ({"edge": O[Unit, Sample], "ordered_by": boom}, (UNIT, Sample(5.0)), "ordered_by raised KeyError: 'k' for"),
    ],
)
def test_a_row_that_is_rejected_says_why(given: dict[str, Any], row: tuple[Any, Any], reason: str) -> None:
    made = read(*row, **given)
    assert made.kind == "reject"
    assert made.reason.startswith(reason)


def test_positions_in_files_need_no_order() -> None:
    assert read(UNIT, Sample(5.0), edge=O[Unit, Sample], ordered_by=ROW_POSITION).kind == "item"


def test_edges_may_be_given_as_values() -> None:
    """JSON dataflows have no annotations."""
    edge: Any = EdgeType(False, str, Sample)
    assert read("k", Sample(5.0), edge=edge).kind == "item"


def test_a_reader_remembers_nothing() -> None:
    """Rows are read one by one, wherever and in whatever order: late ones are found later."""
    calls: list[float] = []

    def time(value: Sample) -> float:
        calls.append(value.ts)
        return value.ts

    def times() -> Callable[[Any, Any], Row]:
        flow = Dataflow("test")
        flow.source("in", U[Unit, Sample], markers=every(seconds=1, time=time))
        return reader(flow.graph.sources[0]).read

    one = times()
    assert [one(UNIT, Sample(ts)).time for ts in (5.0, 1.0, 5.0)] == [5_000_000, 1_000_000, 5_000_000]
    assert calls == [5.0, 1.0, 5.0]
