"""The definition of what a graph means: design, section 2 with its corners; data-trace-types, section 4."""

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import attrs
import pytest
from hypothesis import find, given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy

from examples.sensors import JoinFilterMap, LinearInterpolation, MaxOfAverages, Measurement, Reading
from tests.strategies import FLOATS, equivalent, streams
from tracetypes import (
    ROW_POSITION,
    UNIT,
    Checked,
    Dataflow,
    Item,
    Marker,
    O,
    OperatorFailed,
    OpKeyedOrdered,
    OpKeyedUnordered,
    OpStateless,
    Stream,
    Trace,
    U,
    Unit,
    UsageError,
    check,
    every,
    in_band,
    interpret,
    interpret_rows,
    merge,
)
from tracetypes import interpreter as interpreter_module
from tracetypes.arrangement import Arranged, arrange
from tracetypes.canonical import stable_hash
from tracetypes.errors import Location
from tracetypes.nodes import Apply, Fused, Gather, Graph, Merge, Node, Restore, Sink, Sort, Source, Split
from tracetypes.parsing import Row
from tracetypes.trace import Element, blocks, closed

K = TypeVar("K")
Step: TypeAlias = Callable[..., Node]

TICKS = every(seconds=1, time=lambda value: 0)
SECOND = 1_000_000
HERE = Location("test", 1)


def stream(*parts: tuple[Any, Any] | int) -> list[Element]:
    """A stream: pairs are items, whole numbers are markers in seconds."""
    return [Marker(part * SECOND) if isinstance(part, int) else Item(*part) for part in parts]


def chain(edge: Any, *steps: Step) -> Checked:
    """A checked graph: a source ``in``, one node a step, a sink ``out``."""
    by: Any = ROW_POSITION if getattr(edge, "__origin__", None) is O else None
    nodes: list[Node] = [Source(id=0, where=HERE, name="in", edge=edge, markers=TICKS, ordered_by=by)]
    end: Step = partial(Sink, name="out")
    for step in (*steps, end):
        nodes.append(step(id=len(nodes), where=HERE, inputs=(len(nodes) - 1,)))
    return check(Graph("test", tuple(nodes)))


def op(operator: Any) -> Step:
    return partial(Apply, op=operator)


def split(how: Literal["RR", "HASH"], ways: int) -> Step:
    return partial(Split, how=how, ways=ways)


def by(function: Callable[[Any], Any]) -> Step:
    return partial(Sort, by=function)


def output(checked: Checked, items: Sequence[Element], *, complete: bool = True) -> Trace[Element]:
    """The trace at the sink ``out`` for a stream at the source ``in``."""
    return interpret(checked, {"in": items}, complete=complete)["out"]


def trace_like(trace: Trace[Any], *parts: tuple[Any, Any] | int) -> Trace[Element]:
    return Trace(trace.type, stream(*parts))


# -------------------------------------------------------------------------- operators that show all they are told


@attrs.frozen
class Left:
    id: int


@attrs.frozen
class Right:
    id: int


@attrs.frozen
class Spread(OpStateless[int, int, int, int]):
    """Emits a pair for each unit of the value, with keys of its own."""

    def on_item(self, key: int, value: int, emit: Callable[[int, int], None]) -> None:
        for n in range(abs(value) % 3):
            emit(n - key, value)


@attrs.frozen
class Ticking(Spread):
    """The same, and a pair at every marker."""

    def on_marker(self, marker: Marker, emit: Callable[[int, int], None]) -> None:
        emit(-1, marker.timestamp)


@attrs.frozen
class History(OpKeyedOrdered[int, int, tuple[int, ...], list[int]]):
    """Emits everything that it saw, at every item and marker. Its state is changed in place."""

    def initial_state(self) -> list[int]:
        return []

    def on_item(self, state: list[int], key: int, value: int, emit: Callable[[tuple[int, ...]], None]) -> list[int]:
        state.append(value)
        emit(tuple(state))
        return state

    def on_marker(
        self, state: list[int], key: int, marker: Marker, emit: Callable[[tuple[int, ...]], None]
    ) -> list[int]:
        emit((*state, -marker.timestamp))
        return state


@attrs.frozen
class Sums(OpKeyedUnordered[int, int, int, tuple[int, ...], tuple[int, ...], int]):
    """The sums of all blocks so far, at every item and marker; emits under other keys."""

    def lift(self, key: int, value: int) -> int:
        return value

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def initial_state(self) -> tuple[int, ...]:
        return ()

    def update_state(self, state: tuple[int, ...], agg: int) -> tuple[int, ...]:
        return (*state, agg)

    def on_item(
        self, last_state: tuple[int, ...], key: int, value: int, emit: Callable[[int, tuple[int, ...]], None]
    ) -> None:
        emit(key % 2, (*last_state, value))

    def on_marker(
        self, new_state: tuple[int, ...], key: int, marker: Marker, emit: Callable[[int, tuple[int, ...]], None]
    ) -> None:
        emit(key, (*new_state, marker.timestamp))


@attrs.frozen
class LastWins(Sums):
    """Broken: ``combine`` is not commutative."""

    def combine(self, a: int, b: int) -> int:
        return b


def small(checked: Checked, **sizes: Any) -> SearchStrategy[list[Element]]:
    """Streams of the source with few keys and small values, so that keys meet again and sums fit."""
    names = {int: st.integers(-2, 2), Left: st.builds(Left, st.integers(0, 2))}[checked.types[0].key]
    return streams(checked.streams[0], names=names, values=st.integers(-3, 3), **sizes)


UNORDERED = {"stateless": op(Spread()), "ticking": op(Ticking()), "sums": op(Sums()), "sort": by(lambda v: v % 2)}
ORDERED = {"history": op(History())}

# ----------------------------------------------------------------------------- Table 2, by hand (Example 4.1)


def test_table_2_join_filter_map() -> None:
    checked = chain(U[Unit, Measurement], op(JoinFilterMap({"s1": "window", "s2": "door"})))
    out = output(
        checked,
        stream(
            (UNIT, Measurement("s1", 20.0, 1)),
            (UNIT, Measurement("s2", 21.0, 2)),
            (UNIT, Measurement("s3", 22.0, 3)),
            10,
            (UNIT, Measurement("s1", 23.0, 11)),
            20,
        ),
    )
    assert out == trace_like(out, ("s1", Reading(20.0, 1)), 10, ("s1", Reading(23.0, 11)), 20)


