"""What a flow starts when it comes, and stops when it goes: functions of the state and the flow, which change nothing.

::

    submitted            running             decision
    S > p > w > K2       S > p > K1          start w, K2; reuse S, p; attach w to p
                         S > p > w > K2
    remove K1's flow                         stop K1

To merge is to look each class up. To unmerge is to count: an operator stops when no flow has it in the ancestor graph of a
sink. Both take time in proportion to the flow, however much runs. :mod:`tracetypes.compiler.workspace.merge_definition` is what
they mean.

A stream that costs less to compute again than to read from a channel is computed again: its operator is started as a copy beside
the one that runs, and so are those above it up to the first that is not cheap, which is read through its channel. Copies are the
only operators that do what another one does.
"""

from __future__ import annotations

import attrs

from tracetypes.compiler.workspace.classes import Class, ClassifiedOperator, SubmittedFlow, classified, is_unshared
from tracetypes.compiler.workspace.running import Attachment, Decision, Flow, Instance, Operator, Running, ancestors

__all__ = ["merge", "take_over", "unmerge"]


def merge(running: Running, submitted: SubmittedFlow) -> Decision:
    """What a submitted flow starts, reuses and attaches. Raises ``ValueError`` if a flow has the name already, if the flow has
    no sink, or if its identities contradict those that run."""
    if submitted.name in running.flows:
        raise ValueError(f"a flow with the name {submitted.name} runs already")
    wanted = {one.cls: one for one in classified(submitted)}
    started = _started(running, submitted.name, wanted)
    sinks = tuple((id, Instance(one.cls)) for one in wanted.values() if one.is_sink for id in one.ids)
    needs = ancestors(running.operators, (sink for _, sink in sinks), started)
    attach = tuple(
        Attachment(one.instance, place, tap)
        for one in started.values()
        for place, tap in enumerate(one.inputs)
        if tap not in started
    )
    taps = tuple(dict.fromkeys(one.tap for one in attach))
    read = dict.fromkeys((*taps, *(sink for _, sink in sinks if sink not in started)))
    return Decision(
        base=running.version,
        joins=(Flow(name=submitted.name, start=submitted.start, sinks=sinks, needs=needs),),
        start=tuple(started.values()),
        reuse=tuple(one for one in needs if one not in started),
        attach=attach,
        open=tuple(tap for tap in taps if tap not in running.taps),
        brings=tuple(one for one in read if running.operators[one].state_upstream and one.cls.start is None),
    )


def unmerge(running: Running, name: str) -> Decision:
    """What stops when a flow is removed. Raises ``KeyError`` if there is none of that name."""
    flow = running.flows[name]
    stop = [running.operators[one] for one in reversed(flow.needs) if running.counts[one] == 1]
    gone = {one.instance for one in stop}
    detach = [each for one in stop for each in running.attachments(one) if each.tap not in gone]
    left: dict[Instance, int] = {}
    for each in detach:
        left[each.tap] = left.get(each.tap, running.taps[each.tap]) - 1
    return Decision(
        base=running.version,
        leaves=(flow,),
        stop=tuple(stop),
        detach=tuple(detach),
        close=tuple(tap for tap, readers in left.items() if not readers),
    )


def take_over(running: Running, name: str, successor: str) -> Decision:
    """What stops when the flow ``successor`` takes the name and the place of the flow ``name``. Both run until then. Raises
    ``KeyError`` if one does not."""
    old, new = running.flows[name], running.flows[successor]
    return attrs.evolve(unmerge(running, name), leaves=(old, new), joins=(attrs.evolve(new, name=name),))


def _started(running: Running, name: str, wanted: dict[Class, ClassifiedOperator]) -> dict[Instance, Operator]:
    """The operators that a flow starts, each behind its inputs. ``wanted``: what it needs, each class behind its inputs."""
    shared = {cls for cls, one in wanted.items() if _runs(running, name, one)}
    read = {cls for cls, one in wanted.items() if one.is_sink}
    fresh: set[Class] = set()
    copied: set[Class] = set()
    for cls, one in reversed(wanted.items()):  # readers before what they read
        if cls in read and cls not in shared:
            fresh.add(cls)
            for above in one.inputs:
                (copied if above in shared and wanted[above].copy_is_cheaper else read).add(above)
        elif cls in copied:
            for above in one.inputs:
                (copied if wanted[above].copy_is_cheaper else read).add(above)
    copied -= fresh
    launch = running.version + 1
    started: dict[Instance, Operator] = {}
    for cls, one in wanted.items():
        if cls in fresh or cls in copied:
            instance = Instance(cls, launch if cls in copied else 0)
            started[instance] = Operator(
                instance=instance,
                inputs=tuple(Instance(above, launch if above in copied else 0) for above in one.inputs),
                launch=launch,
                flow=name,
                id=one.ids[0],
                state_upstream=one.state_upstream,
            )
    return started


def _runs(running: Running, name: str, one: ClassifiedOperator) -> bool:
    """Whether an operator of a class runs that flows share. Raises ``ValueError`` if it reads other classes, or is another
    flow's alone: flows may have changed their names (:func:`take_over`)."""
    there = running.operators.get(Instance(one.cls))
    if there is None:
        return False
    if is_unshared(one.cls):
        raise ValueError(f"{name} is the earlier name of a flow that runs: its operator {there.id} has no identity")
    if tuple(each.cls for each in there.inputs) != one.inputs:
        raise ValueError(
            f"operator {one.ids[0]} of {name} has the identity of operator {there.id} of {there.flow}, and other inputs"
        )
    return True
