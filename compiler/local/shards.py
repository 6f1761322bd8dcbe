"""Shards: key groups whose states lie together in this process, so that a stage runs once for all of them.

What a stage does for a batch costs some microseconds for each of its states, however few rows there are. So one thread has
one shard of all key groups, and several threads have two each. They have fewer where it is known how many keys can come, all
stages run over columns, and shards would have few of these keys: with two threads and 100 keys, query IV of Yahoo takes 0.96 of
the time with one shard instead of four, and V 0.93. The key groups of a plan stay what they are: a checkpoint tells them apart
when somebody looks at them, and another number of threads puts them into other shards.
"""

from __future__ import annotations

from functools import partial

import attrs

from tracetypes.compiler.analysis.keyed import Keyed
from tracetypes.compiler.analysis.pickles import dumps
from tracetypes.compiler.analysis.traced import Opaque
from tracetypes.compiler.local.log import LocalLog, ShardId, Shards
from tracetypes.compiler.local.states import StateParts, state_of
from tracetypes.compiler.plan.facts import column_monoid, emits_at_markers
from tracetypes.compiler.plan.key_bound import most_keys
from tracetypes.compiler.plan.plan import Plan, Region, Stage, StatelessStep
from tracetypes.compiler.runtime import limits
from tracetypes.compiler.runtime.regroup import regrouped
from tracetypes.compiler.runtime.state import StageState

__all__ = ["adopt_shards", "in_shards", "shards_of"]

OF_THREAD = 2
"""Shards of each of several threads: where one has more to do than the others, these take the rest."""


def shards_of(plan: Plan, tasks: int) -> int:
    """How many shards a plan has here for so many tasks: a divisor of its number of key groups, so that a key group lies in one
    shard. Several shards have about as many keys as are worth running over columns, or more."""
    least = tasks * OF_THREAD if tasks > 1 else 1
    divisors = [number for number in range(1, plan.key_groups + 1) if not plan.key_groups % number]
    enough = next(number for number in divisors if number >= min(least, plan.key_groups))
    keys = _known_keys(plan)
    return enough if keys is None else min(enough, max(number for number in divisors if number <= max(1, keys // limits.MANY)))


def _known_keys(plan: Plan) -> int | None:
    """The most keys that can come to a stage, if it is known of each stage and all run over columns; else None."""
    if not all(map(_is_in_columns, plan.stages)) or not _is_traced(plan.region):
        return None
    some = [most_keys(stage) for stage in plan.stages]
    return None if None in some else max([one for one in some if one is not None], default=None)


def _is_in_columns(stage: Stage) -> bool:
    return (
        column_monoid(stage) is not None
        and _is_traced(stage.region)
        and not emits_at_markers(stage.region)
        and len(stage.steps) == 1
        and isinstance(stage.steps[0].keyed, Keyed)
    )


def _is_traced(region: Region) -> bool:
    return not any(isinstance(node, StatelessStep) and isinstance(node.traced, Opaque) for node in region.nodes)


def in_shards(plan: Plan, number: int) -> Plan:
    """The plan with a key group for each of so many shards."""
    return attrs.evolve(plan, key_groups=number)


def adopt_shards(log: LocalLog, plan: Plan, number: int) -> None:
    """Let the log have so many shards of a plan. States that it has in other shards, or in none, are written again."""
    before = log.written_shards()
    log.shards = {stage.number: Shards(number, dumps(stage.takes.key)) for stage in plan.stages}
    numbers = {stage.number: before[stage.number].number if stage.number in before else plan.key_groups for stage in plan.stages}
    if not log.stores or all(one == number for one in numbers.values()):
        return
    states: dict[ShardId, StateParts] = {}
    owners: list[StageState] = []
    for stage in plan.stages:
        some = [state_of(parts, partial(log.sections.of, *at)) for at, parts in log.states(stage.number)]
        for shard, state in enumerate(regrouped(stage, some, number)):
            owners.append(state)  # its parts are views into it
            states[stage.number, shard] = StateParts.of(state)
    log.replace(states)
