"""What a decision says, by small examples."""

from __future__ import annotations

from typing import Any

import pytest

from tracetypes.compiler.workspace.classes import Class, SubmittedFlow, SubmittedOperator, classified
from tracetypes.compiler.workspace.merge import merge, take_over, unmerge
from tracetypes.compiler.workspace.running import Attachment, Decision, Instance, Running

KEEPS_STATE = "w"
"""The first letter of an operator that keeps a state. ``K`` begins sinks, ``m`` merges, and ``?`` what cannot be identified."""


def flow(name: str, *paths: str, start: int | None = None, cheap: str = "") -> SubmittedFlow:
    """A flow of paths such as ``"S > a > K1"``, each operator behind all that it reads. The identity of an operator is its path
    from the sources, such as ``S.a``. ``cheap``: the first letters of operators that are cheaper than a channel."""
    inputs: dict[str, list[str]] = {}
    for path in paths:
        names = [one.strip() for one in path.split(">")]
        for at, one in enumerate(names):
            inputs.setdefault(one, [])
            if at:
                inputs[one].append(names[at - 1])
    number = {one: at for at, one in enumerate(inputs)}
    identity: dict[str, str] = {}
    for one, above in inputs.items():
        parts = [identity[each] for each in above]
        parts = sorted(parts) if one[0] == "m" else parts
        identity[one] = f"({'+'.join(parts)}).{one}" if len(parts) > 1 else ".".join([*parts, one])
    return SubmittedFlow(
        name=name,
        start=start,
        operators=tuple(
            SubmittedOperator(
                id=number[one],
                identity=None if one[0] == "?" else identity[one],
                inputs=tuple(number[each] for each in above),
                in_places=one[0] != "m",
                keeps_state=one[0] == KEEPS_STATE,
                is_sink=one[0] == "K",
                copy_is_cheaper=one[0] in cheap,
            )
            for one, above in inputs.items()
        ),
    )


def of(identity: str, start: int | None = None, copy: int = 0) -> Instance:
    """A running operator."""
    return Instance(Class(identity, start), copy)


def names(instances: Any) -> list[str]:
    """The identities of operators."""
    return [getattr(one, "instance", one).cls.identity for one in instances]


def submit(running: Running, *args: Any, **kwargs: Any) -> Decision:
    """Submit a flow."""
    decision = merge(running, flow(*args, **kwargs))
    running.apply(decision)
    return decision


def remove(running: Running, name: str) -> Decision:
    """Remove a flow."""
    decision = unmerge(running, name)
    running.apply(decision)
    return decision


def test_a_flow_alone() -> None:
    decision = submit(Running(), "f", "S > a > K1")
    assert names(decision.start) == ["S", "S.a", "S.a.K1"]
    assert decision.joins[0].sinks == ((2, of("S.a.K1")),)
    assert not decision.reuse
    assert not decision.attach, "it runs as one launch"


def test_a_second_flow_attaches() -> None:
    running = Running()
    submit(running, "f", "S > a > K1")
    decision = submit(running, "g", "S > a > b > K2")
    assert names(decision.start) == ["S.a.b", "S.a.b.K2"]
    assert names(decision.reuse) == ["S", "S.a"]
    assert decision.attach == (Attachment(of("S.a.b"), 0, of("S.a")),)
    assert decision.open == (of("S.a"),)
    assert submit(running, "h", "S > a > c > K3").open == (), "the tap is open"
    assert running.taps == {of("S.a"): 2}
    assert remove(running, "h").close == ()
    last = remove(running, "f")
    assert names(last.stop) == ["S.a.K1"]
    assert not last.detach
    last = remove(running, "g")
    assert names(last.stop) == ["S.a.b.K2", "S.a.b", "S.a", "S"]
    assert not last.close, "what stops has no tap to close"


def test_what_reads_a_tap_stops_first() -> None:
    running = Running()
    submit(running, "f", "S > a > K1")
    submit(running, "g", "S > a > b > K2")
    decision = remove(running, "g")
    assert names(decision.stop) == ["S.a.b.K2", "S.a.b"]
    assert decision.detach == (Attachment(of("S.a.b"), 0, of("S.a")),)
    assert decision.close == (of("S.a"),)


def test_a_flow_that_runs_already_starts_nothing() -> None:
    running = Running()
    submit(running, "f", "S > a > K1")
    decision = submit(running, "g", "S > a > K1")
    assert not decision.start
    assert decision.joins[0].sinks == ((2, of("S.a.K1")),)
    assert names(remove(running, "f").stop) == []
    assert names(remove(running, "g").stop) == ["S.a.K1", "S.a", "S"]


def test_an_operator_that_is_read_twice_is_attached_twice() -> None:
    running = Running()
    submit(running, "f", "S > a > K1")
    decision = submit(running, "g", "S > a > m > K2", "a > m")
    assert [one.place for one in decision.attach] == [0, 1]
    assert decision.open == (of("S.a"),)
    assert running.taps == {of("S.a"): 2}
    assert remove(running, "g").close == (of("S.a"),)