def test_table_2_linear_interpolation() -> None:
    checked = chain(U[str, Reading], by(lambda r: r.ts), op(LinearInterpolation()))
    out = output(
        checked,
        stream(
            ("a", Reading(16.0, 5)),
            ("b", Reading(1.0, 2)),
            ("a", Reading(10.0, 2)),
            10,
            ("a", Reading(20.0, 7)),
            20,
        ),
    )
    assert out == trace_like(
        out,
        ("a", Reading(10.0, 2)),
        ("a", Reading(12.0, 3)),
        ("a", Reading(14.0, 4)),
        ("a", Reading(16.0, 5)),
        ("b", Reading(1.0, 2)),
        10,
        ("a", Reading(18.0, 6)),
        ("a", Reading(20.0, 7)),
        20,
    )


def test_table_2_the_largest_average() -> None:
    checked = chain(U[str, Reading], op(MaxOfAverages()))
    out = output(
        checked,
        stream(
            ("a", Reading(1.0, 1)),
            ("a", Reading(4.0, 2)),
            ("b", Reading(7.0, 2)),
            10,
            ("a", Reading(2.0, 11)),
            20,
            ("a", Reading(5.0, 21)),
            ("c", Reading(-3.0, 21)),
            30,
        ),
    )
    assert out == trace_like(
        out,
        ("a", Reading(2.5, 9)),
        ("b", Reading(7.0, 9)),
        10,
        ("a", Reading(2.5, 19)),
        ("b", Reading(7.0, 19)),
        20,
        ("a", Reading(5.0, 29)),
        ("b", Reading(7.0, 29)),
        ("c", Reading(-3.0, 29)),
        30,
    )


# ------------------------------------------------------------------------------------- the corners, by number

Splitter: TypeAlias = Literal["RR", "HASH"]


@pytest.mark.parametrize("ways", [1, 2, 3, 7])
@pytest.mark.parametrize("how", ["RR", "HASH"])
def test_corner_1_a_stateless_operator_speaks_once_per_marker(how: Splitter, ways: int) -> None:
    items = stream((11, 1), (12, 1), (13, 1), 1, 2, (14, 1), 3)
    out = output(chain(U[int, int], split(how, ways), op(Ticking()), Gather), items)
    said = [item.value for item in out.items if isinstance(item, Item) and item.key == -1]
    assert sorted(said) == [1, 2, 3]
    assert out == output(chain(U[int, int], op(Ticking())), items)


def test_corner_1_what_is_said_at_a_marker_belongs_to_the_block_that_it_ends() -> None:
    out = output(chain(U[int, int], op(Ticking())), stream(7, 8))
    assert out == trace_like(out, (-1, 7), 7, (-1, 8), 8)


def test_corner_2_every_key_seen_so_far_is_visited_at_every_marker() -> None:
    out = output(chain(U[int, int], op(Sums())), stream((2, 5), 1, (4, 6), 2, 3))
    assert out == trace_like(
        out,
        (0, (5,)),
        (2, (5, 1)),
        1,
        (0, (0, 6)),
        (2, (5, 0, 2)),
        (4, (0, 6, 2)),
        2,
        (2, (5, 0, 0, 3)),
        (4, (0, 6, 0, 3)),
        3,
    )


def test_corner_2_a_late_key_starts_from_the_state_of_as_many_identity_updates() -> None:
    out = output(chain(U[int, int], op(Sums())), stream(1, 2, 3, (8, 5), 4))
    assert out == trace_like(out, 1, 2, 3, (0, (0, 0, 0, 5)), (8, (0, 0, 0, 5, 4)), 4)


@attrs.frozen
class Changes(OpKeyedUnordered[int, int, int, int, tuple[int, int], int]):
    """The running sum of a key, where it has changed. What an empty block does to it cannot be seen."""

    skips_untouched: ClassVar[bool] = True

    def lift(self, key: int, value: int) -> int:
        return value

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def initial_state(self) -> tuple[int, int]:
        return 0, 0

    def update_state(self, state: tuple[int, int], agg: int) -> tuple[int, int]:
        return state[0] + agg, agg

    def on_marker(self, new_state: tuple[int, int], key: int, marker: Marker, emit: Callable[[int, int], None]) -> None:
        if new_state[1]:
            emit(key, new_state[0])


def test_corner_2_declaring_that_untouched_keys_are_skipped_does_not_change_the_definition() -> None:
    @attrs.frozen
    class Visited(Changes):
        skips_untouched: ClassVar[bool] = False

    items = stream((1, 5), 1, (2, 6), 2, (1, 1), 3)
    skipped = output(chain(U[int, int], op(Changes())), items)
    assert skipped == output(chain(U[int, int], op(Visited())), items)
    assert skipped == trace_like(skipped, (1, 5), 1, (2, 6), 2, (1, 6), 3)


def test_corner_2_ordered_operators_visit_every_key_too() -> None:
    out = output(chain(O[int, int], op(History())), stream((1, 5), 1, (2, 6), 2))
    assert out == trace_like(out, (1, (5,)), (1, (5, -1)), 1, (2, (6,)), (1, (5, -2)), (2, (6, -2)), 2)


@given(st.data())
def test_corner_3_ties_of_sort_are_broken_by_the_whole_value(data: DataObject) -> None:
    checked = chain(U[int, float], by(lambda value: 0))
    one = data.draw(streams(checked.streams[0]))
    assert output(checked, one) == output(checked, data.draw(equivalent(checked.streams[0], one)))


def test_corner_3_zeros_and_nans_have_their_place() -> None:
    checked = chain(U[int, float], by(lambda value: 0))
    out = output(checked, stream((1, math.nan), (1, 0.0), (1, -0.0), (1, -math.inf), 1))
    assert out == trace_like(out, (1, -math.inf), (1, -0.0), (1, 0.0), (1, math.nan), 1)


@pytest.mark.parametrize("placeless", [math.nan, None, (1, math.nan), (None, 1), (1, (2, math.nan)), [math.nan], {1}])
def test_corner_3_what_has_no_place_in_an_order_fails_by_name(placeless: Any) -> None:
    checked = chain(U[int, int], by(lambda value: placeless))
    with pytest.raises(OperatorFailed, match=r"TT204 sort at test:1: by gave .* for 5") as caught:
        output(checked, stream((1, 5), (1, 6), 1))
    assert caught.value.code == "TT204"


