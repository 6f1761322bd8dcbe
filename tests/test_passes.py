"""Every pass keeps the meaning of a graph, alone and with others; and what each does to the graph of its docstring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, permutations
from typing import Any

import attrs
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from tests.graphs import (
    Announce,
    Case,
    Left,
    OrderHash,
    Right,
    RunningSum,
    Scale,
    Spread,
    ToLeft,
    ToRight,
    Total,
    Wrap,
    cases,
    modulo_three,
    own_value,
)
from tests.strategies import streams
from tracetypes import ROW_POSITION, Checked, Dataflow, O, U, check, every, interpret, merge, sort
from tracetypes.compiler.graph.passes import Pass, compile_graph, passes
from tracetypes.nodes import Fused, Graph, Node, Restore, Split, steps_of, title
from tracetypes.trace import Element, Trace

NAMES = [one.name for one in passes(parallelism=2, key_groups=3)]
WITHOUT_FIRST = [part for count in range(len(NAMES)) for part in combinations(NAMES[1:], count)]
SUBSETS = [*WITHOUT_FIRST, *[(NAMES[0], *part) for part in WITHOUT_FIRST]]
ORDERS = list(permutations(("drop splitters", "reorder", "restore order")))


def applied(checked: Checked, names: Sequence[str], *, parallelism: int = 2, key_groups: int = 3) -> Checked:
    """The graph after some passes, in this order."""
    known = {one.name: one for one in passes(parallelism=parallelism, key_groups=key_groups)}
    for name in names:
        checked = known[name].run(checked)
    return checked


def meaning(checked: Checked, inputs: dict[str, list[Element]], complete: bool) -> Trace[Element]:
    return interpret(checked, inputs, complete=complete)["out"]


def inputs_of(data: DataObject, checked: Checked) -> dict[str, list[Element]]:
    """A random stream at each source, with the few small values that sources send and the keys that they never share."""
    values: dict[Any, Any] = {int: st.integers(0, 9)}
    made: dict[str, list[Element]] = {}
    for source in checked.graph.sources:
        some = values.get(checked.types[source.id].value)
        made[source.name] = data.draw(streams(checked.streams[source.id], values=some, most_blocks=3))
    return made


def rows_of(case: Case) -> dict[str, list[Element]]:
    _, arranged = case.expected()
    return {name: list(one.items) for name, one in arranged.items()}


@given(cases(), st.sampled_from(SUBSETS))
def test_any_passes_in_their_order_keep_the_meaning(case: Case, names: tuple[str, ...]) -> None:
    checked, inputs = case.checked, rows_of(case)
    after = applied(checked, names, parallelism=case.parallelism, key_groups=case.key_groups)
    assert meaning(after, inputs, case.drain) == meaning(checked, inputs, case.drain)


@pytest.mark.nightly
@settings(max_examples=20_000)
@given(cases(most_sources=4, most_operators=6))
def test_all_passes_keep_the_meaning_of_many_graphs(case: Case) -> None:
    checked, inputs = case.checked, rows_of(case)
    before = meaning(checked, inputs, case.drain)
    for names in SUBSETS:
        after = applied(checked, names, parallelism=case.parallelism, key_groups=case.key_groups)
        assert meaning(after, inputs, case.drain) == before, names


@given(cases())
def test_each_pass_keeps_the_meaning_after_parallelisation(case: Case) -> None:
    checked, inputs = case.checked, rows_of(case)
    before = meaning(checked, inputs, case.drain)
    parallel = applied(checked, NAMES[:1], parallelism=case.parallelism, key_groups=case.key_groups)
    assert meaning(parallel, inputs, case.drain) == before
    for name in NAMES[1:]:
        alone = applied(parallel, [name], parallelism=case.parallelism, key_groups=case.key_groups)
        assert meaning(alone, inputs, case.drain) == before, name


@given(cases(), st.sampled_from(ORDERS))
def test_passes_between_the_first_and_the_last_keep_the_meaning_in_any_order(
    case: Case, order: tuple[str, ...]
) -> None:
    checked, inputs = case.checked, rows_of(case)
    after = applied(checked, ["parallelize", *order, "fuse"], key_groups=case.key_groups)
    assert meaning(after, inputs, case.drain) == meaning(checked, inputs, case.drain)


@given(cases(), st.sampled_from(SUBSETS), st.sampled_from(NAMES))
def test_a_pass_applied_twice_keeps_the_meaning(case: Case, names: tuple[str, ...], name: str) -> None:
    """Also the first, which is not idempotent: it would split what is split already."""
    checked, inputs = case.checked, rows_of(case)
    once = applied(checked, [one for one in names if one != "fuse"], key_groups=case.key_groups)
    if any(isinstance(step, Split) for node in once.graph.nodes for step in steps_of(node)) and name == "parallelize":
        return
    twice = applied(once, [name, name], key_groups=case.key_groups)
    assert meaning(twice, inputs, case.drain) == meaning(checked, inputs, case.drain)


@given(cases(), st.sampled_from(SUBSETS))
def test_every_pass_but_the_first_is_idempotent(case: Case, names: tuple[str, ...]) -> None:
    checked = applied(case.checked, names, key_groups=case.key_groups)
    for name in NAMES[1:]:
        if "fuse" in names and name != "fuse":
            continue
        once = applied(checked, [name])
        assert text(applied(once, [name]).graph) == text(once.graph), name


@given(cases())
def test_passes_give_graphs_in_topological_order_with_types(case: Case) -> None:
    for count in range(len(NAMES)):
        checked = applied(case.checked, NAMES[: count + 1], key_groups=case.key_groups)
        seen: set[int] = set()
        for node in checked.graph.nodes:
            assert set(node.inputs) <= seen
            assert node.id not in seen
            seen |= {step.id for step in steps_of(node)}
            assert all(step.id in checked.types for step in steps_of(node))
        assert len(checked.graph.sinks) == 1
        assert len(checked.graph.sources) == len(case.rows)


def test_every_pass_changes_some_graph() -> None:
    for at, name in enumerate(NAMES):

        def changes(case: Case, at: int = at) -> bool:
            before = applied(case.checked, NAMES[:at])
            return text(before.graph) != text(applied(before, [NAMES[at]]).graph)

        assert find(cases(), changes, settings=settings(phases=(Phase.generate,))), name


def test_all_passes_run_in_order() -> None:
    assert NAMES == ["parallelize", "drop splitters", "reorder", "restore order", "fuse"]
    flow = flow_of(lambda s: s.through(Total()))
    assert text(compile_graph(check(flow), parallelism=2, key_groups=3).graph) == text(
        applied(check(flow), NAMES).graph
    )


def test_a_pass_has_its_equation() -> None:
    for one in passes(parallelism=1, key_groups=1):
        assert isinstance(one, Pass)
        assert "=" in one.equation


# ------------------------------------------------------------------------------------------------ golden texts


def text(graph: Graph) -> str:
    """A graph as one line a node: its name, and what it reads when that is not the node before."""
    lines: list[str] = []
    before: int | None = None
    numbers = {node.id: at for at, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        shown = f"[{title(node)}]" if isinstance(node, Fused) else title(node)
        reads = "" if node.inputs in ((), (before,)) else f" <- {', '.join(str(numbers[i]) for i in node.inputs)}"
        lines.append(shown + reads)
        before = node.id
    return " -> ".join(lines)


EVERY = every(seconds=1, time=own_value)


def source(flow: Dataflow, name: str) -> Any:
    return flow.source(name, U[int, int], markers=EVERY)


def flow_of(build: Callable[[Any], Any], edge: Any = U[int, int], **more: Any) -> Dataflow:
    flow = Dataflow("example")
    flow.sink("out", build(flow.source("s", edge, markers=EVERY, **more)))
    return flow


def after(flow: Dataflow, *names: str) -> str:
    return text(applied(check(flow), names).graph)


def test_parallelize() -> None:
    flow = flow_of(lambda s: s.through(Scale(2)).through(sort(by=modulo_three)).through(RunningSum()))
    assert after(flow) == "source 's' -> Scale -> sort -> RunningSum -> sink 'out'"
    assert after(flow, "parallelize") == (
        "source 's' -> RR(2) -> Scale -> MRG -> HASH(3) -> sort -> MRG -> HASH(3) -> RunningSum -> MRG -> sink 'out'"
    )


def test_drop_splitters() -> None:
    flow = flow_of(lambda s: s.through(sort(by=modulo_three)).through(OrderHash()).through(Scale(2)))
    assert after(flow, "parallelize") == (
        "source 's' -> HASH(3) -> sort -> MRG -> HASH(3) -> OrderHash -> MRG -> RR(2) -> Scale -> MRG -> sink 'out'"
    )
    assert after(flow, "parallelize", "drop splitters") == (
        "source 's' -> HASH(3) -> sort -> OrderHash -> Scale -> MRG -> sink 'out'"
    )


@pytest.mark.parametrize("op", [Total(), Spread(), Scale(2), Announce((1,))], ids=lambda op: type(op).__name__)
def test_a_hash_is_not_dropped_behind_an_operator_that_may_change_keys(op: Any) -> None:
    flow = flow_of(lambda s: s.through(op).through(Total()))
    assert after(flow, "parallelize", "drop splitters").endswith("MRG -> HASH(3) -> Total -> MRG -> sink 'out'")


def test_reorder() -> None:
    flow = flow_of(lambda s: s.through(Scale(2)).through(sort(by=modulo_three)))
    assert after(flow, "parallelize") == "source 's' -> RR(2) -> Scale -> MRG -> HASH(3) -> sort -> MRG -> sink 'out'"
    assert after(flow, "parallelize", "reorder") == (
        "source 's' -> RR(2) -> Scale -> HASH(3) -> MRG -> sort -> MRG -> sink 'out'"
    )


def two(build: Callable[[Any, Any], Any], one: Any = U[int, int], other: Any = U[int, int], **more: Any) -> Dataflow:
    flow = Dataflow("two")
    a = flow.source("a", one, markers=EVERY, **more)
    b = flow.source("b", other, markers=EVERY, **more)
    flow.sink("out", build(a, b))
    return flow


def test_reorder_over_a_merge_of_streams() -> None:
    flow = two(lambda a, b: merge(a, b.through(Scale(2))).through(Total()))
    assert after(flow, "parallelize", "reorder") == (
        "source 'a' -> source 'b' -> RR(2) -> Scale -> HASH(3) <- 0 -> HASH(3) <- 3 -> MRG -> merge <- 4, 6 -> "
        "Total -> MRG -> sink 'out'"
    )


def test_reorder_over_merges_of_merges() -> None:
    flow = Dataflow("three")
    a, b, c = (source(flow, name) for name in "abc")
    flow.sink("out", merge(merge(a, b), c).through(Total()))
    assert after(flow, "parallelize", "reorder") == (
        "source 'a' -> source 'b' -> source 'c' -> HASH(3) <- 0 -> HASH(3) <- 1 -> merge <- 3, 4 -> HASH(3) <- 2 -> "
        "merge <- 5, 6 -> Total -> MRG -> sink 'out'"
    )


@given(st.data())
def test_reorder_hashes_keys_of_the_merged_type(data: DataObject) -> None:
    """The same key comes over an edge of ``Left`` and over one of ``Left | Right``: it must go to one channel."""
    flow = Dataflow("keys")
    a, b, c = (source(flow, name) for name in "abc")
    mixed: Any = merge(a.through(ToLeft(3)), b.through(ToRight(3))).through(Scale(1))
    flow.sink("out", merge(mixed, c.through(ToLeft(3))).through(Total()))
    checked = check(flow)
    inputs = inputs_of(data, checked)
    compiled = applied(checked, ["parallelize", "reorder"], key_groups=5)
    assert meaning(compiled, inputs, True) == meaning(checked, inputs, True)


def test_order_is_restored_behind_an_ordered_source() -> None:
    flow = flow_of(lambda s: s.through(RunningSum()), O[int, int], ordered_by=ROW_POSITION)
    assert after(flow, "parallelize", "restore order") == (
        "source 's' -> HASH(3) -> SORT by position -> RunningSum -> MRG -> sink 'out'"
    )
    assert after(flow, *NAMES) == "[source 's' ; HASH(3)] -> [SORT by position ; RunningSum ; MRG ; sink 'out']"


def test_order_is_restored_behind_a_merge_of_ordered_streams() -> None:
    flow = two(
        lambda a, b: merge(a.through(sort(by=own_value)), b.through(sort(by=own_value))).through(OrderHash()),
        U[Left, int],
        U[Right, int],
    )
    assert restores(flow) == ["OrderHash"]


def test_order_is_restored_between_an_ordered_source_and_the_sink() -> None:
    flow = flow_of(lambda s: s, O[int, int], ordered_by=own_value)
    assert after(flow, *NAMES) == "[source 's' ; SORT by position ; sink 'out']"
    merged = two(lambda a, b: merge(a, b), O[Left, int], O[Right, int], ordered_by=own_value)
    assert restores(merged) == ["sink 'out'"]


@pytest.mark.parametrize(
    "build",
    [
        lambda s: s.through(sort(by=modulo_three)),
        lambda s: s.through(sort(by=modulo_three)).through(RunningSum()),
        lambda s: s.through(RunningSum()).through(sort(by=modulo_three)).through(RunningSum()),
        lambda s: s.through(Total()),
        lambda s: s.through(Scale(2)),
        lambda s: s.through(Wrap()),
        lambda s: s.through(Total()).through(sort(by=modulo_three)).through(OrderHash()).through(Total()),
    ],
)
def test_order_is_not_restored_where_nobody_needs_it(build: Callable[[Any], Any]) -> None:
    flow = flow_of(build, O[int, int], ordered_by=ROW_POSITION)
    first = ["RunningSum"] if "RunningSum -> sort" in after(flow) else []
    assert restores(flow) == first


def restores(flow: Dataflow) -> list[str]:
    """What stands behind each SORT by position in the compiled graph."""
    nodes: list[Node] = [step for node in applied(check(flow), NAMES).graph.nodes for step in steps_of(node)]
    return [title(nodes[at + 1]) for at, node in enumerate(nodes) if isinstance(node, Restore)]


def test_fuse() -> None:
    flow = flow_of(lambda s: s.through(Scale(2)).through(sort(by=modulo_three)).through(OrderHash()))
    assert after(flow, *NAMES) == (
        "[source 's' ; RR(2) ; Scale ; HASH(3)] -> [MRG ; sort ; OrderHash ; MRG ; sink 'out']"
    )


def test_fuse_ends_chains_at_merges_of_streams_and_at_several_consumers() -> None:
    flow = Dataflow("shared")
    shared = source(flow, "s").through(Scale(2))
    flow.sink("one", shared.through(Scale(3)))
    flow.sink("both", merge(shared, source(flow, "t")).through(Scale(5)))
    assert after(flow, "fuse") == (
        "[source 's' ; Scale] -> [Scale ; sink 'one'] -> source 't' -> [merge ; Scale ; sink 'both'] <- 0, 2"
    )


def test_fusing_again_changes_nothing() -> None:
    flow = flow_of(lambda s: s.through(Scale(2)).through(Total()).through(Spread()))
    assert after(flow, *NAMES, "fuse") == after(flow, *NAMES)


def test_passes_leave_the_graph_that_they_are_given_alone() -> None:
    flow = flow_of(lambda s: s.through(Scale(2)).through(sort(by=modulo_three)).through(OrderHash()))
    checked = check(flow)
    before, types = text(checked.graph), dict(checked.types)
    applied(checked, NAMES)
    assert text(checked.graph) == before
    assert checked.types == types
    assert attrs.asdict(checked, recurse=False)["graph"] is checked.graph
