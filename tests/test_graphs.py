"""The strategy for random dataflows gives what it promises, and all of it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import Phase, given, settings

from tests import graphs
from tests.graphs import Adding, Case, cases, features, listing
from tracetypes.check import violations
from tracetypes.compiler.plan.planner import refuse_sharing
from tracetypes.templates import TEMPLATES

OPERATORS = {
    name
    for name, one in vars(graphs).items()
    if isinstance(one, type) and issubclass(one, TEMPLATES) and one not in (*TEMPLATES, Adding)
}
FEATURES = OPERATORS | {
    "sort",
    "U source",
    "O by function",
    "O by row position",
    "event time",
    "in band",
    "different periods",
    "Unit key",
    "keyed rows",
    "key of True",
    "parallelism",
    "merge of U",
    "merge of O",
    "merge of O and U",
    "merge of two types of keys",
    "merge of a source",
    "merge, then on_marker of a stateless operator",
    "a look at keys that an operator made",
    "a source without rows",
    "late items",
    "reject: NaN",
    "reject: None",
    "reject: key",
    "reject: expected Sample",
    "reject: expected int",
    "reject: does not lie after",
    "items at the sink",
    "markers at the sink",
    "drain True",
    "drain False",
    *[f"{count} keyed stages" for count in range(5)],
    *[f"{count} sources" for count in (1, 2, 3)],
}


@pytest.fixture(scope="module")
def counted() -> Counter[str]:
    """How many of many cases have each feature."""
    found: Counter[str] = Counter()

    @settings(max_examples=300, phases=(Phase.generate,), derandomize=True, database=None)
    @given(cases())
    def count(case: Case) -> None:
        found.update(["cases", *features(case)])

    count()
    return found


def test_every_kind_of_operator_is_there() -> None:
    assert len(OPERATORS) == 25
    assert {"Alarm", "Announce", "Heartbeat", "OrderHash", "Echo", "Sparse", "Clocked", "Gathered", "Chained"} <= OPERATORS


def test_everything_comes_up(counted: Counter[str]) -> None:
    assert {feature for feature in FEATURES if not counted[feature]} == set()


def test_much_comes_up_often(counted: Counter[str]) -> None:
    often = {feature: counted[feature] / counted["cases"] for feature in ("items at the sink", "markers at the sink")}
    assert min(often.values()) > 0.5, often
    sometimes = ("merge of O", "merge of U", "late items", "sort", "2 keyed stages", "in band", "O by row position")
    assert min(counted[feature] for feature in sometimes) > 0.1 * counted["cases"]


@given(cases())
def test_every_graph_checks_and_is_an_in_tree(case: Case) -> None:
    assert violations(case.flow) == ()
    refuse_sharing(case.checked)
    assert sorted(case.rows) == sorted(source.name for source in case.checked.graph.sources)
    assert 1 <= case.parallelism <= case.key_groups


@given(cases())
def test_every_case_can_be_interpreted_again_with_the_same_result(case: Case) -> None:
    assert case.expected()[0] == case.expected()[0]


@given(cases())
def test_a_case_is_shown_whole(case: Case) -> None:
    text = repr(case)
    assert all(line in text for line in listing(case.flow.graph))
    assert all(f"{name}: " in text for name in case.rows)
