"""Cutting a graph into segments keeps its meaning: by the interpreter, by the adversary, for random graphs with many sinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graphs import Case, cases, wrong
from tests.spark import dags
from tests.spark.flows import TEN, id_of
from tracetypes import Dataflow, Stream, check, csv, kafka
from tracetypes.check import Checked
from tracetypes.compiler.graph import segments
from tracetypes.compiler.graph.segments import cut
from tracetypes.compiler.plan.program import silence_beyond
from tracetypes.compiler.runtime import channel
from tracetypes.interpreter import interpret, interpret_rows, interpret_segment
from tracetypes.nodes import Receive, Sink, Source
from tracetypes.silence import Silence, periods_in, unrolled
from tracetypes.trace import Element, Trace


@st.composite
def shared(draw: st.DrawFn) -> tuple[Case, Checked]:
    """A random graph, and the same with more sinks at some of its streams."""
    case = draw(cases(most_sources=2, most_operators=4))
    flow = case.flow
    streams = [node.id for node in flow.graph.nodes if not isinstance(node, Sink)]
    more = Dataflow("shared")
    more._nodes.extend(flow.graph.nodes)
    for number, id in enumerate(draw(st.lists(st.sampled_from(streams), min_size=1, max_size=3))):
        more.sink(f"more-{number}", Stream(more, id))
    return case, check(more)


def by_segments(checked: Checked, inputs: Mapping[str, Sequence[Element]], complete: bool) -> dict[str, Trace[Element]]:
    """The traces at the sinks, segment by segment."""
    known: dict[str, Sequence[Element]] = dict(inputs)
    silences: dict[str, Silence] = {}
    found: dict[str, Trace[Element]] = {}
    segments_, _ = cut(checked)
    beyond = silence_beyond(segments_, periods_in(unrolled(checked.graph)))
    for segment in segments_:
        (sent,) = interpret_segment(segment.checked, known, silences, beyond, complete=complete).values()
        if segment.sends is None:
            found[segment.name] = sent.trace
        else:
            known[segment.sends], silences[segment.sends] = sent.trace.items, sent.silence
    return found


@given(shared())
def test_a_cut_keeps_the_meaning(one: tuple[Case, Checked]) -> None:
    case, checked = one
    _, arranged = interpret_rows(checked, case.rows, drain=case.drain)
    inputs = {name: found.items for name, found in arranged.items()}
    assert by_segments(checked, inputs, case.drain) == interpret(checked, inputs, complete=case.drain)


@given(shared())
def test_programs_give_the_traces_of_their_graphs(one: tuple[Case, Checked]) -> None:
    assert wrong(*one) == []


@pytest.mark.nightly
@settings(max_examples=5_000)
@given(shared())
def test_many_programs_give_the_traces_of_their_graphs(one: tuple[Case, Checked]) -> None:
    assert wrong(*one) == []


@pytest.mark.parametrize("broken", ["markers are others", "a row is lost", "both copies tell"])
def test_broken_twins_are_noticed(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """Of the programs that the strategy draws, some must go wrong with each of these defects."""
    if broken == "markers are others":
        real = channel.ChannelKernel.markers
        monkeypatch.setattr(
            channel.ChannelKernel,
            "markers",
            lambda self, markers, complete, silence: real(self, [m + 1 for m in markers], complete, silence),
        )
    elif broken == "a row is lost":
        rows = channel.ChannelKernel.rows
        monkeypatch.setattr(channel.ChannelKernel, "rows", lambda self, table: rows(self, table.slice(1)))
    else:
        monkeypatch.setattr(segments, "frozenset", lambda _: (), raising=False)
    seen: list[bool] = []

    @settings(max_examples=40, database=None)
    @given(shared())
    def look(one: tuple[Case, Checked]) -> None:
        try:
            seen.append(bool(wrong(*one)))
        except Exception:
            seen.append(True)

    look()
    assert any(seen)


def shape(checked: Checked) -> dict[str, tuple[list[str], list[str]]]:
    """Of each segment the sources and the channels that it reads."""
    return {
        segment.name: (
            [node.name for node in segment.checked.graph.nodes if isinstance(node, Source)],
            [node.name for node in segment.checked.graph.nodes if isinstance(node, Receive)],
        )
        for segment in cut(checked)[0]
    }


def test_what_is_keyed_goes_through_a_channel() -> None:
    assert shape(check(dags.two_sinks())) == {
        "Sum": (["readings"], []),
        "sums": ([], ["Sum"]),
        "large": ([], ["Sum"]),
    }


def test_what_is_native_is_computed_again_and_one_copy_tells_of_late_rows() -> None:
    checked = check(dags.cheap())
    assert shape(checked) == {"sums": (["readings"], []), "large": (["readings"], [])}
    found, why = cut(checked)
    assert [len(segment.quiet) for segment in found] == [0, 1]
    assert ["is computed 2 times" in line and "cheaper" in line for line in why] == [True]


def test_what_runs_in_python_goes_through_a_channel_and_a_diamond_comes_together() -> None:
    assert shape(check(dags.diamond())) == {
        "Opaque": (["readings"], []),
        "Sum": ([], ["Opaque"]),
        "left": ([], ["Sum"]),
        "both": ([], ["Sum", "Opaque"]),
    }


def test_many_consumers_are_too_many_copies() -> None:
    flow = Dataflow("many")
    rows = flow.source("readings", dags.EDGE, key=id_of, markers=TEN).through(dags.Big())
    for number in range(segments.COPIES + 1):
        flow.sink(f"out-{number}", rows)
    found, why = cut(check(flow))
    assert found[0].sends == "Big"
    assert "copies of it would be needed" in why[0]


@pytest.mark.parametrize(("format", "because"), [(csv(), "its rows are text"), (kafka(), "a topic grows")])
def test_what_is_not_read_twice(format: Any, because: str) -> None:
    flow = Dataflow("text")
    rows = flow.source("readings", dags.EDGE, key=id_of, markers=TEN, format=format)
    flow.sink("one", rows)
    flow.sink("two", rows.through(dags.Big()))
    found, why = cut(check(flow))
    assert found[0].sends == "source--readings"
    assert because in why[0]


def test_a_tree_is_one_segment() -> None:
    checked = check(dags.tree())
    (segment,), why = cut(checked)
    assert (segment.name, segment.sends, segment.receives, why) == ("sums", None, (), ())
