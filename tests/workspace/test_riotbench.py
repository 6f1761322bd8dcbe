"""What each task of RIoTBench means, on a few items, counted by hand."""

from __future__ import annotations

import json
import math

import attrs
import pytest

from examples.riotbench import TASKS, flow, is_first, place, sighting, tasks_of, turn
from examples.riotbench_messages import (
    Annotate,
    Bloom,
    BloomFilterCheck,
    CsvToSenML,
    Interpolation,
    Join,
    Line,
    Observation,
    RangeFilter,
    SenMLParse,
    Statistic,
)
from examples.riotbench_sources import CITY, DOMAINS, GRID, TAXI, Field, Message, Split, messages
from examples.riotbench_statistics import (
    BlockWindowAverage,
    DecisionTreeClassify,
    DistinctApproxCount,
    ErrorEstimation,
    KalmanFilter,
    MultiLinePlot,
    MultiVarLinearRegression,
    Sighting,
    SlidingLinearRegression,
    svg,
)
from tracetypes import UNIT, O, U, Unit
from tracetypes.stdlib import preview
from tracetypes.testing import check_laws


def seen(id: int, value: float | None, kind: str = "a", place: int = 0, message: tuple[float, ...] = ()) -> Observation:
    return Observation(id, id, kind, place, value, message)


def computed(id: int, task: str, value: float, actual: float = 0.0, about: str = "a") -> Statistic:
    return Statistic(id, id, task, about, value, actual)


def values(blocks: list[list[tuple[str, Observation | Statistic]]]) -> list[float | None]:
    return [one.value for block in blocks for _, one in block]


def of_one(*some: float | None) -> list[tuple[str, Observation]]:
    return [("s", seen(id, value)) for id, value in enumerate(some)]


def test_parse() -> None:
    text = '{"e":[{"u":"string","n":"source","sv":"s"},{"v":"2.5","u":"far","n":"b"},{"v":"1","n":"a"}],"bt":7000}'
    found = preview(SenMLParse("source", ("a", "b")), U[Unit, Message], [(UNIT, Message(3, 7, text))])
    assert found == [[("s", Observation(3, 7, "a", 0, 1.0, (1.0, 2.5))), ("s", Observation(3, 7, "b", 1, 2.5, (1.0, 2.5)))]]


def test_range() -> None:
    some = [("s", seen(id, value, kind)) for id, (value, kind) in enumerate([(1.0, "a"), (2.1, "a"), (0.9, "a"), (9.0, "b")])]
    assert values(preview(RangeFilter({"a": (1.0, 2.0)}), U[str, Observation], some)) == [1.0, None, None, 9.0]


def test_bloom() -> None:
    members = tuple(f"sensor{number}" for number in range(1000))
    bloom = Bloom.of(members, 0.01)
    assert all(map(bloom.may_contain, members))
    assert sum(bloom.may_contain(f"other{number}") for number in range(10_000)) < 200
    assert 6 <= bloom.hashes <= 7
    some = [("sensor7", seen(0, 1.0)), ("nobody", seen(0, 2.0))]
    found = preview(BloomFilterCheck(Bloom.of(("sensor7",), 0.0001)), U[str, Observation], some)
    assert [(key, one.value) for key, one in found[0]] == [("nobody", None), ("sensor7", 1.0)]


def test_interpolation() -> None:
    some = of_one(None, 1.0, 2.0, None, 3.0, 7.0, None)
    assert values(preview(Interpolation(("a",), 3), O[str, Observation], some)) == [None, 1.0, 2.0, 1.5, 3.0, 7.0, 4.0]
    assert values(preview(Interpolation(("a",), 0), O[str, Observation], some)) == [one.value for _, one in some]
    assert values(preview(Interpolation(("b",), 3), O[str, Observation], some)) == [one.value for _, one in some]


def test_join_and_back() -> None:
    some = [("s", seen(1, 1.5, "a")), ("s", seen(1, None, "b", 1)), ("s", seen(2, 2.5, "a"))]
    (joined,) = preview(Join(("a", "b")), O[str, Observation], some)
    assert joined == [("s", Line(1, 1, "1,s,1.5,null"))]
    assert preview(Annotate({"s": "north,new"}), U[str, Line], joined) == [[("s", Line(1, 1, "1,s,1.5,null,north,new"))]]
    assert preview(Annotate({"t": "north"}), U[str, Line], joined) == [[]]
    columns = (Field("source", "string"), Field("a", "far"), Field("b", "per"), Field("location", "string"))
    ((_, line),) = preview(CsvToSenML(columns), U[str, Line], joined)[0]
    assert json.loads(line.text) == {
        "bt": "1",
        "e": [
            {"n": "source", "sv": "s", "u": "string"},
            {"n": "a", "v": "1.5", "u": "far"},
            {"n": "b", "v": "null", "u": "per"},
        ],
    }


def test_average() -> None:
    found = preview(BlockWindowAverage(("a",), 2), O[str, Observation], of_one(1.0, None, 4.0, 5.0), of_one(8.0, 9.0))
    assert [[(one.value, one.actual) for _, one in block] for block in found] == [[(2.5, 4.0)], [(6.5, 8.0)]]
    assert preview(BlockWindowAverage(("b",), 1), O[str, Observation], of_one(1.0)) == [[]]


def test_kalman() -> None:
    """The error of the first step is 30.125, so its gain is 30.125 / 30.445."""
    first, second = values(preview(KalmanFilter(("a",), 0.125, 0.32, 30.0), O[str, Observation], of_one(10.0, None, 12.0)))
    gain = 30.125 / 30.445
    error = (1 - gain) * 30.125 + 0.125
    assert first == 10.0 * gain
    assert second == first + error / (error + 0.32) * (12.0 - first)


