"""The micro-batches of a query of Spark's are bags: what comes of them is what the interpreter says."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import HealthCheck, assume, given, settings

from tests.bags import Bags, cut, defined, fits, is_possible
from tests.graphs import Case, cases
from tracetypes.compiler.plan.program import whole_plan
from tracetypes.trace import closed


def agrees(case: Case, *, static: bool) -> None:
    checked, chance = case.checked, random.Random(case.seed)
    layouts = {source.name: checked.layout(source) for source in checked.graph.sources}
    rows = {name: [row for row in case.rows[name] if fits(layout, row)] for name, layout in layouts.items()}
    bags = {name: [some] if static else cut(some, chance) for name, some in rows.items()}
    (sink,) = checked.graph.sinks
    shows = not static and case.seed % 2 == 1
    running = Bags(whole_plan(checked, sink, case.key_groups), chance, static, shows)
    answer = running.run(bags)
    trace, arranged = defined(checked, bags, drain=static)
    assert answer.trace == (trace if static else closed(trace))
    assert running.late == Counter((name, one.block) for name, some in arranged.items() for one in some.late)
    rejects = Counter((name, reason) for name, some in arranged.items() for _, reason in some.rejects)
    assert Counter((source, reason) for source, reason, _ in answer.rejects) == rejects


LOOSE = settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=max(settings().max_examples // 2, 1))


@LOOSE
@given(cases(most_operators=3))
def test_static_bags(case: Case) -> None:
    assume(is_possible(case))
    agrees(case, static=True)


@LOOSE
@given(cases(most_operators=3))
def test_cuts_into_micro_batches(case: Case) -> None:
    assume(is_possible(case))
    agrees(case, static=False)
