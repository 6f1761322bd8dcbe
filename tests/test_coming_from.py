"""Each idiom of ``docs/coming_from.md`` prints what the page shows, and has the same answer in other deployments."""

from __future__ import annotations

import linecache
import re
import sys
from types import ModuleType
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.pages import ROOT, Idiom, idioms
from tests.strategies import some
from tracetypes import Dataflow
from tracetypes.testing import check_deployments

IDIOMS = idioms()
each = pytest.mark.parametrize("idiom", IDIOMS, ids=[idiom.title for idiom in IDIOMS])


def run(program: str, monkeypatch: pytest.MonkeyPatch, **names: object) -> None:
    """Run a program as a module that its records can be found in. ``names``: what the module has besides."""
    module = ModuleType("idiom")
    monkeypatch.setitem(sys.modules, "idiom", module)
    monkeypatch.setitem(linecache.cache, "idiom.py", (len(program), None, program.splitlines(True), "idiom.py"))
    exec(compile(program, "idiom.py", "exec"), module.__dict__ | names)


@each
def test_it_prints_what_the_page_shows(
    idiom: Idiom, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(idiom.program, monkeypatch)
    assert capsys.readouterr().out == idiom.output
    assert idiom.output


@each
def test_it_has_the_same_answer_in_other_deployments(idiom: Idiom, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[Dataflow, dict[str, list[Any]]]] = []

    def deploy(flow: Dataflow, **rows: list[Any]) -> None:
        shown.append((flow, rows))

    run(idiom.program.replace("\nshow(flow, ", "\ndeploy(flow, "), monkeypatch, deploy=deploy)
    ((flow, rows),) = shown
    many = some(10)
    assert check_deployments(flow, rows={name: st.just(given) for name, given in rows.items()}, max_examples=many) == many


def test_there_are_twenty_and_each_says_how_the_others_say_it() -> None:
    assert len(IDIOMS) >= 20
    assert f": {len(IDIOMS)} idioms side by side" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert [int(idiom.title.split(".")[0]) for idiom in IDIOMS] == list(range(1, len(IDIOMS) + 1))
    for idiom in IDIOMS:
        assert re.findall(r"^\* ([\w ]+): ", idiom.text, re.MULTILINE) == ["SQL", "Flink", "Kafka Streams", "Beam"]
        assert "\nWhat differs: " in idiom.text
