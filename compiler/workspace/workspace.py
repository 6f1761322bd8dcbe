"""Workspaces in Python: the dataflows of many users, run as the fewest operators.

::

    from tracetypes.workspace import Workspace

    with Workspace("shop.workspace") as workspace:
        workspace.submit("ann", hourly, inputs={"clicks": "clicks/"}, outputs={"counts": "ann/"})
        workspace.submit("bob", daily, inputs={"clicks": "clicks/"}, outputs={"counts": "bob/"})
        workspace.wait()
        print(workspace.show())

What two flows have in common runs once. Flows come and go while others run, and nobody's answer changes. The directory of the
workspace has all that is needed to go on after a kill: opened again, the same flows run on. It is the model of *Collaborative
Reuse of Streaming Dataflows in IoT Applications* (Chaturvedi, Tyagi, Simmhan). docs/workspace.md says how it works.
"""

from __future__ import annotations

import datetime as dt
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal

from tracetypes.calls import need_choice, need_limit, need_whole
from tracetypes.check import Checked
from tracetypes.compiler.backend.control import Control
from tracetypes.compiler.backend.supervisor import unexpected
from tracetypes.compiler.plan.box_places import BoxPlaces
from tracetypes.compiler.store.channel import Kept
from tracetypes.compiler.store.locks import Locks
from tracetypes.compiler.workspace.arguments import (
    addresses_of,
    delete_outputs,
    is_no_output,
    need_name,
    need_space,
    start_of,
)
from tracetypes.compiler.workspace.backups import Backup, make_backup
from tracetypes.compiler.workspace.database import WorkspaceDatabase
from tracetypes.compiler.workspace.drain_copies import DrainCopies, DrainCopy
from tracetypes.compiler.workspace.dry_run import DryRun, dry_run
from tracetypes.compiler.workspace.engines import BACKENDS, engine_named
from tracetypes.compiler.workspace.flow_costs import FlowCosts
from tracetypes.compiler.workspace.flow_limits import FlowLimits
from tracetypes.compiler.workspace.new_flows import Submitted
from tracetypes.compiler.workspace.new_launches import launch_of
from tracetypes.compiler.workspace.reconciler import Reconciler
from tracetypes.compiler.workspace.replacements import Replacements
from tracetypes.compiler.workspace.retention_limits import RetentionLimits
from tracetypes.compiler.workspace.segment_host import SHORT
from tracetypes.compiler.workspace.segment_starts import SegmentStarts
from tracetypes.compiler.workspace.source_rows import SourceRows
from tracetypes.compiler.workspace.views import FlowView, WorkspaceView, bare_view, operators_of, view_of
from tracetypes.errors import UsageError
from tracetypes.graph import Dataflow

__all__ = ["FlowView", "Workspace", "WorkspaceView"]

PAUSE: Final = 0.25
"""Seconds between two looks at the segments, if nothing is heard of them."""

SELDOM: Final = 2.0
"""Seconds between two looks at what channels keep, and at late and rejected rows."""

