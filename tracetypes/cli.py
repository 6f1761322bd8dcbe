"""``tracetypes check | explain | graph | run | test | schema TARGET``, ``state CHECKPOINT``, ``record ADDRESS``, ``prepare``,
``submit-files DIR``, ``workspace ACTION``."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tracetypes.arguments import pairs, parser
from tracetypes.check import Checked, check, violations
from tracetypes.compiler.backend.clock import Clock
from tracetypes.compiler.backend.compilation import compile_program, extras
from tracetypes.compiler.backend.progress_lines import epoch_lines, epoch_tables, last_lines, short_path
from tracetypes.compiler.backend.run_request import RunRequest
from tracetypes.compiler.backend.shadow_run import ShadowRun
from tracetypes.errors import CheckFailed, TraceTypesError, UsageError
from tracetypes.example_files import copy_example, example_lines
from tracetypes.interrupt import raise_interrupts
from tracetypes.new_project import first_steps, module_name, project_files, project_files_for, write_project
from tracetypes.progress import Progress, error_record
from tracetypes.recorded_rows import recorded_rows
from tracetypes.redaction import redact
from tracetypes.results import Result
from tracetypes.run_config import configured
from tracetypes.running import MOST_DRAWN, engine_of, explain, page_of, wording_of
from tracetypes.targets import load, load_record

if TYPE_CHECKING:
    from tracetypes.compiler.backend.control import Control
    from tracetypes.compiler.plan.program import Program
    from tracetypes.compiler.store.earlier_run import EarlierRun
    from tracetypes.compiler.store.metrics import Batch

__all__ = ["epoch_lines", "epoch_tables", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Exit status: 0 success, 1 fault of the dataflow, its data or its laws, 2 wrong usage, 130
    stopped."""
    raise_interrupts()
    commands = {"check": _check, "explain": _explain, "graph": _graph, "prepare": _prepare, "run": _run, "state": _state}
    commands |= {"examples": _examples, "new": _new, "record": _record, "schema": _schema, "submit-files": _submit_files}
    commands |= {"test": _test, "workspace": _workspace}
    whole = parser(commands)
    parsed = argparse.Namespace()
    try:
        parsed, unknown = whole.parse_known_args(arguments)
        if getattr(parsed, "config", None) is not None and not unknown:
            words = sys.argv[1:] if arguments is None else arguments
            parsed, unknown = whole.parse_known_args(configured(words, parsed, parsed.parser.options))
        if unknown:
            parsed.parser.refuse_unknown(unknown, whole)
        command: Callable[[argparse.Namespace], int] = parsed.command
        return command(parsed)
    except TraceTypesError as error:
        as_json = getattr(parsed, "log_format", "text") == "json"
        print(error_record(error) if as_json else f"tracetypes: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        print("tracetypes: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 1


# ------------------------------------------------------------------------------------------------- commands


def _check(arguments: argparse.Namespace) -> int:
    flow = load(arguments.target)
    problems = violations(flow)
    if problems:
        print(CheckFailed(problems), file=sys.stderr)
        return 1
    checked = check(flow)
    print(f"{flow.name}: {len(checked.graph.nodes)} nodes, no violations")
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    inputs = pairs(arguments.input, "--input")
    flow, width, groups = load(arguments.target), arguments.parallelism, arguments.key_groups
    print(explain(flow, inputs, backend=arguments.backend, parallelism=width, key_groups=groups, passes=arguments.passes))
    return 0


def _graph(arguments: argparse.Namespace) -> int:
    path = Path(arguments.output)
    ending = path.suffix.lower()
    if ending not in (".svg", ".html"):
        raise UsageError("TT402", f"--output {path}: {ending or 'no ending'}", fix="give FILE.svg or FILE.html")
    checked = check(load(arguments.target))
    if len(checked.graph.nodes) > MOST_DRAWN:
        raise UsageError(
            "TT402",
            f"dataflow {checked.graph.name!r} has {len(checked.graph.nodes):,} nodes, too many to draw (at most {MOST_DRAWN:,})",
            fix="look at it with tracetypes explain",
        )
    content = _page(arguments, checked) if ending == ".html" else _svg(checked)
    try:
        path.write_text(redact(content), encoding="utf-8")
    except OSError as error:
        message = f"--output {path}: {error.strerror}"
        raise UsageError("TT402", message, fix="give a file in a directory that can be written") from error
    return 0


def _svg(checked: Checked) -> str:
    from tracetypes.compiler.plan.drawing import svg, typed_graph
    from tracetypes.compiler.plan.viewing import standalone

    return standalone(svg(typed_graph(checked), f"typed graph of {checked.graph.name}", style=True))


def _page(arguments: argparse.Namespace, checked: Checked) -> str:
    program = compile_program(checked, parallelism=arguments.parallelism, key_groups=arguments.key_groups)
    from tracetypes.compiler.plan.operator_runs import NoBackend, Wording
    from tracetypes.compiler.plan.page import page

    wording: Wording = NoBackend()
    with suppress(UsageError):  # no backend is installed
        wording = wording_of(None, {})
    return page(checked, wording, program)


def _run(arguments: argparse.Namespace) -> int:
    from tracetypes.compiler.backend.control import Control

    control = Control(starts=True)
    with control.of_signals():
        shadow, result, status = _run_job(arguments, control)
    if shadow is not None and not result.stopped:
        _compare(shadow, Progress(quiet=arguments.quiet, json=arguments.log_format == "json"))
    return status


def _run_job(arguments: argparse.Namespace, control: Control) -> tuple[ShadowRun | None, Result, int]:
    if arguments.target is None:
        raise UsageError("TT402", "no dataflow is given", fix="give FILE.py:NAME, or target in --config")
    clock, flow = Clock.of_process(), load(arguments.target)
    clock.lap("start of Python")
    say = Progress(quiet=arguments.quiet, json=arguments.log_format == "json")
    job = RunRequest(
        flow,
        pairs(arguments.input, "--input"),
        pairs(arguments.output, "--output"),
        arguments.parallelism,
        arguments.key_groups,
        arguments.checkpoint,
        drain=not arguments.no_drain,
        follow=arguments.follow,
        late=arguments.late,
        rejects=arguments.rejects,
        files_per_step=arguments.files_per_step,
        order=cast(Any, pairs(arguments.order, "--order", "ORDER")),
        appended=arguments.appended,
        max_late=arguments.max_late,
        max_rejects=arguments.max_rejects,
        verify=not arguments.no_verify,
        overwrite=False if arguments.overwrite is None else partial(_overwrite, say, ask=arguments.overwrite == "ask"),
        channels=arguments.channels,
        engine=engine_of(arguments.backend, arguments.master, vars(arguments)),
        clock=clock,
    )
    shadow = None if arguments.shadow is None else ShadowRun.of(job, arguments.shadow)
    with extras():
        tellers = _tellers(arguments, say, job.program)
    page = None if arguments.page is None else page_of(job, arguments.page)
    if page is not None:
        tellers.append(page.add)
        say.line(f"page: {page.address}", always=True)

    def tell(batch: Batch) -> None:
        for teller in tellers:
            teller(batch)

    def warn(text: str) -> None:
        say.line(text, always=text.startswith("TT"))

    with nullcontext() if page is None else page:
        try:
            result = job.run(control, on_batch=tell, notify=warn, status=say.status)
        finally:
            say.end()
            for teller in tellers:
                getattr(teller, "close", lambda: None)()
    return shadow, result, last_lines(say, job, result)


def _overwrite(say: Progress, found: EarlierRun, *, ask: bool) -> None:
    """Say what ``--overwrite`` removes, and ask for it. Raises :class:`UsageError` ``TT402`` to keep it."""
    what, kept = ", ".join(found.removed), "".join(f", and keeps {one}" for one in found.kept)
    if ask and not (sys.stdin.isatty() and say.terminal):
        raise UsageError("TT402", f"--overwrite removes {what}{kept}, and nobody can be asked here", fix="give --overwrite=yes")
    say.line(f"--overwrite removes {what}{kept}", always=ask)
    if ask and input("remove this? [y/N] ").strip().lower() not in ("y", "yes"):
        raise UsageError("TT402", "nothing was removed", fix="give another --checkpoint and output, or answer y")


def _tellers(arguments: argparse.Namespace, say: Progress, program: Program) -> list[Callable[[Batch], None]]:
    """What is called after each epoch."""
    from tracetypes.compiler.store.metrics import json_lines, prometheus

    how = arguments.progress or ("operators" if say.terminal else "lines")
    tellers: list[Callable[[Batch], None]] = []
    if say.json and how != "none":
        tellers.append(lambda batch: say.record("micro-batch", batch.plain))
    elif how != "none":
        tellers.append(epoch_lines(say, program) if how == "lines" else epoch_tables(say, program))
    if arguments.metrics:
        tellers.append(json_lines(arguments.metrics))
    if arguments.prometheus is not None:
        tellers.append(prometheus(program.name, arguments.prometheus))
    if arguments.traces is not None:
        from tracetypes.compiler.store.telemetry import EpochTraces

        tellers.append(EpochTraces.sent(program.name, arguments.traces or None))
    return tellers


def _compare(shadow: ShadowRun, say: Progress) -> None:
    """What gates saved and cost: on standard output, unless rows are there."""
    say.line("shadow: the same input runs twice more, row by row, with the gates and with all of them open")
    say.status("running without gates")
    try:
        report = shadow.run()
    finally:
        say.end()
    say.line("")
    print(report, file=sys.stderr if "-" in shadow.job.paths.values() else sys.stdout)
    for path in shadow.write(report):
        say.line(f"shadow: {short_path(str(path))}")


def _prepare(arguments: argparse.Namespace) -> int:
    with extras():
        from tracetypes.compiler.spark import archive
        from tracetypes.compiler.spark.prepare import prepare
    if archive.find_archive() is None:
        print("a small run, and Java writes down what it loaded; this takes a minute", file=sys.stderr)
        prepare()
    place = archive.find_archive()
    size = 0 if place is None else place.stat().st_size
    print(f"prepared: Java starts from {place}, {size / 1_000_000:,.0f} MB", file=sys.stderr)
    return 0


def _record(arguments: argparse.Namespace) -> int:
    with extras():
        from tracetypes.compiler.connectors.proposed_program import class_name, program_of
        from tracetypes.compiler.connectors.sampled_rows import sample_of
    sample = sample_of(arguments.address, arguments.rows)
    name = arguments.name or class_name(Path(arguments.address.rstrip("/")).name.partition(".")[0])
    print(program_of(sample, arguments.address, name), end="")
    return 0


def _new(arguments: argparse.Namespace) -> int:
    folder, name = Path(arguments.name), module_name(arguments.name)
    if arguments.data is None:
        files = project_files(name)
    else:
        with extras():
            from tracetypes.compiler.connectors.proposed_program import class_name, program_of
            from tracetypes.compiler.connectors.registry import connector_of
            from tracetypes.compiler.connectors.sampled_rows import sample_of
        address = connector_of(arguments.data).absolute(arguments.data)
        record = class_name(Path(arguments.data.rstrip("/")).name.partition(".")[0])
        program = program_of(sample_of(arguments.data, 1000), arguments.data, record)
        files = project_files_for(name, program, arguments.data, address)
    write_project(folder, files)
    print(*first_steps(folder, files), sep="\n")
    return 0


def _examples(arguments: argparse.Namespace) -> int:
    if arguments.name is None:
        print(*example_lines(), sep="\n")
        return 0
    folder = Path(arguments.to)
    for file in copy_example(arguments.name, folder):
        print(file)
    return 0


def _schema(arguments: argparse.Namespace) -> int:
    from tracetypes.foreign_schemas import schema_text

    print(schema_text(load_record(arguments.target), arguments.kind))
    return 0


def _submit_files(arguments: argparse.Namespace) -> int:
    from tracetypes.submit_files import write_submit_files

    archive, starter = write_submit_files(arguments.directory)
    print(f"spark-submit --py-files {archive} {starter} TARGET --input SOURCE=PATH --output SINK=DIR")
    return 0


def _state(arguments: argparse.Namespace) -> int:
    from tracetypes import state_command

    return state_command.show_state(arguments)


def _workspace(arguments: argparse.Namespace) -> int:
    from tracetypes import workspace_commands

    return workspace_commands.run(arguments)


def _test(arguments: argparse.Namespace) -> int:
    try:
        import_module("tracetypes.compiler.trial.simulate")
        from tracetypes.testing import answers, check_flow, slices
    except ModuleNotFoundError as error:
        raise UsageError(
            "TT401", f"{error.name} is not installed", fix="pip install 'tracetypes[spark,test]'"
        ) from error

    flow = load(arguments.target)
    checked = check(flow)
    given_rows = pairs(arguments.input, "--input")
    sources = {source.name: source for source in checked.graph.sources}
    for name in given_rows:
        if name not in sources:
            raise UsageError("TT402", f"there is no source {name!r}", fix=f"the sources are {', '.join(sources)}")
    rows = {name: slices(recorded_rows(checked, sources[name], path)) for name, path in given_rows.items()}
    if arguments.answers:
        for line in answers(flow, rows=rows, max_examples=arguments.examples):
            print(line)
        return 0
    target = _elsewhere_named(arguments.target)
    if target is None:
        print("note    another process cannot import __main__, which has no file: the flow is tested in this one alone")
    elsewhere = None if target is None else partial(_elsewhere, arguments, target)
    return check_flow(flow, rows=rows, max_examples=arguments.examples, say=print, elsewhere=elsewhere)


def _elsewhere_named(target: str) -> str | None:
    """A target as another process can name it. ``__main__`` is a file there, or nothing."""
    place, colon, name = target.partition(":")
    if place != "__main__":
        return target
    file = getattr(sys.modules["__main__"], "__file__", None)
    return None if file is None else f"{file}{colon}{name}"


def _elsewhere(arguments: argparse.Namespace, target: str) -> list[str]:
    """What the same flow means in a process with another seed of hashes."""
    inputs = [part for one in arguments.input for part in ("--input", one)]
    command = [sys.executable, "-m", "tracetypes.cli", "test", target, "--examples", str(arguments.examples), *inputs]
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


if __name__ == "__main__":
    sys.exit(main())
