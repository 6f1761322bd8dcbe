"""Dataflows as JSON: what they become, what is refused, and that no other code runs."""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pages import ROOT, blocks
from tracetypes import Item, interpret_rows, json_lines
from tracetypes.compiler.backend.compilation import check_once
from tracetypes.compiler.workspace.service.flow_problems import FlowRefused
from tracetypes.compiler.workspace.service.json_flows import dataflow_of
from tracetypes.compiler.workspace.service.registry import Registry, read_registry
from tracetypes.errors import UsageError
from tracetypes.nodes import Apply, Merge

PAGE = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")

MODULE = '''
from __future__ import annotations
import attrs
from tracetypes import Emit, OpStateless, Stream, U, merge

@attrs.frozen
class Click:
    user: str
    ts: int
    cents: int

@attrs.frozen
class Times(OpStateless[str, int, str, int]):
    by: int
    def on_item(self, key: str, value: int, emit: Emit[str, int]) -> None:
        emit(key, value * self.by)

def scaled(by: int) -> Times:
    return Times(by)

def both(left: Stream[U[str, int]], right: Stream[U[str, int]], times: int) -> Stream[U[str, int]]:
    return merge(left, right.through(Times(times)))

def raises(by: int) -> Times:
    raise RuntimeError("no")
'''

REGISTRY = '''
[operators]
scaled = "json_shop:scaled"
times = "json_shop:Times"
weighted = "json_shop:both"
raises = "json_shop:raises"
gone = "json_shop:gone"

[inputs.clicks]
address = "clicks"
record = "json_shop:Click"
key = "user"
markers = {seconds = 60, time = "ts"}

[inputs.secret]
address = "secret"
record = "json_shop:Click"
markers = {seconds = 60, time = "ts"}
owners = ["bob"]

[limits]
tasks = 9
'''

CLICKS = {"id": "clicks", "type": "source", "config": {"input": "clicks"}}
CENTS = {"id": "cents", "type": "map_values", "config": {"function": {"field": "cents"}, "to": {"type": "int"}}}
SUM = {"type": "sum", "config": {"to": {"type": "int"}}}
SPENT = {"id": "spent", "type": "tumbling", "config": {"aggregate": SUM, "size": 120}}
OUT = {"id": "out", "type": "sink", "config": {"output": "spent", "marker": "at"}}


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    (tmp_path / "json_shop.py").write_text(MODULE)
    (tmp_path / "registry.toml").write_text(REGISTRY)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield read_registry(tmp_path / "registry.toml")
    sys.modules.pop("json_shop", None)


def flow(*tasks: Any, streams: Any = None) -> dict[str, Any]:
    """Tasks in a chain, unless streams are given."""
    chain = [[one["id"], two["id"]] for one, two in itertools.pairwise(tasks)] if streams is None else streams
    return {"tasks": list(tasks), "streams": chain}


def task(type: str, **config: Any) -> dict[str, Any]:
    return {"id": type, "type": type, "config": config}


def problems(registry: Registry, plain: Any, owner: str = "ann") -> list[tuple[str, str]]:
    with pytest.raises(FlowRefused) as raised:
        dataflow_of("flow", plain, registry, owner)
    assert all(one.fix and f"{one.code} " in str(raised.value) for one in raised.value.problems)
    return [(one.code, one.task) for one in raised.value.problems]


def answer(registry: Registry, plain: Any) -> list[tuple[Any, Any]]:
    """What a flow answers for two clicks."""
    click = sys.modules["json_shop"].Click if "json_shop" in sys.modules else __import__("json_shop").Click
    found = dataflow_of("flow", plain, registry, "ann")
    rows = [click("ann", 10, 5), click("ann", 70, 7)]
    traces, _ = interpret_rows(check_once(found.flow), {"clicks": rows})
    return sorted((one.key, one.value) for one in traces["out"] if isinstance(one, Item))


def test_the_flow_of_the_page_is_one(registry: Registry) -> None:
    found = dataflow_of("spent", json.loads(blocks(PAGE, "json")[0]), registry, "ann")
    assert (dict(found.inputs), dict(found.outputs)) == ({"clicks": str(registry.folder / "clicks")}, {"totals": "spent"})


def test_the_registry_of_the_page_is_one(tmp_path: Path) -> None:
    (tmp_path / "registry.toml").write_text(blocks(PAGE, "toml")[0])
    found = read_registry(tmp_path / "registry.toml")
    assert found.inputs["clicks"].delay == 5
    assert found.owner("ann").outputs == tmp_path / "outputs" / "ann"


