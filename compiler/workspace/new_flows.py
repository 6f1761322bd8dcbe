"""What starts for a flow that is submitted: which operators of those that run it takes, and behind which marker it begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import attrs

from tracetypes.compiler.store.metrics import instant
from tracetypes.compiler.store.sent_blocks import BEGINNING
from tracetypes.compiler.workspace.classes import SubmittedFlow, classified
from tracetypes.compiler.workspace.code_conflicts import refuse_other_code
from tracetypes.compiler.workspace.database import Submission
from tracetypes.compiler.workspace.known_flows import KnownFlows
from tracetypes.compiler.workspace.launches import Launch, sources_of_launch
from tracetypes.compiler.workspace.merge import merge
from tracetypes.compiler.workspace.operator_segments import (
    Launched,
    OperatorSegment,
    name_of,
    operator_segment,
)
from tracetypes.compiler.workspace.restarts import State
from tracetypes.compiler.workspace.running import Decision, Instance, Operator
from tracetypes.compiler.workspace.submission import submission
from tracetypes.errors import UsageError

__all__ = ["NEW_READER", "NO_START", "NewFlows", "Start", "Submitted"]

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


NEW_READER: Final = "a flow that is being submitted"
"""Who keeps channels for it, until its own segments do."""

NO_START: Final = BEGINNING - 1
"""A start that no operator has."""


class NewFlows(KnownFlows):
    """Decides what starts for a flow, and writes it. Nothing starts here."""

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
            channel.pin(NEW_READER, 0)
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

    def _sources(self, operators: Mapping[Instance, Operator], decision: Decision) -> dict[str, int]:
        """The segments of the sources of a flow that joins, each with its next epoch: rows from there on concern the flow."""
        (flow,) = decision.joins
        names = [name_of(operators[one]) for one in flow.needs if not operators[one].inputs]
        return {name: self.host.ended(name) + 1 for name in names}


def _flow(submitted: Submitted, launched: Launched) -> SubmittedFlow:
    launch = submitted.launch
    return submission(launch.flow, launch.checked, launch.identities, start=launch.start, copies=launched.cheap)
