"""The arguments of the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from tracetypes.command_parser import CommandParser
from tracetypes.errors import UsageError
from tracetypes.run_arguments import TARGET, add_backend, add_compiling, add_pairs, add_run, positive
from tracetypes.version import VERSION
from tracetypes.workspace_arguments import add_workspace

__all__ = ["pairs", "parser"]

SCHEMAS: Final = ("avro", "protobuf", "json", "spark")
"""The systems for which the schema of a record can be printed."""

Command: TypeAlias = Callable[[argparse.Namespace], int]
"""Runs a command, and gives its exit status."""


def parser(commands: Mapping[str, Command]) -> CommandParser:
    """The arguments of all commands. ``commands``: what runs each of them."""
    whole = CommandParser(
        prog="tracetypes",
        description="Typed streaming dataflows that give the same answer at every parallelism.",
        epilog="TARGET is FILE.py:NAME, package.module:NAME or __main__:NAME of a Dataflow; NAME may be left out when there is "
        "just one.",
    )

    def help(_: argparse.Namespace) -> int:
        whole.print_help(sys.stderr)
        return 2

    whole.set_defaults(command=help)
    whole.add_argument("--version", action="version", version=f"tracetypes {VERSION}")
    places = whole.add_subparsers(metavar="COMMAND")

    one = places.add_parser("new", help="write a dataflow, its test and a sample of data into a new folder")
    one.add_argument("name", metavar="NAME", help="the folder, and the name of the dataflow")
    one.add_argument("--data", metavar="ADDRESS", help="rows of your own, as for record: a file, a folder, or delta:DIR")
    one.set_defaults(command=commands["new"])

    one = places.add_parser("examples", help="list the examples, or copy one")
    one.add_argument("name", nargs="?", metavar="NAME", help="the example to copy, with what it needs (default: list all)")
    one.add_argument("--to", default=".", metavar="FOLDER", help="copy it to FOLDER/examples (default: here)")
    one.set_defaults(command=commands["examples"])

    one = places.add_parser("check", help="report everything that is wrong with a dataflow")
    one.add_argument("target", metavar="TARGET", help=TARGET)
    one.set_defaults(command=commands["check"])

    one = places.add_parser(
        "explain", help="say what runs where, what runs as Python and why, what would make it faster, and the plan"
    )
    one.add_argument("target", metavar="TARGET", help=TARGET)
    add_compiling(one)
    add_pairs(one, "--input", "-i", "SOURCE=ADDRESS", "the input of a run, as for run: explain says how it is read")
    add_backend(one)
    one.add_argument("--passes", action="store_true", help="show the graph after each pass of the compiler, with its equation")
    one.set_defaults(command=commands["explain"])

    one = places.add_parser("graph", help="draw the typed graph as .svg, or the graph and the plan as .html")
    one.add_argument("target", metavar="TARGET", help=TARGET)
    one.add_argument("--output", "-o", required=True, metavar="FILE", help="FILE.svg or FILE.html")
    add_compiling(one)
    one.set_defaults(command=commands["graph"])

    one = places.add_parser("prepare", help="let Java start faster from now on: once for each Java, Spark and machine")
    one.set_defaults(command=commands["prepare"])

    add_run(places, commands["run"])

    one = places.add_parser("record", help="propose the record for a file, a folder, a Delta table or a schema of Avro")
    one.add_argument("address", metavar="ADDRESS", help="a file or folder, delta:DIR, or FILE.avsc")
    one.add_argument("--name", metavar="NAME", help="the name of the class (default: that of the file)")
    one.add_argument("--rows", type=positive, default=1000, metavar="N", help="look at N rows of CSV or JSON (default: 1000)")
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
        "--limit", type=positive, metavar="N", help="show at most N keys, blocks, key groups (default: 10)"
    )
    one.add_argument(
        "--sizes", action="store_true", help="bytes of each operator and column, and the largest keys whose states are objects"
    )
    one.add_argument("--json", action="store_true", help="JSON lines")
    one.set_defaults(command=commands["state"])

    one = places.add_parser("submit-files", help="write what spark-submit needs where tracetypes is not installed")
    one.add_argument("directory", metavar="DIR", help="gets tracetypes.zip, and job.py, whose arguments are those of run")
    one.set_defaults(command=commands["submit-files"])

    one = places.add_parser("test", help="test the laws of the operators, and random deployments")
    one.add_argument("target", metavar="TARGET", help=TARGET)
    one.add_argument("--examples", type=positive, default=100, metavar="N", help="random examples for each law")
    add_pairs(one, "--input", "-i", "SOURCE=FILE", "a file to take rows from (default: random)")
    one.add_argument("--answers", action="store_true", help=argparse.SUPPRESS)
    one.set_defaults(command=commands["test"])
    add_workspace(places, commands["workspace"])
    return whole


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
