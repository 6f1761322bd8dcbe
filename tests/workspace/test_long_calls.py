"""Calls of operators that do not end are stopped, and others are not."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tracetypes.compiler.tracing.syntax import PREFIX
from tracetypes.compiler.workspace.service.long_calls import CallTooLong, LongCalls, is_of_operators

OPERATORS = """
def loops(stop):
    while not stop.is_set():
        pass

def catches(stop):
    while not stop.is_set():
        try:
            loops(stop)
        except Exception:
            pass

def short():
    return 1
"""


@pytest.fixture
def operators(tmp_path: Path) -> ModuleType:
    """A module of a user."""
    path = tmp_path / "looping_operators.py"
    path.write_text(OPERATORS)
    spec = importlib.util.spec_from_file_location("looping_operators", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def watch() -> Iterator[LongCalls]:
    watch = LongCalls(0.1)
    yield watch
    watch.close()


def raised_by(function: Callable[[], object]) -> list[BaseException]:
    """What a function raises in a thread of its own."""
    raised: list[BaseException] = []

    def body() -> None:
        try:
            function()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    return raised


def test_a_call_that_does_not_end_is_stopped(operators: ModuleType, watch: LongCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()
    # Only the thread of the operator counts: the test is code of a user, too.
    monkeypatch.setattr("tracetypes.compiler.workspace.service.long_calls.is_of_operators", lambda file: "looping" in file)
    (error,) = raised_by(lambda: operators.loops(stop))
    assert isinstance(error, CallTooLong)
    assert "limits.seconds" in str(error)


def test_a_call_that_catches_everything_is_reported(operators: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracetypes.compiler.workspace.service.long_calls.is_of_operators", lambda file: "looping" in file)
    stop, threads = threading.Event(), list[int]()

    def stuck(thread: int) -> None:
        threads.append(thread)
        stop.set()

    watch = LongCalls(0.1, stuck=stuck)
    thread = threading.Thread(target=lambda: operators.catches(stop))
    thread.start()
    thread.join(30)
    watch.close()
    assert threads == [thread.ident]


def test_code_that_is_traced_is_that_of_operators(operators: ModuleType) -> None:
    assert operators.__file__ is not None
    assert is_of_operators(operators.__file__)
    assert is_of_operators(PREFIX + operators.__file__)
    assert not is_of_operators(PREFIX + str(threading.__file__))


def test_many_short_calls_are_not(operators: ModuleType, watch: LongCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracetypes.compiler.workspace.service.long_calls.is_of_operators", lambda file: "looping" in file)
    looks = 0
    look = watch._look

    def counted(pause: float) -> None:
        nonlocal looks
        looks += 1
        look(pause)

    monkeypatch.setattr(watch, "_look", counted)

    def many() -> None:
        while looks < 20:
            operators.short()

    assert raised_by(many) == []
