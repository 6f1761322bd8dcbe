"""Runs that go on with another graph: what may change has the answer of both, what may not loses nothing."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from pyspark.sql import SparkSession

from tests.spark import dags
from tests.spark.flows import Fragile, Reading, Sum, id_of, ts_of
from tests.spark.support import all_defined, row, rows_in, rows_of, write_lines
from tests.spark.test_exactly_once import Crash, crashing
from tests.spark.test_rescale import Growing
from tracetypes import Dataflow, OperatorFailed, OpStateless, RunError, U, check, every, sort
from tracetypes.compiler.plan.program import Program, program
from tracetypes.compiler.spark.log import SparkLog
from tracetypes.compiler.store.compatibility import CompatibleCheckpoint, CompatibleCheckpoints, claim, claim_all
from tracetypes.compiler.store.inspection import open_all
from tracetypes.compiler.store.outputs import FileOutput
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.compiler.store.small_files import write_json
from tracetypes.nodes import Apply, Sink
from tracetypes.trace import closed

AT_TEN: Any = every(seconds=10, time=ts_of, delay=10)


@attrs.frozen
class Mended(OpStateless[str, Reading, str, Reading]):
    """Python: no readings of -1, and from a time on 100 watts more."""

    ts: int

    def on_item(self, key: str, value: Reading, emit: Callable[[str, Reading], None]) -> None:
        if value.watts != -1:
            emit(key, Reading(value.id, value.ts, value.watts + (100 if int(f"{value.ts:d}") >= self.ts else 0)))


def summed(*links: Any, keyed: Any = None, **sink: Any) -> Dataflow:
    flow = Dataflow("summed")
    at: Any = flow.source("readings", U[str, Reading], key=id_of, markers=AT_TEN)
    for one in (*links, keyed or Sum()):
        at = at.through(one)
    flow.sink("sums", at, **{"marker": "at", **sink})
    return flow


class Changing(Growing):
    """A run whose input grows and whose graph changes."""

    def change(self, flow: Dataflow) -> None:
        self.checked = check(flow)

    def times(self) -> list[int]:
        return [json.loads(line)["ts"] for line in self.lines]

    def lines_with(self, *more: str) -> None:
        """A file more."""
        number = len(list((self.path / "in").glob("*")))
        write_lines(self.path / f"in/{number:03d}.jsonl", more, at=number + 1)
        self.lines += more


@pytest.mark.repeated
def test_a_graph_that_is_mended_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """An operator raises; another graph takes the micro-batch that was under way. What was answered stays as it is, what
    an open block holds came through the old graph, and the rest through the new one."""
    (tmp_path / "flag").touch()
    job = Changing(spark, tmp_path, summed(Fragile(str(tmp_path / "flag"))))
    job.more(2)
    job(2)
    answered = rows_in(tmp_path / "out-sums", "at")
    assert answered
    newest = max(job.times())
    job.lines_with(row(id="k1", ts=newest + 1, watts=-1), row(id="k1", ts=newest + 1, watts=2))
    with pytest.raises(OperatorFailed, match=r"Fragile.on_item raised ValueError: k1 is broken"):
        job(2)
    job.change(summed(Mended(newest + 1), marker="ended"))
    job.more()
    flag = str(tmp_path / "flag")
    assert job(2, drain=True) == [
        f"goes on; changed: stage 0, from source readings: was Fragile(flag={flag!r}), is Mended(ts={newest + 1})",
        "goes on; changed: sink, columns for marker and position: was at, is ended",
    ]
    (trace,) = all_defined(job.checked, {"readings": job.lines})[0].values()
    whole = rows_of(job.checked, job.checked.graph.sinks[0], trace)
    first = Counter({text.replace('"at"', '"ended"'): count for text, count in answered.items()})
    assert first - whole == Counter()
    assert shown(tmp_path / "out-sums") == whole - first + answered
    (before,) = json.loads((tmp_path / "checkpoint/graph.json").read_text())["before"]
    assert before["until"] == 2
    assert before["graph"]["free"]["sink, columns for marker and position"] == "at"


def shown(directory: Path) -> Counter[str]:
    """Rows with either column for the marker."""
    found: Counter[str] = Counter()
    for path in directory.glob("part-*.jsonl"):
        for line in path.read_text().splitlines():
            one = json.loads(line)
            name = "at" if "at" in one else "ended"
            one[name] = dt.datetime.fromisoformat(one[name]).astimezone(dt.UTC).isoformat()
            found[json.dumps(one, sort_keys=True)] += 1
    return found


@pytest.mark.repeated
def test_what_cannot_go_on_is_refused_and_nothing_is_lost(spark: SparkSession, tmp_path: Path) -> None:
    job = Changing(spark, tmp_path, summed())
    job.more()
    job(2)
    before = (tmp_path / "checkpoint/graph.json").read_bytes()
    job.change(summed(sort(by=ts_of), keyed=dags.Steps()))
    with pytest.raises(RunError, match=r"stage 0, step 0: was Sum, is SORT") as refused:
        job(2)
    assert refused.value.code == "TT211"
    assert "stage 0, open blocks: was aggregates of Sum, is items" in str(refused.value)
    assert (tmp_path / "checkpoint/graph.json").read_bytes() == before
    job.change(summed())
    job.more()
    job(2, drain=True)
    job.is_right()


@pytest.mark.repeated
def test_TT211_a_changed_graph_would_take_rows_back(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a micro-batch are out, and it is not committed."""
    job = Changing(spark, tmp_path, summed())
    job.more(2)
    with monkeypatch.context() as broken:
        broken.setattr(FileOutput, "take", crashing(1, FileOutput.take, first=False))
        with pytest.raises((Crash, RunError)):
            job(2)
    seen, before = rows_in(tmp_path / "out-sums", "at"), (tmp_path / "checkpoint/graph.json").read_bytes()
    assert seen
    job.change(summed(Mended(0)))
    with pytest.raises(RunError, match=r"has put rows of micro-batch 1 into .*, and did not commit it") as refused:
        job(2)
    assert refused.value.code == "TT211"
    assert rows_in(tmp_path / "out-sums", "at") == seen
    assert (tmp_path / "checkpoint/graph.json").read_bytes() == before
    job.change(summed())
    job(2, drain=True)
    job.is_right()


