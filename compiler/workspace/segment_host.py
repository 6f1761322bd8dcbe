"""The segments of a workspace, as a backend runs them: opened, started, attached to channels, ended and removed by name.

::

    WORKSPACE/segments/3-0     the checkpoint of a segment
    WORKSPACE/channels/3-0     what it sends
    WORKSPACE/aside/3-0        late and rejected rows of its source
"""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import attrs

from tracetypes.compiler.backend.backend import Backend, Opening, OpenInput, Running
from tracetypes.compiler.backend.channel_retention import ChannelRetention
from tracetypes.compiler.backend.control import Bell, Control
from tracetypes.compiler.backend.open_segment import OpenSegment, Reports
from tracetypes.compiler.backend.segment_opener import begin_files
from tracetypes.compiler.backend.summary import Summary, shown_difference
from tracetypes.compiler.backend.supervisor import unexpected
from tracetypes.compiler.connectors.registry import refuse_file_name
from tracetypes.compiler.runtime.messages import Difference
from tracetypes.compiler.store.channel import Kept
from tracetypes.compiler.store.compatibility import claim
from tracetypes.compiler.store.file_channel import FileChannel
from tracetypes.compiler.store.gate_channel import GateChannel
from tracetypes.compiler.store.locks import Locks
from tracetypes.compiler.store.metrics import Batch
from tracetypes.compiler.store.output_interface import Output, SideOutputs
from tracetypes.compiler.store.outputs import open_output
from tracetypes.compiler.store.places import Place
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.compiler.store.sent_blocks import BEGINNING, SentBlocks
from tracetypes.compiler.workspace.launches import Launch
from tracetypes.compiler.workspace.operator_segments import OperatorSegment
from tracetypes.compiler.workspace.restarts import Backoff, RestartingSupervisor, State

__all__ = ["SHORT", "HostedSegment", "SegmentHost"]


SHORT: Final = 0.02
"""Seconds that who waits for a segment waits at a time."""


@attrs.define(eq=False)
class HostedSegment:
    """A segment that shall run. ``is_over``: it does not, and keeps what it has sent. ``running``: its last start, if it has
    started. ``summary``: what it did in this process. ``notes``: what is to be known of it."""

    segment: OperatorSegment
    launch: Launch
    upstream: tuple[str, ...]
    is_over: bool = False
    running: Running | None = None
    summary: Summary = attrs.field(factory=Summary)
    notes: list[str] = attrs.field(factory=list)
    outputs: list[Place] = attrs.field(factory=list)
    """Directories that it has locked."""
    store: RunStore | None = None
    """Of its last start."""
    opened: OpenSegment | Exception | None = None
    """For its first start, if it was opened before: or what that failed of."""
    starts: int = 0


class Ended:
    """A segment that is over before it starts."""

    failure: BaseException | None = None
    metrics: Batch | None = None
    processor_seconds = 0.0

    def drain(self) -> None:
        """Nothing is open."""

    def stop(self) -> None:
        """It does not run."""

    def wait(self, seconds: float | None = None) -> bool:
        """It is over."""
        return True

    def catch_up(self, seconds: float | None = None) -> bool:
        """It has nothing to answer."""
        return True

    def listen(self, bell: Bell) -> None:
        """It is over now."""
        bell.ring()


