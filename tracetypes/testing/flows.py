"""What ``tracetypes test`` does with a dataflow."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Literal

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tracetypes.check import check
from tracetypes.errors import LawBroken, OperatorFailed, RunError, UsageError
from tracetypes.graph import Apply, Dataflow, Sort
from tracetypes.interpreter import interpret_rows
from tracetypes.records import schema_of
from tracetypes.templates import as_operator
from tracetypes.testing.deployments import check_deployments
from tracetypes.testing.operators import laws
from tracetypes.testing.sorting import sort_law
from tracetypes.testing.strategies import rows_of, search

__all__ = ["answers", "check_flow"]


def check_flow(
    flow: Dataflow,
    *,
    rows: Mapping[str, SearchStrategy[list[Any]]] | None = None,
    max_examples: int = 100,
    say: Callable[[str], None] = print,
    elsewhere: Callable[[], Iterable[str]] | None = None,
) -> int:
    """What ``tracetypes test`` does: the laws of every operator, random deployments, and another process. The exit status.

    ``elsewhere``: gives the lines of :func:`answers` in another process.
    """
    checked = check(flow)
    broken = unknown = 0

    def tell(name: str, test: Callable[[], None]) -> None:
        nonlocal broken, unknown
        found = _told(name, test, say)
        broken, unknown = broken + (found == "BROKEN"), unknown + (found == "unknown")

    for node in checked.graph.nodes:
        if isinstance(node, Sort):
            value = schema_of(checked.types[node.inputs[0]].value)
            tell(f"SORT at {node.where}: order", partial(sort_law, node.by, value, max_examples))
        if not isinstance(node, Apply):
            continue
        edge = checked.types[node.inputs[0]]
        for law in laws(as_operator(node.op), types=(edge.key, edge.value)):
            tell(f"{law}", partial(law.check, max_examples))
    reached = [0]

    def deployments() -> None:
        reached[0] = check_deployments(flow, rows=rows, max_examples=max_examples)

    tell(f"{flow.name}: deployments", deployments)
    if elsewhere is not None:
        lines = elsewhere
        here = partial(answers, flow, rows=rows, max_examples=max_examples)
        tell(f"{flow.name}: another process", lambda: _compare_processes(flow.name, here(), lines()))
    if not broken and not unknown and not reached[0]:
        say("note    no random row reached the sink: give rows that do with --input SOURCE=FILE (or rows= in Python)")
    open_ = f"{unknown} unknown: no example could be judged" if unknown else ""
    say(", ".join(filter(None, [f"{broken} broken" if broken else "", open_])) or "all laws hold")
    return 1 if broken else 0


def answers(
    flow: Dataflow, *, rows: Mapping[str, SearchStrategy[list[Any]]] | None = None, max_examples: int = 50
) -> Iterator[str]:
    """What a flow means for random rows: a line of JSON for each example, with its rows and what is at each sink.

    The lines are the same in every process, unless an operator depends on its process."""
    checked = check(flow)
    chosen = {source.name: rows_of(checked, source, rows) for source in checked.graph.sources}
    found: list[str] = []

    @search(max_examples, shrink=False)
    @given(st.fixed_dictionaries(chosen))
    def take(drawn: dict[str, list[Any]]) -> None:
        try:
            traces, _ = interpret_rows(checked, drawn)
        except (OperatorFailed, RunError) as error:
            sinks = {"": error.code}
        else:
            sinks = {name: repr(trace.normal_form) for name, trace in traces.items()}
        shown = {name: [repr(row) for row in some] for name, some in drawn.items()}
        found.append(json.dumps({"rows": shown, "sinks": sinks}))

    take()
    yield from found


def _compare_processes(flow: str, here: Iterable[str], there: Iterable[str]) -> None:
    """Raises :class:`LawBroken` ``TT313`` for the first example whose answers differ."""
    for mine, theirs in zip(map(json.loads, here), map(json.loads, there), strict=False):
        if mine["rows"] != theirs["rows"]:
            continue
        for sink, one in mine["sinks"].items():
            other = theirs["sinks"].get(sink, "nothing")
            if one != other:
                rows = "; ".join(f"{name}: {', '.join(some)}" for name, some in mine["rows"].items())
                raise LawBroken(
                    "TT313",
                    f"dataflow {flow!r} gives another answer at sink {sink!r} in another process\n"
                    f"    rows:     {rows[:400]}\n    here:     {one[:400]}\n    there:    {other[:400]}",
                    fix="let no operator depend on hash(), id(), os.getpid() or the order of a set; use sorted(...)",
                )


def _told(name: str, test: Callable[[], None], say: Callable[[str], None]) -> Literal["ok", "BROKEN", "unknown"]:
    try:
        test()
    except LawBroken as error:
        say(f"BROKEN  {name}\n{error}")
        return "BROKEN"
    except UsageError as error:
        say(f"unknown {name}: {error}")
        return "unknown"
    say(f"ok      {name}")
    return "ok"
