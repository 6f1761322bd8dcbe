"""Segments that fail start again, later and later; nobody else hears of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import some
from tracetypes.compiler.backend.control import Bell, Control
from tracetypes.compiler.store.metrics import Batch
from tracetypes.compiler.workspace.restarts import Backoff, RestartingSupervisor, State

STARTING, RUNNING, FAILED, HELD, ENDING, OVER = State


class Crash(Exception):
    """What a segment fails of."""


class Fake:
    """A segment that is over when it is told so, or when it has failed or ended."""

    metrics: Batch | None = None
    processor_seconds = 0.0

    def __init__(self) -> None:
        self.failure: BaseException | None = None
        self.over = False
        self.heard: list[str] = []

    def listen(self, bell: Bell) -> None:
        """It never rings: the tests look themselves."""

    def drain(self) -> None:
        self.heard.append("drain")
        self.over = True

    def stop(self) -> None:
        self.heard.append("stop")
        self.over = True

    def wait(self, seconds: float | None = None) -> bool:
        return self.over

    def catch_up(self, seconds: float | None = None) -> bool:
        return True

    def fails(self) -> None:
        self.failure, self.over = Crash("it"), True


class Workspace:
    """Segments by name, the one of the last start of each; and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.control = Control()
        self.kept = RestartingSupervisor(self.control, Backoff(first=1, factor=2, most=8, forgiven=100), lambda: self.now)
        self.segments: dict[str, Fake] = {}
        self.starts: dict[str, int] = {}
        self.broken: set[str] = set()
        """Whose starts fail."""

    def keep(self, name: str, *upstream: str) -> None:
        def start() -> Fake:
            self.starts[name] = self.starts.get(name, 0) + 1
            if name in self.broken:
                raise Crash("start")
            self.segments[name] = Fake()
            return self.segments[name]

        self.kept.keep(name, start, upstream)

    def look(self, seconds: float = 0.0) -> dict[str, State]:
        """Some seconds later."""
        self.now += seconds
        for _ in range(4):  # until what was stopped is over, and what waited for that has started
            self.kept.look(0)
        return self.kept.states


@pytest.fixture
def workspace() -> Workspace:
    return Workspace()


def test_only_what_depends_on_it_stops_and_starts_with_it(workspace: Workspace) -> None:
    workspace.keep("a")
    workspace.keep("b", "a")
    workspace.keep("c", "b")
    workspace.keep("d")
    assert set(workspace.look().values()) == {RUNNING}
    workspace.segments["a"].fails()
    assert workspace.look() == {"a": FAILED, "b": HELD, "c": HELD, "d": RUNNING}
    assert isinstance(workspace.kept.error("a"), Crash)
    assert workspace.look(0.9)["a"] is FAILED
    assert set(workspace.look(0.2).values()) == {RUNNING}
    assert workspace.starts == {"a": 2, "b": 2, "c": 2, "d": 1}
    assert workspace.segments["d"].heard == []


def test_it_starts_later_and_later_and_a_long_run_is_forgiven(workspace: Workspace) -> None:
    workspace.keep("a")
    for delay in (1, 2, 4, 8, 8):
        workspace.segments["a"].fails()
        assert workspace.look()["a"] is FAILED
        assert workspace.look(delay - 0.1)["a"] is FAILED
        assert workspace.look(0.2)["a"] is RUNNING
    assert workspace.kept.error("a") is not None
    workspace.look(100)
    assert workspace.kept.error("a") is None
    workspace.segments["a"].fails()
    workspace.look()
    assert workspace.look(1.1)["a"] is RUNNING


def test_what_is_kept_for_later_waits_for_its_release(workspace: Workspace) -> None:
    workspace.kept.keep("a", lambda: workspace.segments.setdefault("a", Fake()), later=True)
    workspace.keep("b", "a")
    assert workspace.look(10) == {"a": STARTING, "b": HELD}
    workspace.kept.release("a")
    assert workspace.look() == {"a": RUNNING, "b": RUNNING}
    workspace.segments["a"].fails()
    assert workspace.look()["a"] is FAILED
    workspace.kept.release("a")  # it was released before
    workspace.kept.release("of nobody")
    assert workspace.look() == {"a": FAILED, "b": HELD}


def test_a_start_that_fails_is_a_failure(workspace: Workspace) -> None:
    workspace.broken.add("a")
    workspace.keep("a")
    workspace.keep("b", "a")
    assert workspace.look() == {"a": FAILED, "b": HELD}
    workspace.broken.clear()
    assert workspace.look(1.1) == {"a": RUNNING, "b": RUNNING}


def test_what_has_failed_can_be_removed(workspace: Workspace) -> None:
    workspace.keep("a")
    workspace.keep("b", "a")
    workspace.segments["a"].fails()
    workspace.look()
    with pytest.raises(ValueError, match="segment 'b' reads from 'a'"):
        workspace.kept.remove("a")
    workspace.kept.remove("b")
    workspace.kept.remove("a")
    assert workspace.look(100) == {}
    assert workspace.starts == {"a": 1, "b": 1}