def test_an_input_may_have_a_format(tmp_path: Path, registry: Registry) -> None:
    text = REGISTRY.replace('key = "user"', 'key = "user"\nformat = "json_lines"', 1)
    (tmp_path / "registry.toml").write_text(text)
    found = dataflow_of("f", flow(CLICKS, OUT), read_registry(tmp_path / "registry.toml"), "ann")
    assert [one.format for one in found.flow.graph.sources] == [json_lines()]
    assert [one.format for one in dataflow_of("f", flow(CLICKS, OUT), registry, "ann").flow.graph.sources] == [None]


def test_it_answers_as_python_does(registry: Registry) -> None:
    assert answer(registry, flow(CLICKS, CENTS, SPENT, OUT)) == [("ann", 12)]


def test_operators_factories_and_comparisons(registry: Registry) -> None:
    more = task("filter", predicate={"above": 5})
    assert answer(registry, flow(CLICKS, CENTS, more, task("scaled", by=3), OUT)) == [("ann", 21)]
    seven = task("filter", predicate={"field": "cents", "is": 7})
    assert answer(registry, flow(CLICKS, seven, CENTS, task("times", by=2), OUT)) == [("ann", 14)]


def test_several_streams_are_merged_or_taken_in_their_order(registry: Registry) -> None:
    two = [["clicks", "cents"], ["cents", "scaled"], ["cents", "out"], ["scaled", "out"]]
    merged = flow(CLICKS, CENTS, task("scaled", by=10), OUT, streams=two)
    assert answer(registry, merged) == [("ann", 5), ("ann", 7), ("ann", 50), ("ann", 70)]
    twice = flow(CLICKS, CENTS, OUT, streams=[["clicks", "cents"], ["cents", "out"], ["cents", "out"]])
    assert answer(registry, twice) == [("ann", 5), ("ann", 5), ("ann", 7), ("ann", 7)]
    assert [type(one) for one in dataflow_of("f", twice, registry, "ann").flow.graph.nodes].count(Merge) == 1
    ends = [["clicks", "cents"], ["cents", "scaled"], ["scaled", "weighted"], ["cents", "weighted"], ["weighted", "out"]]
    joined = flow(CLICKS, CENTS, task("scaled", by=10), task("weighted", times=100), OUT, streams=ends)
    assert answer(registry, joined) == [("ann", 50), ("ann", 70), ("ann", 500), ("ann", 700)]


def test_all_problems_are_reported_at_once(registry: Registry) -> None:
    wrong = flow(
        CLICKS,
        {**CENTS, "config": {"function": {"field": "euros"}, "to": {"type": "int"}}},
        task("os:system", command="true"),
        task("scaled", by="2"),
        {"id": "out", "type": "sink", "config": {"file": "spent"}},
        streams=[["clicks", "cents"], ["clicks", "os:system"], ["bob.clicks", "scaled"], ["cents", "out"]],
    )
    found = problems(registry, wrong)
    assert {code for code, _ in found} == {"TT410", "TT412", "TT413"}  # the id os:system is none
    assert ("TT413", "cents") in found
    assert found.count(("TT413", "out")) == 2


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ({}, ("TT410", "")),
        ({"tasks": [1]}, ("TT410", "number 0")),
        ({"tasks": [CLICKS], "streams": {}}, ("TT410", "")),
        ({"tasks": [CLICKS, CENTS, OUT], "streams": [["clicks"]]}, ("TT410", "")),
        (flow(CLICKS, CLICKS, OUT), ("TT410", "clicks")),
        (flow({**CLICKS, "kind": "source"}, OUT), ("TT410", "clicks")),
        (flow(*[{**CLICKS, "id": f"c{number}"} for number in range(10)]), ("TT416", "")),
        (flow(CLICKS, {"id": "x", "type": "os:system", "config": {}}, OUT), ("TT411", "x")),
        (flow(CLICKS, {"id": "x", "type": "tracetypes.stdlib:sum", "config": {}}, OUT), ("TT411", "x")),
        (flow(CLICKS, {"id": "x", "type": "lookup_join", "config": {}}, OUT), ("TT411", "x")),
        (flow({**CLICKS, "config": {"input": "secret"}}, OUT), ("TT411", "clicks")),
        (flow({**CLICKS, "config": {"input": "/etc/passwd"}}, OUT), ("TT411", "clicks")),
        (flow(CLICKS, CENTS, OUT, streams=[["clicks", "cents"], ["cents", "out"], ["other", "out"]]), ("TT412", "out")),
        (flow(CLICKS, CENTS, OUT, streams=[["clicks", "cents"], ["cents", "cents"]]), ("TT412", "cents")),
        (flow(CLICKS, CENTS, OUT, streams=[["clicks", "cents"], ["cents", "clicks"], ["cents", "out"]]), ("TT412", "clicks")),
        (flow(CLICKS, CENTS, task("weighted", times=1), OUT), ("TT412", "weighted")),
        (flow(CLICKS, CENTS, task("scaled", by=True), OUT), ("TT413", "scaled")),
        (flow(CLICKS, CENTS, task("scaled", times=1), OUT), ("TT413", "scaled")),
        (flow(CLICKS, CENTS, task("raises", by=1), OUT), ("TT413", "raises")),
        (flow(CLICKS, task("filter", predicate={"field": "__class__", "is": 1}), OUT), ("TT413", "filter")),
        (flow(CLICKS, task("filter", predicate={"code": "1"}), OUT), ("TT413", "filter")),
        (flow(CLICKS, CENTS, task("gone"), OUT), ("TT414", "gone")),
        (flow(CLICKS, CENTS, {**SPENT, "config": {"aggregate": SUM, "size": -1}}, OUT), ("TT121", "spent")),
        (flow(CLICKS, task("diff", number={"field": "cents"}), OUT), ("TT101", "diff")),
    ],
)
def test_a_wrong_flow_is_refused(registry: Registry, plain: Any, expected: tuple[str, str]) -> None:
    assert expected in problems(registry, plain)


