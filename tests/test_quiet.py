"""What operators print in a check is dropped, and what other threads print meanwhile is not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tracetypes.compiler.runtime.quiet import quiet


def test_one_thread_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    print("before")
    with quiet():
        print("inside")
    print("behind")
    assert capsys.readouterr().out == "before\nbehind\n"


def test_the_stream_of_a_quiet_thread_outlives_its_context(capsys: pytest.CaptureFixture[str]) -> None:
    """Another thread may be in print() with it, which does not keep it alive: the process died of that."""
    streams = []
    for _ in range(2):
        with quiet():
            streams.append((id(sys.stdout), id(sys.stderr), sys.getrefcount(sys.stdout)))
    assert streams[0] == streams[1]
    before = sys.stdout
    with quiet():
        inside, count = sys.stdout, sys.getrefcount(sys.stdout)
    assert sys.stdout is before
    assert sys.getrefcount(inside) == count - 1  # sys alone has let it go


def test_a_stream_that_ends_leaves_the_one_below_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is another's, and may be closed by then: Python complained on standard error when it ended."""
    with (tmp_path / "below").open("w") as below:
        pass
    monkeypatch.setattr(sys, "stdout", below)
    with quiet():
        stream = sys.stdout
    stream.close()


def test_rows_of_several_sinks_are_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is written at once, so the threads of other sinks do not write into it."""
    from tests.local.test_streams import Click, clicks
    from tracetypes import run

    class Output:
        def __init__(self) -> None:
            self.texts: list[str] = []

        def write(self, text: str) -> int:
            self.texts.append(text)
            return len(text)

        def flush(self) -> None: ...

    output = Output()
    monkeypatch.setattr(sys, "stdout", output)
    run(clicks(), {"clicks": [Click("a", 1), Click("b", 2)]}, {"counts": "-"}, backend="local")
    assert len(output.texts) == 2
    assert all(text.startswith("{") and text.endswith("}\n") for text in output.texts)