def test_corner_3_keys_of_several_types_have_one_order() -> None:
    checked = chain(U[int, int], by(lambda value: value if value % 2 else str(value)))
    out = output(checked, stream((1, 6), (1, 7), (1, 4), (1, 5), 1))
    assert out == trace_like(out, (1, 5), (1, 7), (1, 4), (1, 6), 1)


def test_corner_3_sort_is_by_key_and_block() -> None:
    checked = chain(U[int, int], by(lambda value: -value))
    out = output(checked, stream((1, 1), (2, 9), (1, 3), 1, (1, 7), (1, 8)))
    assert out == trace_like(out, (1, 3), (1, 1), (2, 9), 1, (1, 8), (1, 7))


def two(edge: Any, other: Any = None) -> Checked:
    """Two sources merged."""
    flow = Dataflow("test")
    how: Any = ROW_POSITION if getattr(edge, "__origin__", None) is O else None
    left: Stream[Any] = flow.source("left", edge, markers=TICKS, ordered_by=how)
    right: Stream[Any] = flow.source("right", other or edge, markers=TICKS, ordered_by=how)
    flow.sink("out", merge(left, right))
    return check(flow)


def test_corner_4_one_key_from_two_ordered_inputs_fails_by_name() -> None:
    checked = two(O[str, int])
    where = checked.graph.nodes[2].where
    with pytest.raises(OperatorFailed) as caught:
        interpret(checked, {"left": stream(("a", 1), 1, 2), "right": stream(("b", 1), 1, ("a", 2), 2)})
    assert caught.value.code == "TT205"
    assert caught.value.message == (
        f"merge at {where}: the key 'a' comes from two ordered inputs, whose order is not known"
    )


def test_corner_4_disjoint_keys_keep_their_order() -> None:
    out = interpret(two(O[str, int]), {"left": stream(("a", 2), ("a", 1), 1), "right": stream(("b", 3), ("b", 2), 1)})[
        "out"
    ]
    assert out.type == two(O[str, int]).streams[2]
    assert out == trace_like(out, ("b", 3), ("a", 2), ("b", 2), ("a", 1), 1)


def test_corner_4_keys_of_distinct_types_never_meet() -> None:
    checked = two(O[Left, int], O[Right, int])
    out = interpret(checked, {"left": stream((Left(1), 5), 1), "right": stream((Right(1), 6), 1)})["out"]
    assert out == trace_like(out, (Right(1), 6), (Left(1), 5), 1)


def test_corner_6_equal_keys_share_a_channel() -> None:
    checked = chain(U[float, int], split("HASH", 16), op(Total()), Gather)
    out = output(checked, stream((0.0, 1), (-0.0, 2), 1))
    assert out == trace_like(out, (0.0, 3), 1)