def test_a_sink_comes_and_another_one_goes(spark: SparkSession, tmp_path: Path) -> None:
    """A sink that is added has a query of its own, which begins where its source begins."""
    job = Changing(spark, tmp_path, without("large"))
    job.more()
    job(2)
    job.change(dags.cheap())
    job.more()
    assert job(2) == ["goes on; changed: query large is new, and begins where its sources begin"]
    assert sorted(open_all(str(tmp_path / "checkpoint"), SparkLog)) == ["large", "sums"]
    for sink in job.checked.graph.sinks:
        trace = closed(all_defined(job.checked, {"readings": job.lines}, drain=False)[0][sink.name])
        found, wanted = rows_in(tmp_path / f"out-{sink.name}", "at"), rows_of(job.checked, sink, trace)
        assert wanted
        assert wanted - found == Counter()  # without a keyed operator, rows of open blocks are answered too
    job.change(without("large"))
    job.more()
    assert job(2, drain=True) == ["goes on; changed: query large is gone; what it has answered stays"]
    job.is_right()


# ------------------------------------------------------------------------------------------ claims, without Spark


def without(name: str) -> Dataflow:
    """The flow with two native sinks, but for one of them."""
    flow = dags.cheap()
    flow._nodes = [node for node in flow._nodes if not (isinstance(node, Sink) and node.name == name)]
    if name == "sums":
        flow._nodes = [node for node in flow._nodes if not (isinstance(node, Apply) and isinstance(node.op, Sum))]
    return flow


def compiled(flow: Dataflow) -> Program:
    return program(check(flow), key_groups=2)


def taken(root: Path, flow: Dataflow) -> CompatibleCheckpoints:
    """CompatibleCheckpoint all queries of a flow."""
    claims = claim_all(root, compiled(flow), SparkLog)
    claims.write()
    for one in claims.queries.values():
        one.write()
    return claims


