"""Random Python programs: what plain Python says, what the tracer says, and what columns say is the same.

Each program is source text in a module of its own (:mod:`tests.grammar`). 1,000 of them run in CI, 100,000 by night.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.grammar.flows import SIZES, Deployment, judge_flow
from tests.grammar.judging import Gives, Tally, judge
from tests.grammar.mutations import MUTATIONS
from tests.grammar.writer import GRAMMARS, Text, reachable, texts
from tracetypes.compiler.runtime.ordered_machine import MachineLoop

PHASES = (Phase.generate, Phase.target, Phase.shrink)


def many(count: int) -> settings:
    """So many programs, the same in every run but by night."""
    night = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
    return settings(
        max_examples=count,
        derandomize=not night,
        database=None,
        deadline=None,
        phases=PHASES,
        suppress_health_check=list(HealthCheck),
    )


def tell(request: pytest.FixtureRequest, tally: Tally) -> None:
    """For the end of the run (``conftest.py``)."""
    request.node.user_properties.append(("programs", str(tally)))


def run(tally: Tally, count: int, start: str, grammar: str, gives: Gives, depth: int) -> Tally:
    """Judge so many programs."""

    @many(count)
    @given(
        texts(start, grammar=grammar, depth=depth),
        st.integers(0, 29),
        st.none() | st.just(3),
    )
    def judged(text: Text, often: int, coded: int | None) -> None:
        with tally.watching():
            judge(text, gives, tally, repeat=130 if often == 29 else 1, coded=coded)

    judged()
    return tally


DEPLOYMENTS = st.builds(
    Deployment,
    rows=st.sampled_from((30, 100, 140, 8, 140)),
    seed=st.integers(0, 999),
    groups=st.integers(1, 3),
    sizes=st.integers(0, len(SIZES) - 1),
    edges=st.booleans(),
    sorted=st.sampled_from((True, True, False)),
    delay=st.sampled_from((0, 60)),
    verify=st.sampled_from((0, 0, 100)),
)


def run_flows(tally: Tally, count: int, depth: int = 4) -> Tally:
    """Judge so many dataflows with a keyed operator."""

    @many(count)
    @given(texts("flow", depth=depth, choices=480), DEPLOYMENTS)
    def judged(text: Text, how: Deployment) -> None:
        with tally.watching():
            judge_flow(text, how, tally)

    judged()
    return tally


KINDS: tuple[tuple[str, str, Gives, int, int, float], ...] = (
    ("program", "python", "body", 150, 5, 0.44),
    ("function", "python", "result", 200, 5, 0.62),
    ("odd_program", "odd", "body", 400, 4, 0.28),
)


@pytest.mark.parametrize(("start", "grammar", "gives", "count", "depth", "floor"), KINDS, ids=[one[0] for one in KINDS])
def test_programs(
    start: str, grammar: str, gives: Gives, count: int, depth: int, floor: float, request: pytest.FixtureRequest
) -> None:
    tally = run(Tally(), count, start, grammar, gives, depth)
    tell(request, tally)
    assert tally.traced >= floor * tally.programs, tally.refused.most_common(20)
    assert tally.answered >= 0.97 * tally.rows
    others = reachable("python", "program") if grammar == "odd" else set()
    missing = {name for name, _ in reachable(grammar, start) - others} - {name for name, _ in tally.used}
    assert len(missing) <= 1, missing  # one may be rare
    assert len(tally.used) > (0.65 if grammar == "odd" else 0.8) * len(reachable(grammar, start))


REDUCTIONS = {
    *(("sum", kind) for kind in ("Integer", "Exact")),
    *((way, kind) for way in ("min", "max") for kind in ("Integer", "Float", "Boolean", "Timestamp")),
}
"""What columns reduce where several items have one block and key; each in some dataflows."""


def test_dataflows(request: pytest.FixtureRequest) -> None:
    tally = run_flows(Tally(), 48)
    tell(request, tally)
    assert tally.traced >= 0.5 * tally.programs, tally.refused.most_common(20)
    assert tally.emitting >= 0.6 * tally.programs
    assert set(tally.reductions) == REDUCTIONS
    assert min(tally.reductions.values()) >= 5, tally.reductions


def run_ordered(tally: Tally, count: int, start: str, *, machine: bool, depth: int = 4) -> Tally:
    """Judge so many dataflows with an ordered operator."""

    @many(count)
    @given(texts(start, depth=depth, choices=480), DEPLOYMENTS)
    def judged(text: Text, how: Deployment) -> None:
        with tally.watching():
            judge_flow(text, attrs.evolve(how, machine=machine), tally)

    judged()
    return tally


@pytest.mark.parametrize(("machine", "count"), [(False, 36), (True, 25)], ids=["columns", "machine"])
def test_ordered_dataflows(
    machine: bool, count: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops: list[MachineLoop] = []
    if machine:
        pytest.importorskip("numba")
        run = MachineLoop.run

        def counted(self: MachineLoop, *args: Any) -> Any:
            loops.append(self)
            return run(self, *args)

        monkeypatch.setattr(MachineLoop, "run", counted)
    tally = run_ordered(Tally(), count, "machine_flow" if machine else "ordered_flow", machine=machine)
    assert len(set(map(id, loops))) >= count / 3 if machine else not loops
    assert len({loop.source.text for loop in loops}) >= 10 or not machine
    tell(request, tally)
    assert tally.traced >= 0.4 * tally.programs, tally.refused.most_common(20)
    assert tally.emitting >= 0.4 * tally.programs


def test_every_production_is_reachable() -> None:
    """From what the tests begin with."""
    starts = {(start, grammar) for start, grammar, *_ in KINDS}
    found = set[tuple[str, str]]().union(
        *(reachable(grammar, start) for start, grammar in starts),
        *(reachable("python", start) for start in ("flow", "ordered_flow", "machine_flow")),
    )
    assert found == {(name, text) for name, options in GRAMMARS["odd"].items() for text in options}


@pytest.mark.nightly
@pytest.mark.parametrize("name", MUTATIONS)
def test_mutations_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By some two to three times as many programs as run in CI."""
    monkeypatch.setattr("tests.test_programs.PHASES", (Phase.generate,))
    runs: list[Callable[[], Tally]] = [partial(run_flows, Tally(), 180)]
    runs += [
        partial(run, Tally(), 8 * count // 3, start, grammar, gives, depth) for start, grammar, gives, count, depth, _ in KINDS
    ]

    def run_all() -> None:
        for one in runs:
            one()

    with MUTATIONS[name](), pytest.raises(Exception):  # noqa: B017, PT011 - a fault may raise anything
        run_all()


@pytest.mark.nightly
@pytest.mark.parametrize(("start", "grammar", "gives", "count", "depth", "floor"), KINDS, ids=[one[0] for one in KINDS])
def test_many_programs(
    start: str, grammar: str, gives: Gives, count: int, depth: int, floor: float, request: pytest.FixtureRequest
) -> None:
    tally = run(Tally(), count * 65, start, grammar, gives, depth + 1)
    tell(request, tally)
    assert tally.traced >= 0.8 * floor * tally.programs


@pytest.mark.nightly
def test_many_dataflows(request: pytest.FixtureRequest) -> None:
    tally = run_flows(Tally(), 7_500, depth=5)
    tell(request, tally)
    assert tally.traced >= 0.5 * tally.programs
