"""Plans on the ordered runtime: whoever works on them, however the work is scheduled, the answer is the interpreter's."""

from __future__ import annotations

import json
import random
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st

from tests.graphs import Case, cases, wrong
from tests.spark.support import defined, differences
from tests.spark.test_agreement import as_lines, cut
from tracetypes import (
    Dataflow,
    Emit,
    EmitValue,
    OpKeyedOrdered,
    OpKeyedUnordered,
    OpStateless,
    Stream,
    U,
    Unit,
    check,
    every,
    merge,
    sort,
)
from tracetypes import run as run_flow
from tracetypes.arguments import parser
from tracetypes.compiler.connectors.program_rows import Rows
from tracetypes.compiler.local import exchange
from tracetypes.compiler.local.backend import LocalBackend, LocalEngine
from tracetypes.compiler.local.driver import Driver
from tracetypes.compiler.local.kernels import Kernels
from tracetypes.compiler.local.lateness import Lateness
from tracetypes.compiler.local.options import HEURISTICS_BY_OPTION, SCHEMES, LocalOptions
from tracetypes.compiler.local.ordered.heuristics import CurrentThroughput
from tracetypes.compiler.local.ordered.marks import Gather
from tracetypes.compiler.plan.facts import is_straight
from tracetypes.compiler.plan.plan import Plan, StageLink, links
from tracetypes.compiler.plan.planner import plan
from tracetypes.compiler.spark.run import collect, run
from tracetypes.compiler.store.output_trace import Answer
from tracetypes.compiler.store.outputs import FileOutput
from tracetypes.errors import TraceTypesError, UsageError
from tracetypes.nodes import Apply
from tracetypes.run_arguments import SCHEDULING
from tracetypes.running import engine_of

QUICK: Final = set(Phase) - {Phase.shrink, Phase.explain}

Lines = Mapping[str, Sequence[str]]

ways = st.builds(
    LocalOptions,
    reorder=st.sampled_from(("typed", "serial")),
    heuristic=st.sampled_from((*sorted(HEURISTICS_BY_OPTION), "lp:3", "qst:2")),
    queue=st.sampled_from(sorted(SCHEMES)),
    least=st.sampled_from((1, 5, 1 << 16)),
    fuse=st.booleans(),
)
"""Ways to run a plan."""


def answer(
    flow: Dataflow, lines: Lines, options: LocalOptions, workers: int, *, groups: int = 3, seed: int = 0, drain: bool = True
) -> Answer:
    """Run lines, cut into files at random."""
    chance = random.Random(seed)
    rows = {name: Rows(cut(some, chance), chance.choice((None, 2, 3))) for name, some in lines.items()}
    planned = plan(check(flow), parallelism=workers, key_groups=max(groups, workers), fuse=options.fuse)
    backend: Any = LocalBackend(workers, options)
    return collect(backend, planned, rows, drain=drain).answer


def agrees(case: Case, options: LocalOptions, workers: int) -> None:
    checked = case.checked
    lines = {source.name: as_lines(checked.layout(source), case.rows[source.name]) for source in checked.graph.sources}
    drain = case.drain or is_straight(plan(checked))  # whose rows do not wait for their markers
    expected = defined(case.flow, lines, drain=drain)
    found = answer(case.flow, lines, options, workers, groups=case.key_groups, seed=case.seed, drain=drain)
    assert differences(case.flow, found, expected) == []


@settings(max_examples=12, phases=QUICK, suppress_health_check=list(HealthCheck), deadline=None)
@given(cases(most_operators=3), ways, st.integers(1, 8))
def test_random_graphs_scheduled_in_every_way(case: Case, options: LocalOptions, workers: int) -> None:
    agrees(case, options, workers)


@pytest.mark.nightly
@settings(max_examples=600, phases=QUICK, suppress_health_check=list(HealthCheck), deadline=None)
@given(cases(most_sources=4, most_operators=5), ways, st.integers(1, 8))
def test_many_random_graphs_scheduled_in_every_way(case: Case, options: LocalOptions, workers: int) -> None:
    agrees(case, options, workers)


@settings(max_examples=2 * settings().max_examples, suppress_health_check=list(HealthCheck), deadline=None)
@given(cases(most_operators=4))
def test_plans_that_are_not_fused_mean_the_same(case: Case) -> None:
    assert wrong(case, case.checked, fuse=False) == []


# ------------------------------------------------------------------------------------------------------ a flow


