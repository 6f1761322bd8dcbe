"""Boxes stand where they stood, one at each place, and below those that they read from."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tracetypes.compiler.plan.box_places import BoxPlaces, Place


@given(st.data())
def test_boxes_keep_their_places(data: st.DataObject) -> None:
    places, graph, before = BoxPlaces(), dict[str, list[str]](), dict[str, Place]()
    for step in range(data.draw(st.integers(1, 12))):
        for name in data.draw(st.sets(st.sampled_from(sorted(graph)))) if graph else ():
            if not any(name in inputs for inputs in graph.values()):
                del graph[name]
        for number in range(data.draw(st.integers(0, 3))):
            above = data.draw(st.lists(st.sampled_from(sorted(graph)), max_size=3)) if graph else []
            graph[f"{step}.{number}"] = above
        found = places.of(graph)
        assert found.keys() == graph.keys()
        assert len(set(found.values())) == len(found)
        assert all(found[name].row > found[one].row for name, inputs in graph.items() for one in inputs)
        assert all(found[name] == before[name] for name in found.keys() & before.keys())
        before = found


def test_a_box_stands_below_what_it_reads() -> None:
    places = BoxPlaces()
    graph = {"a": [], "b": [], "c": ["b"], "d": ["a", "b"], "e": ["c"]}
    assert places.of(graph) == {"a": (0, 0), "b": (0, 1), "c": (1, 1), "d": (1, 0), "e": (2, 1)}
    del graph["d"], graph["a"]
    assert places.of({**graph, "f": ["b"], "g": []}) == {
        "b": (0, 1),
        "c": (1, 1),
        "e": (2, 1),
        "f": (1, 0),
        "g": (0, 0),
    }