@attrs.frozen
class Total(OpKeyedUnordered[K, int, K, int, int, int]):
    """The sum of a block."""

    def lift(self, key: K, value: int) -> int:
        return value

    def identity(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def initial_state(self) -> int:
        return 0

    def update_state(self, state: int, agg: int) -> int:
        return agg

    def on_marker(self, new_state: int, key: K, marker: Marker, emit: Callable[[K, int], None]) -> None:
        emit(key, new_state)


def test_corner_6_hash_sends_a_key_where_its_stable_hash_says() -> None:
    seen: list[set[int]] = []

    @attrs.frozen
    class Spy(OpKeyedOrdered[int, int, int, None]):
        def initial_state(self) -> None:
            seen[-1:] = [seen[-1] | {0}] if seen else [{0}]

        def on_item(self, state: None, key: int, value: int, emit: Callable[[int], None]) -> None:
            emit(stable_hash(checked.streams[0].key)(key) % 3)

    checked = chain(O[int, int], op(Spy()))
    keys = range(50)
    items = stream(*((key, 0) for key in keys))
    ways = interpreter_module._split(
        Split(id=0, where=HERE, inputs=(), how="HASH", ways=3), items, stable_hash(checked.streams[0].key)
    )
    out = output(checked, items)
    told = {item.key: item.value for item in out if isinstance(item, Item)}
    for at, way in enumerate(ways):
        assert isinstance(way, list)
        assert {told[item.key] for item in way if isinstance(item, Item)} == {at}


@attrs.frozen
class FloatSum(OpKeyedUnordered[int, float, int, float, float, float]):
    """Not a monoid: float addition is not associative."""

    def lift(self, key: int, value: float) -> float:
        return value

    def identity(self) -> float:
        return 0.0

    def combine(self, a: float, b: float) -> float:
        return a + b

    def initial_state(self) -> float:
        return 0.0

    def update_state(self, state: float, agg: float) -> float:
        return agg

    def on_marker(self, new_state: float, key: int, marker: Marker, emit: Callable[[int, float], None]) -> None:
        emit(key, new_state)


def test_corner_7_a_float_sum_depends_on_who_adds_first_and_an_exact_sum_does_not() -> None:
    pairs = [(1, 1e16), (1, 1.0), (1, -1e16), (1, 1.0)]
    plain = chain(U[int, float], op(FloatSum()))
    assert output(plain, stream(*pairs, 1)) != output(plain, stream(*sorted(pairs), 1))
    exact = chain(U[str, Reading], op(MaxOfAverages()))
    readings = [("a", Reading(value, 0)) for _, value in pairs]
    out = output(exact, stream(*readings, 1))
    assert out == output(exact, stream(*sorted(readings, key=lambda one: one[1].scalar), 1))
    assert out == trace_like(out, ("a", Reading(0.5, 0)), 1)


@given(st.data())
def test_corner_7_exact_sums_are_the_same_at_every_order(data: DataObject) -> None:
    checked = chain(U[str, Reading], op(MaxOfAverages()))
    readings = st.builds(Reading, FLOATS, st.integers(0, 3))
    one = data.draw(streams(checked.streams[0], values=readings, most_keys=2))
    assert output(checked, one) == output(checked, data.draw(equivalent(checked.streams[0], one)))


def test_corner_8_every_consumer_sees_the_whole_trace() -> None:
    flow = Dataflow("test")
    hub = flow.source("in", U[int, int], markers=TICKS)
    flow.sink("raw", hub)
    flow.sink("sums", hub.through(Sums()))
    flow.sink("both", merge(hub, hub))
    items = stream((1, 5), 1)
    out = interpret(check(flow), {"in": items})
    assert out["raw"] == trace_like(out["raw"], (1, 5), 1)
    assert out["sums"] == output(chain(U[int, int], op(Sums())), items)
    assert out["both"] == trace_like(out["raw"], (1, 5), (1, 5), 1)


def test_an_ordered_stream_passes_where_an_unordered_one_is_expected() -> None:
    items = stream((1, 5), (1, 3), 1)
    out = output(chain(O[int, int], op(Sums())), items)
    assert out == output(chain(U[int, int], op(Sums())), items)


# ------------------------------------------------------------------------- Definition 3.5, and monotonicity


@pytest.mark.parametrize("name", UNORDERED)
@given(data=st.data())
def test_equivalent_unordered_inputs_give_equivalent_outputs(name: str, data: DataObject) -> None:
    checked = chain(U[int, int], UNORDERED[name])
    one = data.draw(small(checked))
    assert output(checked, one) == output(checked, data.draw(equivalent(checked.streams[0], one)))


@pytest.mark.parametrize("name", ORDERED)
@given(data=st.data())
def test_equivalent_ordered_inputs_give_equivalent_outputs(name: str, data: DataObject) -> None:
    checked = chain(O[int, int], ORDERED[name])
    one = data.draw(small(checked))
    assert output(checked, one) == output(checked, data.draw(equivalent(checked.streams[0], one)))


@given(st.data())
def test_the_pipeline_of_example_4_1_is_consistent(data: DataObject) -> None:
    checked = chain(
        U[Unit, Measurement],
        op(JoinFilterMap({"": "window", "a": "window"})),
        by(lambda r: r.ts),
        op(LinearInterpolation()),
        op(MaxOfAverages()),
    )
    measurements = st.builds(Measurement, st.sampled_from(("", "a", "b")), st.floats(-10, 10), st.integers(0, 6))
    one = data.draw(streams(checked.streams[0], values=measurements))
    assert output(checked, one) == output(checked, data.draw(equivalent(checked.streams[0], one)))


def unchecked(edge: Any, operator: Any) -> Checked:
    """What the checker would refuse: its types are those of the same graph with an ordered source."""
    good = chain(O[int, int], op(operator))
    types = {**good.types, 0: attrs.evolve(good.types[0], ordered=False)}
    return Checked(good.graph, types)


@pytest.mark.parametrize(
    "checked",
    [chain(U[int, int], op(LastWins())), unchecked(U[int, int], History())],
    ids=["combine is not commutative", "an ordered operator on an unordered stream"],
)
def test_an_inconsistent_operator_is_found(checked: Checked) -> None:
    @st.composite
    def inconsistency(draw: st.DrawFn) -> bool:
        one = draw(small(checked))
        return output(checked, one) != output(checked, draw(equivalent(checked.streams[0], one)))

    assert find(inconsistency(), bool)


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("name", ["stateless", "ticking", "sums", "history"])
@given(data=st.data())
def test_more_input_gives_more_output(name: str, complete: bool, data: DataObject) -> None:
    checked = chain(O[int, int], ORDERED[name]) if name in ORDERED else chain(U[int, int], UNORDERED[name])
    whole = data.draw(small(checked))
    part = data.draw(equivalent(checked.streams[0], whole))[: data.draw(st.integers(0, len(whole)))]
    assert output(checked, part, complete=complete) <= output(checked, whole, complete=complete)


@given(st.data())
def test_more_input_gives_more_sorted_output_up_to_the_last_marker(data: DataObject) -> None:
    checked = chain(U[int, int], by(lambda v: v))
    whole = data.draw(small(checked))
    part = whole[: data.draw(st.integers(0, len(whole)))]
    assert closed(output(checked, part)) <= closed(output(checked, whole))


# --------------------------------------------------------------------------------------------------- merge


@given(st.data())
def test_a_merge_has_all_items_and_all_markers(data: DataObject) -> None:
    checked = two(U[int, int])
    left, right = (data.draw(small(checked)) for _ in range(2))
    out = interpret(checked, {"left": left, "right": right})["out"]
    markers = sorted({item.micros for one in (left, right) for item in one if isinstance(item, Marker)})
    assert [item.micros for item in out if isinstance(item, Marker)] == markers

    def end_of(items: Sequence[Element]) -> list[tuple[Any, int]]:
        """Each item with the first marker of the merge that ends its block."""
        last = markers[-1] + 1 if markers else 0
        return [
            (block.marker.micros if block.marker else last, item.key, item.value)  # type: ignore[misc]
            for block in blocks(items)
            for item in block.items
        ]

    assert sorted(end_of(out.items)) == sorted(end_of(left) + end_of(right))


def test_a_merge_aligns_on_markers() -> None:
    out = interpret(
        two(U[str, int]), {"left": stream(("a", 1), 2, ("b", 2), 4), "right": stream(("c", 3), 3, ("d", 4))}
    )["out"]
    assert out == trace_like(out, ("a", 1), 2, ("c", 3), 3, ("b", 2), 4, ("d", 4))


def test_a_merge_waits_for_its_slowest_input() -> None:
    inputs = {"left": stream(("a", 1), 2, ("b", 2), 4), "right": stream(("c", 3), 3, ("d", 4))}
    out = interpret(two(U[str, int]), inputs, complete=False)["out"]
    assert out == trace_like(out, ("a", 1), 2, ("c", 3), 3)
    assert interpret(two(U[str, int]), {"left": inputs["left"]}, complete=False)["out"].items == ()


@given(st.data())
def test_a_merge_is_monotone_while_its_inputs_go_on(data: DataObject) -> None:
    checked = two(U[int, int])
    whole = {name: data.draw(small(checked)) for name in ("left", "right")}
    part = {name: items[: data.draw(st.integers(0, len(items)))] for name, items in whole.items()}
    assert interpret(checked, part, complete=False)["out"] <= interpret(checked, whole, complete=False)["out"]


@given(st.data())
def test_a_merge_is_consistent_commutative_and_associative(data: DataObject) -> None:
    flow = Dataflow("test")
    a, b, c = (flow.source(name, U[int, int], markers=TICKS) for name in "abc")
    flow.sink("one", merge(a, b, c))
    flow.sink("two", merge(c, merge(b, a)))
    checked = check(flow)
    inputs = {name: data.draw(small(checked, most_blocks=2, most_items=3)) for name in "abc"}
    others = {name: data.draw(equivalent(checked.streams[0], items)) for name, items in inputs.items()}
    complete = data.draw(st.booleans())
    out = interpret(checked, inputs, complete=complete)
    assert out["one"] == out["two"]
    assert out["one"] == interpret(checked, others, complete=complete)["one"]


# ----------------------------------------------------------------------------- channels: Theorem 4.3 and splitters

HOW_MANY = st.integers(1, 4)


@pytest.mark.parametrize(("how", "edge"), [("RR", U[int, int]), ("HASH", U[int, int]), ("HASH", O[int, int])])
@given(data=st.data())
def test_splitting_and_merging_is_the_identity(how: Splitter, edge: Any, data: DataObject) -> None:
    checked = chain(edge, split(how, data.draw(HOW_MANY)), Gather)
    items = data.draw(small(checked))
    complete = data.draw(st.booleans())
    assert output(checked, items, complete=complete) == Trace(checked.streams[0], items)


def test_round_robin_is_no_splitter_of_ordered_streams() -> None:
    checked = chain(O[int, int], split("RR", 2), Gather)
    items = stream((1, 1), (1, 2), (1, 3), 1)
    assert output(checked, items) != Trace(checked.streams[0], items)


EQUATIONS: dict[str, tuple[Any, Splitter, Step]] = {
    "stateless RR": (U[int, int], "RR", op(Spread())),
    "stateless HASH": (U[int, int], "HASH", op(Spread())),
    "stateless RR with on_marker": (U[int, int], "RR", op(Ticking())),
    "stateless HASH with on_marker": (U[int, int], "HASH", op(Ticking())),
    "ordered HASH": (O[int, int], "HASH", op(History())),
    "unordered HASH": (U[int, int], "HASH", op(Sums())),
    "sort HASH": (U[int, int], "HASH", by(lambda v: v % 2)),
}


@pytest.mark.parametrize("name", EQUATIONS)
@given(data=st.data())
def test_theorem_4_3_split_apply_merge(name: str, data: DataObject) -> None:
    edge, how, step = EQUATIONS[name]
    items = data.draw(small(chain(edge)))
    ways = data.draw(HOW_MANY)
    assert output(chain(edge, split(how, ways), step, Gather), items) == output(chain(edge, step), items)


@pytest.mark.parametrize("name", EQUATIONS)
@given(data=st.data())
def test_theorem_4_3_two_levels_of_channels(name: str, data: DataObject) -> None:
    edge, how, step = EQUATIONS[name]
    items = data.draw(small(chain(edge)))
    outer, inner = split(how, data.draw(HOW_MANY)), split("HASH", data.draw(HOW_MANY))
    nested = chain(edge, outer, inner, step, Gather, Gather)
    assert output(nested, items) == output(chain(edge, step), items)


@given(st.data())
def test_corollary_4_4_the_deployment_of_figure_1(data: DataObject) -> None:
    """RR ; (beta ; HASH) in parallel ; MRG per hash channel ; gamma in parallel ; MRG."""
    items = data.draw(small(chain(U[int, int])))
    rr, hash_ = split("RR", data.draw(HOW_MANY)), split("HASH", data.draw(HOW_MANY))
    steps = [op(Ticking()), by(lambda v: v), op(History())]
    deployed = chain(U[int, int], rr, steps[0], hash_, Gather, *steps[1:], Gather)
    assert output(deployed, items) == output(chain(U[int, int], *steps), items)


@pytest.mark.parametrize("name", ["unordered", "ordered", "sort"])
def test_round_robin_before_a_keyed_operator_is_found(name: str) -> None:
    """The equations can fail: what they forbid does change the output."""
    edge, step = {
        "unordered": (U[int, int], op(Sums())),
        "ordered": (O[int, int], op(History())),
        "sort": (U[int, int], by(lambda v: v)),
    }[name]
    wrong, right = chain(edge, split("RR", 2), step, Gather), chain(edge, step)
    assert find(small(right), lambda items: output(wrong, items) != output(right, items))


@pytest.mark.parametrize("name", ["stateless", "ordered"])
@given(data=st.data())
def test_theorem_4_3_merge_then_apply_is_apply_then_merge(name: str, data: DataObject) -> None:
    """``MRG ; beta = (beta || beta) ; MRG`` for channels with the same markers."""
    ordered = name == "ordered"
    edge: Any = O[Left, int] if ordered else U[int, int]
    other: Any = O[Right, int] if ordered else U[int, int]
    operator: Any = Running() if ordered else Spread()
    how: Any = ROW_POSITION if ordered else None
    flow = Dataflow("test")
    left: Stream[Any] = flow.source("left", edge, markers=TICKS, ordered_by=how)
    right: Stream[Any] = flow.source("right", other, markers=TICKS, ordered_by=how)
    flow.sink("before", merge(left.through(operator), right.through(operator)))
    flow.sink("after", merge(left, right).through(operator))
    checked = check(flow)
    one = data.draw(small(checked))
    values = st.integers(0, 5)
    if ordered:
        two_: list[Element] = [i if isinstance(i, Marker) else Item(Right(i.key.id), data.draw(values)) for i in one]
    else:
        two_ = [i if isinstance(i, Marker) else Item(data.draw(values), data.draw(values)) for i in one]
    out = interpret(checked, {"left": one, "right": two_})
    assert out["before"] == out["after"]


@attrs.frozen
class Running(OpKeyedOrdered[K, int, int, int]):
    """Emits the running difference, which depends on the order, and the state at every marker."""

    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: K, value: int, emit: Callable[[int], None]) -> int:
        emit((value - state) % 1_000)
        return value

    def on_marker(self, state: int, key: K, marker: Marker, emit: Callable[[int], None]) -> int:
        emit(state)
        return state


