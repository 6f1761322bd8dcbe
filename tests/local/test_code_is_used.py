"""Code of trees is used: it does not give up batch after batch, so that each is evaluated twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from examples import nexmark, nexmark_data, yahoo, yahoo_data
from tests.test_generated import at_once as at_once
from tracetypes import Dataflow, run
from tracetypes.compiler.columns import code_of_trees, evaluation, generated
from tracetypes.compiler.runtime import limits

KNOWN = yahoo_data.tables(users=200)

YAHOO: dict[str, tuple[Dataflow, str]] = {
    "II": (yahoo.query_2(seconds=10), "actions"),
    "III": (yahoo.query_3(KNOWN, seconds=10), "histories"),
    "IV": (yahoo.query_4(KNOWN), "views"),
    "V": (yahoo.query_5(KNOWN), "views"),
}


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> dict[Any, Counter[bool]]:
    """How often the code of each tree was used and gave up."""
    counts: dict[Any, Counter[bool]] = {}
    find = code_of_trees.code_of

    def find_and_count(tree: Any) -> Callable[..., Any] | None:
        code = find(tree)
        if code is None:
            return None

        def counting(inputs: Any, count: int) -> Any:
            reached = code(inputs, count)
            counts.setdefault(tree, Counter())[reached is not None] += 1
            return reached

        return counting

    monkeypatch.setattr(evaluation, "code_of", find_and_count)
    monkeypatch.setattr(limits, "MANY", 1)
    return counts


def run_yahoo(query: str, tmp_path: Path) -> None:
    yahoo_data.write_events(tmp_path / "events", KNOWN, events=4_000, files=8, rate=100)
    dataflow, sink = YAHOO[query]
    run(dataflow, {"events": str(tmp_path / "events")}, {sink: str(tmp_path / "out")}, backend="local", files_per_step=1)


def are_used(ways: dict[Any, Counter[bool]]) -> bool:
    """In its first evaluation code may give up, and then it is written anew for what it has met."""
    often = [used for used in ways.values() if used.total() > 3]
    return len(often) > 0 and all(used[False] <= 1 for used in often)


@pytest.mark.parametrize("query", YAHOO)
def test_code_of_yahoo(query: str, tmp_path: Path, ways: dict[Any, Counter[bool]]) -> None:
    run_yahoo(query, tmp_path)
    assert are_used(ways)


@pytest.mark.parametrize("query", [2, 3, 4, 8])
def test_code_of_nexmark(query: int, tmp_path: Path, ways: dict[Any, Counter[bool]]) -> None:
    nexmark_data.write(tmp_path, 20_000, files=6)
    dataflow = nexmark.dataflow(query)
    names = {"persons": query in (3, 8), "auctions": query in (3, 4, 8), "bids": query in (2, 4)}
    inputs = {name: str(tmp_path / name) for name, is_read in names.items() if is_read}
    run(dataflow, inputs, {f"query_{query}": str(tmp_path / "out")}, backend="local", files_per_step=1)
    assert are_used(ways)


def test_code_that_takes_each_input_for_an_array_is_caught(
    tmp_path: Path, ways: dict[Any, Counter[bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was: the time of a marker made it give up at each block."""
    monkeypatch.setattr(generated._Body, "number", generated._Body.array)
    run_yahoo("IV", tmp_path)
    assert not are_used(ways)