def test_regression() -> None:
    """A straight line goes on: after 1, 2, 3, 4 the next two are 5 and 6."""
    found = values(preview(SlidingLinearRegression(3, 2), O[str, Observation], of_one(1.0, 2.0, 3.0, 4.0, 4.0)))
    assert len(found) == 2
    assert found[0] == 5.5
    assert found[1] is not None
    assert math.isclose(found[1], (3 + 4 + 4) / 3 + 0.5 * 2.5)


def test_distinct() -> None:
    def count(*sensors: str) -> list[float | None]:
        some = [("*", Sighting(id, id, sensor)) for id, sensor in enumerate(sensors)]
        return values(preview(DistinctApproxCount(6), U[str, Sighting], some, [], some))

    many = count(*(f"sensor{number}" for number in range(1000)))
    assert len(many) == 2, "an empty block gives nothing"
    assert many[0] == many[1], "nobody counts twice"
    assert 700 < float(many[0] or 0) < 1300
    assert count("a", "a", "a") == count("a")


@pytest.mark.nightly
def test_the_laws_of_the_count() -> None:
    check_laws(DistinctApproxCount(4))


def test_plot() -> None:
    some = [("s", computed(id, "AVG" if id % 2 else "SLR", float(id))) for id in range(5)]
    (found,) = preview(MultiLinePlot(4), O[str, Statistic], some)
    assert [(key, one.id) for key, one in found] == [("s", 3)]
    assert found[0][1].text.count("<polyline") == 2
    assert svg({"AVG a": ((0, 0.0), (1, 5.0), (2, 10.0))}).count("0.0,100.0 150.0,50.0 300.0,0.0") == 1


def test_tree() -> None:
    tree = Split(1, 10.0, 0, Split(0, 5.0, 1, 2))
    some = [("s", seen(id, 0.0, message=message)) for id, message in enumerate([(9.0, 9.9), (4.9, 10.0), (5.0, 10.0)])]
    some.append(("s", seen(4, 0.0, place=1, message=(0.0, 0.0))))
    (found,) = preview(DecisionTreeClassify(tree, 1), U[str, Observation], some)
    assert [(one.task, one.value, one.actual) for _, one in found] == [("DTC", 0.0, 9.9), ("DTC", 1.0, 10.0), ("DTC", 2.0, 10.0)]


def test_linear_model() -> None:
    some = [("s", seen(1, 0.0, message=(1.0, 10.0, 30.0))), ("s", seen(1, 0.0, place=1, message=(1.0, 10.0, 30.0)))]
    found = preview(MultiVarLinearRegression((2.0, 0.25), 1.0, 2, "c"), U[str, Observation], some)
    assert found == [[("s", computed(1, "MLR", 5.0, 30.0, "c"))]], "5.5 without its fraction"


def test_error() -> None:
    some = [
        ("s", computed(0, "MLR", 1.0, 3.0)),
        ("s", computed(1, "AVG", 4.0)),
        ("s", computed(1, "AVG", 9.0, about="b")),
        ("s", computed(2, "MLR", 1.0, 3.0)),
    ]
    assert preview(ErrorEstimation("a"), O[str, Statistic], some) == [[("s", computed(2, "ERROR", 0.5, 3.0))]]


def test_orders() -> None:
    assert place(seen(1, 0.0, place=3)) < place(seen(2, 0.0, place=0))
    assert turn(computed(1, "AVG", 0.0)) < turn(computed(1, "MLR", 0.0))
    assert is_first("s", seen(1, 0.0))
    assert not is_first("s", seen(1, 0.0, place=1))
    assert sighting("s", seen(3, 0.0)) == ("*", Sighting(3, 3, "s"))


def test_messages_depend_on_their_numbers_alone() -> None:
    for domain in DOMAINS.values():
        whole = list(messages(domain, 40))
        assert whole[20:] == list(messages(domain, 20, first=20))
        assert len({one.at for one in whole}) == 4
        parse = SenMLParse(domain.sensor, domain.kinds)
        (found,) = preview(parse, U[Unit, Message], [(UNIT, one) for one in whole])
        assert len(found) == 40 * len(domain.fields)


def test_published_parameters() -> None:
    """Some of each file."""
    assert tasks_of(CITY)["RangeFilter"].ranges["dust"] == (186.61, 5188.21)
    assert tasks_of(TAXI)["RangeFilter"].ranges["tolls_amount"] == (2.5, 18.0)
    assert "surcharge" not in tasks_of(TAXI)["RangeFilter"].ranges
    assert [tasks_of(one)["BlockWindowAverage"].window for one in (GRID, CITY, TAXI)] == [10, 5, 10]
    assert [tasks_of(one)["Interpolation"].window for one in (GRID, CITY, TAXI)] == [5, 5, 0]
    assert [tasks_of(one)["SlidingLinearRegression"].horizon for one in (GRID, CITY, TAXI)] == [2, 10, 10]
    assert attrs.astuple(tasks_of(GRID)["KalmanFilter"])[1:] == (0.125, 0.32, 30.0)
    assert {type(one) for one in tasks_of(CITY).values()} == set(TASKS)


def test_a_flow_has_an_operator_for_each_task() -> None:
    names = [type(getattr(node, "op", node)).__name__ for node in flow("stats", "GRID").graph.nodes]
    assert sorted(name for name in names if name not in ("Sort", "Merge", "Filter", "Map")) == [
        "BlockWindowAverage",
        "DistinctApproxCount",
        "KalmanFilter",
        "MultiLinePlot",
        "SenMLParse",
        "Sink",
        "SlidingLinearRegression",
        "Source",
    ]
