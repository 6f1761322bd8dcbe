"""What costs less than a channel is computed again by each reader, as long as the whole chain does."""

from __future__ import annotations

from tests.workspace.clicks import Click
from tracetypes import Dataflow, U, check, every
from tracetypes.compiler.tracing.cache_keys import AnalysisCache
from tracetypes.compiler.workspace.cheap_operators import BREAK_EVEN, EMISSION, OPERATION, cheap_operators
from tracetypes.nodes import Apply
from tracetypes.stdlib import filter, map_values, sum, tumbling


def cheap(*operators: object) -> list[bool]:
    """Whether each operator of a chain is cheap."""
    flow = Dataflow("chain")
    stream = flow.source("clicks", U[str, Click], key=lambda c: c.user, markers=every(seconds=60, time=lambda c: c.ts))
    amounts = stream.through(map_values(lambda click: click.amount, to=int))
    for one in operators:
        amounts = amounts.through(one)  # type: ignore[arg-type]
    flow.sink("amounts", amounts)
    checked = check(flow)
    found = cheap_operators(checked, AnalysisCache())
    return [node.id in found for node in checked.graph.nodes if isinstance(node, Apply)][1:]


def first_digit(amount: int) -> int:
    while amount > 9:  # a loop that is not traced
        amount //= 10
    return amount


def more(amount: int) -> int:
    return amount * 2 + 1


def is_positive(key: str, amount: int) -> bool:
    return amount > 0


def test_operators_over_columns_are_cheap_and_others_are_not() -> None:
    chain = (map_values(more), map_values(first_digit), filter(is_positive), tumbling(sum(to=int), size=60))
    assert cheap(*chain) == [True, False, True, False]


def test_a_chain_is_cut_where_it_costs_more_than_a_channel() -> None:
    each = EMISSION + 2 * OPERATION
    count = BREAK_EVEN // each + 3
    first = next(at for at in range(count) if EMISSION + each * (at + 1) >= BREAK_EVEN)
    assert cheap(*[map_values(more)] * count) == [at != first for at in range(count)]