def refused(root: Path, flow: Dataflow) -> str:
    files = {path: path.read_bytes() for path in root.rglob("*.json")}
    with pytest.raises(RunError) as error:
        taken(root, flow)
    assert error.value.code == "TT211"
    assert files == {path: path.read_bytes() for path in root.rglob("*.json")}
    return str(error.value)


def shared(*names: str, links: Any = (), others: int = 0) -> Dataflow:
    """Sinks behind one channel; ``others`` more channels of that title stand before it."""
    flow = Dataflow("shared")
    for number in range(others):
        other: Any = flow.source(f"other-{number}", U[str, Reading], key=id_of, markers=AT_TEN)
        other = other.through(Sum())
        flow.sink(f"o{number}-a", other)
        flow.sink(f"o{number}-b", other.through(dags.Big()))
    at: Any = flow.source("readings", U[str, Reading], key=id_of, markers=AT_TEN)
    for one in (*links, Sum()):
        at = at.through(one)
    for name in names:
        flow.sink(name, at, marker="at")
    return flow


def test_a_channel_is_known_by_what_it_is(tmp_path: Path) -> None:
    """Another one that is added before it takes its name in the graph, and not its state."""
    first = taken(tmp_path, shared("a", "b"))
    assert first.queries["Sum"].path == tmp_path / "queries/Sum"
    assert taken(tmp_path, shared("a", "b")).changed == ()
    more = taken(tmp_path, shared("a", "b", others=1))
    assert more.queries["Sum-2"].path == tmp_path / "queries/Sum"
    assert more.channels["Sum-2"] == tmp_path / "channels/Sum"
    assert more.queries["Sum"].path == tmp_path / "queries/Sum-2"
    assert more.channels["Sum"] == tmp_path / "channels/Sum-2"
    assert [line.partition(" and ")[0] for line in more.changed] == [
        f"query {name} is new," for name in ("Sum", "o0-a", "o0-b")
    ]
    again = taken(tmp_path, shared("a", "b", others=1))
    assert (again.changed, again.channels) == ((), more.channels)
    gone = taken(tmp_path, shared("a", "b"))
    assert gone.channels == {"Sum": tmp_path / "channels/Sum"}
    assert [line.partition(" is gone")[0] for line in gone.changed] == ["query Sum", "query o0-a", "query o0-b"]


def test_a_channel_that_changed_goes_on_by_its_name_or_is_refused(tmp_path: Path) -> None:
    taken(tmp_path, shared("a", "b"))
    changed = taken(tmp_path, shared("a", "b", links=[dags.Big()]))
    assert changed.changed == ("query Sum, stage 0, from source readings: was nothing, is Big()",)
    assert "query Sum may be any of those that were Sum" in refused(tmp_path, shared("a", "b", others=1))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (shared("a", "b"), shared("a", "b", "c"), "query c is new, and reads channel 'Sum'"),
        (shared("a", "b"), shared("a"), "query a, stage 0, reads: was channel Sum, is source readings"),
        (shared("a", "b"), shared("a", "c"), "query c is new, and reads channel 'Sum'"),
        (without("sums"), dags.cheap(), "query large, stage 0, from source readings, late rows are told by: was this"),
        (dags.cheap(), without("sums"), "late rows are told by: was another reading of the source, is this reading"),
        (summed(), shared("sums", "other"), "query sums, stage 0, reads: was source readings, is channel Sum"),
    ],
)
def test_queries_that_cannot_be_added_or_taken_away(
    tmp_path: Path, before: Dataflow, after: Dataflow, said: str
) -> None:
    first = compiled(before)
    if len(first.plans) == 1:
        claim(tmp_path, first.plans[0], SparkLog).write()
    else:
        taken(tmp_path, before)
    assert said in refused(tmp_path, after)


def test_a_sink_that_was_taken_away_does_not_come_back(tmp_path: Path) -> None:
    taken(tmp_path, dags.cheap())
    taken(tmp_path, without("large"))
    assert "query large was taken away before" in refused(tmp_path, dags.cheap())