@attrs.frozen
class Hit:
    """A hit of a page."""

    page: str
    ts: int


@attrs.frozen
class Mapped(OpStateless[Unit, Hit, str, int]):
    """By page."""

    def on_item(self, key: Unit, value: Hit, emit: Emit[str, int]) -> None:
        emit(value.page, 1)


@attrs.frozen
class Counted(OpKeyedUnordered[str, int, str, int, int, int]):
    """How often each page was hit."""

    def lift(self, key: str, value: int) -> int:
        return value

    def identity(self) -> int:
        return 0

    def combine(self, one: int, other: int) -> int:
        return one + other

    def initial_state(self) -> int:
        return 0

    def update_state(self, state: int, agg: int) -> int:
        return state + agg

    def on_marker(self, new_state: int, key: str, marker: Any, emit: Emit[str, int]) -> None:
        emit(key, new_state)


@attrs.frozen
class Last(OpKeyedOrdered[str, int, int, int]):
    """The differences of neighbours."""

    def initial_state(self) -> int:
        return 0

    def on_item(self, state: int, key: str, value: int, emit: EmitValue[int]) -> int:
        emit(value - state)
        return value


@attrs.frozen
class ByCount(OpStateless[str, int, int, str]):
    """By the count."""

    def on_item(self, key: str, value: int, emit: Emit[int, str]) -> None:
        emit(value % 5, key)


@attrs.frozen
class Pages(OpKeyedUnordered[int, str, int, str, str, str]):
    """All pages of a count, in order."""

    def lift(self, key: int, value: str) -> str:
        return value

    def identity(self) -> str:
        return ""

    def combine(self, one: str, other: str) -> str:
        return "".join(sorted(one + other))

    def initial_state(self) -> str:
        return ""

    def update_state(self, state: str, agg: str) -> str:
        return agg

    def on_marker(self, new_state: str, key: int, marker: Any, emit: Emit[int, str]) -> None:
        emit(key, new_state)


def two_stages() -> Dataflow:
    """Counts, and pages by their counts: two stages, of two sources."""
    flow = Dataflow("hits")
    streams: list[Stream[U[str, int]]] = []
    for name in ("web", "app"):
        hits = flow.source(name, U[Unit, Hit], markers=every(seconds=10, time=lambda hit: hit.ts, delay=10))
        streams.append(hits.through(Mapped()))
    flow.sink("pages", merge(*streams).through(Counted()).through(ByCount()).through(Pages()))
    return flow


def hits(seed: int, count: int = 120) -> Lines:
    """Hits of both sources, some of them late."""
    chance = random.Random(seed)
    return {
        name: [
            f'{{"page": "{chance.choice("abcdefgh")}", "ts": {max(0, at + chance.randint(-30, 8))}}}' for at in range(count)
        ]
        for name in ("web", "app")
    }


def is_right(flow: Dataflow, lines: Lines, options: LocalOptions, workers: int, seed: int = 0) -> bool:
    found = answer(flow, lines, options, workers, seed=seed)
    return differences(flow, found, defined(flow, lines)) == []


def test_two_stages_with_late_items() -> None:
    for seed in range(3):
        for reorder in ("typed", "serial"):
            assert is_right(two_stages(), hits(seed), LocalOptions(reorder=reorder, least=1), 3, seed)


# --------------------------------------------------------------------------------------------- broken twins


def _first_part_is_enough(patch: pytest.MonkeyPatch) -> None:
    """A mark is sent when its first part is done."""
    real = Gather.add
    patch.setattr(Gather, "add", lambda self, *part: real(self, *part) or self.pending.fetch_add(0) == len(self.outputs) - 1)


def _guesses_are_believed(patch: pytest.MonkeyPatch) -> None:
    """No split is read again."""
    patch.setattr(Lateness, "settle", lambda self, answer: answer)
    patch.setattr(Lateness, "_guesses", lambda self, task: {})


def _splits_in_any_order(patch: pytest.MonkeyPatch) -> None:
    """Splits are settled as they come."""
    patch.setattr(exchange.SplitQueue, "take", lambda self, one: [one])
    real = Kernels.read
    first = threading.Event()

    def read(self: Kernels, task: Any, before: Callable[[int], int | None]) -> Any:
        if task.number == 0:
            first.wait(0.05)
        result = real(self, task, before)
        if task.number:
            first.set()
        return result

    patch.setattr(Kernels, "read", read)