def test_the_inputs_of_a_merge_have_no_order() -> None:
    running = Running()
    submit(running, "f", "S > b", "S > a > m > K1", "b > m")
    assert not submit(running, "g", "S > a", "S > b > m > K1", "a > m").start
    assert names(submit(running, "h", "S > b", "S > a > j > K1", "b > j").start)[0] == "(S.a+S.b).j"
    assert names(submit(running, "i", "S > a", "S > b > j > K1", "a > j").start)[0] == "(S.b+S.a).j"


def test_a_start_counts_behind_a_state_only() -> None:
    running = Running()
    first = submit(running, "f", "S > a > w > b > K1")
    assert not first.brings
    late = submit(running, "g", "S > a > w > b > c > K2")
    assert late.brings == (of("S.a.w.b"),), "the state of w, which began with f"
    exact = submit(running, "h", "S > a > w > b > K1", start=60)
    assert [one.instance for one in exact.start] == [of("S.a.w", 60), of("S.a.w.b", 60), of("S.a.w.b.K1", 60)]
    assert names(exact.reuse) == ["S", "S.a"]
    assert not exact.brings
    assert not submit(running, "i", "S > a > w > b > K1", start=60).brings, "the same start"
    assert submit(running, "j", "S > a > K4").brings == ()


def test_a_flow_whose_sink_runs_takes_its_state() -> None:
    running = Running()
    submit(running, "f", "S > w > K1")
    assert submit(running, "g", "S > w > K1").brings == (of("S.w.K1"),)


def test_what_cannot_be_identified_is_not_shared() -> None:
    running = Running()
    submit(running, "f", "S > ? > a > K1")
    decision = submit(running, "g", "S > ? > a > K1")
    assert names(decision.reuse) == ["S"]
    assert len(decision.start) == 3
    assert names(remove(running, "g").stop) == names(decision.start)[::-1]


def test_an_identity_is_never_the_name_of_what_has_none() -> None:
    with pytest.raises(ValueError, match="the identity 'f 1' has a space"):
        classified(SubmittedFlow(name="g", operators=(SubmittedOperator(id=0, identity="f 1", is_sink=True),)))


def test_what_lies_behind_is_shared_within_a_flow() -> None:
    """Both sinks read the same opaque operator, by equal operators."""
    twice = flow("f", "S > ? > K1")
    again = SubmittedOperator(id=3, identity="S.?.K1", inputs=(1,), is_sink=True)
    both = SubmittedFlow(name="f", operators=(*twice.operators, again))
    assert [one.ids for one in classified(both)] == [(0,), (1,), (2, 3)]


def test_duplicates_of_a_flow_run_once() -> None:
    one = flow("f", "S > a > K1")
    more = (
        SubmittedOperator(id=3, identity="S.a", inputs=(0,)),
        SubmittedOperator(id=4, identity="S.a.K2", inputs=(3,), is_sink=True),
    )
    running = Running()
    running.apply(merge(running, SubmittedFlow(name="f", operators=(*one.operators, *more))))
    assert names(running.operators) == ["S", "S.a", "S.a.K1", "S.a.K2"]
    assert running.flows["f"].sinks == ((2, of("S.a.K1")), (4, of("S.a.K2")))


def test_what_no_sink_needs_does_not_run() -> None:
    assert names(submit(Running(), "f", "S > a > K1", "a > b", "T > c").start) == ["S", "S.a", "S.a.K1"]


def test_a_copy_that_is_cheaper_than_a_channel() -> None:
    running = Running()
    submit(running, "f", "S > a > K1", cheap="Sa")
    decision = submit(running, "g", "S > a > b > K2", cheap="Sa")
    assert [one.instance for one in decision.start] == [of("S", copy=2), of("S.a", copy=2), of("S.a.b"), of("S.a.b.K2")]
    assert decision.copies == (of("S", copy=2), of("S.a", copy=2))
    assert not decision.attach
    assert not decision.reuse
    assert running.copies == 2
    # The original goes with its flow. Who shares the second flow's operators keeps the copy.
    assert names(remove(running, "f").stop) == ["S.a.K1", "S.a", "S"]
    assert running.copies == 0
    assert names(submit(running, "h", "S > a > b > K2", cheap="Sa").reuse) == ["S", "S.a", "S.a.b", "S.a.b.K2"]
    assert not remove(running, "g").stop
    assert len(remove(running, "h").stop) == 4


def test_what_starts_anyway_is_not_copied() -> None:
    """``b`` gets a copy of ``a``. Both copies and ``c`` read the source that the flow starts: only a copy of it ran."""
    running = Running()
    submit(running, "f", "S > K1", cheap="Sa")
    submit(running, "g", "S > a > K2", cheap="Sa")
    remove(running, "f")
    decision = submit(running, "h", "S > a > b > K3", "S > c > K4", cheap="Sa")
    assert [one.instance for one in decision.start[:2]] == [of("S"), of("S.a", copy=4)]
    assert decision.start[1].inputs == (of("S"),)
    assert not decision.reuse