def test_a_fused_chain_runs_its_steps_in_order() -> None:
    items = stream((1, 2), (2, 5), 1, (1, 4), 2)
    steps: list[Any] = [
        Apply(id=10, where=HERE, inputs=(), op=Spread()),
        Apply(id=11, where=HERE, inputs=(), op=Sums()),
    ]
    plain = chain(U[int, int], op(Spread()), op(Sums()))
    source, sink = plain.graph.nodes[0], plain.graph.nodes[-1]
    fused = Fused(id=12, where=HERE, inputs=(0,), steps=tuple(steps))
    graph = Graph("test", (source, fused, attrs.evolve(sink, inputs=(12,))))
    types = {0: plain.types[0], 10: plain.types[1], 11: plain.types[2], 12: plain.types[2], sink.id: plain.types[3]}
    assert interpret(Checked(graph, types), {"in": items})["out"] == output(plain, items)


def test_a_fused_chain_may_begin_with_a_merge_and_end_in_a_sink() -> None:
    plain = two(U[int, int])
    left, right, merged, sink = plain.graph.nodes
    fused = Fused(id=12, where=HERE, inputs=(0, 1), steps=(merged, sink))
    fused_graph = Checked(Graph("test", (left, right, fused)), plain.types)
    inputs = {"left": stream((1, 1), 1), "right": stream((2, 2), 1)}
    assert interpret(fused_graph, inputs) == interpret(plain, inputs)
    assert [one.name for one in fused_graph.graph.sinks] == ["out"]