def test_an_input_of_others_is_as_one_that_is_not_there(registry: Registry) -> None:
    def said(input: str) -> str:
        with pytest.raises(FlowRefused) as raised:
            dataflow_of("flow", flow({**CLICKS, "config": {"input": input}}, OUT), registry, "ann")
        return str(raised.value).replace(input, "")

    assert said("secret") == said("nobody")
    assert dataflow_of("flow", flow({**CLICKS, "config": {"input": "secret"}}, OUT), registry, "bob").inputs


def test_nothing_is_imported_that_is_not_allowed(registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "not_allowed.py").write_text("raise SystemExit('imported')")
    for name in ("not_allowed", "not_allowed:x"):
        problems(registry, flow(CLICKS, {"id": "x", "type": name, "config": {}}, OUT))
        problems(registry, flow(CLICKS, task("filter", predicate={"type": name}), OUT))
    assert "not_allowed" not in sys.modules


def test_the_checker_names_the_task_and_no_line_of_the_service(registry: Registry) -> None:
    found = dataflow_of("f", flow(CLICKS, CENTS, SPENT, OUT), registry, "ann").flow.graph.nodes
    assert [one.where.file for one in found] == ["clicks", "cents", "spent", "out"]
    assert isinstance(found[1], Apply)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[operators]\nscaled = 'json_shop.scaled'", "MODULE:NAME"),
        ("[operator]\nscaled = 'json_shop:scaled'", "it may have"),
        ("operators = 3", r"\[operators\]"),
        ("[inputs.clicks]\naddress = 'clicks'", "record"),
        ("[inputs.clicks]\naddress = 'c'\nrecord = 'a:B'\nmarkers = {time = 'ts'}", "seconds"),
        ("[inputs.c]\naddress = 'c'\nrecord = 'a:B'\nmarkers = {time = 'ts', seconds = 1}\nformat = 'xml'", "json_lines"),
        ("[inputs.'../x']\naddress = 'c'", "table"),
        ("[owners.ann]\nroot = '/'", "outputs"),
        ("[limits]\ntasks = 0", "whole number"),
        ("library = 'yes'", "true or false"),
        ("[", "line"),
    ],
)
def test_a_wrong_registry(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "registry.toml").write_text(text)
    with pytest.raises(UsageError) as raised:
        read_registry(tmp_path / "registry.toml")
    assert raised.value.code == "TT414"
    assert re.search(said, str(raised.value))


def test_the_library_can_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "registry.toml").write_text("library = false")
    assert set(read_registry(tmp_path / "registry.toml").operators) == {"sort"}
