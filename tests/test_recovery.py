"""Scripted sources and crashes, by the definition and the simulator. On Spark: ``tests/spark/test_recovery.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import attrs
import pytest

from tests.spark import dags, flows
from tests.spark.flows import Reading
from tracetypes import Dataflow, Item, LawBroken, Marker, U, UsageError, in_band
from tracetypes.compiler.store.output_trace import Answer, Collector
from tracetypes.compiler.trial import simulate
from tracetypes.testing import Script, check_recovery, define_scripts, run_scripts

FIRST = (
    Script()
    .rows(*(Reading("abc"[n % 3], n, n) for n in range(12)))
    .crash("raise")
    .step()
    .rows(Reading("a", 25, 1))
    .crash("worker")
    .rows(Reading("b", 27, 2))
    .lines('{"id": "c", "ts": 28}')
    .step()
    .rows(Reading("late", 2, 100), Reading("c", 31, 3))
    .crash("driver", when="written")
)
SCRIPT = FIRST.step().crash("jvm", when="committed").at(45).rows(Reading("a", 0, 4))


def test_a_script_is_what_the_definition_says_of_its_rows() -> None:
    defined = define_scripts(flows.delayed, {"readings": SCRIPT})
    assert sum(defined.late.values()) == 1
    assert [source for source, _ in defined.rejects] == ["readings"]
    at = {e.micros // 1_000_000: None for e in defined.traces["sums"] if isinstance(e, Marker)}
    assert list(at) == [10, 20, 30, 40, 50]  # the last row happens at 45, whatever it says itself


@pytest.mark.parametrize("seed", range(4))
def test_the_simulator_recovers(seed: int) -> None:
    ran = check_recovery(flows.delayed, {"readings": SCRIPT}, seed=seed)
    assert ran.crashes == 4


@pytest.mark.parametrize("graph", [dags.two_sinks, dags.diamond, dags.ordered])
def test_graphs_with_channels_recover(graph: Callable[[], Dataflow]) -> None:
    flow = graph()
    ran = check_recovery(flow, {source.name: SCRIPT for source in flow.graph.sources})
    assert len(ran.traces) == 2


def test_markers_are_heartbeats_of_a_source_with_event_time() -> None:
    script = Script().rows(Reading("a", 3, 1)).marker(40).step().rows(Reading("a", 31, 2), Reading("a", 41, 3))
    ((_, reason),) = define_scripts(flows.delayed, {"readings": script}).late
    assert "#40" in reason
    check_recovery(flows.delayed, {"readings": script})


def test_markers_in_band() -> None:
    flow = Dataflow("marked")
    flow.sink(
        "sums", flow.source("readings", U[str, Reading], key=lambda r: r.id, markers=in_band()).through(flows.Sum())
    )
    script = Script().rows(Reading("a", 0, 1)).marker(5).rows(Reading("a", 0, 2)).step().crash("raise").marker(7)
    trace = check_recovery(flow, {"readings": script}).traces["sums"]
    assert [e.value.watts if isinstance(e, Item) else e.timestamp for e in trace] == [1, 5, 3, 7]


def keyed() -> Dataflow:
    """Rows with a key column."""
    flow = Dataflow("keyed")
    flow.sink("out", flow.source("readings", U[str, Reading], markers=flows.TEN))
    return flow


def test_rows_with_a_key_column() -> None:
    check_recovery(keyed(), {"readings": Script().rows(("x", Reading("a", 1, 1))).step().crash("jvm")})


SEEN: set[Any] = set()


@attrs.frozen
class Remembers(dags.Opaque):
    """How many different readings it has seen, in a place that a crash does not take back. The same call gives the same."""

    def on_item(self, key: str, value: Reading, emit: Callable[[str, Reading], None]) -> None:
        SEEN.add(value)
        emit(key, attrs.evolve(value, watts=len(SEEN)))


def test_TT311_a_memory_that_a_crash_does_not_take_back() -> None:
    flow = Dataflow("remembers")
    rows = flow.source("readings", U[str, Reading], key=lambda r: r.id, markers=flows.TEN)
    flow.sink("seen", rows.through(Remembers()))
    script = Script().rows(Reading("a", 1, 0), Reading("b", 2, 0))

    SEEN.clear()
    assert len(list(run_scripts(flow, {"readings": script}).traces["seen"])) == 3
    SEEN.clear()
    with pytest.raises(LawBroken) as broken:
        check_recovery(flow, {"readings": script.step().crash("worker")})
    assert broken.value.code == "TT311"
    assert "another answer at sink 'seen' after a crash" in str(broken.value)
    assert "crash(worker, reading)" in str(broken.value)
    assert "block:    #10\n" in str(broken.value)
    assert "missing:  ('a', Reading(id='a', ts=1, watts=1))" in str(broken.value)


def test_TT311_what_is_missing_and_what_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that is taken twice, late rows and all."""
    real = simulate._step

    def twice(*given: Any, drained: bool) -> Any:
        if given[3] == 2:
            real(*given, drained=drained)
        return real(*given, drained=drained)

    monkeypatch.setattr(simulate, "_step", twice)
    with pytest.raises(LawBroken, match="another answer at sink 'sums'") as broken:
        check_recovery(flows.delayed, {"readings": SCRIPT})
    assert broken.value.code == "TT311"


def test_TT311_rows_that_went_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Collector.answer

    def forgetful(self: Collector, stream: Any) -> Answer:
        return attrs.evolve(real(self, stream), late=[])

    monkeypatch.setattr(Collector, "answer", forgetful)
    with pytest.raises(LawBroken, match="other late rows after a crash") as broken:
        check_recovery(flows.delayed, {"readings": SCRIPT})
    assert "missing:  ('readings', " in str(broken.value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Script().crash(cast(Any, "mouse")), "crash('mouse', when='reading')"),
        (lambda: Script().crash("worker", when="committed"), "no worker is at work when a step is committed"),
        (lambda: define_scripts(flows.delayed, {"readings": Script().marker(float("nan"))}), "the time is nan"),
        (lambda: define_scripts(keyed(), {"readings": Script().rows(5)}), "give pairs (key, value)"),
    ],
)
def test_TT407_scripts_that_mean_nothing(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        make()
    assert refused.value.code == "TT407"
    assert said in str(refused.value)


def test_TT402_a_script_for_no_source() -> None:
    with pytest.raises(UsageError, match="there is no source 'plugs'") as refused:
        run_scripts(flows.delayed, {"plugs": Script()})
    assert refused.value.code == "TT402"


def test_a_script_says_what_it_does() -> None:
    script = Script().rows(1).marker(5).step().at(7).lines("{").crash("raise").step()
    assert str(script) == "1 marker(5) | {@7 crash(raise, reading) | nothing"