def test_restoring_is_the_identity() -> None:
    items = stream((1, 2), (1, 1), 1)
    assert output(chain(O[int, int], Restore), items) == output(chain(O[int, int]), items)


# ----------------------------------------------------------------------------------------------- what goes wrong


class Boom(Exception):
    """An author's mistake."""


def boom(*_: object) -> Any:
    raise Boom("no")


def failing(operator: type[Any], method: str) -> Any:
    return attrs.frozen(type("Failing", (operator,), {method: boom}))()


@pytest.mark.parametrize(
    ("base", "edge", "method", "at"),
    [
        (Ticking, U[int, int], "on_item", "item (7, 8)"),
        (Ticking, U[int, int], "on_marker", "marker #1"),
        (History, O[int, int], "initial_state", "item (7, 8)"),
        (History, O[int, int], "on_item", "item (7, 8)"),
        (History, O[int, int], "on_marker", "key 7, marker #1"),
        (Sums, U[int, int], "initial_state", "the start"),
        (Sums, U[int, int], "identity", "item (7, 8)"),
        (Sums, U[int, int], "lift", "item (7, 8)"),
        (Sums, U[int, int], "combine", "item (7, 8)"),
        (Sums, U[int, int], "on_item", "item (7, 8)"),
        (Sums, U[int, int], "update_state", "key 7, marker #1"),
        (Sums, U[int, int], "on_marker", "key 7, marker #1"),
    ],
)
def test_TT202_an_operator_that_raises(base: type[Any], edge: Any, method: str, at: str) -> None:
    with pytest.raises(OperatorFailed) as caught:
        output(chain(edge, op(failing(base, method))), stream((7, 8), 1))
    assert caught.value.code == "TT202"
    assert caught.value.message == f"Failing.{method} raised Boom: no\n    at:       {at}"
    assert caught.value.where is not None
    assert (caught.value.where.file, caught.value.line) == (__file__, 'raise Boom("no")')
    assert isinstance(caught.value.__cause__, Boom)


@pytest.mark.parametrize("method", ["identity", "update_state"])
def test_TT202_an_operator_that_raises_before_it_saw_a_key(method: str) -> None:
    with pytest.raises(OperatorFailed, match=f"Failing.{method} raised Boom") as caught:
        output(chain(U[int, int], op(failing(Sums, method))), stream(1))
    assert caught.value.code == "TT202"


def test_TT202_an_order_that_raises() -> None:
    with pytest.raises(OperatorFailed, match=r"TT202 Sort.by raised Boom: no\n    at:       item 8") as caught:
        output(chain(U[int, int], by(boom)), stream((7, 8), 1))
    assert isinstance(caught.value.__cause__, Boom)


@attrs.frozen
class Emits(OpStateless[int, int, float, float]):
    pair: Any

    def on_item(self, key: int, value: int, emit: Callable[[float, float], None]) -> None:
        emit(*self.pair)


@pytest.mark.parametrize(
    ("pair", "why"),
    [
        ((1.0, "text"), "value is 'text', expected float"),
        (("text", 1.0), "value is 'text', expected float"),
        ((1.0, None), "value is None, expected float"),
        ((math.nan, 1.0), "the key is NaN, which equals nothing, not even itself"),
    ],
)
def test_TT206_an_operator_that_emits_what_its_type_does_not_allow(pair: tuple[Any, Any], why: str) -> None:
    with pytest.raises(OperatorFailed) as caught:
        output(chain(U[int, int], op(Emits(pair))), stream((7, 8), 1))
    assert caught.value.code == "TT206"
    assert caught.value.message == f"Emits emitted ({pair[0]!r}, {pair[1]!r}): {why}"


def test_an_int_that_is_emitted_as_a_float_is_a_float() -> None:
    out = output(chain(U[int, int], op(Emits((-0.0, 2)))), stream((7, 8), 1))
    (item, _) = out.items
    assert isinstance(item, Item)
    assert (type(item.value), str(item.key)) == (float, "0.0")


def test_keys_that_are_equal_look_alike_to_every_operator() -> None:
    """Who came first, 0.0 or -0.0, cannot be seen by an operator that is told the key at a marker."""

    @attrs.frozen
    class Sign(OpKeyedUnordered[float, int, str, float, int, int]):
        def lift(self, key: float, value: int) -> int:
            return value

        def identity(self) -> int:
            return 0

        def combine(self, a: int, b: int) -> int:
            return a + b

        def initial_state(self) -> int:
            return 0

        def update_state(self, state: int, agg: int) -> int:
            return agg

        def on_marker(self, new_state: int, key: float, marker: Marker, emit: Callable[[str, float], None]) -> None:
            emit("", math.copysign(1.0, key))

    checked = chain(U[float, int], op(Sign()))
    one = stream((0.0, 1), (-0.0, 2), 1)
    assert output(checked, one) == output(checked, [one[1], one[0], one[2]])


# -------------------------------------------------------------------------------------------------- arrange


@attrs.frozen
class Sample:
    ts: float
    id: int = 0
    end: bool = False


def source(edge: Any = U[Unit, Sample], **given: Any) -> Source:
    markers = given.pop("markers", every(seconds=10, time=lambda s: s.ts, delay=given.pop("delay", 0)))
    flow = Dataflow("test")
    flow.sink("out", flow.source("in", edge, markers=markers, **given))
    check(flow)
    return flow.graph.sources[0]


def rows(*samples: Sample | float) -> list[Row]:
    """Rows as a reader makes them."""
    made = [one if isinstance(one, Sample) else Sample(one) for one in samples]
    return [Row("item", UNIT, one, round(one.ts * SECOND)) for one in made]


def times(arranged: Arranged) -> list[float | str]:
    """A stream as its items' times and its markers as texts."""
    return [repr(item) if isinstance(item, Marker) else item.value.ts for item in arranged.items]


