"""Windows, and running results in order, over every aggregate of the library: what ``evaluate`` says of the items."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stdlib.small import ROWS, Event, markers, told
from tracetypes import sort, stdlib
from tracetypes.stdlib import count_window, evaluate, scan, sliding


def x_of(event: Event) -> int:
    return event.x


def third_of(event: Event) -> float:
    return event.x / 3


@attrs.frozen
class Several:
    n: int
    mean: float
    most: int


AGGREGATES: dict[str, Any] = {
    "count": stdlib.count(),
    "sum": stdlib.sum(of=x_of),
    "float sum": stdlib.sum(of=third_of),
    "mean": stdlib.mean(of=third_of),
    "variance": stdlib.variance(of=third_of),
    "min": stdlib.min(of=x_of),
    "max": stdlib.max(of=third_of),
    "last": stdlib.last(by=lambda e: e.ts),
    "top": stdlib.top(2, by=x_of),
    "count_distinct": stdlib.count_distinct(of=x_of),
    "approx_count_distinct": stdlib.approx_count_distinct(of=x_of),
    "quantile": stdlib.quantile(0.5, of=third_of),
    "stddev": stdlib.stddev(third_of),
    "correlation": stdlib.correlation(third_of, lambda e: e.ts),
    "median": stdlib.median(third_of),
    "mode": stdlib.mode(x_of),
    "top_distinct": stdlib.top_distinct(2, x_of),
    "struct": stdlib.struct(Several, n=stdlib.count(), mean=stdlib.mean(of=third_of), most=stdlib.max(of=x_of)),
}


@pytest.mark.parametrize("name", AGGREGATES)
@given(rows=ROWS, panes=st.integers(1, 4), method=st.sampled_from([None, "two stacks"]))
def test_a_window_is_what_evaluate_says_of_its_items(name: str, rows: list[Event], panes: int, method: Any) -> None:
    aggregate = AGGREGATES[name]
    wanted = {
        (end, key): [evaluate(aggregate, inside)]
        for end in markers(rows, silent=panes)
        for key in "ab"
        if (inside := [r for r in rows if r.key == key and end - panes * 5 <= r.ts < end])
    }
    assert told(sliding(aggregate, panes=panes, method=method), rows) == wanted


@pytest.mark.parametrize("name", AGGREGATES)
@given(rows=ROWS)
def test_running_results_are_what_evaluate_says_of_all_items_so_far(name: str, rows: list[Event]) -> None:
    aggregate = AGGREGATES[name]
    found = told(lambda events: events.through(sort(by=lambda e: e.ts)).through(scan(aggregate)), rows)
    twos = told(lambda events: events.through(sort(by=lambda e: e.ts)).through(count_window(aggregate, items=2)), rows)
    for key in "ab":
        history = sorted((r for r in rows if r.key == key), key=lambda r: (r.ts, r.x))
        so_far = [one for (_, k), ones in sorted(found.items()) if k == key for one in ones]
        assert so_far == [evaluate(aggregate, history[: at + 1]) for at in range(len(history))]
        pairs = [one for (_, k), ones in sorted(twos.items()) if k == key for one in ones]
        assert pairs == [evaluate(aggregate, history[at : at + 2]) for at in range(0, len(history) - 1, 2)]
