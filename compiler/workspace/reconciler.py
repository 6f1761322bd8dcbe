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
from collections.abc import Mapping
from pathlib import Path

import attrs

from tracetypes.compiler.store.sent_blocks import BEGINNING
from tracetypes.compiler.workspace.code_conflicts import refuse_imported
from tracetypes.compiler.workspace.database import Submission
from tracetypes.compiler.workspace.merge import take_over, unmerge
from tracetypes.compiler.workspace.new_flows import NEW_READER, NewFlows, Submitted
from tracetypes.compiler.workspace.operator_segments import (
    OperatorSegment,
    Reading,
    name_of,
    operator_segment,
)
from tracetypes.compiler.workspace.restarts import State
from tracetypes.compiler.workspace.running import Decision, Operator
from tracetypes.compiler.workspace.segment_host import SHORT
from tracetypes.errors import UsageError

__all__ = ["Reconciler"]

class Reconciler(NewFlows):
    """The flows of a workspace, and the segments that run for them. One thread calls it at a time."""

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
                self._imported.add(one.code)
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
                channel.leave(NEW_READER)
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

    def segments_of(self, name: str) -> list[str]:
        """The names of the segments that a flow needs, each behind those that it reads from."""
        needs = [self.running.operators[one] for one in self.running.flows[name].needs]
        return [name_of(one) for one in needs if name_of(one) in self.host.segments]

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


def _import_from(root: Path) -> None:
    """Import modules from a copy of the code, before those of the same name elsewhere."""
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
