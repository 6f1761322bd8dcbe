"""The supervisor, with a backend that is played here: segments that end, that fail, that are drained and stopped."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tracetypes import UsageError
from tracetypes.compiler.backend import supervisor
from tracetypes.compiler.backend.backend import refuse_unsupported
from tracetypes.compiler.backend.control import Bell, Control
from tracetypes.compiler.backend.supervisor import Supervisor
from tracetypes.compiler.store.metrics import Batch


class Fake:
    """A segment. It goes on until it is told otherwise. ``looks``: after so many it fails, or ends if ``failure`` is None."""

    metrics: Batch | None = None
    processor_seconds = 0.0

    def __init__(self, looks: int | None = None, failure: BaseException | None = None) -> None:
        self.looks, self.will, self.failure = looks, failure, None if looks is None else failure
        self.heard: list[str] = []
        self.over = threading.Event()

    def listen(self, bell: Bell) -> None:
        """It never rings: the supervisor looks by itself."""

    def drain(self) -> None:
        self.heard.append("drain")
        self.over.set()

    def stop(self) -> None:
        self.heard.append("stop")
        self.failure = None if self.looks else self.failure
        self.over.set()

    def catch_up(self, seconds: float | None = None) -> bool:
        return True

    def wait(self, seconds: float | None = None) -> bool:
        if isinstance(self.will, KeyboardInterrupt) and not self.heard:
            raise self.will
        if self.looks is not None and not self.over.is_set():
            self.looks -= 1
            if self.looks <= 0:
                self.over.set()
        return self.over.is_set()


@pytest.fixture(autouse=True)
def _looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor looks often."""
    monkeypatch.setattr(supervisor, "PAUSE", 0.001)


class Crash(Exception):
    """What a segment fails of."""


def watched(segments: Mapping[str, tuple[Fake, Sequence[str]]], **options: Any) -> Supervisor:
    supervisor = Supervisor(Control(), **options)
    for name, (fake, upstream) in segments.items():
        supervisor.start(name, lambda fake=fake: fake, upstream)  # type: ignore[misc]
    return supervisor


def test_segments_that_end() -> None:
    fakes = {"a": (Fake(3), ()), "b": (Fake(1), ("a",))}
    watched(fakes).watch()
    assert [fake.heard for fake, _ in fakes.values()] == [[], []]


def test_nothing_to_watch() -> None:
    Supervisor(Control()).watch()


def test_a_failure_stops_everything() -> None:
    fakes = {"a": (Fake(), ()), "b": (Fake(2, Crash("b")), ("a",)), "c": (Fake(), ())}
    with pytest.raises(Crash, match="b"):
        watched(fakes).watch()
    assert fakes["a"][0].heard[0] == fakes["c"][0].heard[0] == "stop"


def test_a_failure_stops_what_depends_on_it() -> None:
    """By policy nothing else: the other goes on to its end."""
    fakes = {"a": (Fake(2, Crash("a")), ()), "b": (Fake(), ("a",)), "c": (Fake(), ("b",)), "d": (Fake(5), ())}
    supervisor = watched(fakes, others_go_on=True)
    with pytest.raises(Crash, match="a"):
        supervisor.watch()
    assert [fake.heard for fake, _ in fakes.values()] == [[], ["stop"], ["stop"], []]
    late = Fake()
    supervisor.start("late", lambda: late, ["c"])
    supervisor.start("free", lambda: Fake(1), ["d"])
    with pytest.raises(Crash):
        supervisor.watch()
    assert late.heard == []  # it was not started
    assert list(supervisor.failures) == ["a"]


def test_the_first_failure_is_told() -> None:
    fakes = {"a": (Fake(4, Crash("a")), ()), "b": (Fake(2, Crash("b")), ())}
    with pytest.raises(Crash, match="b"):
        watched(fakes, others_go_on=True).watch()


def test_a_start_that_fails() -> None:
    def start() -> Fake:
        raise Crash("start")

    first, supervisor = Fake(), Supervisor(Control())
    supervisor.start("a", lambda: first)
    supervisor.start("b", start)
    supervisor.start("c", lambda: pytest.fail("it must not start"))
    with pytest.raises(Crash, match="start"):
        supervisor.watch()
    assert first.heard == ["stop"]


@pytest.mark.parametrize("how", ["stop", "drain"])
def test_others_end_it(how: str) -> None:
    """Ctrl-C sets ``stop``."""
    fakes = {"a": (Fake(), ()), "b": (Fake(), ("a",))}
    supervisor = watched(fakes)
    getattr(supervisor.control, how).set()
    supervisor.watch()
    assert [fake.heard for fake, _ in fakes.values()] == [[how], [how]]


def test_an_interrupt_stops_all() -> None:
    """Where nobody has taken the signal."""
    fakes = {"a": (Fake(), ()), "b": (Fake(failure=KeyboardInterrupt()), ())}
    with pytest.raises(KeyboardInterrupt):
        watched(fakes).watch()
    assert [fake.heard for fake, _ in fakes.values()] == [["stop"], ["stop"]]


def test_a_segment_that_joins() -> None:
    supervisor, joined = Supervisor(Control()), Fake(3)

    class Inviting(Fake):
        def wait(self, seconds: float | None = None) -> bool:
            if self.looks == 2:
                supervisor.start("b", lambda: joined, ["a"])
            return super().wait(seconds)

    supervisor.start("a", lambda: Inviting(4))
    supervisor.watch()
    assert joined.over.is_set()


def test_segments_by_name() -> None:
    fakes = {"a": (Fake(), ()), "b": (Fake(), ("a",)), "c": (Fake(), ())}
    supervisor = watched(fakes, others_go_on=True)
    assert list(supervisor.running) == ["a", "b", "c"]
    supervisor.stop("b")
    supervisor.drain("c")
    supervisor.stop("unknown")
    with pytest.raises(ValueError, match="'a' is running"):
        supervisor.forget("a")
    assert supervisor.look(0)
    assert list(supervisor.running) == ["a"]
    supervisor.stop("b")
    assert [fake.heard for fake, _ in fakes.values()] == [[], ["stop"], ["drain"]]


def test_a_segment_that_failed_starts_again() -> None:
    supervisor = watched({"a": (Fake(1, Crash("a")), ()), "b": (Fake(), ("a",)), "c": (Fake(), ())}, others_go_on=True)
    assert supervisor.look(0)
    assert supervisor.look(0)
    assert (list(supervisor.running), list(supervisor.failures)) == (["c"], ["a"])
    again, behind = Fake(1), Fake(1)
    supervisor.start("a", lambda: again)
    supervisor.start("b", lambda: behind, ["a"])
    assert (list(supervisor.running), list(supervisor.failures)) == (["c", "a", "b"], [])
    supervisor.stop("c")
    supervisor.watch()


def test_nothing_is_left_when_all_are_forgotten() -> None:
    supervisor = watched({"a": (Fake(1), ())})
    while supervisor.look(0):
        pass
    supervisor.forget("a")
    supervisor.forget("never")
    assert list(supervisor.running) == []
    supervisor.start("a", lambda: Fake(1))
    assert list(supervisor.running) == ["a"]


def test_TT402_a_backend_says_what_it_cannot_do() -> None:
    with pytest.raises(UsageError, match=r"TT402 this backend cannot run small:\s+small has sources"):
        refuse_unsupported("small", ["small has sources"])
