"""The layered layout: nothing lies over anything else, whatever the graph."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracetypes.compiler.plan.layout import Arrow, Corner, Label, Layout, Size, layered

Sizes = dict[Hashable, Size]


def overlap(one: Corner, other: Corner) -> bool:
    """Do two rectangles share more than a border?"""
    across = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
    down = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
    return across > 0.3 and down > 0.3


def crosses(layout: Layout, at: int, placed: Corner) -> bool:
    """Does an arrow go through a rectangle? Its curves lie between the heights of their ends."""
    for (x0, y0), (x1, y1) in pairwise(layout.arrows[at]):
        left, right = sorted((x0, x1))
        if overlap(Corner(left - 1, y0, right - left + 2, y1 - y0), placed):
            return True
    return False


@st.composite
def dags(draw: st.DrawFn) -> tuple[Sizes, list[Arrow]]:
    """Boxes and arrows, several between two boxes among them."""
    count = draw(st.integers(1, 14))
    sizes: Sizes = {
        n: (draw(st.sampled_from([40.0, 130.0, 300.0])), draw(st.sampled_from([30.0, 80.0]))) for n in range(count)
    }
    labels = st.sampled_from([Label(), Label(4, 120, 18), Label(60, 60, 22)])
    ends = st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=24)
    return sizes, [Arrow(min(ab), max(ab), draw(labels)) for ab in draw(ends) if ab[0] != ab[1]]


@given(dags())
def test_nothing_overlaps_and_arrows_cross_no_box(dag: tuple[Sizes, list[Arrow]]) -> None:
    sizes, arrows = dag
    made = layered(sizes, arrows)
    assert {name: (p.width, p.height) for name, p in made.boxes.items()} == sizes
    labels = [p for p in made.labels if p.height]
    for one, other in combinations([*made.boxes.values(), *labels], 2):
        assert not overlap(one, other)
    for at, arrow in enumerate(arrows):
        source, target, points = made.boxes[arrow.source], made.boxes[arrow.target], made.arrows[at]
        assert source.x <= points[0][0] <= source.x + source.width
        assert target.x <= points[-1][0] <= target.x + target.width
        assert (points[0][1], points[-1][1]) == (source.y + source.height, target.y)
        assert all(a[1] <= b[1] + 1e-6 for a, b in pairwise(points)), "it goes down only"
        assert not any(crosses(made, at, p) for p in made.boxes.values())
        assert not any(crosses(made, at, p) for n, p in enumerate(made.labels) if p.height and n != at)
    for placed in (*made.boxes.values(), *labels):
        assert placed.x > -0.3
        assert placed.x + placed.width < made.width + 0.3
        assert 0 <= placed.y <= placed.y + placed.height <= made.height
    assert layered(sizes, arrows) == made, "the same every time"


def test_a_chain_is_straight() -> None:
    sizes: Sizes = {n: (100.0 + n, 40.0) for n in range(30)}
    made = layered(sizes, [Arrow(n, n + 1, Label(4, 90, 18)) for n in range(29)])
    assert len({round(x) for points in made.arrows for x, _ in points}) == 1


def test_a_source_lies_right_above_what_it_feeds() -> None:
    sizes: Sizes = dict.fromkeys(range(5), (100.0, 40.0))
    made = layered(sizes, [Arrow(0, 1), Arrow(1, 2), Arrow(2, 3), Arrow(4, 3)])
    assert made.boxes[4].y == made.boxes[2].y


def test_crossings_that_need_not_be_are_taken_out() -> None:
    sizes: Sizes = dict.fromkeys("abcxyz", (50.0, 20.0))
    made = layered(sizes, [Arrow("a", "z"), Arrow("b", "y"), Arrow("c", "x")])
    order = sorted("xyz", key=lambda name: made.boxes[name].x)
    pairs = {"a": "z", "b": "y", "c": "x"}
    assert [pairs[name] for name in sorted("abc", key=lambda n: made.boxes[n].x)] == order


def test_a_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match="cycle"):
        layered({1: (10.0, 10.0), 2: (10.0, 10.0)}, [Arrow(1, 2), Arrow(2, 1)])