class SegmentHost:
    """Runs segments by name. ``folder``: of the workspace. ``locks``: of its outputs. Threads share it; its supervisor belongs to
    whoever holds ``lock``."""

    def __init__(self, backend: Backend, folder: Path, locks: Locks, control: Control, backoff: Backoff | None = None) -> None:
        self.backend, self.folder, self.locks, self.control = backend, folder, locks, control
        self.lock = threading.RLock()
        self.mark = ""
        """Behind the names of segments in those of their threads."""
        self.segments: dict[str, HostedSegment] = {}
        """Each behind those that it reads from."""
        self.channels: dict[str, ChannelRetention] = {}
        self._supervisor = RestartingSupervisor(control, backoff)
        self._leaving: set[str] = set()
        """Segments that are to be removed with all that they have written, as soon as they are over."""
        self._opening: set[str] = set()
        """Segments that a thread opens, which does not have the lock meanwhile."""

    # ------------------------------------------------------------------------------------------------- from outside

    def open_channel(self, segment: OperatorSegment) -> None:
        """Open the channel that a segment feeds, if it is not open, before the segment or a reader of it starts."""
        name = segment.name
        if segment.sends and name not in self.channels:
            path = self.folder / "channels" / name
            channel = GateChannel(name, path) if segment.gated else FileChannel(name, path)
            self.channels[name] = ChannelRetention(self.backend.channel_reader(channel))

    def close_channel(self, segment: OperatorSegment) -> None:
        """The segment does not start after all."""
        if self.channels.pop(segment.name, None) is not None:
            shutil.rmtree(self.folder / "channels" / segment.name, ignore_errors=True)

    def channel(self, name: str) -> ChannelRetention:
        """The channel that a segment feeds, whether it runs yet or not."""
        return self.channels[name]

    def ended(self, name: str) -> int:
        """The last epoch that a segment has committed in its checkpoint; -1 for none."""
        path = self.folder / "segments" / name
        return self.backend.log(path).ended if path.is_dir() else -1

    def pin(self, segment: str, channels: Iterable[str], places: Mapping[str, int] | None = None) -> None:
        """Keep what lies in channels from some places on, or all of it, for a segment that is to start."""
        for name in channels:
            self.channel(name).pin(segment, (places or {}).get(name, 0))

    def attach(self, segment: OperatorSegment, channels: Iterable[str], places: Mapping[str, int]) -> None:
        """Keep what a segment needs that has run before: what its log says, or what it was pinned for if it has committed
        nothing."""
        self.pin(segment.name, channels, places)
        log = self.backend.log(self.folder / "segments" / segment.name)
        readings = Counter(leaf.name for leaf in segment.plan.channels)
        for name in channels:
            self.channel(name).join(segment.name, log, readings[name])

    def unpin(self, segment: str, channels: Iterable[str]) -> None:
        """A segment does not start after all."""
        for name in channels:
            self.channel(name).leave(segment)

    def begin(
        self,
        segment: OperatorSegment,
        launch: Launch,
        upstream: Iterable[str],
        *,
        is_over: bool = False,
        later: bool = False,
    ) -> None:
        """Let a segment run. What it reads from is there already, and its channels are pinned for it. ``is_over``: it only keeps
        what it has sent. ``later``: it starts at :meth:`open`."""
        hosted = HostedSegment(segment, launch, tuple(upstream), is_over)
        if not later:
            self.wait_for_outputs(hosted)
        with self.lock:
            self.segments[segment.name] = hosted
            self._supervisor.keep(segment.name, partial(self._start, hosted), hosted.upstream, later=later)

    def open(self, name: str) -> None:
        """Open a segment that begins later, and let it start. Other calls do not wait for that: to plan it and to write its
        first files takes longer than all that is done under the lock."""
        if (hosted := self._to_open(name)) is None:
            return
        try:
            self.wait_for_outputs(hosted)
            hosted.opened = self._opened(hosted)
        except Exception as error:  # its start raises it
            hosted.opened = error
        except BaseException as error:  # such as SystemExit, of an operator
            hosted.opened = unexpected(error)
        with self.lock:
            if name in self._supervisor.states:
                self._opening.discard(name)
                self._supervisor.release(name)
                return
        try:
            if isinstance(hosted.opened, OpenSegment):  # it was removed meanwhile: what is open is closed behind a run
                running = self.backend.start(hosted.opened)
                running.stop()
                running.wait()
        finally:
            with self.lock:
                self._opening.discard(name)
        self.look()

    def _to_open(self, name: str) -> HostedSegment | None:
        """A segment that is opened from now on. While it is paused, it has to write nothing: this waits. None for one that is not
        to be opened any more."""
        while True:
            with self.lock:
                hosted = self.segments.get(name)
                if hosted is None or self._supervisor.states.get(name) is not State.STARTING:
                    return None
                if not self._supervisor.is_held_back(name):
                    self._opening.add(name)
                    return hosted
            self.look(SHORT)

    def wait_for_outputs(self, hosted: HostedSegment) -> None:
        """Wait until no segment that ends writes the outputs of one that is to start."""
        while True:
            with self.lock:
                leaving = [one for name in self._leaving if (one := self.segments.get(name)) is not None]
            if not any(set(_written(one)) & set(_written(hosted)) for one in leaving):
                return
            self.look(SHORT)

    def is_starting(self, name: str) -> bool:
        """Whether a segment begins later, and has not started yet."""
        return self.states().get(name) is State.STARTING

    def end(self, name: str, *, drain: bool = False) -> None:
        """End a segment that nobody reads from, and remove what it has written into the workspace when it is over."""
        with self.lock:
            self._leaving.add(name)
            self._supervisor.remove(name, drain=drain)

    def drain(self, name: str) -> None:
        """Let a segment end behind all open blocks. It stays until :meth:`end`, for those who read from it."""
        with self.lock:
            self._supervisor.drain(name)

    def answered(self, name: str) -> int:
        """The last marker that a segment has answered and committed, in microseconds."""
        store = self.segments[name].store
        if store is None:
            return BEGINNING
        number, _ = store.next
        marker = SentBlocks.of(store.before(number)).marker
        return BEGINNING if marker is None else marker

    def halt(self, name: str) -> None:
        """Stop a segment that nobody reads from, and wait until it is over. It stays until :meth:`end`."""
        hosted = self.segments[name]
        if hosted.running is not None:
            hosted.running.stop()
            hosted.running.wait()
        self.look()

    def look(self, seconds: float = 0.0) -> None:
        """Start what is due, and remove what is over. First wait for news, at most for some seconds; others may look then."""
        if seconds:
            self.control.news.wait(seconds)
        with self.lock:
            self._supervisor.look(0)
            for name in [one for one in self._leaving if one not in self._supervisor.states and one not in self._opening]:
                self._leaving.discard(name)
                self._forget(name)

    def states(self) -> dict[str, State]:
        """What each segment does."""
        with self.lock:
            return self._supervisor.states

    def error(self, name: str) -> BaseException | None:
        """What a segment failed of last, if it is still there."""
        with self.lock:
            return self._supervisor.error(name) if name in self._supervisor.states else None

    def errors(self) -> dict[str, BaseException]:
        """What segments failed of last."""
        with self.lock:
            return self._supervisor.errors

    def raise_failure(self, name: str) -> None:
        """Raises what a segment has failed of, until it runs again."""
        error = self.error(name)
        if error is not None and self.states().get(name) is State.FAILED:
            raise error

    def stop_all(self) -> None:
        """Stop all segments; what they have written stays, but for those that were ended before."""
        with self.lock:
            self._supervisor.stop_all()

    def pause(self, names: Collection[str] | None = None) -> None:
        """Stop segments, all if none are named, and wait until they write nothing more. None starts before :meth:`go_on`."""
        with self.lock:
            self._supervisor.pause(self.segments.keys() if names is None else names)
        while not self._is_paused:
            self.look(SHORT)

    @property
    def _is_paused(self) -> bool:
        with self.lock:
            return self._supervisor.is_paused and not self._opening

    def go_on(self) -> None:
        """Start all segments that were paused, and are still there."""
        with self.lock:
            self._supervisor.go_on()

    @property
    def is_idle(self) -> bool:
        """Whether no segment is there any more."""
        with self.lock:
            return not self._supervisor.states and not self._leaving and not self._opening

    def is_leaving(self, name: str) -> bool:
        """Whether a segment is still to be removed."""
        with self.lock:
            return name in self._leaving

    def catch_up(self, name: str, seconds: float | None) -> bool:
        """Wait until a segment has answered what is there now, or for some seconds. Returns whether it has, or has nothing to
        answer any more. One that has failed, or waits for another one, has not."""
        hosted = self.segments.get(name)
        if hosted is None:
            return True
        state = self.states().get(name)
        if state is State.RUNNING and hosted.running is not None and hosted.running.catch_up(seconds):
            return True
        if state is State.OVER:
            return True
        self.look(SHORT)
        return False

    def kept(self) -> dict[str, Mapping[str, Kept]]:
        """What each channel keeps for its readers, by the segment that sends. It looks at all files of channels, so whoever calls
        it keeps no lock that others need."""
        return {name: kept for name, channel in list(self.channels.items()) if (kept := channel.kept_for())}

    def remove_others(self) -> None:
        """Remove what a kill has left of segments that do not run any more."""
        for folder in ("segments", "channels", "aside"):
            place = self.folder / folder
            for path in place.iterdir() if place.is_dir() else ():
                if path.name not in self.segments:
                    shutil.rmtree(path, ignore_errors=True)

    # -------------------------------------------------------------------------------------------------------- inside

    def _forget(self, name: str) -> None:
        hosted = self.segments.pop(name)
        for channel in hosted.upstream:
            if (retention := self.channels.get(channel)) is not None:  # what it read may be gone already
                retention.leave(name)
                retention.clean()
        for place in hosted.outputs:
            self.locks.release(place)
        self.channels.pop(name, None)
        for folder in ("segments", "channels", "aside"):
            shutil.rmtree(self.folder / folder / name, ignore_errors=True)

    def _start(self, hosted: HostedSegment) -> Running:
        opened, hosted.opened = hosted.opened, None
        if isinstance(opened, Exception):
            raise opened
        hosted.starts += 1
        try:
            hosted.running = self._ended(hosted) if hosted.is_over else self.backend.start(opened or self._opened(hosted))
        except SystemExit as error:  # of an operator: the segment fails, and no other one
            raise unexpected(error) from error
        return hosted.running

    def _ended(self, hosted: HostedSegment) -> Running:
        """A segment that does not run. Readers of its channel find what it has sent."""
        segment = hosted.segment
        path = self.folder / "segments" / segment.name
        self.channel(segment.name).sender = RunStore(claim(path, segment.plan, self.backend.log))
        return Ended()

    def _opened(self, hosted: HostedSegment) -> OpenSegment:
        segment, launch, backend = hosted.segment, hosted.launch, self.backend
        name, plan = segment.name, segment.plan
        checkpoint = claim(self.folder / "segments" / name, plan, backend.log)
        sends = self.channel(name) if segment.sends else None
        output = self._output(hosted, checkpoint.run, sends)
        inputs: dict[str, OpenInput] = {}
        for leaf in plan.sources:
            source = leaf.source.name
            order = launch.orders.get(source, "modified")
            scratch = str(self.folder / "segments" / name / "scratch")
            refuse_file_name(leaf.source, launch.inputs[source])
            inputs[source] = backend.open(Opening(leaf, launch.inputs[source], scratch, None, order, False, 1))
        store = RunStore(checkpoint)
        backend.log(store.path).clean()
        hosted.store = store
        store.begin(output, name)
        store.keep_identities({source: one.identity for source, one in inputs.items()})
        begin_files(backend, plan, store, inputs, appended=False, follows=True)
        if sends is not None:
            sends.sender = store
            sends.complete.clear()
            sends.check()
        receives = {one: self.channel(one) for one in hosted.upstream}
        readings = Counter(leaf.name for leaf in plan.channels)
        for one, retention in receives.items():
            retention.join(name, store.log, readings[one])
        return OpenSegment(
            name=name,
            shown=name + self.mark,
            plan=plan,
            inputs=inputs,
            receives=receives,
            sends=sends,
            store=store,
            reports=Reports(partial(_count, hosted), partial(_note, hosted)),
            drain=True,
            follow=True,
            verify=True,
            leaves=True,
        )

    def _output(self, hosted: HostedSegment, run: str, sends: ChannelRetention | None) -> Output:
        plan, name = hosted.segment.plan, hosted.segment.name
        if sends is not None:
            aside = self.folder / "aside" / name
            target: Output = sends.reader.channel.output(plan, run, SideOutputs(aside / "late", aside / "rejects", run))
            return target
        output = open_output(plan, hosted.launch.outputs[plan.sink.name], run)
        for what, place in output.places.items():
            self.locks.take(place, what)
            if place not in hosted.outputs:
                hosted.outputs.append(place)
        return output


def _written(hosted: HostedSegment) -> list[str]:
    """The address that a segment writes, if it is a sink."""
    sinks = hosted.segment.segment.checked.graph.sinks if not hosted.segment.sends else ()
    return [address for one in sinks if (address := hosted.launch.outputs.get(one.name)) is not None and address != "noop:"]


def _count(hosted: HostedSegment, batch: Batch) -> None:
    hosted.summary.add(batch)


def _note(hosted: HostedSegment, difference: Difference, before: str) -> None:
    hosted.summary.differences.append(difference)
    hosted.notes.append(shown_difference(difference, before))
