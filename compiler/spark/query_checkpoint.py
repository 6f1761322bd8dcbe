"""The checkpoint of a query that :mod:`.transform` is part of. It is Spark's own, without a file of ours.

The state of each key group says which flow has made it (:func:`made_by`). So the flow tells which of its sinks the query answers,
and the states are shown as those of a run.
"""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from tracetypes.check import Checked
from tracetypes.compiler.analysis.pickles import dumps, loads
from tracetypes.compiler.analysis.secret import HIDDEN, Key
from tracetypes.compiler.plan.fingerprint import described, fingerprint
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.program import whole_plan
from tracetypes.compiler.spark.log import SparkLog, operator_numbers
from tracetypes.compiler.spark.session import groups_to_ids
from tracetypes.compiler.store.inspection import Blobs, CheckpointView, StageAbout
from tracetypes.compiler.store.places import Place
from tracetypes.errors import RunError, UsageError

__all__ = ["QueryLog", "made_by", "open_query"]

MEMORY: Final = "frontier of the flow"
"""Names what a checkpoint holds beside states of stages."""


class _Blind(Key):
    """Compares no secrets: there is no place of ours for a key."""

    def hide(self, text: str) -> str:
        """The same for each."""
        return HIDDEN


def made_by(plan: Plan, parts: Mapping[str, str]) -> str:
    """A hash of what a checkpoint depends on: of the plan, and of the columns whose values are parts of sources."""
    kept = {**fingerprint(plan, key=_Blind(b"")).kept, "memory": MEMORY}
    return f"{_hash(kept)}-{_hash(sorted(parts.items()))}"


def _hash(what: object) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:32]


class QueryLog(SparkLog):
    """Spark's log of a query that is not ours: its directory is the whole checkpoint."""

    def __init__(self, checkpoint: Place) -> None:
        super().__init__(checkpoint)
        self.path = checkpoint


def open_query(spark: SparkSession, checkpoint: str, checked: Checked) -> tuple[CheckpointView, Plan, Blobs]:
    """The description of a checkpoint, the plan of the sink that its query answers, and what reads its states. Raises
    :class:`UsageError` ``TT408`` if there is no state, and :class:`RunError` ``TT211`` if another flow has made it."""
    log = QueryLog(Path(checkpoint))
    if log.ended < 0:
        raise UsageError("TT408", f"{checkpoint} holds no state yet: no micro-batch has ended", fix="run the query first")
    if not log.stores:
        raise UsageError(
            "TT408", f"{checkpoint} has no state: its query has no keyed operator", fix="see the sink of the query instead"
        )
    states = list(log.states(spark, 0, log.ended))
    made = _made_by(states[0][1]) if states else ""
    for sink in checked.graph.sinks:
        plan = whole_plan(checked, sink, len(states)) if states else None
        if plan is not None and made_by(plan, {}).partition("-")[0] == made.partition("-")[0]:
            stages = tuple(
                StageAbout(one["stage"], tuple(one["operators"]), tuple(one["reads"])) for one in described(plan)
            )
            view = CheckpointView(Path(checkpoint), f"of sink {sink.name}", plan.key_groups, stages, log.ended, False)
            return view, plan, partial(_states, spark, log)
    raise RunError(
        "TT211",
        f"the checkpoint {checkpoint} belongs to another flow: none of the sinks of {checked.graph.name!r} has made its states",
        fix="name the dataflow that was given to transform",
    )


def _made_by(blob: bytes) -> str:
    content = _loaded(blob)
    return str(content[0])


def _states(spark: SparkSession, log: QueryLog, view: CheckpointView, stage: StageAbout) -> Iterator[tuple[int, bytes]]:
    """The states of a stage by key group."""
    groups = {id: group for group, id in enumerate(groups_to_ids(view.key_groups))}
    for id, blob in log.states(spark, operator_numbers(view.stages)[stage.number], view.batch):
        yield groups[id], dumps(_loaded(blob)[1])


def _loaded(blob: bytes) -> Any:
    """What a key group keeps: who has made it, the state, and how far the sources have come."""
    try:
        content = loads(blob)
    except (ImportError, AttributeError, pickle.UnpicklingError) as error:
        raise UsageError(
            "TT408",
            f"the state of the query cannot be read: {error}",
            fix="name the dataflow that was given to transform: its classes are needed",
        ) from error
    if not (isinstance(content, tuple) and len(content) == 3):
        raise UsageError("TT408", "the state of the query is none of transform", fix="give the checkpoint of such a query")
    return content
