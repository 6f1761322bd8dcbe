"""Bounds that adjust themselves (Flux, section 3.3), and that a run can be repeated from what it recorded of the machine."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.local.test_gates import HOURS, run_files
from tests.test_gates import flow_of
from tracetypes import UsageError, check, interpret_rows
from tracetypes.adaptive_bounds import Adaptive, Outcome, agreed
from tracetypes.bounds import Bound, Observation, Updates
from tracetypes.compiler.plan.program import program
from tracetypes.compiler.store import gate_channel
from tracetypes.compiler.store.gate_channel import outside_of
from tracetypes.compiler.trial.simulate import simulate_program
from tracetypes.gates import adaptive, sequence, time, value

SECOND = 1_000_000
TABLE: list[tuple[Outcome, Outcome, Outcome]] = [
    ("relax", "relax", "relax"),
    ("relax", "restrict", "nothing"),
    ("relax", "nothing", "relax"),
    ("restrict", "relax", "nothing"),
    ("restrict", "restrict", "restrict"),
    ("restrict", "nothing", "restrict"),
    ("nothing", "relax", "relax"),
    ("nothing", "restrict", "restrict"),
    ("nothing", "nothing", "nothing"),
]


@pytest.mark.parametrize(("items", "load", "both"), TABLE)
def test_the_table_of_two_factors(items: Outcome, load: Outcome, both: Outcome) -> None:
    assert agreed(items, load) == both


def levels(bound: Bound, counts: list[int], loads: list[float]) -> list[int]:
    """The level of a bound at markers of each second, where so many items come and the machine is so busy."""
    state, found = bound.fresh(), list[int]()
    for at, (count, load) in enumerate(zip(counts, loads, strict=True)):
        seen = Observation((at + 1) * SECOND, None, at * SECOND, {Updates(): count}, lambda name, load=load: load)  # type: ignore[misc]
        state = bound.decide(seen, state).state
        found.append(state["level"])
    return found


def test_more_items_relax_and_fewer_restrict_by_one_step_at_a_time() -> None:
    bound = adaptive(sequence(10), sequence(50), frame=3, steps=4, load=False)
    counts = [10] * 6 + [40] * 6 + [1] * 12
    got = levels(bound, counts, [0.7] * 24)
    assert got[:6] == [0] * 6
    assert got[6:12] == [1, 2, 3, 4, 4, 4]
    assert got[-1] == 0
    assert all(abs(one - other) <= 1 for one, other in pairwise(got))


def test_a_steady_stream_leaves_the_bound_where_it_is() -> None:
    counts = [100 + at % 3 for at in range(30)]
    bound = adaptive(time(5), time(50), frame=5)
    assert levels(bound, counts, [0.95] * 4 + [0.7] * 26) == [1, 2, 3] + [4] * 27


def test_a_busy_machine_relaxes_and_an_idle_one_restricts() -> None:
    bound = adaptive(time(1), time(5), frame=3, steps=3)
    got = levels(bound, [10] * 12, [0.95] * 5 + [0.7] * 2 + [0.1] * 5)
    assert got == [1, 2, 3, 3, 3, 3, 3, 2, 1, 0, 0, 0]


def test_the_bound_between_two() -> None:
    bound = adaptive(sequence(10), sequence(51), steps=4)
    assert isinstance(bound, Adaptive)
    assert [str(bound.at(level)) for level in (0, 1, 4)] == ["sequence(10)", "sequence(20)", "sequence(51)"]
    half = adaptive(value(percent=1, columns="ozone"), value(percent=3, columns="ozone"), steps=2)
    assert isinstance(half, Adaptive)
    assert str(half.at(1)) == "value(percent=2, columns='ozone')"


@pytest.mark.parametrize(
    ("least", "most"),
    [
        (sequence(5), sequence(4)),
        (sequence(5), time(4)),
        (sequence(5), sequence(percent=5)),
        (value(units=1, columns="a"), value(units=2, columns="b")),
        (sequence(1) & time(3), sequence(2) & time(3)),
    ],
)
def test_TT126_ends_of_no_interval(least: Bound, most: Bound) -> None:
    with pytest.raises(UsageError, match="TT126"):
        adaptive(least, most)


def test_deployments_agree_where_only_items_adjust_a_bound() -> None:
    bound = adaptive(sequence(3), sequence(9), frame=20, steps=3, load=False)
    checked = check(flow_of(lambda s: s.gate(bound)))
    rows = {"in": [pair for hour in HOURS for pair in hour[: 1 + len(hour) * (hour[0][1].ts // 50 % 2)]]}
    (expected,) = interpret_rows(checked, rows)[0].values()
    for seed in range(5):
        found = simulate_program(program(checked, key_groups=3), rows, seed=seed)["out"].trace
        assert found == expected


def test_a_run_is_repeated_from_what_it_recorded_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose load jumps about decides; the definition decides as it did, by the record."""
    loads = iter([0.95, 0.1, 0.95, 0.95, 0.95, 0.2, 0.95, 0.7, 0.1, 0.1, 0.95, 0.95, 0.95, 0.95] * 3)
    monkeypatch.setattr(gate_channel, "of_machine", lambda marker, name: next(loads))
    flow = flow_of(lambda s: s.gate(adaptive(sequence(4), sequence(16), frame=30, steps=2)))
    rows: dict[str, list[Any]] = {"in": [pair for hour in HOURS for pair in hour]}
    with tempfile.TemporaryDirectory() as checkpoint:
        traces, _ = run_files(flow, HOURS, checkpoint)
        (gate,) = Path(checkpoint).glob("channels/*/gate")
        seen = outside_of(gate)
    assert len(seen) == 12
    again = interpret_rows(check(flow), rows, outside=lambda gate, marker, name: seen[marker, name])[0]["out"]
    assert again == traces["out"]
    other = interpret_rows(check(flow), rows, outside=lambda gate, marker, name: 0.1)[0]["out"]
    assert other != again
