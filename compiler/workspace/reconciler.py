"""Brings what runs to what shall run.

What shall run is in the database (:mod:`.database`): flows, operators, and the marker behind which each input is read. A decision
is written there before anything of it happens. So whatever was killed, and whenever, :meth:`Reconciler.restore` starts what is
written, where it was, and removes the rest.

::

    submit     pin channels -> choose the marker -> write the launch -> write the decision -> start segments
    take over  stop what writes the old outputs -> write the decision, with the markers where they end -> stop the rest
    remove     (drain the flow's own segments) -> write the decision -> stop segments -> remove their files

A channel is pinned before the marker is chosen, and everything behind the marker lies at the pinned place or later. So what the
new reader needs is there, whoever removes what he has read meanwhile.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

import attrs

from tracetypes.compiler.backend.backend import Backend
from tracetypes.compiler.backend.control import Control
from tracetypes.compiler.store.locks import Locks
from tracetypes.compiler.store.metrics import instant
from tracetypes.compiler.store.sent_blocks import BEGINNING
from tracetypes.compiler.workspace.classes import Class, SubmittedFlow, classified
from tracetypes.compiler.workspace.code_conflicts import refuse_imported, refuse_other_code
from tracetypes.compiler.workspace.code_copies import CodeCopies, CodeCopy
from tracetypes.compiler.workspace.database import Submission, WorkspaceDatabase
from tracetypes.compiler.workspace.launches import Launch, Launches, sources_of_launch
from tracetypes.compiler.workspace.merge import merge, take_over, unmerge
from tracetypes.compiler.workspace.operator_segments import (
    Launched,
    OperatorSegment,
    Reading,
    name_of,
    operator_segment,
    silences_of,
)
from tracetypes.compiler.workspace.restarts import Backoff, State
from tracetypes.compiler.workspace.running import Decision, Instance, Operator, Running
from tracetypes.compiler.workspace.segment_host import SHORT, SegmentHost
from tracetypes.compiler.workspace.submission import submission
from tracetypes.errors import UsageError
from tracetypes.nodes import Node, Sink, title
from tracetypes.silence import Need

__all__ = ["NO_START", "Reconciler", "Start", "Submitted"]

Start: TypeAlias = Literal["now", "earliest"] | int
"""Where a flow begins: behind what has come so far, with what channels still keep, or behind a marker (microseconds)."""


@attrs.frozen(eq=False, kw_only=True)
class Submitted:
    """A dataflow that a user submits. ``exact``: states begin with the flow, and none that runs is taken. ``alone``: nothing is
    shared, and all inputs are read from their beginning. ``max_late``, ``max_rejects``: how many rows may be, before it is
    stopped."""

    launch: Launch
    start: Start = "now"
    exact: bool = False
    alone: bool = False
    max_late: int | float | None = None
    max_rejects: int | None = None


_NEW: Final = "a flow that is being submitted"

NO_START: Final = BEGINNING - 1
"""A start that no operator has."""


class Reconciler:
    """The flows of a workspace, and the segments that run for them. One thread calls it at a time. ``fuse``: of the backend."""

    def __init__(
        self,
        backend: Backend,
        folder: Path,
        database: WorkspaceDatabase,
        locks: Locks,
        control: Control,
        *,
        fuse: bool = True,
        backoff: Backoff | None = None,
    ) -> None:
        self.folder, self.database, self.fuse = folder, database, fuse
        self.launches, self.copies = Launches(folder / "launches"), CodeCopies(folder / "code")
        self.host = SegmentHost(backend, folder, locks, control, backoff)
        self.running = Running()
        self.markers: dict[tuple[int, int, int], int] = {}
        self.changes: dict[str, list[str]] = {}
        """What has another version than at the submit of a flow, by its name."""
        self._launched: dict[int, tuple[Launch, Launched]] = {}
        self._silences: Mapping[Instance, Need] = {}
        """Behind the end of operators, where it is not the one that the flow needs that has started them."""

    # ------------------------------------------------------------------------------------------------------- flows

    def restore(self, *, imports: bool = True, sources_end: bool = False) -> None:
        """Start what shall run, and remove everything else. ``imports``: from the copies of code, which this process has not
        imported yet. ``sources_end``: sources do not run, and readers of their channels find what they have sent: behind it there
        is the silence that the flow needs that is there."""
        self.running, self.markers = self.database.running(), self.database.markers()
        launches = {one.launch for one in self.running.operators.values()}
        self.launches.forget_others(launches)
        for name, one in self.database.submissions().items():
            if one.code and imports:
                copy = self.copies.of(one.code)
                refuse_imported(name, copy)
                _import_from(copy.root)
                self.changes[name] = copy.changes
        for number in sorted(launches):
            self._launched[number] = self._of(self.launches.of(number))
        if sources_end:
            (flow,) = self.running.flows
            self._silences = self._silences_for(flow)
        segments = [self._segment(one) for one in self._in_order(self.running.operators.values())]
        for segment in segments:
            self.host.open_channel(segment)
        for segment in segments:
            launch, _ = self._launched[self.running.operators[segment.root].launch]
            self.host.attach(segment, self._channels(segment), launch.places)
        for segment in segments:
            self._begin(segment, is_over=sources_end and not segment.readings)
        self.host.remove_others()

    def submit(self, submitted: Submitted, *, later: bool = False) -> Decision:
        """Start a flow. Returns the decision that was carried out. ``later``: its segments start when the host opens them. Raises
        :class:`UsageError` ``TT402``, and what a segment fails of at its start; then nothing of the flow is left."""
        name = submitted.launch.flow
        if name in self.running.flows:
            fix = "give another name, or replace or remove that flow"
            raise UsageError("TT402", f"there is a flow {name!r} already", fix=fix)
        try:
            decision, segments = self._decide(submitted)
        finally:
            for channel in list(self.host.channels.values()):
                channel.leave(_NEW)
        for segment in segments:
            self._begin(self._segment(self.running.operators[segment.root]), later=later)
        if later:
            return decision
        states = self.host.states()
        failed = [one.name for one in segments if states.get(one.name) is State.FAILED]
        if failed and (error := self.host.error(failed[0])) is not None:
            self._carry_out(unmerge(self.running, name))
            raise error
        return decision

    def _decide(self, submitted: Submitted) -> tuple[Decision, list[OperatorSegment]]:
        """Decide what starts for a flow, and write it."""
        name, launch = submitted.launch.flow, submitted.launch
        begins: dict[str, tuple[int, int]] = {}
        if submitted.exact:
            launch = attrs.evolve(launch, start=NO_START)
        known, decision = self._planned(submitted, launch)
        behind = self._beginning(submitted.start, decision, begins)
        if submitted.exact:  # the states that it may share are those that begin there
            launch = attrs.evolve(launch, start=None if behind == BEGINNING else behind)
            known, decision = self._planned(submitted, launch)
            self._pin_taps(submitted.start, decision, begins)
            if not self._begin_there(decision, behind):
                flow = _flow(attrs.evolve(submitted, launch=launch), known[1])
                own = {id for one in classified(flow) if one.state_upstream for id in one.ids}
                identities = {id: None if id in own else one for id, one in launch.identities.items()}
                launch = attrs.evolve(launch, identities=identities)
                known, decision = self._planned(submitted, launch)
        places = {name: place for name, (place, _) in begins.items()}
        self._refuse_outputs(decision, launch)
        number = decision.base + 1
        sources = sources_of_launch(launch)
        if sources is not None:
            launch = attrs.evolve(launch, code=self.copies.keep(sources))
            try:
                refuse_other_code(sources.files, self._codes(all_but=launch.code))
            except UsageError:
                self._forget_codes()
                raise
        launch = attrs.evolve(launch, places=places)
        known = launch, known[1]
        operators = self._with(decision)
        segments = [operator_segment(known[1], operators, one, {}) for one in decision.start if self._is_segment(one, known[1])]
        try:
            for segment in segments:
                self.host.open_channel(segment)
            for segment in segments:
                self.host.pin(segment.name, [name_of(operators[tap]) for tap in segment.upstream], places)
            markers = {
                (operators[one.reader].launch, operators[one.reader].id, one.place): behind
                for segment in segments
                for one in segment.readings
            }
            plain = {
                "launch": number,
                "inputs": dict(launch.inputs),
                "outputs": dict(launch.outputs),
                "behind": None if behind == BEGINNING else behind,
                "brings": [self.title(one) for one in decision.brings],
                "aside": self._sources(operators, decision),
                "exact": submitted.exact,
                "alone": submitted.alone,
                "max_late": submitted.max_late,
                "max_rejects": submitted.max_rejects,
            }
            self.launches.keep(number, launch)
            self.database.write(decision, {name: Submission(code=launch.code, plain=plain)}, markers)
        except BaseException:
            for segment in segments:
                self.host.unpin(segment.name, [name_of(operators[tap]) for tap in segment.upstream])
            for segment in segments:
                self.host.close_channel(segment)
            raise
        self.markers |= markers
        self._launched[number] = known
        self.running.apply(decision)
        return decision, segments

    def remove(self, name: str, *, drain: bool = False, seconds: float | None = None) -> Decision:
        """Stop a flow and what runs for it alone. ``drain``: its open blocks are answered first. Raises :class:`UsageError`
        ``TT402`` if there is no such flow, :class:`TimeoutError` if the drain is not over after some seconds, and what a segment
        fails of meanwhile; then the flow stays."""
        self.need(name)
        decision = unmerge(self.running, name)
        if drain:
            self._drain(decision, seconds)
        self._carry_out(decision)
        return decision

    def needs_copy(self, name: str) -> bool:
        """Whether a flow is drained in a copy. It is if it shares operators behind sources: they go on when it leaves, and may
        have open blocks of its. And it is if some of its operators were started by another flow that needs another silence
        behind their end."""
        stops = {one.instance for one in unmerge(self.running, name).stop}
        silences = self._silences_for(name)
        for one in (self.running.operators[each] for each in self.running.flows[name].needs):
            launched = self._launched[one.launch][1]
            if one.instance in stops:
                if launched.silences[launched.classes[one.id]] != silences[one.instance]:
                    return True
            elif one.inputs and self._is_segment(one, launched):
                return True
        return False

    def _silences_for(self, name: str) -> dict[Instance, Need]:
        """The silence that a flow needs behind the end of each of its operators."""
        operators = (self.running.operators[one] for one in self.running.flows[name].needs)
        return silences_of({one.instance: (self._node(one), one.inputs) for one in operators})

    def _node(self, operator: Operator) -> Node:
        return self._launched[operator.launch][1].checked.graph.by_id[operator.id]

    def take_over(self, name: str, successor: str) -> Decision | None:
        """Let one flow, which runs, take the name of another one, which stops: if that one has answered all that the successor
        does not answer. Otherwise nothing happens. Each output of the old one ends at a marker, which is written down."""
        self.need(name)
        self.need(successor)
        submissions = self.database.submissions()
        begins = submissions[successor].plain["behind"]
        sinks = self._sinks_of(name)
        if begins is not None and self.answered(name) < begins:
            return None
        decision = take_over(self.running, name, successor)
        stops = {name_of(one) for one in decision.stop}
        for segment in sinks.values():
            if segment in stops:
                self.host.halt(segment)
        ends = {sink: self.host.answered(segment) for sink, segment in sinks.items()}
        plain = {**submissions[successor].plain, "replaced": {sink: end for sink, end in ends.items() if end != BEGINNING}}
        self._carry_out(decision, {name: attrs.evolve(submissions[successor], plain=plain)})
        return decision

    def answered(self, name: str) -> int:
        """The marker up to which all sinks of a flow have answered."""
        return min((self.host.answered(segment) for segment in self._sinks_of(name).values()), default=BEGINNING)

    def _sinks_of(self, name: str) -> dict[str, str]:
        """The segments that write the outputs of a flow, by sink."""
        operators = [self.running.operators[instance] for _, instance in self.running.flows[name].sinks]
        return {node.name: name_of(one) for one in operators if isinstance(node := self._node(one), Sink)}

    def need(self, name: str) -> None:
        """Raises :class:`UsageError` ``TT402`` if there is no such flow."""
        if name not in self.running.flows:
            there = ", ".join(sorted(self.running.flows)) or "none"
            raise UsageError("TT402", f"there is no flow {name!r}", fix=f"the flows are: {there}")

    def segments_of(self, name: str) -> list[str]:
        """The names of the segments that a flow needs, each behind those that it reads from."""
        needs = [self.running.operators[one] for one in self.running.flows[name].needs]
        return [name_of(one) for one in needs if name_of(one) in self.host.segments]

    def title(self, one: Instance) -> str:
        """An operator for people."""
        return title(self._node(self.running.operators[one]))

    # ------------------------------------------------------------------------------------------------------- decisions

    def _carry_out(self, decision: Decision, submissions: Mapping[str, Submission] | None = None) -> None:
        """Write a decision that starts nothing, and stop what it stops. ``submissions``: of the flows that join."""
        names = [name_of(one) for one in decision.stop]
        self.database.write(decision, submissions)
        self.running.apply(decision)
        for at in [at for at in self.markers if f"{at[0]}-{at[1]}" in names]:
            del self.markers[at]
        for name in names:  # readers first
            if name in self.host.segments:
                self.host.end(name)
        launches = {one.launch for one in self.running.operators.values()}
        for number in [one for one in self._launched if one not in launches]:
            del self._launched[number]
        self.launches.forget_others(launches)
        self._forget_codes()

    def _codes(self, *, all_but: str) -> dict[str, CodeCopy]:
        """The copies of the code of operators that run, each once, by a flow that brought it."""
        flows = {launch.code: launch.flow for launch, _ in self._launched.values() if launch.code}
        return {flow: self.copies.of(code) for code, flow in flows.items() if code != all_but}

    def _forget_codes(self) -> None:
        """Remove the copies of code that nobody runs."""
        self.copies.forget_others({launch.code for launch, _ in self._launched.values() if launch.code})

    def _sources(self, operators: Mapping[Instance, Operator], decision: Decision) -> dict[str, int]:
        """The segments of the sources of a flow that joins, each with its next epoch: rows from there on concern the flow."""
        (flow,) = decision.joins
        names = [name_of(operators[one]) for one in flow.needs if not operators[one].inputs]
        return {name: self.host.ended(name) + 1 for name in names}

    def flows_through(self, root: Instance) -> list[str]:
        """The flows that need an operator."""
        return sorted(flow.name for flow in self.running.flows.values() if root in flow.needs)

    def _merged(self, submitted: Submitted, launched: Launched) -> Decision:
        try:
            return merge(self.running, _flow(submitted, launched))
        except ValueError as error:
            raise UsageError("TT402", str(error), fix="report it, and submit with backfill=True meanwhile") from error

    def _planned(self, submitted: Submitted, launch: Launch) -> tuple[tuple[Launch, Launched], Decision]:
        """A launch with its classes, and what starts for it."""
        known = self._of(launch)
        return known, self._merged(attrs.evolve(submitted, launch=launch), known[1])

    def _pin_taps(self, start: Start, decision: Decision, begins: dict[str, tuple[int, int]]) -> set[str]:
        """Keep the channels that a flow reads of what runs. Returns their names. ``begins``: of each, the place from which on it
        is kept for the flow, and the marker behind which everything lies there or later. Each is found once. All that is there is
        kept until the flow has read it: Spark lists it all, and leaves out what is not behind the marker when it reads it."""
        taps = {name_of(self.running.operators[one.tap]) for one in decision.attach}
        for name in sorted(taps - begins.keys()):
            channel = self.host.channel(name)
            channel.pin(_NEW, 0)
            if channel.sender is None and not self.host.is_starting(name):  # one that starts has sent nothing
                self._refuse_reader(name)
            _, sent = channel.sent
            begins[name] = channel.kept_from, sent.behind if start == "now" else channel.earliest[1]
        return taps

    def _begin_there(self, decision: Decision, behind: int) -> bool:
        """Whether what a flow reuses begins behind a marker, as the flow does, and its channels still have all behind it."""
        reused = {(one.launch, one.id) for one in (self.running.operators[each] for each in decision.reuse)}
        if behind == BEGINNING and any(at[:2] in reused and marker != BEGINNING for at, marker in self.markers.items()):
            return False
        taps = {name_of(self.running.operators[one.tap]) for one in decision.attach}
        return all(self.host.channel(one).earliest[1] <= behind for one in taps)

    def _beginning(self, start: Start, decision: Decision, begins: dict[str, tuple[int, int]]) -> int:
        """The marker behind which a flow begins. ``begins``: as of :meth:`_pin_taps`."""
        taps = self._pin_taps(start, decision, begins)
        behind = max((begins[name][1] for name in taps), default=BEGINNING)
        if isinstance(start, int):
            if start < behind:
                raise UsageError(
                    "TT402",
                    f"what came behind {instant(start)} is gone: channels keep what is behind {instant(behind)}",
                    fix="give a later marker, start='now', or backfill=True to read the inputs again",
                )
            behind = start
        return behind

    def _refuse_reader(self, name: str) -> None:
        """Nobody attaches to a segment that has not started in this process: what it has sent is not known then."""
        states = self.host.states()
        failed = [(one, error) for one in states if states[one] is State.FAILED and (error := self.host.error(one)) is not None]
        error = next((error for _, error in failed), None)
        raise UsageError(
            "TT402",
            f"an operator that the flow would read does not run: {self.title(self.host.segments[name].segment.root)}",
            fix="see show() for what it failed of, and submit again when it runs, or with backfill=True",
        ) from error

    def _refuse_outputs(self, decision: Decision, launch: Launch) -> None:
        """Two flows do not write one output, unless it is the same stream."""
        fresh = {one.instance for one in decision.start}
        (flow,) = decision.joins
        writers: dict[str, str] = {}
        for each in self.running.flows.values():
            for _, instance in each.sinks:
                operator = self.running.operators[instance]
                writer, launched = self._launched[operator.launch]
                writers[writer.outputs[launched.sinks[operator.id]]] = writer.flow
        for id, instance in flow.sinks:
            sink = next(one for one in launch.checked.graph.sinks if one.id == id)
            address = launch.outputs[sink.name]
            if instance in fresh and address in writers and address != "noop:":
                raise UsageError(
                    "TT402",
                    f"the output of sink {sink.name!r}, {address}, is written by flow {writers[address]!r}",
                    fix="give a directory of its own",
                )

    def _drain(self, decision: Decision, seconds: float | None) -> None:
        """Let the segments that only one flow needs end behind their open blocks, one after the other. Raises what one fails of:
        then the flow stays, and may be drained again."""
        until = None if seconds is None else time.monotonic() + seconds
        for operator in reversed(decision.stop):
            name = name_of(operator)
            if name not in self.host.segments:
                continue
            self.host.drain(name)
            while self.host.states().get(name) is State.RUNNING:
                if until is not None and time.monotonic() > until:
                    raise TimeoutError(f"the drain of {self.title(operator.instance)} is not over")
                self.host.look(SHORT)
            if self.host.states().get(name) is not State.OVER and (error := self.host.error(name)) is not None:
                raise error

    # ------------------------------------------------------------------------------------------------------ segments

    def _of(self, launch: Launch) -> tuple[Launch, Launched]:
        """A launch, and its operators with their classes."""
        flow = submission(launch.flow, launch.checked, launch.identities, start=launch.start, copies=launch.cheap)
        classes: dict[int, Class] = {id: one.cls for one in classified(flow) for id in one.ids}
        launched = Launched(
            checked=launch.checked,
            sinks={one.id: one.name for one in launch.checked.graph.sinks},
            classes=classes,
            cheap=launch.cheap,
            parallelism=launch.parallelism,
            key_groups=launch.key_groups,
            fuse=self.fuse,
        )
        return launch, launched

    def _with(self, decision: Decision) -> dict[Instance, Operator]:
        """All operators that run when a decision is carried out."""
        return {**self.running.operators, **{one.instance: one for one in decision.start}}

    @staticmethod
    def _is_segment(operator: Operator, launched: Launched) -> bool:
        return operator.id not in launched.cheap

    def _in_order(self, operators: Iterable[Operator]) -> Iterator[Operator]:
        """Those that are segments, each behind what it reads."""
        passed: set[Instance] = set()
        for flow in self.running.flows.values():
            for instance in flow.needs:
                operator = self.running.operators[instance]
                if instance not in passed and self._is_segment(operator, self._launched[operator.launch][1]):
                    yield operator
                passed.add(instance)

    def _segment(self, operator: Operator) -> OperatorSegment:
        """The segment of an operator that runs, with the markers behind which it reads."""
        _, launched = self._launched[operator.launch]
        operators, silence = self.running.operators, self._silences.get(operator.instance)
        bare = operator_segment(launched, operators, operator, {}, silence)
        behind: dict[Reading, int] = {}
        for one in bare.readings:
            marker = self.markers.get((operators[one.reader].launch, operators[one.reader].id, one.place), BEGINNING)
            if marker != BEGINNING:
                behind[one] = marker
        return operator_segment(launched, operators, operator, behind, silence) if behind else bare

    def _channels(self, segment: OperatorSegment) -> list[str]:
        return [name_of(self.running.operators[tap]) for tap in segment.upstream]

    def _begin(self, segment: OperatorSegment, *, is_over: bool = False, later: bool = False) -> None:
        launch, _ = self._launched[self.running.operators[segment.root].launch]
        self.host.begin(segment, launch, self._channels(segment), is_over=is_over, later=later)


def _flow(submitted: Submitted, launched: Launched) -> SubmittedFlow:
    launch = submitted.launch
    return submission(launch.flow, launch.checked, launch.identities, start=launch.start, copies=launched.cheap)


def _import_from(root: Path) -> None:
    """Import modules from a copy of the code, before those of the same name elsewhere."""
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))

