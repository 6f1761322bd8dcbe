"""Flows that are drained while others go on with what they share.

::

    WORKSPACE/draining/ann-7/           a workspace of its own, with this flow alone
    WORKSPACE/draining/ann-7/drain.json    its name, its outputs, and the segments that ran for it alone. Written last

What a flow shares goes on for the others, so its open blocks cannot be closed there. They are closed in a copy: the segments of
the flow stop for a moment, their states and channels are copied, and the flow leaves. In the copy it is alone, and its inputs end
with what its sources have sent. After a kill the copy is drained when the workspace is opened again; a copy of a flow that had
not left yet is removed. One that has failed is shown with its error, and is drained again then, too, unless it is removed.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from tracetypes.compiler.backend.backend import Backend
from tracetypes.compiler.backend.control import Control
from tracetypes.compiler.store.locks import Locks
from tracetypes.compiler.store.small_files import read_json, write_json
from tracetypes.compiler.workspace.database import WorkspaceDatabase
from tracetypes.compiler.workspace.merge import unmerge
from tracetypes.compiler.workspace.reconciler import Reconciler
from tracetypes.compiler.workspace.restarts import State
from tracetypes.compiler.workspace.running import Decision
from tracetypes.compiler.workspace.segment_host import SHORT
from tracetypes.compiler.workspace.source_rows import SourceRows
from tracetypes.errors import RunError

__all__ = ["MARK", "DrainCopies", "DrainCopy", "drained_outputs", "leave_out", "leave_out_newest"]

MARK: Final = " drain"
"""Behind the names of segments of copies in those of their threads: the workspace has segments of the same names."""

_ABOUT: Final = "drain.json"


@attrs.define(eq=False)
class DrainCopies:
    """The copies of a workspace. ``backend``, ``locks`` and ``fuse``: of the workspace; ``name``: of its backend."""

    reconciler: Reconciler
    folder: Path
    backend: Backend
    name: str
    locks: Locks
    fuse: bool
    _copies: list[DrainCopy] = attrs.field(init=False, factory=list)

    def restore(self) -> None:
        """Go on with the copies that a kill has left."""
        for path in sorted(self._place.iterdir()) if self._place.is_dir() else ():
            about = read_json(path / _ABOUT)
            names = {f"{one.launch}-{one.id}" for one in self.reconciler.running.operators.values()}
            if about is None or names & {*about["own"]}:  # the flow is still there
                shutil.rmtree(path, ignore_errors=True)
            else:
                self._drain(about["flow"], path, about["outputs"], imports=True)

    def begin(self, name: str) -> tuple[DrainCopy, Decision]:
        """Copy a flow, let it leave, and drain the copy. Returns the decision too, whose segments are to end first."""
        reconciler, host = self.reconciler, self.reconciler.host
        path = self._place / f"{name}-{reconciler.running.version}"
        outputs = reconciler.database.submissions()[name].plain["outputs"]
        own = [f"{one.launch}-{one.id}" for one in unmerge(reconciler.running, name).stop]
        host.pause(reconciler.segments_of(name))
        try:
            shutil.rmtree(path, ignore_errors=True)
            self._copy(name, path)
            write_json(path / _ABOUT, {"flow": name, "own": own, "outputs": outputs})
            decision = reconciler.remove(name)
        except BaseException as error:
            shutil.rmtree(path, ignore_errors=True)
            if isinstance(error, OSError):
                what = f"the states that flow {name!r} shares cannot be copied: {error}"
                raise RunError("TT209", what, fix="make room on the disk of the workspace; the flow goes on") from error
            raise
        finally:
            host.go_on()
        while any(map(host.is_leaving, own)):
            host.look(SHORT)
        return self._drain(name, path, outputs, imports=False), decision

    def of(self, name: str) -> DrainCopy | None:
        """The copy of a flow that is being drained, or has failed, if there is one."""
        return next((one for one in self.left if one.flow == name), None)

    @property
    def left(self) -> list[DrainCopy]:
        """The copies that are not done."""
        return [one for one in self._copies if one.is_left]

    def stop(self) -> None:
        """Stop all copies. They go on when the workspace is opened again."""
        for one in self._copies:
            one.stop()

    def pause(self) -> list[DrainCopy]:
        """Stop the copies that run, until :meth:`go_on` with those that are returned."""
        paused = [one for one in self._copies if one.thread.is_alive()]
        for one in paused:
            one.is_paused = True
            one.stop()
        return paused

    def go_on(self, paused: Iterable[DrainCopy]) -> None:
        """Drain the copies that were paused, unless they were done before."""
        for one in paused:
            if one.path.is_dir() and one.failure is None:
                self._start(one, imports=False)
            one.is_paused = False

    @property
    def _place(self) -> Path:
        return self.folder / "draining"

    def _copy(self, name: str, path: Path) -> None:
        """A workspace with one flow, of which nothing runs."""
        path.mkdir(parents=True)
        for kind in ("launches", "code"):
            if (self.folder / kind).is_dir():
                shutil.copytree(self.folder / kind, path / kind)
        for segment in self.reconciler.segments_of(name):
            for kind in ("segments", "channels", "aside"):
                if (self.folder / kind / segment).is_dir():
                    shutil.copytree(self.folder / kind / segment, path / kind / segment)
            self.backend.log(path / "segments" / segment).moved(self.folder, path)
        self.reconciler.database.back_up(path / "workspace.db")
        database = WorkspaceDatabase(path / "workspace.db", self.name)
        try:
            running = database.running()
            for other in sorted(running.flows.keys() - {name}):
                decision = unmerge(running, other)
                database.write(decision)
                running.apply(decision)
        finally:
            database.close()

    def _drain(self, name: str, path: Path, outputs: Mapping[str, str], *, imports: bool) -> DrainCopy:
        copy = DrainCopy(name, path, outputs)
        self._start(copy, imports=imports)
        self._copies = [*self.left, copy]
        return copy

    def _start(self, copy: DrainCopy, *, imports: bool) -> None:
        database = WorkspaceDatabase(copy.path / "workspace.db", self.name)
        reconciler = Reconciler(self.backend, copy.path, database, self.locks, Control(), fuse=self.fuse)
        reconciler.host.mark = MARK
        copy.start(reconciler, imports=imports)


@attrs.define(eq=False)
class DrainCopy:
    """A copy that is being drained, in a thread. ``outputs``: of its flow, by sink."""

    flow: str
    path: Path
    outputs: Mapping[str, str]
    reconciler: Reconciler = attrs.field(init=False)
    thread: threading.Thread = attrs.field(init=False)
    failure: BaseException | None = attrs.field(init=False, default=None)
    """What it failed of, if it is over."""
    is_paused: bool = attrs.field(init=False, default=False)
    """Whether it is stopped for a moment."""
    _is_stopped: bool = attrs.field(init=False, default=False)

    def start(self, reconciler: Reconciler, *, imports: bool) -> None:
        """Drain it. ``reconciler``: of the copy; ``imports``: whether its code is to be imported."""
        self.reconciler, self._is_stopped = reconciler, False
        thread = threading.Thread(target=self._body, args=(imports,), name=f"tracetypes drain of {self.flow}", daemon=True)
        thread.start()
        self.thread = thread  # only now: others may join it

    @property
    def is_left(self) -> bool:
        """Whether some blocks are not answered yet."""
        return self.is_paused or self.thread.is_alive() or self.failure is not None

    @property
    def error(self) -> str | None:
        """What it failed of, as text."""
        return None if self.failure is None else str(self.failure)

    def wait(self, seconds: float | None) -> None:
        """Wait until all blocks are answered. Raises what a segment failed of, and :class:`TimeoutError`; the drain goes on
        then."""
        until = None if seconds is None else time.monotonic() + seconds
        self.thread.join(seconds)
        while self.is_paused or self.thread.is_alive():
            if until is not None and time.monotonic() > until:
                raise TimeoutError(f"the drain of {self.flow!r} is not over; it goes on")
            self.thread.join(SHORT)
            time.sleep(SHORT)
        if self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        """Stop, and keep what is there."""
        self._is_stopped = True
        self.reconciler.host.control.news.ring()
        self.thread.join()

    def remove(self) -> None:
        """Stop, and leave open blocks open."""
        self.stop()
        self.failure = None
        shutil.rmtree(self.path, ignore_errors=True)

    def _body(self, imports: bool) -> None:
        host = self.reconciler.host
        try:
            self.reconciler.restore(imports=imports, sources_end=True)
            for segment in self.reconciler.segments_of(self.flow):
                host.drain(segment)
                while not self._is_stopped and host.states().get(segment) is State.RUNNING:
                    host.look(SHORT)
                if self._is_stopped:
                    return
                if host.states().get(segment) is not State.OVER:
                    self.failure = host.error(segment) or RuntimeError(f"segment {segment} did not end")
                    return
            SourceRows(self.reconciler, self.path).deliver(self.flow)
            self._end()
            shutil.rmtree(self.path, ignore_errors=True)
        except BaseException as error:
            self.failure = error
        finally:
            self._end()
            self.reconciler.database.close()

    def _end(self) -> None:
        """Wait until nothing runs, and give its outputs back."""
        host = self.reconciler.host
        host.stop_all()
        while not host.is_idle:
            host.look(SHORT)
        for hosted in host.segments.values():
            for place in hosted.outputs:
                host.locks.release(place)
        host.segments.clear()


def drained_outputs(folder: Path) -> Iterator[Mapping[str, str]]:
    """The outputs of the flows of a workspace that have left and are not drained yet, by sink. ``folder``: of the workspace."""
    for path in sorted(folder.glob(f"draining/*/{_ABOUT}")):
        outputs: Mapping[str, str] = (read_json(path) or {"outputs": {}})["outputs"]
        yield outputs


def leave_out(folder: Path, segments: Collection[str]) -> list[str]:
    """Remove the copies that need some segments, before the workspace is opened. Their open blocks are not answered. Returns the
    names of their flows. ``segments``: with their mark."""
    copies = [path.parent for path in folder.glob(f"draining/*/{_ABOUT}")]
    return [
        _removed(one) for one in copies if any(f"{each.name}{MARK}" in segments for each in (one / "segments").glob("*"))
    ]


def leave_out_newest(folder: Path) -> list[str]:
    """Remove the copy that was made last, if there is one."""
    copies = sorted(folder.glob(f"draining/*/{_ABOUT}"), key=lambda path: path.stat().st_mtime)
    return [_removed(one.parent) for one in copies[-1:]]


def _removed(copy: Path) -> str:
    name: str = (read_json(copy / _ABOUT) or {"flow": ""})["flow"]
    shutil.rmtree(copy)
    return name
