"""A checkpoint read from outside a run: its description, and the states of its stages.

The state of each key group of a stage is one pickled :class:`StageState`, which the backend reads as of the last
committed epoch. A dataflow without stages has its state in the commit record.

Unpickling executes what the bytes name. Read only what a run wrote: in a directory from somebody else a ``graph.json``
proves nothing.
"""

from __future__ import annotations

import base64
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Protocol, TypeAlias

import attrs

from tracetypes.compiler.analysis.pickles import loads
from tracetypes.compiler.plan.fingerprint import Fingerprint, fingerprint
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.runtime.state import StageState
from tracetypes.compiler.store.compatibility import EpochLog, queries_of
from tracetypes.compiler.store.places import Place, place_of
from tracetypes.compiler.store.secret_key import key_of
from tracetypes.compiler.store.small_files import damaged, read_json
from tracetypes.compiler.store.version import look
from tracetypes.errors import RunError, UsageError
from tracetypes.records import show

__all__ = ["Blobs", "CheckpointView", "StageAbout", "StateLog", "open_all", "open_checkpoint", "states"]


class StateLog(EpochLog, Protocol):
    """A backend's record of a query, with the number of its states."""

    @property
    def stores(self) -> int:
        """How many stages have a state."""


@attrs.frozen
class StageAbout:
    """A stage as its checkpoint describes it. ``reads``: the earlier stages that feed it, from the left."""

    number: int
    operators: tuple[str, ...]
    reads: tuple[int, ...]


@attrs.frozen
class CheckpointView:
    """A checkpoint. ``batch``: the last committed micro-batch. ``straight``: whether its state is in the commit record."""

    path: Place
    run: str
    key_groups: int
    stages: tuple[StageAbout, ...]
    batch: int
    straight: bool

    def only(self, number: int | None) -> tuple[StageAbout, ...]:
        """The stage of this number, or all stages."""
        return tuple(stage for stage in self.stages if number is None or stage.number == number)

    def check(self, plan: Plan | None, program: Place) -> None:
        """Check that a plan could go on with the checkpoint (None: there is no plan of that name). ``program``: the
        checkpoint of the whole run. Raises :class:`RunError` ``TT211``."""
        about = read_json(self.path / "graph.json")
        assert about is not None  # it was opened
        known = Fingerprint.of(about["graph"])
        names = {name: PurePath(directory).name for name, directory in (queries_of(program) or {}).items()}
        sends = "sink" not in known.kept
        wrong = (
            known.refused(fingerprint(plan, sends=sends, channels=names, key=key_of(program)))
            if plan is not None
            else ["the dataflow has no query of that name"]
        )
        if wrong:
            raise RunError(
                "TT211",
                f"the checkpoint {self.path} belongs to another graph:\n    {wrong[0]}",
                fix="name the dataflow that was run with this checkpoint",
            )


def open_all(path: str, logs: Callable[[Place], StateLog], number: int | None = None) -> dict[str, CheckpointView]:
    """The checkpoints of the queries of a run by name; the name is empty if there is one query. ``number``: only those
    with such a stage. Raises :class:`UsageError` ``TT408`` like :func:`open_checkpoint`, and if there is no such
    stage. Of several queries, those without any state are left out."""
    root = place_of(path)
    queries = {name: root / directory for name, directory in sorted((queries_of(root) or {}).items())}
    views: dict[str, CheckpointView] = {}
    for name, query in queries.items():
        if logs(query).ended >= 0:
            views[name] = open_checkpoint(str(query), logs)
    views = views or {"": open_checkpoint(str(next(iter(queries.values()), path)), logs)}
    selected = {name: view for name, view in views.items() if view.only(number)}
    if not selected:
        numbers = (f"{name} {stage.number}".strip() for name, view in views.items() for stage in view.stages)
        raise UsageError("TT408", f"{path} has no stage {number}", fix=f"its stages are {', '.join(numbers)}")
    return selected


def open_checkpoint(path: str, logs: Callable[[Place], StateLog]) -> CheckpointView:
    """The description of a checkpoint. Raises :class:`UsageError` ``TT408`` if the directory is not a checkpoint, or
    empty."""
    root = place_of(path)
    look(root)
    try:
        about = read_json(root / "graph.json")
        if about is None:
            raise FileNotFoundError
        run, groups, stages = about["run"], Fingerprint.of(about["graph"]).kept["key groups"], about["stages"]
        if not re.fullmatch(r"\d+", groups) or not re.fullmatch(r"[0-9a-f]{8}", run):
            raise ValueError
        contents = tuple(StageAbout(one["stage"], tuple(one["operators"]), tuple(one["reads"])) for one in stages)
    except FileNotFoundError as error:
        what = "no checkpoint: it has no graph.json" if root.is_dir() else "no directory"
        raise UsageError(
            "TT408", f"{path} is {what}", fix="give the --checkpoint of a run, or OUTPUT/_checkpoint"
        ) from error
    except (RunError, OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise UsageError(
            "TT408",
            f"{path} is no checkpoint of this version: its graph.json is not what we write",
            fix="give the --checkpoint of a run, or OUTPUT/_checkpoint",
        ) from error
    log = logs(root)
    if log.ended < 0:
        raise UsageError("TT408", f"{path} holds no state yet: no micro-batch has ended", fix="run the dataflow first")
    if log.stores and log.stores != len(contents):
        raise UsageError(
            "TT408",
            f"{path} has {len(contents)} stages and {log.stores} state stores",
            fix="give a checkpoint as a run left it",
        )
    return CheckpointView(root, run, int(groups), contents, log.ended, not log.stores)


Blobs: TypeAlias = Callable[[CheckpointView, StageAbout], Iterator[tuple[int, bytes]]]
"""Reads the states of a stage by key group, as bytes."""


def states(blobs: Blobs, view: CheckpointView, stage: StageAbout) -> Iterator[tuple[int, int, StageState]]:
    """Each key group of a stage with the size of its state in bytes, and the state."""
    blobs_of_stage = iter(_recorded(view) if view.straight else blobs(view, stage))
    while True:
        try:
            if (one := next(blobs_of_stage, None)) is None:
                return
            group, blob = one
            state = loads(blob)
        except (ImportError, AttributeError, pickle.UnpicklingError) as error:
            raise UsageError(
                "TT408",
                f"the state of stage {stage.number} cannot be read: {error}",
                fix="name the dataflow that was run, FILE.py:NAME, behind the checkpoint: its classes are needed",
            ) from error
        if not isinstance(state, StageState):
            raise UsageError(
                "TT408",
                f"stage {stage.number} of {view.path} holds {show(state)}, which is no state",
                fix="give a checkpoint as a run of this version left it",
            )
        yield group, len(blob), state


def _recorded(view: CheckpointView) -> Iterator[tuple[int, bytes]]:
    """The state that lies in the commit record."""
    path = view.path / "commits" / f"{view.batch:08d}.json"
    record = read_json(path)
    if record is None:
        raise damaged(path, "it is gone", "the state after the last micro-batch")
    yield 0, base64.b64decode(record["state"])
