"""``tracetypes check | explain | graph | run | test TARGET``, ``state CHECKPOINT``."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tracetypes.check import Checked, check, violations
from tracetypes.errors import CheckFailed, TraceTypesError, UsageError
from tracetypes.formats import Csv, Parquet, format_of
from tracetypes.nodes import Source
from tracetypes.parsing import split_header, text_parser
from tracetypes.progress import Progress
from tracetypes.records import Mismatch
from tracetypes.redaction import redact
from tracetypes.results import Result
from tracetypes.running import MOST_DRAWN, Job, compiled, explain
from tracetypes.targets import load

if TYPE_CHECKING:
    from tracetypes.compiler.backend.control import Control
    from tracetypes.compiler.plan.plan import Plan
    from tracetypes.compiler.plan.program import Program
    from tracetypes.compiler.store.metrics import Batch

__all__ = ["epoch_lines", "epoch_tables", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Exit status: 0 success, 1 fault of the dataflow, its data or its laws, 2 wrong usage, 130
    stopped."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        command: Callable[[argparse.Namespace], int] = given.command
        return command(given)
    except UsageError as error:
        print(f"tracetypes: {error}", file=sys.stderr)
        return 2
    except TraceTypesError as error:
        print(f"tracetypes: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("tracetypes: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 1


def _parser() -> argparse.ArgumentParser:
    from tracetypes import __version__

    parser = argparse.ArgumentParser(
        prog="tracetypes",
        description="Typed streaming dataflows that give the same answer at every parallelism.",
        epilog="TARGET is FILE.py:NAME, package.module:NAME or __main__:NAME of a Dataflow; NAME may be left out when there is "
        "just one.",
    )
    parser.add_argument("--version", action="version", version=f"tracetypes {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    one = commands.add_parser("check", help="report everything that is wrong with a dataflow")
    one.add_argument("target", metavar="TARGET")
    one.set_defaults(command=_check)

    one = commands.add_parser("explain", help="show the graph, the graph after each pass with the reason, and the plan")
    one.add_argument("target", metavar="TARGET")
    _compiling(one)
    one.add_argument(
        "--input",
        "-i",
        action="append",
        default=[],
        metavar="SOURCE=PATH",
        help="the input of a run, as for run: explain says how it is read",
    )
    one.set_defaults(command=_explain)

    one = commands.add_parser("graph", help="draw the typed graph as .svg, or the graph and the plan as .html")
    one.add_argument("target", metavar="TARGET")
    one.add_argument("--output", "-o", required=True, metavar="FILE", help="FILE.svg or FILE.html")
    _compiling(one)
    one.set_defaults(command=_graph)

    one = commands.add_parser("run", help="run a dataflow")
    one.add_argument("target", metavar="TARGET")
    _compiling(one)
    one.add_argument("--backend", choices=["spark"], default="spark", help="the backend (default: spark)")
    one.add_argument(
        "--master", help="Spark master (default: SPARK_MASTER, else local with as many slots as parallelism)"
    )
    one.add_argument(
        "--input",
        "-i",
        action="append",
        default=[],
        metavar="SOURCE=PATH",
        help="a file or directory to read, a topic: kafka://HOST:PORT/TOPIC, or a Delta table: delta:DIR",
    )
    one.add_argument(
        "--output",
        "-o",
        action="append",
        default=[],
        metavar="SINK=DIR",
        help="the directory to write, or a topic or table",
    )
    one.add_argument("--late", metavar="DIR", help="where late items go (default: DIR/_late of the output)")
    one.add_argument("--rejects", metavar="DIR", help="where rejected rows go (default: DIR/_rejects of the output)")
    one.add_argument(
        "--checkpoint", metavar="DIR", help="where the run keeps its progress (default: DIR/_checkpoint of the output)"
    )
    one.add_argument(
        "--channels",
        metavar="TOPICS",
        help="use topics as channels between queries: kafka://HOST:PORT[/PREFIX] (default: files in the checkpoint)",
    )
    one.add_argument("--files-per-step", type=_positive, metavar="N", help="read at most N files a micro-batch")
    one.add_argument(
        "--order",
        action="append",
        default=[],
        metavar="SOURCE=ORDER",
        help="in which order the files of a source are read: by name, modified (their time), or time (the least event time in "
        "them); default: name, with --follow as they come",
    )
    one.add_argument(
        "--appended",
        choices=["error", "read"],
        default="error",
        help="whether lines that are appended to a known file are an error or new rows (default: error)",
    )
    one.add_argument(
        "--no-drain",
        action="store_true",
        help="leave open blocks open at the end, so that the same command goes on later",
    )
    one.add_argument("--follow", action="store_true", help="wait for more files until stopped")
    one.add_argument(
        "--max-late",
        type=_count_or_part,
        metavar="N",
        help="stop when more than N items of a run were late; with a point, such as 0.01: that part of its rows",
    )
    one.add_argument(
        "--max-rejects", type=_count, metavar="N", help="stop when more than N rows of a run were rejected"
    )
    one.add_argument(
        "--no-verify", action="store_true", help="do not compare traced operators with plain Python on a sample of rows"
    )
    one.add_argument(
        "--metrics", metavar="FILE", help="append a JSON line for each micro-batch, with the numbers of each operator"
    )
    one.add_argument("--prometheus", type=_count, metavar="PORT", help="show the same at http://127.0.0.1:PORT/metrics")
    one.add_argument(
        "--progress",
        choices=["lines", "operators", "none"],
        help="a line per micro-batch, or a table with a row per operator (default: a table on a terminal, else lines)",
    )
    one.add_argument("--quiet", "-q", action="store_true", help="nothing but errors")
    one.set_defaults(command=_run)

    one = commands.add_parser("state", help="show what a run keeps as state, of all keys or of one")
    one.add_argument("checkpoint", metavar="CHECKPOINT", help="the --checkpoint of a run, or OUTPUT/_checkpoint")
    one.add_argument(
        "target", nargs="?", metavar="TARGET", help="the dataflow of the run: names the fields of states in columns"
    )
    one.add_argument("--stage", type=int, metavar="N", help="this stage only")
    one.add_argument("--key", metavar="KEY", help="this key only: its text, the form that Python shows, or JSON")
    one.add_argument(
        "--limit", type=_positive, metavar="N", help="show at most N keys, blocks, key groups (default: 10)"
    )
    one.add_argument("--json", action="store_true", help="JSON lines")
    one.set_defaults(command=_state)

    one = commands.add_parser("test", help="test the laws of the operators, and random deployments")
    one.add_argument("target", metavar="TARGET")
    one.add_argument("--examples", type=_positive, default=100, metavar="N", help="random examples for each law")
    one.add_argument(
        "--input",
        "-i",
        action="append",
        default=[],
        metavar="SOURCE=FILE",
        help="a file to take rows from (default: random)",
    )
    one.add_argument("--answers", action="store_true", help=argparse.SUPPRESS)
    one.set_defaults(command=_test)
    return parser


def _compiling(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--parallelism", "-p", type=_positive, default=1, metavar="N", help="tasks at once (default: 1)"
    )
    parser.add_argument(
        "--key-groups",
        type=_positive,
        metavar="N",
        help="pieces that keys are hashed to (default: 16); fixed for a checkpoint",
    )


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0")
    return int(text)


def _count_or_part(text: str) -> int | float:
    try:
        return _count(text)
    except argparse.ArgumentTypeError:
        if text.replace(".", "", 1).isdecimal() and float(text) <= 1:
            return float(text)
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0 and no part such as 0.01") from None


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return value


# ------------------------------------------------------------------------------------------------- targets


def _pairs(given: list[str], option: str, what: str = "PATH") -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        name, equals, path = one.partition("=")
        if not equals or not name or not path:
            raise UsageError("TT402", f"{option} {one}", fix=f"write {option} NAME={what}")
        if name in found:
            fix = "give it once; a directory may hold many files" if what == "PATH" else "give it once"
            raise UsageError("TT402", f"{option} {name}=... is given twice", fix=fix)
        found[name] = path
    return found


# ------------------------------------------------------------------------------------------------- commands


def _check(given: argparse.Namespace) -> int:
    flow = load(given.target)
    found = violations(flow)
    if found:
        print(CheckFailed(found), file=sys.stderr)
        return 1
    checked = check(flow)
    print(f"{flow.name}: {len(checked.graph.nodes)} nodes, no violations")
    return 0


def _explain(given: argparse.Namespace) -> int:
    inputs = _pairs(given.input, "--input")
    print(explain(load(given.target), inputs, parallelism=given.parallelism, key_groups=given.key_groups))
    return 0


def _graph(given: argparse.Namespace) -> int:
    path = Path(given.output)
    ending = path.suffix.lower()
    if ending not in (".svg", ".html"):
        raise UsageError("TT402", f"--output {path}: {ending or 'no ending'}", fix="give FILE.svg or FILE.html")
    checked = check(load(given.target))
    if len(checked.graph.nodes) > MOST_DRAWN:
        raise UsageError(
            "TT402",
            f"dataflow {checked.graph.name!r} has {len(checked.graph.nodes):,} nodes, too many to draw (at most {MOST_DRAWN:,})",
            fix="look at it with tracetypes explain",
        )
    made = _page(given, checked) if ending == ".html" else _svg(checked)
    try:
        path.write_text(redact(made), encoding="utf-8")
    except OSError as error:
        message = f"--output {path}: {error.strerror}"
        raise UsageError("TT402", message, fix="give a file in a directory that can be written") from error
    return 0


def _svg(checked: Checked) -> str:
    from tracetypes.compiler.plan.drawing import svg, typed_graph

    return svg(typed_graph(checked), f"typed graph of {checked.graph.name}", style=True)


def _page(given: argparse.Namespace, checked: Checked) -> str:
    made = compiled(checked, parallelism=given.parallelism, key_groups=given.key_groups)
    from tracetypes.compiler.plan.page import page
    from tracetypes.compiler.spark.wording import SparkWording

    return page(checked, SparkWording(), made)


def _run(given: argparse.Namespace) -> int:
    from tracetypes.compiler.backend.control import Control

    control = Control(starts=True)
    with control.of_signals():
        return _run_job(given, control)


def _run_job(given: argparse.Namespace, control: Control) -> int:
    job = Job(
        load(given.target),
        _pairs(given.input, "--input"),
        _pairs(given.output, "--output"),
        given.parallelism,
        given.key_groups,
        given.checkpoint,
        drain=not given.no_drain,
        follow=given.follow,
        late=given.late,
        rejects=given.rejects,
        files_per_step=given.files_per_step,
        order=cast(Any, _pairs(given.order, "--order", "ORDER")),
        appended=given.appended,
        max_late=given.max_late,
        max_rejects=given.max_rejects,
        verify=not given.no_verify,
        channels=given.channels,
        master=given.master,
    )
    say = Progress(quiet=given.quiet)
    tellers = _tellers(given, say, job.program)

    def tell(batch: Batch) -> None:
        for teller in tellers:
            teller(batch)

    def warn(text: str) -> None:
        say.line(text, always=text.startswith("TT"))

    try:
        result = job.run(control, told=tell, said=warn, status=say.status)
    finally:
        say.end()
    return _ended(say, job, result)


def _tellers(given: argparse.Namespace, say: Progress, program: Program) -> list[Callable[[Batch], None]]:
    """What is called after each epoch."""
    from tracetypes.compiler.store.metrics import json_lines, prometheus

    how = given.progress or ("operators" if say.terminal else "lines")
    tellers: list[Callable[[Batch], None]] = []
    if how != "none":
        tellers.append(epoch_lines(say, program) if how == "lines" else epoch_tables(say, program))
    if given.metrics:
        tellers.append(json_lines(given.metrics))
    if given.prometheus is not None:
        tellers.append(prometheus(program.name, given.prometheus))
    return tellers


def _ended(say: Progress, job: Job, result: Result) -> int:
    """The last lines of a run, and its exit status."""
    for source in result.all_rejected:
        rows = result.read[source]
        print(
            f"tracetypes: TT241 each of the {rows:,} rows of source {source!r} was rejected\n"
            "    fix:      see their reasons; declare the source as its rows are, and take another --checkpoint and output",
            file=sys.stderr,
        )
    _, late, rejects = job.places()
    places = (("late", result.late, late), ("rejected", result.rejects, rejects))
    for (what, counts, place), kept in zip(places, job.kept, strict=True):
        for source, count in counts.items():
            if not kept:
                say.line(f"source {source!r}: {count:,} {what}, and not kept")
                continue
            say.line(f"source {source!r}: {count:,} {what}, with the reason of each in {Path(place) / source}")
    if result.rows == 0 and not result.stopped:
        say.line("no rows in the input: nothing to answer (already answered rows of a checkpoint do not count)")
    for operator, count in result.open.items():
        keys = "1 key has an open window" if count == 1 else f"{count:,} keys have open windows"
        say.line(f"{keys} in {operator}: they are answered when markers come that lie behind them")
    verb = "stopped" if result.stopped else "done"
    written = ", ".join(job.paths.values())
    epochs = "1 micro-batch" if result.epochs == 1 else f"{result.epochs:,} micro-batches"
    say.line(f"{verb}: {result.rows:,} rows in {epochs}, {result.seconds:.1f} s; output in {written}")
    say.line("seconds: " + ", ".join(f"{what} {seconds:.1f}" for what, seconds in result.spent.items()))
    if result.stopped:
        say.line("the same command goes on where it stopped")
    if result.differences:
        names = ", ".join(result.differences)
        print(f"TT240: traced answers of {names} differed from Python, see above", file=sys.stderr)
    return 130 if result.stopped else 1 if result.differences or result.all_rejected else 0


def _state(given: argparse.Namespace) -> int:
    try:
        from tracetypes.compiler.plan.program import program
        from tracetypes.compiler.spark.log import SparkLog, stage_states
        from tracetypes.compiler.spark.session import session
        from tracetypes.compiler.store.inspection import open_all
        from tracetypes.compiler.store.key_state import find_key
        from tracetypes.compiler.store.state_summary import summaries
    except ModuleNotFoundError as error:
        raise UsageError("TT401", f"{error.name} is not installed", fix="pip install 'tracetypes[spark]'") from error

    queries = open_all(given.checkpoint, SparkLog, given.stage)
    plans: dict[str, Plan] = {}
    if given.target is not None:
        groups = next(iter(queries.values())).key_groups
        compiled = program(check(load(given.target)), key_groups=groups)
        plans = dict(compiled.named) if len(compiled.plans) > 1 else {"": compiled.plans[0]}
        for name, kept in queries.items():
            kept.check(plans.get(name), Path(given.checkpoint))
    blobs = partial(stage_states, session(parallelism=1))
    limit = given.limit or 10

    def told(name: str, plain: dict[str, Any], text: str) -> str:
        return json.dumps(({"query": name} if name else {}) | plain, ensure_ascii=False) if given.json else text

    def query(name: str) -> str:
        return f"query {name}, " if name else ""

    if given.key is not None:
        found = find_key(blobs, queries, given.key, given.stage, plans)
        for name, one in itertools.islice(found, given.limit):
            print(told(name, one.plain, query(name) + one.line))
        return 0
    for name, kept in queries.items():
        if not given.json:
            print(f"{query(name)}run {kept.run}, after micro-batch {kept.batch}")
        for stage in summaries(blobs, kept, given.stage, keys=limit):
            print(told(name, stage.plain, "\n".join(stage.lines(limit))))
    return 0


def epoch_lines(say: Progress, program: Program) -> Callable[[Batch], None]:
    """Prints a line for each micro-batch. A query that answers only late items or rejects still reads all rows, so its
    line counts the rows that it writes."""
    from tracetypes.compiler.plan.plan import FromSource
    from tracetypes.compiler.store.metrics import instant

    beside = {
        name if len(program.plans) > 1 else ""
        for name, plan in program.named
        if all(isinstance(leaf, FromSource) and not leaf.gives_items for leaf in plan.leaves)
    }

    def told(batch: Batch) -> None:
        rows = f"{batch.written:,} rows written" if batch.query in beside else f"{batch.rows:,} rows"
        marker = "" if batch.marker is None else f", answered up to {instant(batch.marker)}"
        markers = "marker" if batch.markers == 1 else "markers"
        aside = "".join(
            f", {sum(counts.values()):,} {what}"
            for what, counts in (("late", batch.late), ("rejected", batch.rejects))
            if counts
        )
        which = f"{batch.query}, micro-batch" if batch.query else "micro-batch"
        say.line(f"{which} {batch.number}: {rows}, {batch.markers:,} {markers}{marker}{aside}, {batch.seconds:.1f} s")

    return told


def epoch_tables(say: Progress, compiled: Program) -> Callable[[Batch], None]:
    """Prints a table with a row for each operator."""
    from tracetypes.compiler.store.metrics_table import Table

    table = Table(compiled)

    def told(batch: Batch) -> None:
        table.add(batch)
        say.table(table.lines())

    return told


def _test(given: argparse.Namespace) -> int:
    try:
        import_module("tracetypes.compiler.trial.simulate")
        from tracetypes.testing import answers, check_flow, slices
    except ModuleNotFoundError as error:
        raise UsageError(
            "TT401", f"{error.name} is not installed", fix="pip install 'tracetypes[spark,test]'"
        ) from error

    flow = load(given.target)
    checked = check(flow)
    given_rows = _pairs(given.input, "--input")
    sources = {source.name: source for source in checked.graph.sources}
    for name in given_rows:
        if name not in sources:
            raise UsageError("TT402", f"there is no source {name!r}", fix=f"the sources are {', '.join(sources)}")
    rows = {name: slices(_recorded(checked, sources[name], path)) for name, path in given_rows.items()}
    if given.answers:
        for line in answers(flow, rows=rows, max_examples=given.examples):
            print(line)
        return 0
    target = _elsewhere_named(given.target)
    if target is None:
        print("note    another process cannot import __main__, which has no file: the flow is tested in this one alone")
    elsewhere = None if target is None else partial(_elsewhere, given, target)
    return check_flow(flow, rows=rows, max_examples=given.examples, say=print, elsewhere=elsewhere)


def _elsewhere_named(target: str) -> str | None:
    """A target as another process can name it. ``__main__`` is a file there, or nothing."""
    place, colon, name = target.partition(":")
    if place != "__main__":
        return target
    file = getattr(sys.modules["__main__"], "__file__", None)
    return None if file is None else f"{file}{colon}{name}"


def _elsewhere(given: argparse.Namespace, target: str) -> list[str]:
    """What the same flow means in a process with another seed of hashes."""
    inputs = [part for one in given.input for part in ("--input", one)]
    command = [sys.executable, "-m", "tracetypes.cli", "test", target, "--examples", str(given.examples), *inputs]
    seed = "1" if os.environ.get("PYTHONHASHSEED") == "2" else "2"
    path = os.pathsep.join(filter(None, sys.path))
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
    done = subprocess.run([*command, "--answers"], env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise UsageError(
            "TT407", f"the other process failed: {last}", fix="run the same command again; report it if it stays"
        )
    return [line for line in done.stdout.splitlines() if line.startswith('{"rows"')]


def _recorded(checked: Checked, source: Source, path: str, most: int = 2_000) -> list[Any]:
    """The first rows of a text file that fit a source."""
    layout, format = checked.layout(source), format_of(path, source.format)
    if isinstance(format, Parquet):
        raise UsageError("TT402", f"{path} is Parquet", fix="give rows as JSON lines or CSV")
    rows: list[Any] = []
    try:
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            headed = isinstance(format, Csv) and format.columns is None
            header = split_header(format, file.readline()) if headed and isinstance(format, Csv) else None
            parse = text_parser(format, layout, header)
            for line in itertools.islice(file, most):
                with contextlib.suppress(Mismatch):
                    key, value = parse(line.rstrip("\r\n"))
                    rows.append((key, value) if layout.keyed else value)
    except OSError as error:
        raise UsageError("TT402", f"{path}: {error.strerror}", fix="give a file with rows of the source") from error
    if not rows:
        raise UsageError(
            "TT402", f"no row of {path} fits source {source.name!r}", fix="give a file with rows of the source"
        )
    return rows


if __name__ == "__main__":
    sys.exit(main())
