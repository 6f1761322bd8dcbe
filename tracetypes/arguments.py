"""The arguments of the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from tracetypes.calls import like
from tracetypes.errors import UsageError
from tracetypes.version import VERSION
from tracetypes.workspace_arguments import add_workspace

__all__ = ["BACKENDS", "SCHEDULING", "allowed", "is_choice", "pairs", "parser", "refuse_unknown"]

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

SCHEMAS: Final = ("avro", "protobuf", "json", "spark")
"""The systems for which the schema of a record can be printed."""

Command: TypeAlias = Callable[[argparse.Namespace], int]
"""Runs a command, and gives its exit status."""


def parser(commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    """The arguments of all commands. ``commands``: what runs each of them."""
    whole = argparse.ArgumentParser(
        prog="tracetypes",
        description="Typed streaming dataflows that give the same answer at every parallelism.",
        epilog="TARGET is FILE.py:NAME, package.module:NAME or __main__:NAME of a Dataflow; NAME may be left out when there is "
        "just one.",
    )

    def help(_: argparse.Namespace) -> int:
        whole.print_help(sys.stderr)
        return 2

    whole.set_defaults(command=help, options=())
    whole.add_argument("--version", action="version", version=f"tracetypes {VERSION}")
    places = whole.add_subparsers(metavar="COMMAND")

    one = places.add_parser("check", help="report everything that is wrong with a dataflow")
    one.add_argument("target", metavar="TARGET", help=TARGET)
    one.set_defaults(command=commands["check"])

    one = places.add_parser("explain", help="show the graph, the graph after each pass with the reason, and the plan")
    one.add_argument("target", metavar="TARGET", help=TARGET)
    _compiling(one)
    _pairs(one, "--input", "-i", "SOURCE=PATH", "the input of a run, as for run: explain says how it is read")
    _backend(one)
    one.set_defaults(command=commands["explain"])

    one = places.add_parser("graph", help="draw the typed graph as .svg, or the graph and the plan as .html")
    one.add_argument("target", metavar="TARGET", help=TARGET)
    one.add_argument("--output", "-o", required=True, metavar="FILE", help="FILE.svg or FILE.html")
    _compiling(one)
    one.set_defaults(command=commands["graph"])

    one = places.add_parser("prepare", help="let Java start faster from now on: once for each Java, Spark and machine")
    one.set_defaults(command=commands["prepare"])

    one = places.add_parser("run", help="run a dataflow")
    one.add_argument("target", metavar="TARGET", help=TARGET)
    _compiling(one)
    _backend(one)
    one.add_argument(
        "--master", help="Spark master (default: SPARK_MASTER, else local with as many slots as parallelism)"
    )
    what = "a file or directory to read, a topic: kafka://HOST:PORT/TOPIC, or a Delta table: delta:DIR"
    _pairs(one, "--input", "-i", "SOURCE=PATH", what)
    _pairs(one, "--output", "-o", "SINK=DIR", "the directory to write, a topic or table, or - for the terminal")
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
    _scheduling(one)
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
        "--no-verify", action="store_true", help="do not check laws and traced operators on a sample of rows"
    )
    one.add_argument(
        "--metrics", metavar="FILE", help="append a JSON line for each micro-batch, with the numbers of each operator"
    )
    one.add_argument("--prometheus", type=_count, metavar="PORT", help="show the same at http://127.0.0.1:PORT/metrics")
    one.add_argument(
        "--page",
        nargs="?",
        type=_count,
        const=0,
        metavar="PORT",
        help="show the run in a browser on this machine, at the address that it prints (default: a port that is free)",
    )
    one.add_argument(
        "--progress",
        choices=["lines", "operators", "none"],
        help="a line per micro-batch, or a table with a row per operator (default: a table on a terminal, else lines)",
    )
    one.add_argument(
        "--shadow",
        nargs="?",
        const="",
        metavar="PATH",
        help="then replay the input without gates, and print what they save and cost; into FILE.json, or DIR/ with pictures, too",
    )
    one.add_argument("--quiet", "-q", action="store_true", help="nothing but errors")
    one.set_defaults(command=commands["run"])

    one = places.add_parser("record", help="propose the record for a file, a folder, a Delta table or a schema of Avro")
    one.add_argument("address", metavar="ADDRESS", help="a file or folder, delta:DIR, or FILE.avsc")
    one.add_argument("--name", metavar="NAME", help="the name of the class (default: that of the file)")
    one.add_argument("--rows", type=_positive, default=1000, metavar="N", help="look at N rows of CSV or JSON (default: 1000)")
    one.set_defaults(command=commands["record"])

    one = places.add_parser("schema", help="print the schema of a record for Avro, Protocol Buffers, JSON Schema or Spark")
    one.add_argument("target", metavar="TARGET", help="FILE.py:NAME or package.module:NAME of a record")
    one.add_argument("--as", dest="kind", choices=SCHEMAS, default="avro", help="for which system (default: avro)")
    one.set_defaults(command=commands["schema"])

    one = places.add_parser("state", help="show what a run keeps as state, of all keys or of one")
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
    one.set_defaults(command=commands["state"])

    one = places.add_parser("test", help="test the laws of the operators, and random deployments")
    one.add_argument("target", metavar="TARGET", help=TARGET)
    one.add_argument("--examples", type=_positive, default=100, metavar="N", help="random examples for each law")
    _pairs(one, "--input", "-i", "SOURCE=FILE", "a file to take rows from (default: random)")
    one.add_argument("--answers", action="store_true", help=argparse.SUPPRESS)
    one.set_defaults(command=commands["test"])
    add_workspace(places, commands["workspace"])
    for one in places.choices.values():
        one.set_defaults(options=tuple(one._option_string_actions))
    return whole


def refuse_unknown(arguments: Sequence[str], options: Sequence[str]) -> None:
    """Raises :class:`UsageError` ``TT402`` for arguments that a command does not have. ``options``: those that it has."""
    name = next((one for one in arguments if one.startswith("-")), arguments[0]).partition("=")[0]
    is_option = name.startswith("-")
    fix = (is_option and like(name, options)) or "see --help of the command for its options"
    raise UsageError("TT402", f"there is no option {name}" if is_option else f"{name} is one argument too many", fix=fix)


def _backend(one: argparse.ArgumentParser) -> None:
    one.add_argument(
        "--backend",
        choices=BACKENDS,
        help="spark, or local: this process, without Java (default: TRACETYPES_BACKEND, pyproject.toml, else spark, or local if "
        "pyspark is not installed)",
    )


def _scheduling(one: argparse.ArgumentParser) -> None:
    helps = {
        "reorder": "what is put back in order: what types demand, or all, so that rows stand as one worker writes them",
        "heuristic": "which operator a worker takes next",
        "queue": "how a stage keeps what waits for its shards",
        "processes": "whether operators in Python run in worker processes",
    }
    for name, values in SCHEDULING.items():
        help = f"local backend: {helps[name]} (default: {values[0]})"
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
        help="local backend: schedule each operator by itself; fixed for a checkpoint",
    )


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


def _choice(option: str, text: str) -> str:
    if not is_choice(option, text):
        raise argparse.ArgumentTypeError(f"{text!r} is none of {allowed(option)}")
    return text


def _pairs(parser: argparse.ArgumentParser, option: str, short: str, metavar: str, help: str) -> None:
    parser.add_argument(option, short, action="append", default=[], metavar=metavar, help=help)


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


def pairs(texts: list[str], option: str, what: str = "PATH") -> dict[str, str]:
    """``NAME=PATH`` of an option that is repeated. Raises :class:`UsageError` ``TT402``."""
    paths: dict[str, str] = {}
    for one in texts:
        name, equals, path = one.partition("=")
        if not equals or not name or not path:
            raise UsageError("TT402", f"{option} {one}", fix=f"write {option} NAME={what}")
        if name in paths:
            fix = "give it once; a directory may hold many files" if what == "PATH" else "give it once"
            raise UsageError("TT402", f"{option} {name}=... is given twice", fix=fix)
        paths[name] = path
    return paths
