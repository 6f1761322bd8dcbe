"""Scripted runs with crashes. Their answer must be the definition's, as if nothing had happened."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs

from tracetypes.arrangement import arrange
from tracetypes.check import Checked, check
from tracetypes.errors import LawBroken, UsageError
from tracetypes.graph import Dataflow
from tracetypes.interpreter import interpret
from tracetypes.parsing import Row
from tracetypes.scripts import Crash, Script, Step, entries
from tracetypes.trace import Element, Trace, blocks

__all__ = ["Ran", "check_recovery", "define_scripts", "run_scripts"]

Runner = Literal["simulator", "spark"]


@attrs.frozen
class Ran:
    """The answer of a scripted run. ``traces``: by sink. ``late`` and ``rejects``: counts by source and reason.
    ``crashes``: how many took place."""

    traces: dict[str, Trace[Element]]
    late: Counter[tuple[str, str]]
    rejects: Counter[tuple[str, str]]
    crashes: int = 0


def define_scripts(flow: Dataflow, scripts: Mapping[str, Script]) -> Ran:
    """The answer of the definition for the rows of scripts, without crashes. Raises what an operator raises."""
    checked = check(flow)
    steps = _steps(checked, scripts)
    late: Counter[tuple[str, str]] = Counter()
    rejects: Counter[tuple[str, str]] = Counter()
    streams = {}
    for source in checked.graph.sources:
        arranged = arrange(source, [row for step in _rows(steps[source.name]) for row in step], drain=True)
        streams[source.name] = arranged.items
        late.update((source.name, one.reason) for one in arranged.late)
        rejects.update((source.name, reason) for _, reason in arranged.rejects)
    return Ran(interpret(checked, streams), late, rejects)


def run_scripts(
    flow: Dataflow,
    scripts: Mapping[str, Script],
    *,
    on: Runner = "simulator",
    parallelism: int = 2,
    key_groups: int = 4,
    seed: int = 0,
) -> Ran:
    """Run a dataflow to its end, each source by its script, with a temporary checkpoint.

    ``on="spark"``: in a process of its own, which is really killed and started again (needs ``tracetypes[spark]`` and
    Java, and about ten seconds for each process). ``on="simulator"``: a crash loses the work of a step and all state
    since the last commit, and the step runs again; ``seed`` decides what else happens to the data. Raises
    :class:`UsageError` ``TT402`` for scripts of unknown sources and ``TT407`` for impossible scripts, and whatever the
    run itself raises.
    """
    checked = check(flow)
    steps = _steps(checked, scripts)
    if on == "spark":
        return _on_spark(flow, steps, parallelism, key_groups)
    from tracetypes.compiler.plan.program import program
    from tracetypes.compiler.trial.simulate import simulate_scripts

    compiled = program(checked, parallelism=parallelism, key_groups=key_groups)
    crashes = [(n, one) for of in steps.values() for n, step in enumerate(of) for one in step if isinstance(one, Crash)]
    lost = {number for number, crash in crashes if crash.when != "committed"}
    rows = {name: _rows(of_source) for name, of_source in steps.items()}
    answers = simulate_scripts(compiled, rows, seed=seed, crashes=lost)
    late = Counter((source, reason) for answer in answers.values() for source, reason, _ in answer.late)
    rejects = Counter((source, reason) for answer in answers.values() for source, reason, _ in answer.rejects)
    return Ran({name: answers[name].trace for name in compiled.sinks}, late, rejects, len(crashes))


def _on_spark(flow: Dataflow, steps: Mapping[str, Sequence[Step]], parallelism: int, key_groups: int) -> Ran:
    try:
        from tracetypes.compiler.trial.rehearsal import Job, answers, rehearse, side_outputs
    except ModuleNotFoundError as error:
        raise UsageError("TT401", f"{error.name} is not installed", fix="pip install 'tracetypes[spark]'") from error

    job = Job(flow, steps, parallelism, key_groups)
    with tempfile.TemporaryDirectory(prefix="tracetypes-") as directory:
        place = Path(directory)
        crashes = rehearse(job, place)
        return Ran(answers(job, place), side_outputs(place, "late"), side_outputs(place, "rejects"), crashes)


def check_recovery(
    flow: Dataflow,
    scripts: Mapping[str, Script],
    *,
    on: Runner = "simulator",
    parallelism: int = 2,
    key_groups: int = 4,
    seed: int = 0,
) -> Ran:
    """Run a dataflow as :func:`run_scripts` does, and compare traces, late rows and rejects with the definition.

    Returns the answer. Raises :class:`LawBroken` ``TT311`` with the first block that differs: the items that it lacks,
    and those that it has too many.
    """
    __tracebackhide__ = True
    defined = define_scripts(flow, scripts)
    ran = run_scripts(flow, scripts, on=on, parallelism=parallelism, key_groups=key_groups, seed=seed)
    for sink, trace in defined.traces.items():
        if ran.traces[sink] != trace:
            raise _broken(flow, scripts, f"another answer at sink {sink!r}", _block(trace, ran.traces[sink]))
    for what, mine, theirs in (("late", defined.late, ran.late), ("rejected", defined.rejects, ran.rejects)):
        if mine != theirs:
            raise _broken(flow, scripts, f"other {what} rows", _difference(mine, theirs))
    return ran


def _steps(checked: Checked, scripts: Mapping[str, Script]) -> dict[str, Sequence[Step]]:
    names = {source.name for source in checked.graph.sources}
    for name in scripts:
        if name not in names:
            raise UsageError("TT402", f"there is no source {name!r}", fix=f"the sources are {', '.join(sorted(names))}")
    return {
        source.name: entries(scripts.get(source.name, Script()), source, checked.layout(source))
        for source in checked.graph.sources
    }


def _rows(steps: Sequence[Step]) -> list[list[Row]]:
    return [[one for one in step if not isinstance(one, Crash)] for step in steps]


def _broken(flow: Dataflow, scripts: Mapping[str, Script], what: str, lines: Sequence[tuple[str, str]]) -> LawBroken:
    pairs = [("script", f"{name}: {script}") for name, script in scripts.items()]
    body = "\n".join(f"    {label + ':':<9} {text}" for label, text in [*pairs, *lines])
    return LawBroken(
        "TT311",
        f"dataflow {flow.name!r} gives {what} after a crash\n{body}",
        fix="let nothing but the state of an operator remember, and write nothing by hand: a step that is lost is done again",
    )


def _block(defined: Trace[Element], ran: Trace[Element]) -> list[tuple[str, str]]:
    """The first block that differs."""
    mine, theirs = ({block.marker: block.items for block in blocks(trace)} for trace in (defined, ran))
    markers = sorted({one for one in (*mine, *theirs) if one is not None}, key=lambda marker: marker.micros)
    for marker in (*markers, None):
        items = [one.get(marker, ()) for one in (mine, theirs)]
        if (marker in mine) != (marker in theirs):
            return [
                ("block", f"{marker} is there once only"),
                ("defined", _listed(items[0])),
                ("after", _listed(items[1])),
            ]
        if Trace(defined.type, items[0]) != Trace(defined.type, items[1]):
            differ = _difference(*(Counter(map(repr, one)) for one in items))
            order = [("defined", _listed(items[0])), ("after", _listed(items[1]))]
            return [("block", f"{marker}"), *(differ or order)]
    raise AssertionError("the traces are equal")


def _listed(elements: Sequence[object]) -> str:
    return _short(" ".join(map(repr, elements)) or "nothing")


def _difference(mine: Counter[Any], theirs: Counter[Any]) -> list[tuple[str, str]]:
    differences = (("missing", mine - theirs), ("too much", theirs - mine))
    return [(label, _short(" ".join(map(str, counts.elements())))) for label, counts in differences if counts]


def _short(text: str) -> str:
    return text if len(text) <= 400 else text[:397] + "..."
