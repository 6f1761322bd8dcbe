"""Shards: key groups whose states lie together in this process, so that a stage runs once for all of them.

What a stage does for a batch costs some microseconds for each of its states, however few rows there are. So one thread has
one shard of all key groups, and several threads have two each. The key groups of a plan stay what they are: a checkpoint tells
them apart when somebody looks at them, and another number of threads puts them into other shards.
"""

from __future__ import annotations

import attrs

from tracetypes.compiler.analysis.pickles import dumps
from tracetypes.compiler.local.log import LocalLog, ShardId, Shards
from tracetypes.compiler.local.states import StateParts, state_of
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.regroup import regrouped
from tracetypes.compiler.runtime.state import StageState

__all__ = ["adopt_shards", "in_shards"]

OF_THREAD = 2
"""Shards of each of several threads: where one has more to do than the others, these take the rest."""


def shards_of(plan: Plan, tasks: int) -> int:
    """How many shards a plan has here for so many tasks: a divisor of its number of key groups, so that a key group lies in one
    shard."""
    least = tasks * OF_THREAD if tasks > 1 else 1
    return next(number for number in range(min(least, plan.key_groups), plan.key_groups + 1) if not plan.key_groups % number)


def in_shards(plan: Plan, tasks: int) -> Plan:
    """The plan with a key group for each of its shards."""
    return attrs.evolve(plan, key_groups=shards_of(plan, tasks))


def adopt_shards(log: LocalLog, plan: Plan, tasks: int) -> None:
    """Let the log have the shards of a plan. States that it has in other shards, or in none, are written again."""
    number, before = shards_of(plan, tasks), log.written_shards()
    log.shards = {stage.number: Shards(number, dumps(stage.takes.key)) for stage in plan.stages}
    numbers = {stage.number: before[stage.number].number if stage.number in before else plan.key_groups for stage in plan.stages}
    if not log.stores or all(one == number for one in numbers.values()):
        return
    states: dict[ShardId, StateParts] = {}
    owners: list[StageState] = []
    for stage in plan.stages:
        some = [state_of(parts) for _, parts in log.states(stage.number)]
        for shard, state in enumerate(regrouped(stage, some, number)):
            owners.append(state)  # its parts are views into it
            states[stage.number, shard] = StateParts.of(state)
    log.replace(states)
