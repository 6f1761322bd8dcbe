"""Data traces: the paper's examples 3.1 to 3.9 (data-trace-types, section 3), and the laws that they stand for."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import find, given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from tests.strategies import (
    congruent,
    equivalent,
    inequivalent,
    items_of,
    key_schemas,
    schemas,
    streams,
    tag_types,
    tagged,
    tagged_items,
)
from tracetypes.edges import EdgeType, O, U, edge_type
from tracetypes.errors import DataError
from tracetypes.markers import Marker
from tracetypes.records import Float, Integer, String
from tracetypes.schemas import schema_of
from tracetypes.trace import (
    MARKER,
    Block,
    Element,
    Item,
    StreamType,
    Tagged,
    TagsType,
    Trace,
    TraceType,
    blocks,
    closed,
    stream_type,
)

# ----------------------------------------------------------------------------------- the paper's examples

Step = Callable[[Tagged], Iterable[Tagged]]
"""A one-step description, reading from left to right; what it remembers it keeps in a closure."""


def lifting(step: Callable[[], Step], type: TraceType[Any], items: Sequence[Tagged], to: TraceType[Any]) -> Trace[Any]:
    """The accumulated output of a data-string transduction (section 3.2)."""
    return Trace(type, items).apply(to, step())


def assert_consistent(
    step: Callable[[], Step], x: TraceType[Any], y: TraceType[Any], u: Sequence[Tagged], v: Sequence[Tagged]
) -> None:
    """Definition 3.5: equivalent inputs, equivalent cumulative outputs."""
    assert Trace(x, u) == Trace(x, v)
    assert lifting(step, x, u, y) == lifting(step, x, v, y)


SENSOR = TagsType({"M": int, "#": type(None)}, frozenset({("M", "#"), ("#", "#")}))
END = Tagged("#")


def m(*values: int) -> list[Tagged]:
    return [Tagged("M", value) for value in values]


def bags(items: Sequence[Tagged]) -> list[Counter[int]]:
    """Example 3.2: a nonempty sequence of bags."""
    made = [Counter[int]()]
    for item in items:
        if item.tag == "#":
            made.append(Counter())
        else:
            made[-1][item.value] += 1
    return made


def test_example_3_1_measurements_between_markers_are_unordered() -> None:
    one = Trace(SENSOR, [*m(5, 5, 8), END, *m(9)])
    assert one == Trace(SENSOR, [*m(8, 5, 5), END, *m(9)])
    assert one != Trace(SENSOR, [*m(5, 8), END, *m(9)])
    assert one != Trace(SENSOR, [*m(5, 5), END, *m(8, 9)])
    assert one != Trace(SENSOR, [*m(5, 5, 8, 9), END])


def test_example_3_1_the_values_of_a_tag_have_its_type() -> None:
    with pytest.raises(DataError, match="TT201"):
        Trace(SENSOR, [Tagged("M", "5")])
    with pytest.raises(DataError, match="TT201"):
        Trace(SENSOR, [Tagged("N", 5)])
    with pytest.raises(DataError, match="TT201"):
        TagsType({"M": int}, frozenset({("M", "#")}))


def test_example_3_1_the_dependence_relation_is_closed_symmetrically() -> None:
    assert SENSOR.dependent("#", "M")
    assert SENSOR.dependent("M", "#")
    assert not SENSOR.dependent("M", "M")


def test_example_3_2_a_trace_is_a_nonempty_sequence_of_bags() -> None:
    one = [*m(5, 7), END, *m(9, 8, 9), END, *m(6)]
    assert bags(one) == [Counter([5, 7]), Counter([8, 9, 9]), Counter([6])]
    assert bags([]) == [Counter()]
    assert bags([END]) == [Counter(), Counter()]
    (first, hash_, second, hash2, last) = Trace(SENSOR, one).normal_form()
    assert [len(step) for step in (first, hash_, second, hash2, last)] == [2, 1, 3, 1, 1]


@given(st.data())
def test_example_3_2_equal_traces_are_equal_bags(data: DataObject) -> None:
    item = st.just(END) | st.builds(Tagged, st.just("M"), st.integers(0, 2))
    one = data.draw(st.lists(item, max_size=8))
    other = data.draw(st.permutations(one) | st.lists(item, max_size=8))
    assert (Trace(SENSOR, one) == Trace(SENSOR, other)) == (bags(one) == bags(other))


@given(st.lists(st.integers(0, 2), max_size=6), st.data())
def test_example_3_2_a_single_tag_makes_bags_or_sequences(one: list[int], data: DataObject) -> None:
    other = data.draw(st.permutations(one) | st.lists(st.integers(0, 2), max_size=6))
    bag = TagsType({"s": int}, frozenset())
    sequence = TagsType({"s": int}, frozenset({("s", "s")}))

    def same(type: TagsType) -> bool:
        return Trace(type, [Tagged("s", v) for v in one]) == Trace(type, [Tagged("s", v) for v in other])

    assert same(bag) == (Counter(one) == Counter(other))
    assert same(sequence) == (one == other)


CHANNELS = TagsType(dict.fromkeys((1, 2, 3), int), frozenset({(1, 1), (2, 2), (3, 3)}))


@given(st.data())
def test_example_3_3_a_trace_of_independent_channels_is_a_tuple_of_sequences(data: DataObject) -> None:
    one = data.draw(tagged(CHANNELS))
    other = data.draw(st.permutations(one) | tagged(CHANNELS) | equivalent(CHANNELS, one))
    channels = [[[i.value for i in items if i.tag == tag] for tag in (1, 2, 3)] for items in (one, other)]
    assert (Trace(CHANNELS, one) == Trace(CHANNELS, other)) == (channels[0] == channels[1])


NUMBERS = TagsType({"n": int}, frozenset({("n", "n")}))


def larger_than_all() -> Step:
    seen = [-1]

    def step(item: Tagged) -> Iterable[Tagged]:
        if item.value > seen[-1]:
            seen.append(item.value)
            yield item

    return step


@pytest.mark.parametrize(
    ("history", "emitted", "output"),
    [([], [], []), ([3], [3], [3]), ([3, 1], [], [3]), ([3, 1, 5], [5], [3, 5]), ([3, 1, 5, 2], [], [3, 5])],
)
def test_example_3_4_what_is_larger_than_everything_before(
    history: list[int], emitted: list[int], output: list[int]
) -> None:
    items = [Tagged("n", value) for value in history]
    lifted = lifting(larger_than_all, NUMBERS, items, NUMBERS)
    assert [item.value for item in lifted] == output
    before = lifting(larger_than_all, NUMBERS, items[:-1], NUMBERS)
    assert before <= lifted
    residual = NUMBERS.residual(before.items, lifted.items)
    assert residual is not None
    assert [item.value for item in residual] == emitted


def alternately() -> Step:
    waiting: dict[Hashable, list[int]] = {1: [], 2: []}
    turn = [1]

    def step(item: Tagged) -> Iterable[Tagged]:
        waiting[item.tag].append(item.value)
        while waiting[turn[0]]:
            yield Tagged("n", waiting[turn[0]].pop(0))
            turn[0] = 3 - turn[0]

    return step


TWO = TagsType(dict.fromkeys((1, 2), int), frozenset({(1, 1), (2, 2)}))


def test_example_3_7_deterministic_merge_reads_cyclically() -> None:
    items = [Tagged(1, 10), Tagged(1, 11), Tagged(1, 12), Tagged(2, 20), Tagged(2, 21)]
    assert [item.value for item in lifting(alternately, TWO, items, NUMBERS)] == [10, 20, 11, 21, 12]
    assert [item.value for item in lifting(alternately, TWO, items[:4], NUMBERS)] == [10, 20, 11]
    assert [item.value for item in lifting(alternately, TWO, items[3:], NUMBERS)] == []


@given(st.data())
def test_example_3_7_deterministic_merge_is_consistent_and_monotone(data: DataObject) -> None:
    one = data.draw(tagged(TWO))
    assert_consistent(alternately, TWO, NUMBERS, one, data.draw(equivalent(TWO, one)))
    prefix = one[: data.draw(st.integers(0, len(one)))]
    assert lifting(alternately, TWO, prefix, NUMBERS) <= lifting(alternately, TWO, one, NUMBERS)


def test_example_3_7_passing_on_what_comes_first_is_not_consistent() -> None:
    def as_they_come() -> Step:
        return lambda item: [Tagged("n", item.value)]

    one = [Tagged(1, 10), Tagged(2, 20)]
    with pytest.raises(AssertionError):
        assert_consistent(as_they_come, TWO, NUMBERS, one, one[::-1])


PER_KEY = TagsType(dict.fromkeys((0, 1, 2), int), frozenset({(0, 0), (1, 1), (2, 2)}))


@given(st.lists(st.integers(0, 20), max_size=8), st.data())
def test_example_3_8_partitioning_by_key(numbers: list[int], data: DataObject) -> None:
    def partition() -> Step:
        return lambda item: [Tagged(item.value % 3, item.value)]

    items = [Tagged("n", value) for value in numbers]
    made = lifting(partition, NUMBERS, items, PER_KEY)
    assert [[i.value for i in made if i.tag == key] for key in range(3)] == [
        [value for value in numbers if value % 3 == key] for key in range(3)
    ]
    # The output trace says no more than that: any interleaving of the sub-streams is the same.
    assert made == Trace(PER_KEY, [i for key in data.draw(st.permutations(range(3))) for i in made if i.tag == key])
    assert lifting(partition, NUMBERS, items[:3], PER_KEY) <= made


SMAX = TagsType({"s": int, "t": type(None)}, frozenset({("s", "t"), ("t", "t")}))


def streaming_maximum() -> Step:
    seen: list[int] = []

    def step(item: Tagged) -> Iterable[Tagged]:
        if item.tag == "s":
            seen.append(item.value)
        elif seen:
            yield Tagged("n", max(seen))

    return step


def test_example_3_9_the_maximum_at_every_marker() -> None:
    items = [
        Tagged("s", 3),
        Tagged("s", 1),
        Tagged("t"),
        Tagged("s", 2),
        Tagged("t"),
        Tagged("s", 9),
        Tagged("t"),
        Tagged("s", 11),
    ]
    assert [item.value for item in lifting(streaming_maximum, SMAX, items, NUMBERS)] == [3, 3, 9]


smax_items = st.lists(st.just(Tagged("t")) | st.builds(Tagged, st.just("s"), st.integers(0, 5)), max_size=8)


@given(smax_items, st.data())
def test_example_3_9_is_consistent_and_monotone(one: list[Tagged], data: DataObject) -> None:
    assert_consistent(streaming_maximum, SMAX, NUMBERS, one, data.draw(equivalent(SMAX, one)))
    for at in range(len(one)):
        assert lifting(streaming_maximum, SMAX, one[:at], NUMBERS) <= lifting(streaming_maximum, SMAX, one, NUMBERS)


def test_example_3_9_emitting_the_running_maximum_at_once_is_not_consistent() -> None:
    def at_once() -> Step:
        return larger_than_all_of_tag_s

    def larger_than_all_of_tag_s(item: Tagged) -> Iterable[Tagged]:
        return [Tagged("n", item.value)] if item.tag == "s" else []

    one = [Tagged("s", 1), Tagged("s", 2)]
    with pytest.raises(AssertionError):
        assert_consistent(at_once, SMAX, NUMBERS, one, one[::-1])


# --------------------------------------------------------------------------------- the definition of equality


@given(st.data())
def test_equal_normal_forms_are_the_congruence_of_the_definition(data: DataObject) -> None:
    type = data.draw(tag_types())
    one = data.draw(tagged(type, most=6))
    other = data.draw(st.permutations(one))
    reachable = tuple(map(type.order, other)) in congruent(type, one)
    assert (type.normal_form(one) == type.normal_form(other)) == reachable
    assert (Trace(type, one) == Trace(type, other)) == reachable


@given(st.data())
def test_swaps_of_independent_neighbours_change_nothing(data: DataObject) -> None:
    type = data.draw(tag_types())
    one = data.draw(tagged(type, most=12))
    other = data.draw(equivalent(type, one))
    assert Trace(type, one) == Trace(type, other)
    assert hash(Trace(type, one)) == hash(Trace(type, other))


@given(st.data())
def test_anything_else_is_another_trace(data: DataObject) -> None:
    type = data.draw(tag_types())
    one = data.draw(tagged(type))
    assert Trace(type, one) != Trace(type, data.draw(inequivalent(type, one, tagged_items(type))))


@given(st.data())
def test_the_normal_form_is_foatas(data: DataObject) -> None:
    """Its steps hold pairwise independent items, and each item depends on one of the step before."""
    type = data.draw(tag_types())
    items = data.draw(tagged(type))
    tags = {repr(type.order(item)): item.tag for item in items}
    steps = [[tags[repr(one)] for one in step] for step in type.normal_form(items)]
    for step in steps:
        assert step
        assert not any(type.dependent(a, b) for at, a in enumerate(step) for b in step[:at])
    for before, step in pairwise(steps):
        assert all(any(type.dependent(a, b) for b in before) for a in step)


def test_tags_that_print_alike_are_told_apart() -> None:
    type = TagsType({1: int, "1": int}, frozenset())
    assert Trace(type, [Tagged(1, 5)]) != Trace(type, [Tagged("1", 5)])


def test_traces_of_different_types_are_different() -> None:
    assert Trace(TWO, []) != Trace(NUMBERS, [])
    assert not Trace(TWO, []) <= Trace(NUMBERS, [])
    with pytest.raises(DataError, match="TT201"):
        Trace(TWO, []) + Trace(NUMBERS, [])
    assert Trace(TWO, []) != "a trace"


# -------------------------------------------------------------------------------- concatenation and prefixes


@given(st.data())
def test_equality_is_a_congruence(data: DataObject) -> None:
    type = data.draw(tag_types())
    u, v = data.draw(tagged(type)), data.draw(tagged(type))
    same_u, same_v = data.draw(equivalent(type, u)), data.draw(equivalent(type, v))
    assert Trace(type, u) + Trace(type, v) == Trace(type, same_u) + Trace(type, same_v)
    assert Trace(type, u) + Trace(type, v) == Trace(type, same_u + same_v)
    other = data.draw(inequivalent(type, u, tagged_items(type)))
    assert Trace(type, u) + Trace(type, v) != Trace(type, other) + Trace(type, v)


@given(st.data())
def test_a_prefix_is_a_prefix_of_some_sequence_of_the_class(data: DataObject) -> None:
    type = data.draw(tag_types())
    v = data.draw(tagged(type, most=5))
    u = data.draw(tagged(type, most=3) | st.permutations(v).map(lambda one: one[:3]))
    class_u, class_v = congruent(type, u), congruent(type, v)
    by_definition = any(long[: len(short)] == short for short in class_u for long in class_v)
    assert (Trace(type, u) <= Trace(type, v)) == by_definition
    assert (Trace(type, u) < Trace(type, v)) == (by_definition and len(u) < len(v))


@given(st.data())
def test_a_residual_completes_its_prefix(data: DataObject) -> None:
    type = data.draw(tag_types())
    u, w = data.draw(tagged(type)), data.draw(tagged(type))
    whole = data.draw(equivalent(type, u + w))
    rest = type.residual(u, whole)
    assert rest is not None
    assert Trace(type, u) <= Trace(type, whole)
    assert Trace(type, u) + Trace(type, rest) == Trace(type, whole)
    assert Trace(type, rest) == Trace(type, w)  # traces can be cancelled


@given(st.data())
def test_the_prefix_order_is_a_partial_order(data: DataObject) -> None:
    type = data.draw(tag_types())
    c = data.draw(tagged(type))
    a, b = (data.draw(equivalent(type, c))[: data.draw(st.integers(0, len(c)))] for _ in range(2))
    x, y, z = Trace(type, a), Trace(type, b), Trace(type, c)
    assert x <= x
    assert x <= z
    assert y <= z
    if x <= y and y <= x:
        assert x == y
    if len(a) == len(b) and x != y:
        assert not x <= y
    longer = y + Trace(type, data.draw(tagged(type, most=3)))
    if x <= y:
        assert x <= longer


# ----------------------------------------------------------------------------------------- U and O streams

SMALL = st.builds(StreamType, st.booleans(), st.just(Integer()), st.just(Integer()))


@given(st.data())
def test_the_normal_form_of_streams_agrees_with_the_general_one(data: DataObject) -> None:
    type = data.draw(SMALL | st.builds(StreamType, st.booleans(), key_schemas(), schemas()))
    one = data.draw(streams(type))
    other = data.draw(equivalent(type, one) | inequivalent(type, one, items_of(type)))
    general = TraceType.normal_form
    assert (general(type, one) == general(type, other)) == (type.normal_form(one) == type.normal_form(other))


@given(st.data())
def test_the_normal_form_of_streams_is_the_congruence_of_the_definition(data: DataObject) -> None:
    type = data.draw(SMALL)
    one = data.draw(streams(type, values=st.integers(0, 1), most_keys=2, most_blocks=2, most_items=2))
    items = [item for item in one if isinstance(item, Item)]
    turned = iter(data.draw(st.permutations(items)))
    other: list[Element] = [item if isinstance(item, Marker) else next(turned) for item in one]
    reachable = tuple(map(type.order, other)) in congruent(type, one)
    assert (Trace(type, one) == Trace(type, other)) == reachable


@given(st.data())
def test_what_is_equal_as_O_is_equal_as_U(data: DataObject) -> None:
    ordered = attrs.evolve(data.draw(SMALL), ordered=True)
    unordered = attrs.evolve(ordered, ordered=False)
    one = data.draw(streams(ordered))
    other = data.draw(equivalent(ordered, one))
    assert Trace(ordered, one) == Trace(ordered, other)
    assert Trace(unordered, one) == Trace(unordered, other)
    if Trace(ordered, one[:3]) <= Trace(ordered, other):
        assert Trace(unordered, one[:3]) <= Trace(unordered, other)


def test_what_is_equal_as_U_need_not_be_equal_as_O() -> None:
    ordered, unordered = StreamType(True, Integer(), Integer()), StreamType(False, Integer(), Integer())
    one = [Item(1, 10), Item(1, 11), Item(2, 20)]
    assert Trace(unordered, one) == Trace(unordered, one[::-1])
    assert Trace(ordered, one) != Trace(ordered, one[::-1])
    assert Trace(ordered, one) == Trace(ordered, [one[2], one[0], one[1]])


def test_markers_depend_on_everything() -> None:
    for ordered in (True, False):
        type = StreamType(ordered, Integer(), Integer())
        mixed: list[Element] = [Item(1, 1), Marker(0)]
        assert Trace(type, mixed) != Trace(type, mixed[::-1])
        assert Trace(type, [Marker(0)]) != Trace(type, [Marker(1)])
        assert Trace(type, [Marker(0)]) != Trace(type, [])
        assert type.dependent(MARKER, 1)
        assert type.dependent(1, MARKER)
        assert repr(MARKER) == "#"


@pytest.mark.parametrize("key", [0.0, (0.0, 1.0)], ids=["float", "floats"])
def test_keys_that_are_equal_are_one_key(key: Any) -> None:
    """0.0 and -0.0 are one key: the order of their items counts in an ``O``, whatever holds the zeros."""
    other = -0.0 if key == 0.0 else (-0.0, 1.0)
    assert key == other
    schema = schema_of(float) if isinstance(key, float) else schema_of(tuple[float, ...])
    type = StreamType(True, schema, Integer())
    one: list[Element] = [Item(key, 1), Item(other, 2)]
    for normal_form in (type.normal_form, lambda items: TraceType.normal_form(type, items)):
        assert normal_form(one) == normal_form([Item(other, 1), Item(key, 2)])
        assert normal_form(one) != normal_form(one[::-1])


def test_values_are_told_apart_by_their_bits() -> None:
    type = StreamType(False, Integer(), Float())
    assert Trace(type, [Item(0, 0.0)]) != Trace(type, [Item(0, -0.0)])
    assert Trace(type, [Item(0, float("nan"))]) == Trace(type, [Item(0, float("nan"))])


def test_blocks_of_the_empty_stream_and_of_one_marker() -> None:
    assert list(blocks([])) == [Block((), None)]
    assert list(blocks([Marker(3)])) == [Block((), Marker(3)), Block((), None)]
    assert list(blocks([Item(1, 1), Marker(3), Item(2, 2)])) == [
        Block((Item(1, 1),), Marker(3)),
        Block((Item(2, 2),), None),
    ]


@pytest.mark.parametrize("times", [(3, 3), (3, 2)])
def test_markers_increase_strictly(times: tuple[int, int]) -> None:
    type = StreamType(False, Integer(), Integer())
    with pytest.raises(DataError, match="TT201 marker"):
        Trace(type, [Marker(time) for time in times]).normal_form()


@given(st.data())
def test_the_closed_part_ends_with_the_last_marker(data: DataObject) -> None:
    type = data.draw(SMALL)
    trace = Trace(type, data.draw(streams(type)))
    part = closed(trace)
    assert part <= trace
    rest = trace.items[len(part) :]
    assert not any(isinstance(item, Marker) for item in rest)
    assert part.items == () or isinstance(part.items[-1], Marker)


def test_items_are_made_to_fit_or_refused() -> None:
    type = stream_type(edge_type(U[str, float]))
    assert type == StreamType(False, String(), Float())
    item = type.admit(Item("a", 1))
    assert isinstance(item, Item)
    assert isinstance(item.value, float)
    with pytest.raises(DataError, match=r"TT201 the item \('a', '1'\): value is '1', expected float"):
        type.admit(Item("a", "1"))
    with pytest.raises(DataError, match=r"TT201 .* expected str"):
        type.admit(Item(1, 1.0))


def test_stream_type_of_an_ordered_edge() -> None:
    assert stream_type(edge_type(O[int, int])) == StreamType(True, Integer(), Integer())
    assert stream_type(EdgeType(False, int, int)) == StreamType(False, Integer(), Integer())


def test_a_trace_prints_its_items() -> None:
    assert repr([Item("a", 1), Marker(10_000_000)]) == "[('a', 1), #10]"
    assert repr([Tagged("M", 5), END]) == "[(M, 5), #]"


# ------------------------------------------------------------------------- do these tests find what is broken?


@attrs.frozen
class Sorted(TagsType):
    """A broken normal form: it takes everything for independent."""

    def normal_form(self, items: Sequence[Tagged]) -> tuple[tuple[Any, ...], ...]:
        return (tuple(sorted(map(self.order, items))),)


@attrs.frozen
class AsItCame(TagsType):
    """A broken normal form: it takes everything for dependent."""

    def normal_form(self, items: Sequence[Tagged]) -> tuple[tuple[Any, ...], ...]:
        return tuple((self.order(item),) for item in items)


@pytest.mark.parametrize("broken", [Sorted, AsItCame])
def test_a_broken_normal_form_is_found(broken: type[TagsType]) -> None:
    @st.composite
    def disagreement(draw: st.DrawFn) -> bool:
        good = draw(tag_types())
        type = broken(good.values, good.dependence)
        one = draw(tagged(type, most=4))
        other = draw(st.permutations(one))
        return (type.normal_form(one) == type.normal_form(other)) != (
            tuple(map(type.order, other)) in congruent(type, one)
        )

    assert find(disagreement(), bool)