class Workspace:
    """The flows of a workspace, in this process. Threads may share it; one process has a workspace open at a time.

    ``path``: its directory, which is made if need be. ``backend``: on which everything runs, fixed for good. ``floor``: bytes of
    free space on the disk of the directory below which no flow is taken. ``most_kept``: bytes that a channel keeps for one reader
    at most, and ``longest_kept``: for how long; a flow that does not read on is stopped then (TT232).
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        backend: Literal["local", "spark"] = "local",
        floor: int = 256 << 20,
        most_kept: int = 4 << 30,
        longest_kept: dt.timedelta = dt.timedelta(days=2),
    ) -> None:
        """Open a workspace, or make one; what was submitted runs on. Raises :class:`UsageError` ``TT402`` for another backend,
        :class:`RunError` ``TT221`` if a process has it open, ``TT220`` if a newer version wrote it, ``TT225`` if it is
        damaged."""
        if backend not in BACKENDS:
            raise UsageError("TT402", f"backend is {backend!r}", fix=f"give one of {', '.join(map(repr, BACKENDS))}")
        need_whole("floor", floor + 1)
        need_whole("most_kept", most_kept)
        self.path = Path(os.path.abspath(path))
        self.floor = floor
        self._backend = backend
        self._control = Control()
        self._places = BoxPlaces()
        self._lock = threading.RLock()
        self._is_closed = False
        self._kept: Mapping[str, Mapping[str, Kept]] = {}
        """What channels keep, by segment and reader, as of the last look at their files."""
        self._failure: BaseException | None = None
        """What the thread failed of that looks after the segments."""
        with ExitStack() as stack:
            locks = stack.enter_context(Locks())
            locks.take(self.path, "the workspace")
            database = WorkspaceDatabase(self.path / "workspace.db", backend)
            stack.callback(database.close)
            self._engine = engine = engine_named(backend)
            running = stack.enter_context(engine.started(1 if backend == "local" else os.cpu_count() or 1, print))
            running.prepare(1, locks)
            self._reconciler = Reconciler(running, self.path, database, locks, self._control, fuse=engine.fuses)
            self._rows = SourceRows(self._reconciler, self.path)
            retention = RetentionLimits(most_kept, longest_kept.total_seconds())
            self._limits = FlowLimits(self._reconciler, self.path, self._rows, retention)
            self._stopped = self._limits.stopped
            self._replacements = Replacements(self._reconciler, self._lock)
            self._reconciler.restore()
            self._limits.restore()
            self._costs = FlowCosts(self._reconciler)
            self._drains = DrainCopies(self._reconciler, self.path, running, backend, locks, engine.fuses)
            self._drains.restore()
            self.starts = SegmentStarts(self._reconciler.host)
            """Of flows that were submitted without a wait."""
            self._thread = threading.Thread(target=self._tend, name="tracetypes workspace", daemon=True)
            self._thread.start()
            self._stack = stack.pop_all()

    def __repr__(self) -> str:
        return f"Workspace({str(self.path)!r})"

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def submit(
        self,
        name: str,
        flow: Dataflow | Checked,
        inputs: Mapping[str, str | os.PathLike[str]],
        outputs: Mapping[str, str | os.PathLike[str]],
        *,
        start: Literal["now", "earliest"] | dt.datetime = "now",
        share: Literal["states", "exact"] = "states",
        backfill: bool = False,
        order: Mapping[str, Literal["name", "modified", "time"]] | None = None,
        parallelism: int = 1,
        key_groups: int | None = None,
        max_late: int | float | None = None,
        max_rejects: int | None = None,
        wait: bool = True,
    ) -> FlowView:
        """Start a flow. It runs until it is removed.

        ``inputs`` and ``outputs``: addresses by source and sink, as for :func:`tracetypes.run`; lists are refused, because the
        flow outlives the process. ``start``: where it begins, if some of its sources are read already: ``"now"``, at the first
        marker behind every block that has had an item; ``"earliest"``, with what the channels still keep; or behind a marker. A
        source that nobody reads yet is read from its beginning. ``share``: ``"states"`` takes operators that run with what they
        have seen; ``"exact"`` starts operators that keep a state anew, so that nothing from before the beginning is in the
        answers. ``backfill``: share nothing and read all inputs from their beginning, so that the flow answers as if it had
        always run. ``parallelism`` and ``key_groups``: of what starts; what runs keeps its own. ``max_late`` and ``max_rejects``:
        stop this flow, and no other one, after more late or rejected rows of its sources than this (``TT217``); a float is that
        part of all rows. Rows count from the submit on, and anew when the workspace is opened again. ``wait``: until its segments
        have started. Without, the call returns as soon as the flow is written down: it starts then, whatever happens, and is
        ``"starting"`` until it has; what a segment fails of at its start is in :meth:`show`.

        Raises :class:`CheckFailed`; :class:`UsageError` ``TT402`` for a name that is taken, an output that another flow writes,
        or a beginning that is gone; and what a segment fails of at its start. Then nothing of the flow is left.
        """
        need_name(name)
        if share not in ("states", "exact"):
            raise UsageError("TT402", f"share is {share!r}", fix="give 'states' or 'exact'")
        need_choice("backfill", backfill)
        need_choice("wait", wait)
        need_limit("max_late", max_late, part=True)
        need_limit("max_rejects", max_rejects)
        launch = launch_of(
            name,
            flow,
            inputs,
            outputs,
            order=order or {},
            parallelism=parallelism,
            key_groups=key_groups,
            alone=backfill,
            engine=self._engine,
            path=self.path,
        )
        begins = start_of(start)
        with self._lock:
            self._need_open()
            need_space(self.path, self.floor)
            if self._drains.of(name) is not None:
                raise UsageError("TT402", f"flow {name!r} is being drained", fix="wait for it, or give another name")
            self._costs.look()
            before = self._rows.by_source()
            submitted = Submitted(
                launch=launch, start=begins, exact=share == "exact", alone=backfill, max_late=max_late, max_rejects=max_rejects
            )
            decision = self._reconciler.submit(submitted, later=not wait)
            if not wait:
                self.starts.add(name, [f"{one.launch}-{one.id}" for one in decision.start])
            self._rows.submitted(name, before)
            self._stopped.forget(name)
            return view_of(name, self._reconciler, self._rows, self._costs)

    def dry_run(
        self,
        name: str,
        flow: Dataflow | Checked,
        inputs: Mapping[str, str | os.PathLike[str]],
        outputs: Mapping[str, str | os.PathLike[str]],
        *,
        share: Literal["states", "exact"] = "states",
        backfill: bool = False,
        is_visible: Callable[[str], bool] = lambda flow: True,
    ) -> DryRun:
        """What :meth:`submit` would start and share if some flows were all that run. ``is_visible``: which of them, by their
        names. Raises the errors of :meth:`submit` that come before anything starts."""
        need_name(name)
        launch = launch_of(
            name,
            flow,
            inputs,
            outputs,
            order={},
            parallelism=1,
            key_groups=None,
            alone=backfill,
            engine=self._engine,
            path=self.path,
        )
        with self._lock:
            self._need_open()
            return dry_run(self._reconciler.running, launch, exact=share == "exact", is_visible=is_visible)

    def remove(
        self, name: str, *, drain: bool = False, purge: bool = False, seconds: float | None = None, wait: bool = True
    ) -> None:
        """Stop a flow, and what runs for it alone. Its outputs stay. ``drain``: what is in its inputs is answered first, and its
        open blocks are, as if its inputs ended here. What it shares goes on for the others; a copy of it answers for this flow.
        ``purge``: its output directories are deleted. ``seconds``: for the drain. ``wait``: until its segments are over; without,
        the call returns as soon as it is written down that they end, unless it drains or purges. Raises :class:`UsageError`
        ``TT402`` if there is no such flow, and :class:`TimeoutError`."""
        with self._lock:
            self._need_open()
            if name in self._stopped.outputs:
                outputs = self._stopped.forget(name)
                if purge:
                    delete_outputs(outputs.values())
                return
            leaving = self._drains.of(name)
            if leaving is not None and not drain:
                leaving.remove()
        if leaving is not None:
            if drain:
                leaving.wait(seconds)
            if purge:
                delete_outputs(leaving.outputs.values())
            return
        if drain:
            self.wait(name, seconds)
        with self._lock:
            self._need_open()
            self._reconciler.need(name)
            self._costs.look()
            self._rows.deliver(name)
            outputs = self._reconciler.database.submission(name).plain["outputs"]
            copy: DrainCopy | None = None
            if drain and self._reconciler.needs_copy(name):
                copy, decision = self._drains.begin(name)
            else:
                decision = self._reconciler.remove(name, drain=drain, seconds=seconds)
            names = [f"{one.launch}-{one.id}" for one in decision.stop]
        if wait or drain or purge:
            self._until_gone(names)
        if copy is not None:
            copy.wait(seconds)
        if purge:
            with self._lock:
                others = self._reconciler.database.submissions().values()
            delete_outputs(outputs.values(), but={path for one in others for path in one.plain["outputs"].values()})

    def replace(
        self,
        name: str,
        flow: Dataflow | Checked,
        inputs: Mapping[str, str | os.PathLike[str]],
        outputs: Mapping[str, str | os.PathLike[str]],
        *,
        seconds: float | None = None,
        **options: Any,
    ) -> FlowView:
        """Let another flow take the place of one that runs, at a marker. It starts beside it, with outputs of its own, and takes
        over when it has answered what was there at the call, and the old one has answered all blocks up to where the new one
        begins: rows have to come that close them. The old one stops then. ``FlowView.replaced`` has the marker where each of its
        outputs ends: what lies behind it is in the outputs of the new one. ``options``: of :meth:`submit`. ``seconds``: to wait
        for that at most. If it takes longer (:class:`TimeoutError`) or fails, the old flow runs on as if nothing had happened,
        and the new one is removed with the outputs that it has made. After a kill both flows run, if the new one had not taken
        over."""
        until = None if seconds is None else time.monotonic() + seconds
        with self._lock:
            self._need_open()
            self._reconciler.need(name)
            successor = f"{name}.{self._reconciler.running.version + 1}"
        fresh = [one for one in addresses_of("sink", outputs).values() if is_no_output(one)]
        self.submit(successor, flow, inputs, outputs, **options)
        try:
            with self._replacements.begun(name, successor):
                self.wait(successor, seconds)
                decision = self._replacements.take_over(name, successor, until)
        except BaseException:
            self.remove(successor)
            with self._lock:
                others = self._reconciler.database.submissions().values()
            delete_outputs(fresh, but={path for one in others for path in one.plain["outputs"].values()})
            raise
        self._until_gone([f"{one.launch}-{one.id}" for one in decision.stop])
        return self.show(channels=False)[name]

    def wait(self, name: str | None = None, seconds: float | None = None) -> None:
        """Wait until a flow, or all of them, have answered and written what was in the inputs at the call. Raises the error of a
        segment that fails meanwhile, and :class:`TimeoutError` after this many seconds."""
        until = None if seconds is None else time.monotonic() + seconds
        with self._lock:
            self._need_open()
            if name in self._stopped.outputs:
                raise self._stopped.error(name)
            drains = [one for one in self._drains.left if name in (None, one.flow)]
            if name is not None and not drains:
                self._reconciler.need(name)
            names = [one for one in self._reconciler.running.flows if name in (None, one)]
            segments = list(dict.fromkeys(one for each in names for one in self._reconciler.segments_of(each)))
        for segment in segments:
            while True:
                self._reconciler.host.raise_failure(segment)
                left = 0.5 if until is None else min(0.5, until - time.monotonic())
                if left <= 0:
                    raise TimeoutError(f"segment {segment} has not answered what was there {seconds} seconds ago")
                if self._reconciler.host.catch_up(segment, left):
                    self._reconciler.host.raise_failure(segment)
                    break
        with self._lock:
            for each in names:
                if each in self._reconciler.running.flows:
                    self._limits.look_at_rows(each)
            if name in self._stopped.outputs:
                raise self._stopped.error(name)
        for copy in drains:
            copy.wait(None if until is None else max(0.0, until - time.monotonic()))

    def show(self, *, channels: bool = True) -> WorkspaceView:
        """What runs, as of now. ``channels``: look at all files of channels for what these keep. Without, it is as of the last
        look, some seconds ago."""
        reconciler = self._reconciler
        if channels:
            self._kept = reconciler.host.kept()
        kept = {name: {reader: one.size for reader, one in by.items()} for name, by in self._kept.items()}
        with self._lock:
            self._need_open()
            self._costs.look()
            views = (view_of(name, reconciler, self._rows, self._costs) for name in sorted(reconciler.running.flows))
            flows = tuple(map(self._replacements.noted, views))
            flows += tuple(bare_view(one.flow, "draining", one.error) for one in self._drains.left)
            flows += tuple(bare_view(name, "stopped", str(self._stopped.error(name))) for name in sorted(self._stopped.outputs))
            return WorkspaceView(
                flows=flows,
                operators=len(reconciler.running.operators),
                submitted=sum(one.operators for one in flows),
                segments={name: state.value for name, state in reconciler.host.states().items()},
                graph=operators_of(reconciler, self._costs, kept),
                seconds=self._costs.total,
                left=self._costs.left,
                places=self._places,
                kept=kept,
            )

    def backup(self, target: str | os.PathLike[str]) -> None:
        """Write a backup of the workspace and of its output directories. Segments stop meanwhile, and go on. ``target``: a
        directory that is not there yet; on the disk of the outputs it shares their files. Topics and tables are not in it.
        Raises :class:`UsageError` ``TT402`` if it is there, and :class:`RunError` ``TT209`` if it cannot be written."""
        with self._lock:
            self._need_open()
            host = self._reconciler.host
            host.pause()
            paused = self._drains.pause()
            try:
                make_backup(self.path, self._reconciler.database, Path(os.path.abspath(target)), self._backend)
            finally:
                self._drains.go_on(paused)
                host.go_on()

    @staticmethod
    def restore(backup: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
        """Put a workspace that was backed up at a path, and its outputs where they were. Opened there, its flows go on from the
        backup. Raises :class:`UsageError` ``TT402`` if something is there already."""
        Backup.of(Path(os.path.abspath(backup))).restore(Path(os.path.abspath(path)), engine_named)

    @property
    def submitted_operators(self) -> int:
        """How many operators the flows have, each counted for itself."""
        with self._lock:
            return sum(len(one.needs) for one in self._reconciler.running.flows.values())

    def close(self) -> None:
        """Stop all segments. The flows stay submitted, and run on when the workspace is opened again."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._reconciler.host.stop_all()
            self._drains.stop()
        while not self._reconciler.host.is_idle:
            self._reconciler.host.look(SHORT)
        self.starts.close()
        self._control.news.ring()
        self._thread.join()
        self._stack.close()

    # -------------------------------------------------------------------------------------------------------- inside

    def _tend(self) -> None:
        """Start again what has failed, remove what is over, and stop flows that do not read on."""
        looked = time.monotonic()
        try:
            while not self._is_closed:
                self._reconciler.host.look(PAUSE)
                if time.monotonic() >= looked + SELDOM:
                    looked = time.monotonic()
                    self._kept = self._reconciler.host.kept()
                    with self._lock:
                        if not self._is_closed:
                            self._costs.look()
                            self._limits.look(self._kept)
        except BaseException as error:
            self._failure = error  # the next call raises it

    def _until_gone(self, names: list[str]) -> None:
        """Wait until segments are over and their files removed."""
        host = self._reconciler.host
        while any(map(host.is_leaving, names)):
            host.look(SHORT)

    def _need_open(self) -> None:
        if self._is_closed:
            raise UsageError("TT402", f"the workspace {self.path} is closed", fix="open it again")
        if self._failure is not None:
            raise unexpected(self._failure)