def _without_the_barriers_batch(patch: pytest.MonkeyPatch) -> None:
    """What waits in an exchange at the end of an epoch is forgotten."""
    real = exchange.Exchange._batch

    def batch(self: exchange.Exchange, *, last: bool) -> Any:
        if last:
            self.pending = [one for one in self.pending if type(one.body).__name__ == "Drain"]
        return real(self, last=last)

    patch.setattr(exchange.Exchange, "_batch", batch)


@pytest.mark.parametrize(
    "broken", [_first_part_is_enough, _guesses_are_believed, _splits_in_any_order, _without_the_barriers_batch]
)
def test_a_broken_twin_is_caught(broken: Callable[[pytest.MonkeyPatch], None]) -> None:
    flow, lines = two_stages(), hits(1)

    def right() -> bool:
        try:
            return is_right(flow, lines, LocalOptions(least=1), 3)
        except Exception:
            return False

    assert right()
    with pytest.MonkeyPatch.context() as patch:
        broken(patch)
        assert not all(right() for _ in range(5))


# ----------------------------------------------------------------------------------------------- late items


def test_a_split_is_read_again_when_earlier_ones_make_its_items_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not its epoch: the other splits are read once."""
    flow, known = two_stages(), threading.Event()
    read = list[int]()
    real = Kernels.read

    def slowly(self: Kernels, task: Any, before: Callable[[int], int | None]) -> Any:
        if task.link.leaf.label == "web":
            if task.number == 0:
                known.wait(5)
            read.append(task.number)
        result = real(self, task, before)
        if task.link.leaf.label == "web" and task.number == 1:
            known.set()
        return result

    monkeypatch.setattr(Kernels, "read", slowly)
    web = ['{"page": "a", "ts": 500}', '{"page": "b", "ts": 100}', '{"page": "c", "ts": 505}']
    lines = {"web": web, "app": ['{"page": "a", "ts": 500}']}
    planned = plan(check(flow), parallelism=3, key_groups=3)
    rows = {name: Rows(tuple((line,) for line in some)) for name, some in lines.items()}
    backend: Any = LocalBackend(3)
    found = collect(backend, planned, rows).answer
    assert differences(flow, found, defined(flow, lines)) == []
    assert len(found.late) == 1
    assert sorted(read) == [0, 1, 1, 2]


# --------------------------------------------------------------------------------------------- serial order


def counts_and_hits() -> Dataflow:
    """Counts of one source beside the hits of another and of a third one: rows come from a stage, and from splits."""
    flow = Dataflow("hits")
    streams: list[Stream[U[str, int]]] = []
    for name in ("web", "app", "bot"):
        source = flow.source(name, U[Unit, Hit], markers=every(seconds=10, time=lambda hit: hit.ts, delay=10))
        streams.append(source.through(Mapped()))
    web, *others = streams
    flow.sink("all", merge(web.through(Counted()), *others))
    return flow


def run_into(path: Path, flow: Dataflow, lines: Lines, workers: int, options: LocalOptions) -> bytes:
    """The bytes of all files of a run, in the order of their names."""
    chance = random.Random(4)
    rows = {name: Rows(cut(some, chance), 2) for name, some in lines.items()}
    planned = plan(check(flow), parallelism=workers, key_groups=8)
    backend: Any = LocalBackend(workers, options)
    output = FileOutput(planned, f"{path}/out", "run", f"{path}/late", f"{path}/rejects")
    run(backend, planned, rows, output, checkpoint=f"{path}/checkpoint")
    return b"".join(file.read_bytes() for file in sorted((path / "out").glob("part-*")))


@pytest.mark.parametrize("make", [two_stages, counts_and_hits])
def test_in_serial_order_rows_stand_as_one_worker_writes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[], Dataflow]
) -> None:
    lines = {**hits(2, 60), "bot": hits(3, 60)["web"]}
    real, chance = Kernels.read, random.Random(0)

    def unevenly(self: Kernels, task: Any, before: Callable[[int], int | None]) -> Any:
        threading.Event().wait(chance.random() / 200)
        return real(self, task, before)

    monkeypatch.setattr(Kernels, "read", unevenly)
    flow = make()
    lines = {source.name: lines[source.name] for source in check(flow).graph.sources}
    alone = run_into(tmp_path / "1", flow, lines, 1, LocalOptions(reorder="serial", least=1))
    assert alone.count(b"\n") > 30
    typed = set()
    for workers in (2, 4, 8):
        for heuristic in ("ct-inflow", "ct", "lp"):
            options = LocalOptions(reorder="serial", least=1, heuristic=heuristic)
            assert run_into(tmp_path / f"{workers}{heuristic}", flow, lines, workers, options) == alone
            options = attrs.evolve(options, reorder="typed")
            typed.add(run_into(tmp_path / f"typed{workers}{heuristic}", flow, lines, workers, options))
    assert {b"".join(sorted(one.splitlines())) for one in typed} == {b"".join(sorted(alone.splitlines()))}
    assert make is two_stages or typed - {alone}, "the test cannot fail"


# -------------------------------------------------------------------------------------------------- options


def test_options_of_a_run() -> None:
    """From Python and from the command line."""
    assert {name: values[0] for name, values in SCHEDULING.items()} == {
        "reorder": LocalOptions().reorder,
        "heuristic": LocalOptions().heuristic,
        "queue": LocalOptions().queue,
        "processes": LocalOptions().processes,
    }
    assert (set(SCHEDULING["heuristic"]), set(SCHEDULING["queue"])) == (set(HEURISTICS_BY_OPTION), set(SCHEMES))
    engine = engine_of("local", None, {"reorder": "serial", "heuristic": "lp", "queue": "shared", "fuse": False})
    assert engine == LocalEngine(LocalOptions(reorder="serial", heuristic="lp", queue="shared", fuse=False))
    arguments = parser(defaultdict(lambda: lambda _: 0))
    given_ = arguments.parse_args(["run", "x.py", "--reorder", "serial", "--queue", "partitioned", "--no-fuse"])
    assert engine_of("local", None, vars(given_)) == LocalEngine(
        LocalOptions(reorder="serial", queue="partitioned", fuse=False)
    )
    assert engine_of("local", None, vars(arguments.parse_args(["run", "x.py"]))) == LocalEngine()


@pytest.mark.parametrize(("option", "value"), [("reorder", "serial"), ("heuristic", "et"), ("queue", "shared"), ("fuse", False)])
def test_TT402_an_option_of_the_local_backend(option: str, value: object) -> None:
    with pytest.raises(UsageError, match="--no-fuse" if option == "fuse" else f"--{option}") as error:
        engine_of("spark", None, {option: value})
    assert error.value.code == "TT402"
    assert engine_of("spark", None, {option: None}).fuses
    with pytest.raises(UsageError, match=f"{option} is 'other'") as error:
        engine_of("local", None, {option: "other"})
    assert error.value.code == "TT402"


def test_a_chain_that_is_not_fused(tmp_path: Path) -> None:
    """Each keyed operator is a stage of its own, with the same answer. A checkpoint stays with one of the two."""
    flow = Dataflow("hits")
    source = flow.source("web", U[Unit, Hit], markers=every(seconds=10, time=lambda hit: hit.ts, delay=10))
    by_page = source.through(Mapped()).through(sort(by=lambda n: n))
    flow.sink("out", by_page.through(Last()).through(Last()).through(Counted()))
    stages = [[len(stage.steps) for stage in plan(check(flow), fuse=fuse).stages] for fuse in (True, False)]
    assert stages == [[4], [2, 2, 1]]
    lines = [json.loads(line) for line in hits(5)["web"]]
    rows = [Hit(line["page"], line["ts"]) for line in lines]
    answers = []
    for fuse in (True, False):
        out = list[Any]()
        result = run_flow(flow, {"web": rows}, {"out": out}, backend="local", parallelism=3, fuse=fuse)
        answers.append((sorted(out), len(result.late_rows)))
    assert answers[0] == answers[1]
    assert answers[0][0]
    options: Any = {"inputs": {"web": rows}, "outputs": {"out": str(tmp_path / "out")}, "backend": "local"}
    run_flow(flow, **options, drain=False, fuse=False)
    with pytest.raises(TraceTypesError, match=r"\n *--no-fuse: was given, is nothing\n") as error:
        run_flow(flow, **options)
    assert error.value.code == "TT211"
    options["outputs"] = {"out": str(tmp_path / "other")}
    run_flow(flow, **options, drain=False)
    with pytest.raises(TraceTypesError, match=r"graph:\n *--no-fuse: was nothing, is given\n") as error:
        run_flow(flow, **options, fuse=False)
    assert error.value.code == "TT211"


def test_a_plan_that_is_the_same_unfused_goes_on(tmp_path: Path) -> None:
    flow = Dataflow("hits")
    source = flow.source("web", U[Unit, Hit], markers=every(seconds=10, time=lambda hit: hit.ts, delay=10))
    flow.sink("out", source.through(Mapped()).through(Counted()))
    rows = [Hit("a", at) for at in range(30)]
    options: Any = {"inputs": {"web": rows}, "outputs": {"out": str(tmp_path / "out")}, "backend": "local"}
    run_flow(flow, **options, drain=False)
    run_flow(flow, **options, fuse=False)


def together(planned: Plan) -> dict[object, int]:
    """How many operators run in each unit of the runtime: where a source is read, or in a stage and where it sends."""
    ways = [(stage.number, link) for stage in planned.stages for link in links(stage.region)]
    ways += [(len(planned.stages), link) for link in links(planned.region)]
    counts: dict[object, int] = {
        stage.number: sum(isinstance(step.node, Apply) for step in stage.steps) for stage in planned.stages
    }
    paths = dict[object, set[int]]()
    for number, link in ways:
        at = link.leaf.stage if isinstance(link, StageLink) else (number, link.number)
        paths.setdefault(at, set()).update(id(step) for step in link.path)
    return {at: counts.get(at, 0) + len(paths.get(at, ())) for at in {*counts, *paths}}


def held(case: Case) -> bool:
    return any(isinstance(node, Apply) and not isinstance(node.op, OpStateless) for node in check(case.flow).graph.nodes)


@given(cases())
@settings(max_examples=3 * settings().max_examples, deadline=None, suppress_health_check=list(HealthCheck))
def test_each_operator_is_a_unit(case: Case) -> None:
    """Where nothing is fused and a keyed operator holds items back. Without one, stateless operators stay together."""
    try:
        planned = plan(check(case.flow), parallelism=3, fuse=False)
    except UsageError:
        reject()
    assert max(together(planned).values()) <= 1 or not held(case)


def test_operators_are_together_where_they_are_fused() -> None:
    assert max(together(plan(check(two_stages()), fuse=True)).values()) > 1


def test_the_numbers_of_heuristics() -> None:
    """The minimum worklist of LP and the capacity of QST, in Python and on the command line."""
    arguments = parser(defaultdict(lambda: lambda _: 0))
    numbers = [("lp", "least", 1), ("lp:8", "least", 8), ("qst", "capacity", 1024), ("qst:256", "capacity", 256)]
    for option, name, number in numbers:
        given_ = arguments.parse_args(["run", "x.py", "--heuristic", option])
        assert engine_of("local", None, vars(given_)) == LocalEngine(LocalOptions(heuristic=option))
        nobody: Any = None
        driver = Driver(plan(check(two_stages())), LocalOptions(heuristic=option), nobody, nobody, nobody)
        assert vars(driver.heuristic)[name] == number


@pytest.mark.parametrize("wrong", ["lp:", "lp:0", "lp:-1", "lp:x", "lp:1.5", "lp:8:8", "ct:8", "et:1", ":8", "", "lp:²"])
def test_TT402_a_number_of_a_heuristic(wrong: str) -> None:
    with pytest.raises(UsageError, match=f"heuristic is {wrong!r}") as error:
        engine_of("local", None, {"heuristic": wrong})
    assert error.value.code == "TT402"
    assert "lp[:N]" in str(error.value.fix)
    with pytest.raises(UsageError) as error:
        parser(defaultdict(lambda: lambda _: 0)).parse_args(["run", "x.py", f"--heuristic={wrong}"])
    assert f"{wrong!r} is none of ct-inflow, ct, lp[:N], et, qst[:N], with N from 1" in str(error.value)


def test_ct_is_the_published_formula() -> None:
    """Over the outputs of an operator. The default is over its inputs."""
    published, by_inflow = HEURISTICS_BY_OPTION["ct"](), HEURISTICS_BY_OPTION["ct-inflow"]()
    assert isinstance(published, CurrentThroughput)
    assert isinstance(by_inflow, CurrentThroughput)
    assert (published.by_inflow, by_inflow.by_inflow) == (False, True)
    assert [type(HEURISTICS_BY_OPTION[name]()).__name__ for name in ("ct", "lp", "et", "qst")] == [
        *("CurrentThroughput", "LastInPipeline", "EstimatedTime", "QueueSizeThrottling")
    ]
    assert LocalOptions().heuristic == "ct-inflow"