def test_arrange_puts_markers_at_the_multiples_of_the_period() -> None:
    assert times(arrange(source(), rows(1, 9, 10, 35), drain=False)) == [1, 9, "#10", 10, "#20", "#30", 35]
    assert times(arrange(source(), rows(1, 9, 10, 35), drain=True)) == [1, 9, "#10", 10, "#20", "#30", 35, "#40"]


def test_arrange_draining_closes_the_last_block() -> None:
    assert times(arrange(source(delay=100), rows(5, 25), drain=True)) == [5, "#10", "#20", 25, "#30"]
    assert arrange(source(), [], drain=True) == Arranged((), (), (), {"late": (), "rejects": ()})


def test_arrange_before_the_epoch() -> None:
    assert times(arrange(source(), rows(-15, -5, 0.5), drain=True)) == [-15, "#-10", -5, "#0", 0.5, "#10"]


def test_arrange_waits_for_the_delay() -> None:
    assert times(arrange(source(delay=10), rows(5, 19, 8), drain=False)) == [5, 8, 19]
    assert times(arrange(source(delay=10), rows(5, 20, 8), drain=False)) == [5, "#10", 20]


def test_corner_5_a_late_item_is_neither_applied_nor_dropped_silently() -> None:
    arranged = arrange(source(), rows(5, 12, Sample(3, id=7), 25, 19.5, 21), drain=True)
    assert times(arranged) == [5, "#10", 12, "#20", 25, 21, "#30"]
    first, second = arranged.late
    assert (first.value, first.block, first.frontier) == (Sample(3, id=7), 10 * SECOND, 10 * SECOND)
    assert first.reason == "its block ended at #10, and #10 was already sent"
    assert second.reason == "its block ended at #20, and #20 was already sent"


def test_corner_5_an_item_within_its_block_is_never_late_however_old() -> None:
    assert times(arrange(source(), rows(19, 10, 11), drain=True)) == [19, 10, 11, "#20"]


def test_corner_5_nothing_is_lost() -> None:
    @given(st.lists(st.integers(0, 60), max_size=12), st.integers(0, 30), st.booleans())
    def every_item_is_somewhere(times: list[int], delay: int, drain: bool) -> None:
        arranged = arrange(source(delay=delay), rows(*times), drain=drain)
        there = [item.value.ts for item in arranged.items if isinstance(item, Item)]
        assert sorted(there + [late.value.ts for late in arranged.late]) == sorted(times)
        for block in blocks(arranged.items):
            if block.marker is not None:
                for item in block.items:
                    assert block.marker.micros - 10 * SECOND <= item.value.ts * SECOND < block.marker.micros

    every_item_is_somewhere()


@given(st.data())
def test_corner_10_blocks_depend_on_times_alone_while_disorder_stays_within_the_delay(data: DataObject) -> None:
    delay = data.draw(st.integers(0, 25))
    times = data.draw(st.lists(st.integers(0, 60), max_size=10).map(sorted))
    shifts = data.draw(st.lists(st.integers(0, delay), min_size=len(times), max_size=len(times)))
    samples = [Sample(time, id=at) for at, time in enumerate(times)]
    # Each item is held up for up to `delay` seconds of event time.
    arrived = [s for _, _, s in sorted((s.ts + shift, -s.id, s) for s, shift in zip(samples, shifts, strict=True))]
    from_source = source(delay=delay)
    checked = check(Graph("test", (from_source, Sink(id=1, where=HERE, inputs=(0,), name="out"))))
    in_order, disordered = (arrange(from_source, rows(*one), drain=True) for one in (samples, arrived))
    assert disordered.late == ()
    assert Trace(checked.streams[0], in_order.items) == Trace(checked.streams[0], disordered.items)


@given(st.lists(st.integers(0, 60), max_size=10), st.integers(0, 25), st.data())
def test_corner_10_what_was_answered_stays_answered(times: list[int], delay: int, data: DataObject) -> None:
    """However the rows are cut into batches: markers, and what lies before them, are only added to."""
    from_source = source(delay=delay)
    checked = check(Graph("test", (from_source, Sink(id=1, where=HERE, inputs=(0,), name="out"))))
    part = times[: data.draw(st.integers(0, len(times)))]
    some, all_ = (Trace(checked.streams[0], arrange(from_source, rows(*t), drain=False).items) for t in (part, times))
    assert closed(some) <= closed(all_)


def test_corner_9_ordered_by_decides_and_not_the_arrival() -> None:
    ordered = source(O[Unit, Sample], ordered_by=lambda s: s.ts)
    samples = [Sample(3, id=1), Sample(1, id=2), Sample(1, id=1), Sample(12, id=0)]
    expected = [Sample(1, id=1), Sample(1, id=2), Sample(3, id=1), Sample(12, id=0)]
    for arrived in (samples, [samples[2], samples[0], samples[1], samples[3]]):
        items = arrange(ordered, rows(*arrived), drain=True).items
        assert [item.value for item in items if isinstance(item, Item)] == expected


def test_corner_9_row_position_keeps_the_arrival() -> None:
    ordered = source(O[Unit, Sample], ordered_by=ROW_POSITION)
    assert times(arrange(ordered, rows(3, 1, 2, 12, 11), drain=True)) == [3, 1, 2, "#10", 12, 11, "#20"]


def test_a_jump_of_time_is_a_run_of_markers() -> None:
    """Milliseconds taken for seconds: as many markers as there are, and no list of them."""
    items = arrange(source(), rows(1_700_000_000, 1_700_000_000_000), drain=True).items
    assert len(items) == 2 + (1_700_000_000_000 - 1_700_000_000) // 10 + 1
    assert isinstance(items[0], Item)
    assert isinstance(items[-2], Item)
    assert items[-1] == Marker((1_700_000_000_000 + 10) * SECOND)
    assert items[1:4] == (Marker(1_700_000_010 * SECOND), Marker(1_700_000_020 * SECOND), Marker(1_700_000_030 * SECOND))


IN_BAND = in_band(is_marker=lambda s: s.end, time=lambda s: s.ts)


def in_band_rows(*parts: float | str) -> list[Row]:
    """Whole numbers are items, texts are markers."""
    return [
        Row("marker", time=int(part) * SECOND) if isinstance(part, str) else Row("item", UNIT, Sample(part))
        for part in parts
    ]


