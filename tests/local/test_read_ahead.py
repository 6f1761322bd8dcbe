"""Splits of the next epoch are read early: each counts once, and nothing of them is seen before their epoch."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.local.test_driver import Counted, Hit, Lines, Mapped, counts_and_hits, hits, two_stages
from tests.spark.support import defined, differences
from tracetypes import Dataflow, U, Unit, check, every, run
from tracetypes.compiler.connectors.program_rows import Rows
from tracetypes.compiler.local.backend import LocalBackend
from tracetypes.compiler.local.driver import Driver
from tracetypes.compiler.local.kernels import Kernels, SplitAnswer, SplitTask
from tracetypes.compiler.local.lateness import KnownTimes, Lateness
from tracetypes.compiler.local.options import LocalOptions
from tracetypes.compiler.local.ordered.marks import ALL
from tracetypes.compiler.local.ordered.operators import Kind
from tracetypes.compiler.local.split_source import EarlySplit, SplitSource
from tracetypes.compiler.local.units import Sent
from tracetypes.compiler.plan.plan import SourceLink, links
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.run import collect
from tracetypes.compiler.store.run_store import RunStore

# ------------------------------------------------------------------------------------- every order of the steps


def split(content: str) -> SplitTask:
    stage = plan(check(two_stages())).stages[0]
    link = next(link for link in links(stage.region) if isinstance(link, SourceLink))
    return SplitTask(stage, link, content, 0)


MOMENTS = ("before it is taken", "before it is read", "while it is read", "afterwards")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("content", ["as listed", "another"])
def test_an_epoch_begins_at_any_moment(moment: str, content: str) -> None:
    """Of the early reading of its split, which may have changed."""
    source, read = SplitSource(), list[str]()
    expected = split(content)

    def begin_at(now: str) -> None:
        if now == moment:
            source.begin([expected])

    def reading(task: SplitTask, *, early: bool = False) -> SplitAnswer:
        read.append(task.split)
        if early:
            begin_at("while it is read")
        return SplitAnswer(task, [])

    source.begin([], [split("as listed")])
    assert isinstance(source.take(1)[0], Sent)
    begin_at("before it is taken")
    answers: list[SplitAnswer | None] = []
    if moment != "before it is taken":
        (one,) = source.take(1)
        assert isinstance(one, EarlySplit)
        begin_at("before it is read")
        answers.append(source.answer(one, lambda task: reading(task, early=True)))
        assert (answers[0] is None) == (moment == "afterwards" or content == "another")
    begin_at("afterwards")
    *rest, last = source.take(9)
    assert isinstance(last, Sent)
    for unit in rest:
        assert not isinstance(unit, Sent)
        answers.append(source.answer(unit, reading) if isinstance(unit, EarlySplit) else reading(unit))
    assert [answer.task.split for answer in answers if answer is not None] == [content]
    assert read == [content] if content == "as listed" or moment == "before it is taken" else ["as listed", content]


@pytest.mark.parametrize("moment", MOMENTS[1:])
def test_an_error_belongs_to_the_epoch_of_the_split(moment: str) -> None:
    source, task = SplitSource(), split("broken")

    def fails(_: SplitTask) -> SplitAnswer:
        if moment == "while it is read":
            source.begin([task])
        raise OSError("broken")

    source.begin([], [task])
    assert isinstance(source.take(2)[0], Sent)
    (one,) = source.take(2)
    assert isinstance(one, EarlySplit)
    if moment == "afterwards":
        assert source.answer(one, fails) is None
    if moment != "while it is read":
        source.begin([task])
    with pytest.raises(OSError, match="broken"):
        source.answer(one, fails)


@pytest.mark.parametrize("place", range(6))
def test_what_waits_in_the_epoch_comes_first(place: int) -> None:
    """At any operator behind. A split of the next epoch, read before, would keep the barrier waiting, and so the commit."""
    nothing: Any = None
    driver = Driver(plan(check(two_stages()), parallelism=2), LocalOptions(), nothing, nothing, nothing)
    try:
        reads, *behind = driver.flow.operators
        assert reads.kind is Kind.SOURCE
        assert [one.kind for one in behind].count(Kind.PARTITIONED) == 2
        (source,) = driver.sources.values()
        source.begin([split("now")], [split("next"), split("next but one")])
        assert reads.ready() == len(reads.process(9)) == 2
        assert reads.ready() == 1
        behind[place].worklist.put((ALL, Sent(())) if behind[place].kind is Kind.PARTITIONED else Sent(()))
        assert reads.ready() == 0
    finally:
        driver.close()


# ------------------------------------------------------------------------------------------------------- runs


def uneven(patch: pytest.MonkeyPatch, seed: int) -> list[int]:
    """Splits and commits take their time. The numbers of splits read early."""
    chance, early = random.Random(seed), list[int]()
    read, commit, read_early = Kernels.read, RunStore.commit, Lateness.read_early

    def slow(real: Callable[..., Any]) -> Callable[..., Any]:
        def slowly(*args: Any) -> Any:
            time.sleep(chance.choice((0, 0.002, 0.01)))
            return real(*args)

        return slowly

    def noted(self: Lateness, task: SplitTask) -> SplitAnswer:
        early.append(task.number)
        return read_early(self, task)

    patch.setattr(Kernels, "read", slow(read))
    patch.setattr(RunStore, "commit", slow(commit))
    patch.setattr(Lateness, "read_early", noted)
    return early


def is_right(flow: Dataflow, lines: Lines, seed: int, options: LocalOptions | None = None) -> bool:
    """Of epochs of two or three files."""
    chance = random.Random(seed)
    rows = {name: Rows(tuple((line,) for line in some), chance.choice((2, 3))) for name, some in lines.items()}
    backend: Any = LocalBackend(3, options or LocalOptions(least=1))
    found = collect(backend, plan(check(flow), parallelism=3, key_groups=3), rows).answer
    return differences(flow, found, defined(flow, lines)) == []


def cases() -> list[tuple[Dataflow, Lines, int]]:
    """With late items."""
    some: list[tuple[Dataflow, Lines, int]] = []
    for seed in range(4):
        flow = (two_stages, counts_and_hits)[seed % 2]()
        lines = {**hits(seed, 20), "bot": hits(seed + 9, 20)["web"]}
        some.append((flow, {source.name: lines[source.name] for source in check(flow).graph.sources}, seed))
    return some


def test_the_answer_is_the_interpreters() -> None:
    with pytest.MonkeyPatch.context() as patch:
        early = uneven(patch, 1)
        assert all([is_right(*case) for case in cases()])
    assert len(early) > 20


def test_not_where_the_order_of_splits_counts() -> None:
    with pytest.MonkeyPatch.context() as patch:
        early = uneven(patch, 1)
        assert all([is_right(*case, LocalOptions(reorder="serial")) for case in cases()])
    assert early == []


def _answers_that_are_due_are_lost(patch: pytest.MonkeyPatch) -> None:
    real = SplitSource.answer

    def answer(self: SplitSource, early: EarlySplit, read: Any) -> SplitAnswer | None:
        return None if early.outcome is None and real(self, early, read) else real(self, early, read)

    patch.setattr(SplitSource, "answer", answer)


def _guesses_are_too_late(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lateness, "read_early", lambda self, task: self._read(task, KnownTimes(dict.fromkeys(range(9), 10**9))))


@pytest.mark.parametrize("broken", [_answers_that_are_due_are_lost, _guesses_are_too_late])
def test_a_broken_twin_is_caught(broken: Callable[[pytest.MonkeyPatch], None]) -> None:
    def right() -> bool:
        try:
            return all(is_right(*case) for case in cases())
        except Exception:
            return False

    with pytest.MonkeyPatch.context() as patch:
        broken(patch)
        uneven(patch, 1)
        assert not all(right() for _ in range(12))


def rows_of(out: Path) -> list[int]:
    """The counts, in order."""
    return sorted(json.loads(line)["value"] for path in out.glob("part-*") for line in path.read_text().splitlines())


def test_while_an_epoch_is_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Splits of the next one are read; and an error of that comes behind the commit."""
    begun, commit, read = threading.Event(), RunStore.commit, Kernels.read

    def waits(self: RunStore, number: int, record: Any) -> None:
        if number == 0:
            assert begun.wait(20)
        commit(self, number, record)

    def fails(self: Kernels, task: SplitTask, before: Any) -> SplitAnswer:
        answer = read(self, task, before)
        if any("late" in str(part) for part in task.split):
            begun.set()
            raise ValueError("a reader that fails")
        return answer

    monkeypatch.setattr(RunStore, "commit", waits)
    flow = Dataflow("hits")
    source = flow.source("web", U[Unit, Hit], markers=every(seconds=10, time=lambda hit: hit.ts))
    flow.sink("out", source.through(Mapped()).through(Counted()))
    (tmp_path / "in").mkdir()
    for number, name in enumerate(["a", "b", "c-late", "d-late"]):
        (tmp_path / f"in/{name}.jsonl").write_text(f'{{"page": "x", "ts": {number * 10}}}\n')
    out = tmp_path / "out"
    options: Any = {"backend": "local", "parallelism": 2, "files_per_step": 2, "order": {"web": "name"}}
    with monkeypatch.context() as patch:
        patch.setattr(Kernels, "read", fails)
        with pytest.raises(Exception, match="a reader that fails"):
            run(flow, {"web": tmp_path / "in"}, {"out": out}, **options)
    assert len(rows_of(out)) == 1
    assert run(flow, {"web": tmp_path / "in"}, {"out": out}, **options).read == {"web": 2}
    assert rows_of(out) == [1, 2, 3, 4]


def test_one_worker_reads_nothing_early(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[int]()
    real = Driver._begin

    def begin(self: Driver, tasks: Any, ahead: Any) -> bool:
        seen.append(len(ahead))
        return real(self, tasks, ahead)

    monkeypatch.setattr(Driver, "_begin", begin)
    rows = {name: Rows(tuple((line,) for line in some), 2) for name, some in hits(1, 10).items()}
    backend: Any = LocalBackend(1)
    collect(backend, plan(check(two_stages()), parallelism=1, key_groups=1), rows)
    assert set(seen) == {0}
