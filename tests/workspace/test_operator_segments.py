"""A segment for each operator: random graphs, cut everywhere, mean what they meant; and so do their parts behind a marker."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.graphs import Case, cases
from tests.test_simulate import differences
from tracetypes.check import Checked
from tracetypes.compiler.plan.program import Program
from tracetypes.compiler.runtime import channel
from tracetypes.compiler.store.output_trace import Answer
from tracetypes.compiler.tracing.cache_keys import AnalysisCache
from tracetypes.compiler.trial.simulate import simulate_program
from tracetypes.compiler.workspace import operator_segments
from tracetypes.compiler.workspace.cheap_operators import cheap_operators
from tracetypes.compiler.workspace.classes import classified
from tracetypes.compiler.workspace.merge import merge
from tracetypes.compiler.workspace.operator_segments import Launched, OperatorSegment, Reading, operator_segment
from tracetypes.compiler.workspace.running import Running
from tracetypes.compiler.workspace.submission import submission
from tracetypes.interpreter import interpret_segment
from tracetypes.markers import Marker
from tracetypes.silence import Needs, has_markers_in_band, unrolled
from tracetypes.trace import Element, closed


def segments_of(checked: Checked, parallelism: int, key_groups: int, behind: int | None = None) -> list[OperatorSegment]:
    """The segments of a flow that a workspace starts. ``behind``: the marker behind which its operators read their channels."""
    cheap = cheap_operators(checked, AnalysisCache())
    flow = submission("f", checked, {node.id: f"n{node.id}" for node in checked.graph.nodes}, copies=cheap)
    launched = Launched(
        checked=checked,
        sinks={one.id: one.name for one in checked.graph.sinks},
        classes={id: one.cls for one in classified(flow) for id in one.ids},
        cheap=cheap,
        parallelism=parallelism,
        key_groups=key_groups,
        fuse=True,
    )
    operators = {one.instance: one for one in merge(Running(), flow).start}
    roots = [one for one in operators.values() if one.id not in cheap]
    found = [operator_segment(launched, operators, one, {}) for one in roots]
    if behind is None:
        return found
    markers: list[dict[Reading, int]] = [dict.fromkeys(one.readings, behind) for one in found]
    return [operator_segment(launched, operators, root, one) for root, one in zip(roots, markers, strict=True)]


def program_of(name: str, segments: Sequence[OperatorSegment]) -> Program:
    return Program(name, tuple(one.segment for one in segments), tuple(one.plan for one in segments), ())


def answer_of(case: Case, segments: Sequence[OperatorSegment]) -> Answer:
    """What the sink gets. What the sources say of late and rejected rows counts, too."""
    program = program_of(case.flow.name, segments)
    how = {"seed": case.seed, "steps": case.steps, "pieces": case.pieces}
    answers = simulate_program(program, case.rows, drain=case.drain, **how)
    (last,) = (answers[one.name] for one in program.segments if one.sends is None)
    for one in program.segments:
        if one.sends is not None:
            last.late.extend(answers[one.name].late)
            last.rejects.extend(answers[one.name].rejects)
    return last


@given(cases())
def test_operators_as_segments_give_the_traces_of_the_interpreter(case: Case) -> None:
    segments = segments_of(case.checked, case.parallelism, case.key_groups)
    assert differences(case, answer_of(case, segments)) == []


@given(cases(most_sources=2), st.integers(0, 5))
def test_what_lies_behind_a_marker_is_read(case: Case, number: int) -> None:
    """Each operator gets the blocks behind the marker, as the definition of its segment gets them. Nothing ends."""
    case = attrs.evolve(case, drain=False)
    assume(not has_markers_in_band(unrolled(case.checked.graph)))
    streams = {name: found.items for name, found in case.expected()[1].items()}
    markers = sorted({one.micros for items in streams.values() for one in items if isinstance(one, Marker)})
    assume(markers)
    behind = markers[number % len(markers)]
    segments = segments_of(case.checked, case.parallelism, case.key_groups, behind)
    known: dict[str, Sequence[Element]] = dict(streams)
    for one in segments:
        (sent,) = interpret_segment(one.segment.checked, known, {}, {}, complete=False).values()
        known[one.name] = _behind(list(closed(sent.trace).items), behind)
    assert answer_of(case, segments).trace == closed(sent.trace)


def _behind(elements: list[Element], marker: int) -> list[Element]:
    """The blocks of a trace behind a marker."""
    at = [place for place, one in enumerate(elements) if isinstance(one, Marker) and one.micros <= marker]
    return elements[at[-1] + 1 :] if at else elements


@pytest.mark.nightly
@pytest.mark.parametrize("broken", ["a row is lost", "no silence"])
def test_broken_twins_are_noticed(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    if broken == "a row is lost":
        rows = channel.ChannelKernel.rows
        monkeypatch.setattr(channel.ChannelKernel, "rows", lambda self, table: rows(self, table.slice(1)))
    else:
        monkeypatch.setattr(operator_segments, "needs", lambda steps, periods: Needs({}, {}))
    seen: list[bool] = []

    @settings(max_examples=600, database=None)  # few cases have a silence that counts
    @given(cases())
    def look(case: Case) -> None:
        if any(seen):
            return
        segments = segments_of(case.checked, case.parallelism, case.key_groups)
        seen.append(bool(differences(case, answer_of(case, segments))))

    look()
    assert any(seen)
