"""The arguments of ``tracetypes run``, in groups, and those that other commands share with it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from tracetypes.addresses import address_lines

__all__ = [
    "BACKENDS",
    "SCHEDULING",
    "TARGET",
    "add_backend",
    "add_compiling",
    "add_pairs",
    "add_run",
    "allowed",
    "bytes_of",
    "is_choice",
    "positive",
]

BACKENDS: Final = ("spark", "local")

SCHEDULING: Final[Mapping[str, tuple[str, ...]]] = {
    "reorder": ("typed", "serial"),
    "heuristic": ("ct-inflow", "ct", "lp", "et", "qst"),
    "queue": ("hybrid", "partitioned", "shared"),
    "processes": ("auto", "never", "always"),
}
"""How the local backend schedules its work: the values of each option, the default first."""

WITH_NUMBER: Final[Mapping[str, tuple[str, ...]]] = {"heuristic": ("lp", "qst")}
"""Values of an option behind which a number from 1 may stand: ``lp:8`` has a minimum worklist of 8 batches, ``qst:256`` a
capacity of 256."""

TARGET: Final = "FILE.py:NAME, package.module:NAME or __main__:NAME of a dataflow"


EXAMPLES: Final = """\
examples:
  tracetypes run clicks.py -i clicks=clicks.csv -o counts=out
  tracetypes run clicks.py -i clicks=kafka://localhost:9092/clicks -o counts=- --follow
  tracetypes run --config nightly           # [tool.tracetypes.run.nightly] of pyproject.toml