def test_a_start_that_did_not_come_far_is_no_change(tmp_path: Path) -> None:
    """The process ends when it is written down where the queries are to lie, and one of them is there."""
    claims = claim_all(tmp_path, compiled(shared("a", "b", others=1)), SparkLog)
    claims.write()
    claims.queries["Sum"].write()
    again = taken(tmp_path, shared("a", "b", others=1))
    assert again.changed == ()
    assert again.channels == claims.channels


def test_between_an_answer_and_its_state_no_graph_changes(tmp_path: Path) -> None:
    old, new = (program(check(flow), key_groups=2).plans[0] for flow in (summed(), summed(dags.Big())))
    RunStore(claim(tmp_path, old, SparkLog)).commit(0, {})
    with pytest.raises(RunError, match=r"has answered micro-batch 0, and its state is still to come") as error:
        claim(tmp_path, new, SparkLog)
    assert error.value.code == "TT211"
    assert claim(tmp_path, old, SparkLog).changed == ()
    write_lines(tmp_path / "spark/commits/0", [])
    assert len(claim(tmp_path, new, SparkLog).changed) == 1


def test_a_channel_too_is_between_an_answer_and_its_state(tmp_path: Path) -> None:
    taken(tmp_path, shared("a", "b"))
    write_lines(tmp_path / "channels/Sum/manifests/00000000.jsonl", [])
    assert "has answered micro-batch 0" in refused(tmp_path, shared("a", "b", links=[dags.Big()]))


@attrs.frozen
class Keyed(Sum):
    """With a secret, and one that is written where everybody sees it."""

    password: str = attrs.field(default="", repr=False)
    url: str = "postgres://user:swordfish@db/plant"


def test_secrets_are_compared_by_a_hash(tmp_path: Path) -> None:
    def taken_with(password: str, **more: Any) -> CompatibleCheckpoint:
        made = claim(tmp_path, compiled(summed(keyed=Keyed(password=password, **more))).plans[0], SparkLog)
        made.write()
        return made

    taken_with("open sesame")
    assert taken_with("open sesame").changed == ()
    for changed in ({"password": "close sesame"}, {"password": "open sesame", "url": "postgres://user:marlin@db/plant"}):
        with pytest.raises(RunError, match=r"TT211 (.|\n)*\(Keyed\), parameter (password|url): was .*hidden:") as error:
            taken_with(**changed)
        assert "sesame" not in str(error.value)
        assert "swordfish" not in str(error.value)
    texts = {path.name: path.read_text("latin-1") for path in tmp_path.rglob("*") if path.is_file()}
    assert set(texts) == {"format.json", "graph.json", "key"}
    assert not [word for word in ("sesame", "swordfish") if word in texts["graph.json"] + texts["format.json"]]
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    (tmp_path / "key").unlink()
    with pytest.raises(RunError, match=r"TT211 .* compares secrets by .*key, which is gone"):
        taken_with("open sesame")
    (tmp_path / "key").write_bytes(b"short")
    with pytest.raises(RunError, match=r"TT211 .*key is no key: it has 5 bytes"):
        taken_with("open sesame")


def test_a_graph_without_secrets_has_no_key(tmp_path: Path) -> None:
    claim(tmp_path, compiled(summed()).plans[0], SparkLog).write()
    assert not (tmp_path / "key").exists()


def test_all_queries_of_a_program_have_one_key(tmp_path: Path) -> None:
    secret = [Keyed(password="open sesame")]
    taken(tmp_path, shared("a", "b", links=secret))
    assert taken(tmp_path, shared("a", "b", links=secret, others=1)).channels["Sum-2"] == tmp_path / "channels/Sum"
    assert len(list(tmp_path.rglob("key"))) == 1
    assert "sesame" not in "".join(path.read_text() for path in tmp_path.rglob("*.json"))


def test_a_checkpoint_of_an_earlier_version(tmp_path: Path) -> None:
    write_json(tmp_path / "graph.json", {"run": "01234567", "graph": ["key groups: 2"], "stages": []})
    with pytest.raises(RunError, match=r"TT220 .* written by an older tracetypes"):
        claim(tmp_path, compiled(summed()).plans[0], SparkLog)