def test_no_copy_is_made_of_a_state() -> None:
    running = Running()
    submit(running, "f", "S > w > a > K1", cheap="Swa")
    decision = submit(running, "g", "S > w > a > b > K2", cheap="Swa")
    assert names(decision.copies) == ["S.w.a"]
    assert names(one.tap for one in decision.attach) == ["S.w"]


def test_a_flow_takes_over() -> None:
    running = Running()
    submit(running, "f", "S > a > b > K1")
    submit(running, "f, new", "S > a > c > K1")
    assert running.taps == {of("S.a"): 1}
    before = dict(running.flows), dict(running.operators), dict(running.counts)
    decision = take_over(running, "f", "f, new")
    running.apply(decision)
    assert names(decision.stop) == ["S.a.b.K1", "S.a.b"]
    assert not decision.start
    assert not decision.close, "the new one reads the tap"
    assert list(running.flows) == ["f"]
    assert running.flows["f"].sinks == ((3, of("S.a.c.K1")),)
    assert set(running.counts.values()) == {1}
    running.undo(decision)
    assert (running.flows, running.operators, running.counts) == before
    running.apply(take_over(running, "f", "f, new"))
    assert len(remove(running, "f").stop) == 4
    with pytest.raises(KeyError):
        take_over(running, "f", "g")


def test_an_earlier_name_is_not_given_to_another_flow() -> None:
    """What has no identity has the name of its flow. Another flow of this name must not find it."""
    running = Running()
    submit(running, "f", "S > ? > K1")
    submit(running, "g", "S > ? > K1")
    running.apply(take_over(running, "f", "g"))
    with pytest.raises(ValueError, match="g is the earlier name of a flow that runs: its operator 1 has no identity"):
        merge(running, flow("g", "S > ? > K1"))
    assert submit(running, "h", "S > ? > K1").start
    remove(running, "f")
    assert submit(running, "g", "S > ? > K1").start


def test_a_decision_changes_nothing_before_it_is_applied() -> None:
    running = Running()
    submit(running, "f", "S > a > K1")
    one, other = merge(running, flow("g", "S > b > K2")), merge(running, flow("h", "S > c > K3"))
    assert running.operators.keys() == {of("S"), of("S.a"), of("S.a.K1")}
    running.apply(one)
    with pytest.raises(ValueError, match="made for version 1, this is 2"):
        running.apply(other)
    running.undo(one)
    with pytest.raises(ValueError, match="the last decision made version 1, not 2"):
        running.undo(one)
    running.apply(other)
    assert set(running.flows) == {"f", "h"}


def test_refusals() -> None:
    running = Running()
    submit(running, "f", "S > a > K1")
    with pytest.raises(ValueError, match="a flow with the name f runs already"):
        merge(running, flow("f", "S > b > K1"))
    with pytest.raises(ValueError, match="g has no sink"):
        merge(running, flow("g", "S > b"))
    with pytest.raises(KeyError):
        unmerge(running, "g")


def test_identities_that_contradict_each_other() -> None:
    """Two operators that read different streams have one identity: an error of who computed it. Nothing is shared by mistake."""
    running = Running()
    submit(running, "f", "S > a > K1")
    wrong = SubmittedFlow(
        name="g",
        operators=(
            SubmittedOperator(id=0, identity="T"),
            SubmittedOperator(id=1, identity="S.a", inputs=(0,)),
            SubmittedOperator(id=2, identity="T.a.K", inputs=(1,), is_sink=True),
        ),
    )
    with pytest.raises(ValueError, match="operator 1 of g has the identity of operator 1 of f, and other inputs"):
        merge(running, wrong)
    more = SubmittedOperator(id=3, identity="T.a.K", inputs=(0,), is_sink=True)
    with pytest.raises(ValueError, match="operators 2 and 3 of g have one identity, and differ"):
        merge(Running(), SubmittedFlow(name="g", operators=(*wrong.operators, more)))


def test_deep_and_twisted_flows() -> None:
    """A chain is no recursion, and in a ladder each operator is looked at once, although 2 ** 300 paths lead to the source."""
    chain = " > ".join(["S", *(f"a{n}" for n in range(3_000)), "K1"])
    running = Running()
    assert len(submit(running, "f", chain).start) == 3_002
    operators = [SubmittedOperator(id=0, identity="T")]
    for n in range(1, 301):
        operators.append(SubmittedOperator(id=n, identity=f"m{n}", inputs=(n - 1, n - 1), in_places=False))
    operators.append(SubmittedOperator(id=301, identity="K", inputs=(300,), is_sink=True))
    ladder = SubmittedFlow(name="g", operators=tuple(operators))
    running.apply(merge(running, ladder))
    assert len(running.flows["g"].needs) == 302
    assert len(remove(running, "g").stop) == 302
    assert len(running.components.all()) == 1
