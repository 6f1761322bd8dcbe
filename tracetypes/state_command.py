"""``tracetypes state CHECKPOINT``: what a run keeps as state, or a query that ``transform`` is part of."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tracetypes.check import check
from tracetypes.errors import UsageError
from tracetypes.targets import load

from .compiler.backend.compilation import extras
from .running import engine_of_checkpoint

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from .compiler.plan.plan import Plan
    from .compiler.store.inspection import Blobs, CheckpointView

__all__ = ["show_state"]

KEY_STATES: Final = 10
"""States and open blocks of a key that a screen has room for."""


def show_state(arguments: argparse.Namespace) -> int:
    """The command. ``arguments``: those of the command line."""
    checkpoint = Path(arguments.checkpoint)
    if (checkpoint / "offsets").is_dir() and not (checkpoint / "graph.json").exists():
        return _of_query(arguments)
    with extras():
        from .compiler.plan.program import program
        from .compiler.store.inspection import open_all

    engine = engine_of_checkpoint(arguments.checkpoint)
    queries = open_all(arguments.checkpoint, engine.log, arguments.stage)
    plans: dict[str, Plan] = {}
    if arguments.target is not None:
        groups = next(iter(queries.values())).key_groups
        compiled = program(check(load(arguments.target)), key_groups=groups)
        plans = dict(compiled.named) if len(compiled.plans) > 1 else {"": compiled.plans[0]}
        for name, view in queries.items():
            view.check(plans.get(name), checkpoint)
    _show(arguments, queries, plans, engine.states())
    return 0


def _of_query(arguments: argparse.Namespace) -> int:
    """Of a query of Spark."""
    if arguments.target is None:
        raise UsageError(
            "TT408",
            f"{arguments.checkpoint} is the checkpoint of a query of Spark",
            fix="name the dataflow that was given to transform, FILE.py:NAME, behind the checkpoint",
        )
    with extras():
        from .compiler.spark.query_checkpoint import open_query
        from .compiler.spark.session import session

    checked = check(load(arguments.target))
    view, plan, blobs = open_query(session(parallelism=1), arguments.checkpoint, checked)
    if not view.only(arguments.stage):
        numbers = ", ".join(str(stage.number) for stage in view.stages)
        fix = f"its stages are {numbers}"
        raise UsageError("TT408", f"{arguments.checkpoint} has no stage {arguments.stage}", fix=fix)
    _show(arguments, {"": view}, {"": plan}, blobs)
    return 0


def _show(
    arguments: argparse.Namespace, queries: Mapping[str, CheckpointView], plans: Mapping[str, Plan], blobs: Blobs
) -> None:
    from .compiler.store.key_state import find_key
    from .compiler.store.state_sizes import sizes
    from .compiler.store.state_summary import summaries

    limit = arguments.limit or 10

    def rendered(name: str, plain: dict[str, Any], text: str) -> str:
        return json.dumps(({"query": name} if name else {}) | plain, ensure_ascii=False) if arguments.json else text

    def query(name: str) -> str:
        return f"query {name}, " if name else ""

    if arguments.key is not None:
        states = find_key(blobs, queries, arguments.key, arguments.stage, plans)
        most = arguments.limit or (None if arguments.json else KEY_STATES)
        for name, one in itertools.islice(states, most):
            print(rendered(name, one.plain, query(name) + one.line))
        if not arguments.json and next(states, None) is not None:
            print("there is more: --limit N shows more of it, --json all of it, whole")
        return
    for name, view in queries.items():
        if not arguments.json:
            print(f"{query(name)}run {view.run}, after micro-batch {view.batch}")
        if arguments.sizes:
            for large in sizes(blobs, view, arguments.stage, keys=limit):
                print(rendered(name, large.plain, "\n".join(large.lines)))
            continue
        for stage in summaries(blobs, view, arguments.stage, keys=limit):
            print(rendered(name, stage.plain, "\n".join(stage.lines(limit))))