def test_arrange_markers_in_band() -> None:
    here = source(markers=IN_BAND)
    parts = in_band_rows(5, 1, "3", 0, "7", 9)
    assert times(arrange(here, parts, drain=False)) == [5, 1, "#3", 0, "#7", 9]
    assert times(arrange(here, parts, drain=True)) == [5, 1, "#3", 0, "#7", 9, "#7.000001"]
    assert times(arrange(here, in_band_rows("3"), drain=True)) == ["#3"]
    assert times(arrange(here, in_band_rows(3), drain=True)) == [3, "#0"]


@pytest.mark.parametrize("second", ["3", "2"])
def test_arrange_rejects_markers_in_band_that_do_not_increase(second: str) -> None:
    arranged = arrange(source(markers=IN_BAND), in_band_rows(1, "3", 2, second, 4, "5"), drain=True)
    assert times(arranged) == [1, "#3", 2, 4, "#5"]
    assert arranged.rejects == ((3, f"marker #{second} does not lie after #3"),)


def test_arrange_keeps_rejects_with_their_place_and_they_move_no_time() -> None:
    parts = [*rows(5), Row("reject", reason="bad"), Row("reject", reason="worse"), *rows(15)]
    arranged = arrange(source(), parts, drain=True)
    assert arranged.rejects == ((1, "bad"), (2, "worse"))
    assert times(arranged) == [5, "#10", 15, "#20"]


# ---------------------------------------------------------------------------------------------- interpret_rows


def ordered_flow(order: Callable[[Any], Any]) -> Checked:
    flow = Dataflow("test")
    flow.sink(
        "out", flow.source("in", O[Unit, Sample], markers=every(seconds=10, time=lambda s: s.ts), ordered_by=order)
    )
    return check(flow)


def test_rows_become_traces() -> None:
    flow = Dataflow("test")
    hub = flow.source("in", U[str, Reading], markers=every(seconds=10, time=lambda r: r.ts))
    flow.sink("out", hub)
    bad: list[Any] = [("a", Reading(1, 5)), ("b", "no reading"), ("a", Reading(2.0, 12)), ("a", Reading(3.0, 1))]
    traces, arranged = interpret_rows(check(flow), {"in": bad})
    out = traces["out"]
    assert out == trace_like(out, ("a", Reading(1.0, 5)), 10, ("a", Reading(2.0, 12)), 20)
    assert arranged["in"].rejects == ((1, ".value is 'no reading', expected Reading"),)
    assert [late.value for late in arranged["in"].late] == [Reading(3.0, 1)]


def test_rows_of_a_source_with_a_key_function_are_values() -> None:
    flow = Dataflow("test")
    ticks = every(seconds=10, time=lambda r: r.ts)
    flow.sink("out", flow.source("in", U[int, Reading], markers=ticks, key=lambda r: r.ts))
    traces, _ = interpret_rows(check(flow), {"in": [Reading(1.0, 5)]})
    assert traces["out"] == trace_like(traces["out"], (5, Reading(1.0, 5)), 10)


def test_rows_without_draining_leave_the_last_block_open() -> None:
    flow = Dataflow("test")
    ticks = every(seconds=10, time=lambda r: r.ts)
    flow.sink("out", flow.source("in", U[Unit, Reading], markers=ticks))
    traces, _ = interpret_rows(check(flow), {"in": [Reading(1.0, 5), Reading(1.0, 12)]}, drain=False)
    out = traces["out"]
    assert out == trace_like(out, (UNIT, Reading(1.0, 5)), 10, (UNIT, Reading(1.0, 12)))


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (lambda s: math.nan, ".ordered_by is nan, expected a value that has a place in an order"),
        (lambda s: (s.ts, None), ".ordered_by is (1.0, None), expected a value that has a place in an order"),
        (lambda s: 1 // 0, "ordered_by raised ZeroDivisionError: integer division or modulo by zero for "),
    ],
)
def test_corner_9_a_row_without_a_place_in_the_order_is_rejected(order: Callable[[Any], Any], reason: str) -> None:
    def of_bad(sample: Any) -> Any:
        return order(sample) if sample.id else sample.ts

    _, arranged = interpret_rows(ordered_flow(of_bad), {"in": [Sample(2), Sample(1, id=1), Sample(1)]})
    ((at, why),) = arranged["in"].rejects
    assert at == 1
    assert why.startswith(reason)
    assert times(arranged["in"]) == [1, 2, "#10"]


def test_times_may_be_datetimes() -> None:
    @attrs.frozen
    class Event:
        at: dt.datetime

    flow = Dataflow("test")
    flow.sink("out", flow.source("in", U[Unit, Event], markers=every(seconds=60, time=lambda e: e.at)))
    noon = dt.datetime(2026, 1, 1, 12, 0, 30, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    traces, _ = interpret_rows(check(flow), {"in": [Event(noon)]})
    marker = traces["out"].items[-1]
    assert isinstance(marker, Marker)
    assert marker.datetime == dt.datetime(2026, 1, 1, 10, 1, tzinfo=dt.UTC)


def test_inputs_that_are_not_given_are_empty() -> None:
    given_: Mapping[str, Sequence[Element]] = {}
    assert interpret(chain(U[int, int], op(Sums())), given_)["out"].items == ()
    traces, arranged = interpret_rows(chain(U[int, int]), {})
    assert traces["out"].items == ()
    assert arranged["in"] == Arranged((), (), (), {"late": (), "rejects": ()})


def test_a_merge_of_channels_with_a_stream_that_is_not_split_is_refused() -> None:
    where = HERE
    sources = [Source(id=id, where=where, name=f"s{id}", edge=U[int, int], markers=TICKS) for id in (0, 1)]
    nodes: list[Node] = [
        *sources,
        Split(id=2, where=where, inputs=(0,), how="RR", ways=2),
        Merge(id=3, where=where, inputs=(2, 1)),
        Gather(id=4, where=where, inputs=(3,)),
        Sink(id=5, where=where, inputs=(4,), name="out"),
    ]
    checked = check(Graph("test", tuple(nodes)))
    with pytest.raises(AssertionError):
        interpret(checked, {"s0": stream((1, 1), 1), "s1": stream((2, 2), 1)})


def test_a_row_that_is_no_pair_is_named() -> None:
    graph = Dataflow("pairs")
    graph.sink("out", graph.source("in", U[int, float], markers=every(seconds=1, time=float)))
    with pytest.raises(UsageError, match=r"TT402 source 'in': 5.0 is none of its rows\n.*give pairs of int and float"):
        interpret_rows(check(graph), {"in": [(1, 2.0), 5.0]})
