"""An operator that depends on its process is found by running it in another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracetypes.cli import main

FLOW = """
import os
from collections.abc import Callable

import attrs

from tracetypes import Dataflow, OpStateless, U, Unit, every

BASE = id(object())


@attrs.frozen
class Row:
    ts: int
    name: str


@attrs.frozen
class Spread(OpStateless[Unit, Row, int, str]):
    def on_item(self, key: Unit, value: Row, emit: Callable[[int, str], None]) -> None:
        {body}


flow = Dataflow("spread")
rows = flow.source("rows", U[Unit, Row], markers=every(seconds=10, time=lambda r: r.ts))
flow.sink("out", rows.through(Spread()))
"""

BODIES = {
    "hash of text": "emit(hash(value.name), value.name)",
    "number of the process": "emit(os.getpid(), value.name)",
    "identity": "emit(BASE % 65_521, value.name)",
    "order of a set": 'emit(0, "".join({value.name + end for end in "abcdefgh"}))',
}


OFTEN = ("hash of text", "order of a set")


@pytest.mark.parametrize("name", [n if n in OFTEN else pytest.param(n, marks=pytest.mark.nightly) for n in BODIES])
def test_what_depends_on_the_process_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    module = f"spread_{sorted(BODIES).index(name)}"
    (tmp_path / f"{module}.py").write_text(FLOW.format(body=BODIES[name]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["test", f"{module}.py", "--examples", "20"]) == 1
    out = capsys.readouterr().out
    assert "BROKEN  spread: another process" in out
    assert "TT313 dataflow 'spread' gives another answer at sink 'out' in another process" in out


def test_an_honest_flow_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spread_honest.py").write_text(FLOW.format(body="emit(len(value.name), value.name)"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["test", "spread_honest.py", "--examples", "20"]) == 0
    assert "ok      spread: another process" in capsys.readouterr().out