@pytest.mark.parametrize("how", ["stop", "drain"])
def test_a_segment_that_is_removed_is_ending_until_it_is_over(workspace: Workspace, how: str) -> None:
    workspace.keep("a")
    workspace.keep("b")
    one = workspace.segments["a"]
    workspace.kept.remove("a", drain=how == "drain")
    assert workspace.kept.states == {"a": ENDING, "b": RUNNING}
    with pytest.raises(ValueError, match="segment 'a' is ending already"):
        workspace.keep("a")
    assert workspace.look() == {"b": RUNNING}
    assert one.heard == [how]
    workspace.keep("a")
    assert workspace.look() == {"b": RUNNING, "a": RUNNING}


def test_a_segment_whose_inputs_end_is_over(workspace: Workspace) -> None:
    workspace.keep("a")
    workspace.keep("b", "a")
    workspace.segments["a"].over = True
    assert workspace.look(1000) == {"a": OVER, "b": RUNNING}
    workspace.segments["b"].fails()
    workspace.look()
    assert workspace.look(2) == {"a": OVER, "b": RUNNING}
    assert workspace.starts == {"a": 1, "b": 2}


def test_nothing_starts_again_when_all_is_stopped(workspace: Workspace) -> None:
    workspace.keep("a")
    workspace.keep("b", "a")
    workspace.keep("c")
    workspace.segments["c"].fails()
    workspace.look()
    workspace.control.stop.set()
    workspace.look(100)
    assert workspace.starts == {"a": 1, "b": 1, "c": 1}
    assert RUNNING not in workspace.kept.states.values()


def test_all_can_be_removed_at_once(workspace: Workspace) -> None:
    workspace.keep("a")
    workspace.keep("b", "a")
    workspace.keep("c")
    workspace.segments["c"].fails()
    workspace.look()
    workspace.kept.stop_all()
    assert workspace.kept.states == {"a": ENDING, "b": ENDING}
    assert workspace.look(100) == {}
    assert workspace.starts == {"a": 1, "b": 1, "c": 1}


def test_names_are_of_one_segment(workspace: Workspace) -> None:
    workspace.keep("a")
    with pytest.raises(ValueError, match="segment 'a' is running already"):
        workspace.keep("a")
    with pytest.raises(ValueError, match="segment 'b' reads from 'none', which is not there"):
        workspace.keep("b", "none")


def test_a_workspace_without_segments_stays_alive(workspace: Workspace) -> None:
    assert workspace.look() == {}
    workspace.keep("a")
    assert workspace.look() == {"a": RUNNING}


GRAPH: dict[str, tuple[str, ...]] = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c"), "e": (), "f": ("e", "c")}
STEPS = st.lists(
    st.tuples(st.sampled_from(["fail", "break", "mend", "later", "remove", "keep"]), st.sampled_from(list(GRAPH))),
    max_size=some(30),
)


def above(name: str) -> set[str]:
    """A segment and all that it reads from."""
    return {name}.union(*map(above, GRAPH[name]))


@given(STEPS)
def test_a_random_life(steps: list[tuple[str, str]]) -> None:
    workspace = Workspace()
    for name, upstream in GRAPH.items():
        workspace.keep(name, *upstream)
    for step, name in steps:
        before = workspace.look()
        stops = {one: len(fake.heard) for one, fake in workspace.segments.items()}
        if step == "fail" and before.get(name) is RUNNING:
            workspace.segments[name].fails()
        elif step == "break":
            workspace.broken.add(name)
        elif step == "mend":
            workspace.broken.discard(name)
        elif step == "remove" and name in before and not any(name in GRAPH[one] for one in before):
            workspace.kept.remove(name)
        elif step == "keep" and name not in before and all(one in before for one in GRAPH[name]):
            workspace.keep(name, *GRAPH[name])
        states = workspace.look(1.5 if step == "later" else 0.0)
        for one, state in states.items():
            fake = workspace.segments.get(one)
            assert (state is RUNNING) == (fake is not None and not fake.over)
            if state is RUNNING:
                assert all(states[each] is RUNNING for each in above(one))
        if step == "fail":
            told = {one for one, fake in workspace.segments.items() if len(fake.heard) > stops.get(one, 0)}
            assert all(name in above(one) for one in told), "nobody else stops"
    workspace.broken.clear()
    for _ in range(len(GRAPH)):
        workspace.look(10)
    assert set(workspace.kept.states.values()) <= {RUNNING}


def test_who_is_paused_starts_when_it_may(workspace: Workspace) -> None:
    workspace.keep("a")
    workspace.keep("b", "a")
    workspace.keep("c", "b")
    workspace.look()
    workspace.kept.pause(["a", "b"])
    assert workspace.look(100) == {"a": HELD, "b": HELD, "c": RUNNING}
    assert workspace.kept.is_paused
    assert workspace.segments["c"].heard == []
    workspace.kept.go_on()
    assert set(workspace.look().values()) == {RUNNING}
    assert workspace.starts == {"a": 2, "b": 2, "c": 1}


def test_who_is_paused_may_be_removed_or_fail(workspace: Workspace) -> None:
    workspace.keep("a")
    workspace.keep("b")
    workspace.look()
    workspace.segments["b"].fails()
    workspace.kept.pause(["a", "b"])
    assert workspace.look() == {"a": HELD, "b": FAILED}
    assert workspace.look(100) == {"a": HELD, "b": FAILED}
    workspace.kept.remove("a")
    workspace.kept.go_on()
    assert workspace.look() == {"b": RUNNING}
