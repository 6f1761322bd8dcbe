"""Ordered operators against recounts over the whole sorted history of each key; their laws; random deployments."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracetypes
from examples import home_energy, sensors
from tests.stdlib.small import ROWS, Event, Largest, Mean, Total, source, told
from tests.strategies import some
from tracetypes import Dataflow, Item, Stream, U, UsageError, check, every, interpret_rows, sort
from tracetypes.nodes import Apply
from tracetypes.operator_calls import Emitter, run_ordered
from tracetypes.stdlib import last, map_values
from tracetypes.stdlib import sum as sum_
from tracetypes.stdlib.duplicates import Deduplicate, DeduplicateRecent, DeduplicateWithin, deduplicate
from tracetypes.stdlib.gap_filling import interpolate
from tracetypes.stdlib.ordered import (
    Diff,
    EwmMean,
    EwmMeanOverTime,
    Interpolate,
    Pairwise,
    Scan,
    diff,
    ewm_mean,
    pairwise,
    scan,
)
from tracetypes.templates import template_types
from tracetypes.testing import check_deployments, check_laws
from tracetypes.trace import Element, stream_type


def second(event: Event) -> int:
    return event.ts


def x_of(event: Event) -> int:
    return event.x


def remade(before: Event, ts: int, x: float) -> Event:
    return Event(before.key, ts, round(1000 * x))


def by_key(op: Any, rows: Sequence[Event]) -> dict[str, list[Any]]:
    """What an operator behind a sort by time tells for each key, over all blocks, in order."""
    found = told(lambda events: events.through(sort(by=second)).through(op), rows)
    return {key: [one for (_, k), ones in sorted(found.items()) if k == key for one in ones] for key in "ab"}


def history(rows: Sequence[Event], key: str) -> list[Event]:
    return sorted((r for r in rows if r.key == key), key=lambda r: (r.ts, r.x))


def recounted(rows: Sequence[Event], recount: Callable[[list[Event]], list[Any]]) -> dict[str, list[Any]]:
    return {key: recount(history(rows, key)) for key in "ab"}


# ------------------------------------------------------------------------------------------------- interpolation


def interpreted(op: Any, values: Sequence[Any], key: Any) -> list[Any]:
    """The values that an operator tells for some values of one key in one block."""
    out = template_types(op)[1]
    kinds = attrs.evolve(out, key=type(key), value=type(values[0]) if values else int)
    emitter = Emitter(op, stream_type(kinds))
    elements: list[Element] = [Item(key, value) for value in values]
    run_ordered(op, elements, emitter)
    return [one.value for one in emitter.out if isinstance(one, Item)]


STEPS = st.lists(st.tuples(st.sampled_from([0, 1, 2, 5, 10, 11, 30]), st.floats(-1e6, 1e6)), max_size=8)


@given(STEPS)
def test_interpolation_is_that_of_the_smart_homes(steps: list[tuple[int, float]]) -> None:
    times = itertools.accumulate(gap for gap, _ in steps)
    loads = [home_energy.Load(ts, watts) for ts, (_, watts) in zip(times, steps, strict=True)]
    recounted = loads[:1]
    for one, other in itertools.pairwise(loads):
        gap = other.ts - one.ts
        if gap > home_energy.MAX_GAP:
            recounted.append(other)
        for i in range(1, gap + 1 if gap <= home_energy.MAX_GAP else 0):
            recounted.append(home_energy.Load(one.ts + i, one.watts + i * (other.watts - one.watts) / gap))
    nodes = home_energy.flow.graph.nodes
    (op,) = (one.op for one in nodes if isinstance(one, Apply) and isinstance(one.op, Interpolate))
    assert interpreted(op, loads, home_energy.Plug(1, 2, 3)) == recounted


@given(STEPS)
def test_interpolation_is_that_of_the_sensors(steps: list[tuple[int, float]]) -> None:
    times = itertools.accumulate(gap for gap, _ in steps)
    readings = [sensors.Reading(scalar, ts) for ts, (_, scalar) in zip(times, steps, strict=True)]
    op = Interpolate[Any, sensors.Reading](
        time=lambda r: r.ts, number=lambda r: r.scalar, make=lambda r, ts, x: sensors.Reading(x, ts)
    )
    assert interpreted(op, readings, "s") == interpreted(sensors.LinearInterpolation(), readings, "s")


@given(ROWS, st.integers(1, 7), st.none() | st.integers(0, 40))
def test_interpolation_lies_on_the_line_between_its_readings(rows: list[Event], step: int, max_gap: int | None) -> None:
    def recount(readings: list[Event]) -> list[Event]:
        found = readings[:1]
        for one, other in itertools.pairwise(readings):
            gap = other.ts - one.ts
            if max_gap is not None and gap > max_gap:
                found.append(other)
            elif gap:
                for ts in range(one.ts + step, other.ts, step):
                    line = Fraction(one.x) + Fraction(ts - one.ts, gap) * (other.x - one.x)
                    found.append(Event(one.key, ts, round(float(line) * 1000)))
                found.append(remade(other, other.ts, other.x) if gap % step == 0 else other)
        return found

    op = interpolate(time=second, number=x_of, make=remade, step=step, max_gap=max_gap)
    found, wanted = by_key(op, rows), recounted(rows, recount)
    for key in "ab":
        assert [r.ts for r in found[key]] == [r.ts for r in wanted[key]]
        assert all(abs(r.x - w.x) <= 1 for r, w in zip(found[key], wanted[key], strict=True))


# ------------------------------------------------------------------------------------------------- from item to item


@given(ROWS)
def test_differences_are_the_recount(rows: list[Event]) -> None:
    wanted = recounted(rows, lambda h: [float(b.x - a.x) for a, b in itertools.pairwise(h)])
    assert by_key(diff(x_of), rows) == wanted


@given(ROWS)
def test_pairwise_sees_all_neighbours(rows: list[Event]) -> None:
    def gap(one: Event, other: Event) -> int:
        return other.ts - one.ts

    wanted = recounted(rows, lambda h: [b.ts - a.ts for a, b in itertools.pairwise(h)])
    assert by_key(pairwise(gap), rows) == wanted


def test_TT120_pairwise_must_know_what_comes_out() -> None:
    op: Any = pairwise(lambda one, other: {one})
    with pytest.raises(UsageError, match="pairwise does not know") as caught:
        tracetypes.stdlib.preview(op, tracetypes.O[str, int], [("a", 1)])
    assert caught.value.code == "TT120"


@given(ROWS)
def test_accumulate_is_the_recount(rows: list[Event]) -> None:
    means = recounted(rows, lambda h: [sum(e.x for e in h[: n + 1]) / (n + 1) for n in range(len(h))])
    assert by_key(scan(Mean()), rows) == means
    sums = recounted(rows, lambda h: list(itertools.accumulate(e.x for e in h)))
    assert by_key(scan(Total()), rows) == sums


@given(ROWS, st.integers(1, 5))
def test_deduplication_is_the_recount(rows: list[Event], items: int) -> None:
    def unless(before: Callable[[list[Event], int], list[Event]]) -> dict[str, list[Event]]:
        return recounted(rows, lambda h: [e for n, e in enumerate(h) if e.x % 3 not in {o.x % 3 for o in before(h, n)}])

    assert by_key(deduplicate(lambda e: e.x % 3), rows) == unless(lambda h, n: h[:n])
    assert by_key(deduplicate(lambda e: e.x % 3, items=items), rows) == unless(lambda h, n: h[max(0, n - items) : n])
    within = deduplicate(lambda e: e.x % 3, seconds=items * 4, time=second)
    assert by_key(within, rows) == unless(lambda h, n: [o for o in h[:n] if h[n].ts - o.ts <= items * 4])


@pytest.mark.parametrize("op", [deduplicate(lambda v: v), deduplicate(lambda v: (0, v)), deduplicate(float, items=9)])
def test_nan_is_a_duplicate_of_nan_in_every_deployment(op: Any) -> None:
    def wrong(x: int) -> float:
        return math.nan if x > 2 else float(x)

    flow = Dataflow("nan")
    source_ = flow.source("in", U[str, int], markers=every(seconds=5, time=lambda v: v))
    flow.sink("out", source_.through(map_values(wrong)).through(sort(by=lambda v: 0)).through(op))
    rows = [("a", n) for n in range(20)]
    found = interpret_rows(check(flow), {"in": rows})[0]["out"]
    assert len([one for one in found.items if isinstance(one, Item)]) == 4
    assert check_deployments(flow, rows={"in": st.just(rows)}, max_examples=10) > 0


def test_old_names_are_forgotten_at_markers() -> None:
    from tracetypes import Marker

    op = DeduplicateWithin[str, Event](x_of, 10_000_000, second, "s")
    state = op.on_item(op.initial_state(), "a", Event("a", 3, 7), lambda value: None)
    assert op.on_marker(state, "a", Marker(13_000_000), lambda value: None) == {7: 3_000_000}
    assert op.on_marker(state, "a", Marker(13_000_001), lambda value: None) == {}


@given(ROWS, st.sampled_from([0.1, 0.5, 1.0]))
def test_exponential_means_are_their_weighted_sums(rows: list[Event], weight: float) -> None:
    found = by_key(ewm_mean(x_of, alpha=weight), rows)
    timed = by_key(ewm_mean(x_of, half_life=7, time=second), rows)
    for key in "ab":
        h = history(rows, key)
        for n in range(len(h)):
            weights = [(weight if at else 1) * (1 - weight) ** (n - at) for at in range(n + 1)]
            wanted = sum(w * e.x for w, e in zip(weights, h, strict=False))
            assert math.isclose(found[key][n], wanted, abs_tol=1e-9)
            halves = [0.5 ** ((h[n].ts - e.ts) / 7) for e in h]
            kept = [halves[at] - (0.5 ** ((h[n].ts - h[at - 1].ts) / 7) if at else 0) for at in range(n + 1)]
            wanted = sum(w * e.x for w, e in zip(kept, h, strict=False))
            assert math.isclose(timed[key][n], wanted, abs_tol=1e-9)


# ------------------------------------------------------------------------------------------------- types, parameters


def test_the_types_of_results() -> None:
    flow = Dataflow("types")
    ordered = source(flow).through(sort(by=second))
    flow.sink("filled", ordered.through(interpolate(time=second, number=x_of, make=remade)))
    flow.sink("mean", ordered.through(scan(Mean())))
    flow.sink("largest", ordered.through(scan(Largest[Event]())))
    flow.sink("new", ordered.through(deduplicate(x_of)))
    flow.sink("gaps", ordered.through(pairwise(lambda a, b: b.ts - a.ts, to=int)))
    flow.sink("smooth", ordered.through(ewm_mean(x_of, alpha=0.5)))
    checked = check(flow)
    assert {sink.name: str(checked.types[sink.id]) for sink in checked.graph.sinks} == {
        "filled": "O[str, Event]",
        "mean": "O[str, float]",
        "largest": "O[str, Event]",
        "new": "O[str, Event]",
        "gaps": "O[str, int]",
        "smooth": "O[str, float]",
    }


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: interpolate(time=second, number=x_of, make=remade, step=0), "step is 0"),
        (lambda: deduplicate(x_of, items=0), "items is 0"),
        (lambda: deduplicate(x_of, items=1, seconds=1, time=second), "both items and seconds"),
        (lambda: deduplicate(x_of, seconds=1), "seconds and time go together"),
        (lambda: deduplicate(x_of, seconds=-1, time=second), "seconds is -1"),
        (lambda: ewm_mean(x_of), "one of them is needed"),
        (lambda: ewm_mean(x_of, alpha=0.0), "alpha is 0.0"),
        (lambda: ewm_mean(x_of, alpha=math.nan), "alpha is nan"),
        (lambda: ewm_mean(x_of, half_life=3), "half_life and time go together"),
        (lambda: ewm_mean(x_of, half_life=0, time=second), "half_life is 0"),
    ],
)
def test_TT121_wrong_parameters_are_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        build()
    assert caught.value.code == "TT121"


# ------------------------------------------------------------------------------------------------- laws, deployments


def half_of(event: Event) -> float:
    return event.x / 2


def named(op: Any) -> str:
    return "-".join(type(one).__name__ for one in (op, getattr(op, "aggregate", None)) if one is not None)


OPERATORS: list[Any] = [
    Interpolate(second, x_of, remade, 3, 50),
    Diff(x_of),
    Pairwise(lambda one, other: other.ts - one.ts, int),
    Scan(Mean()),
    Scan(last(by=x_of)),
    Scan(sum_(of=half_of)),
    Deduplicate(x_of),
    DeduplicateRecent(x_of, 2),
    DeduplicateWithin(x_of, 3_000_000, second, "s"),
    EwmMean(x_of, 0.3),
    EwmMeanOverTime(x_of, 3_000_000, second, "s"),
]


@pytest.mark.parametrize("op", OPERATORS, ids=named)
def test_laws(op: Any) -> None:
    check_laws(op, types=(str, Event), max_examples=some(60))


@pytest.mark.parametrize("op", OPERATORS, ids=named)
def test_every_deployment_tells_the_same(op: Any) -> None:
    flow = Dataflow("deployed")
    events: Stream[U[str, Event]] = flow.source(
        "events", U[str, Event], markers=every(seconds=5, time=second, delay=20), key=lambda e: e.key
    )
    flow.sink("out", events.through(sort(by=second)).through(op))
    assert check_deployments(flow, rows={"events": ROWS}, max_examples=15) > 3