"""


def add_run(places: Any, command: Callable[[argparse.Namespace], int]) -> None:
    """Add the command. ``places``: the commands of the whole parser."""
    addresses = "\n".join(address_lines())
    one: argparse.ArgumentParser = places.add_parser(
        "run",
        help="run a dataflow",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="tracetypes run TARGET -i SOURCE=ADDRESS -o SINK=ADDRESS [options]",
        description=EXAMPLES,
        epilog=f"addresses of inputs and outputs:\n{addresses}",
    )
    one.set_defaults(command=command)
    one.add_argument("target", metavar="TARGET", nargs="?", help=f"{TARGET}; it may stand in --config")
    _places(one.add_argument_group("inputs and outputs"))
    _ways(one.add_argument_group("how it runs"))
    _news(one.add_argument_group("what it tells"))
    _scheduling(one.add_argument_group("scheduling of the local backend"))


def _places(group: argparse._ArgumentGroup) -> None:
    add_pairs(group, "--input", "-i", "SOURCE=ADDRESS", "what a source reads; once for each source")
    add_pairs(group, "--output", "-o", "SINK=ADDRESS", "where a sink writes; once for each sink")
    group.add_argument(
        "--config",
        metavar="NAME",
        help="options from [tool.tracetypes.run.NAME] of pyproject.toml, or from FILE.toml; those given here win",
    )
    group.add_argument(
        "--checkpoint", metavar="DIR", help="where the run keeps its progress (default: DIR/_checkpoint of the output)"
    )
    group.add_argument(
        "--overwrite",
        nargs="?",
        const="ask",
        choices=["ask", "yes"],
        help="start anew: remove what the run of this checkpoint wrote, and nothing else; asks first, or yes",
    )
    group.add_argument("--late", metavar="DIR", help="where late items go (default: DIR/_late of the output)")
    group.add_argument("--rejects", metavar="DIR", help="where rejected rows go (default: DIR/_rejects of the output)")
    group.add_argument(
        "--order",
        action="append",
        default=[],
        metavar="SOURCE=ORDER",
        help="in which order the files of a source are read: by name, modified (their time), or time (the least event time in "
        "them); default: name, with --follow as they come",
    )
    group.add_argument(
        "--appended",
        choices=["error", "read"],
        default="error",
        help="whether lines that are appended to a known file are an error or new rows (default: error)",
    )
    group.add_argument("--files-per-step", type=positive, metavar="N", help="read at most N files a micro-batch")
    group.add_argument(
        "--channels",
        metavar="TOPICS",
        help="use topics as channels between queries: kafka://HOST:PORT[/PREFIX] (default: files in the checkpoint)",
    )


def _ways(group: argparse._ArgumentGroup) -> None:
    add_backend(group)
    add_compiling(group)
    group.add_argument("--follow", action="store_true", help="wait for more input until stopped")
    group.add_argument(
        "--no-drain", action="store_true", help="leave open blocks open at the end, so that the same command goes on later"
    )
    group.add_argument(
        "--max-late",
        type=_count_or_part,
        metavar="N",
        help="stop when more than N items of a run were late; with a point, such as 0.01: that part of its rows",
    )
    group.add_argument("--max-rejects", type=_count, metavar="N", help="stop when more than N rows of a run were rejected")
    group.add_argument("--no-verify", action="store_true", help="do not check laws and traced operators on a sample of rows")
    group.add_argument("--master", help="Spark master (default: SPARK_MASTER, else local with as many slots as parallelism)")


def _news(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--quiet", "-q", action="store_true", help="nothing but errors")
    group.add_argument(
        "--progress",
        choices=["lines", "operators", "none"],
        help="a line per micro-batch, or a table with a row per operator (default: a table on a terminal, else lines)",
    )
    group.add_argument(
        "--log-format",
        choices=["text", "json"],
        default="text",
        help="lines for people, or a JSON object for each line and each micro-batch (default: text)",
    )
    group.add_argument(
        "--page",
        nargs="?",
        type=_count,
        const=0,
        metavar="PORT",
        help="show the run in a browser on this machine, at the address that it prints (default: a port that is free)",
    )
    group.add_argument(
        "--metrics", metavar="FILE", help="append a JSON line for each micro-batch, with the numbers of each operator"
    )
    group.add_argument("--prometheus", type=_count, metavar="PORT", help="show the same at http://127.0.0.1:PORT/metrics")
    group.add_argument(
        "--traces",
        nargs="?",
        const="",
        metavar="URL",
        help="send a span for each micro-batch by OpenTelemetry (default: OTEL_EXPORTER_OTLP_ENDPOINT) [extra telemetry]",
    )
    group.add_argument(
        "--shadow",
        nargs="?",
        const="",
        metavar="PATH",
        help="then replay the input without gates, and print what they save and cost; into FILE.json, or DIR/ with pictures, too",
    )


def add_backend(one: argparse._ActionsContainer) -> None:
    one.add_argument(
        "--backend",
        choices=BACKENDS,
        help="spark, or local: this process, without Java (default: TRACETYPES_BACKEND, pyproject.toml, else spark, or local if "
        "pyspark is not installed)",
    )


def _scheduling(one: argparse._ActionsContainer) -> None:
    helps = {
        "reorder": "what is put back in order: what types demand, or all, so that rows stand as one worker writes them",
        "heuristic": "which operator a worker takes next",
        "queue": "how a stage keeps what waits for its shards",
        "processes": "whether operators in Python run in worker processes",
    }
    for name, values in SCHEDULING.items():
        help = f"{helps[name]} (default: {values[0]})"
        if name in WITH_NUMBER:
            metavar = "{" + ",".join(_shown(name)) + "}"
            one.add_argument(f"--{name}", type=partial(_choice, name), metavar=metavar, help=help)
        else:
            one.add_argument(f"--{name}", choices=values, help=help)
    one.add_argument(
        "--no-fuse",
        dest="fuse",
        action="store_false",
        default=None,
        help="schedule each operator by itself; fixed for a checkpoint",
    )
    one.add_argument(
        "--state-memory",
        type=_size,
        metavar="SIZE",
        help="how much memory the states of operators in Python may take, such as 4GB; the others lie on disk (default: all)",
    )


def bytes_of(text: str) -> int | None:
    """A size in bytes: ``4GB``, ``512 MiB``, ``1000000``. None for any other text."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([KMGT]i?)?B?", text.strip(), re.IGNORECASE)
    if match is None:
        return None
    number, unit = match[1], (match[2] or "").upper()
    return int(float(number) * (1024 if unit.endswith("I") else 1000) ** " KMGT".index(unit[:1] or " "))


def _size(text: str) -> int:
    if (size := bytes_of(text)) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 4GB or 512MB")
    return size


def _choice(option: str, text: str) -> str:
    if not is_choice(option, text):
        raise argparse.ArgumentTypeError(f"{text!r} is none of {allowed(option)}")
    return text


def _shown(option: str) -> list[str]:
    return [f"{one}[:N]" if one in WITH_NUMBER.get(option, ()) else one for one in SCHEDULING[option]]


def allowed(option: str) -> str:
    """What an option of scheduling can be, for people."""
    return ", ".join(_shown(option)) + (", with N from 1" if option in WITH_NUMBER else "")


def is_choice(option: str, value: object) -> bool:
    """Whether an option of scheduling can have a value."""
    if not isinstance(value, str):
        return False
    name, colon, number = value.partition(":")
    if not colon:
        return name in SCHEDULING[option]
    return name in WITH_NUMBER.get(option, ()) and number.isascii() and number.isdecimal() and int(number) > 0


def add_pairs(parser: argparse._ActionsContainer, option: str, short: str, metavar: str, help: str) -> None:
    parser.add_argument(option, short, action="append", default=[], metavar=metavar, help=help)


def add_compiling(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--parallelism", "-p", type=positive, default=1, metavar="N", help="tasks at once (default: 1)"
    )
    parser.add_argument(
        "--key-groups",
        type=positive,
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


def positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return value


