"""The arguments of ``tracetypes workspace``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

__all__ = ["add_workspace"]


def add_workspace(places: Any, command: Callable[[argparse.Namespace], int]) -> None:
    """Add the command and its actions. ``places``: the commands of the whole parser."""
    whole = places.add_parser("workspace", help="serve a workspace, and submit dataflows to one")
    actions = whole.add_subparsers(metavar="ACTION", dest="action", required=True)

    def add(name: str, help: str, *, is_client: bool = True) -> argparse.ArgumentParser:
        one: argparse.ArgumentParser = actions.add_parser(name, help=help)
        one.set_defaults(command=command)
        if is_client:
            one.add_argument("--url", help="the service (default: TRACETYPES_WORKSPACE, else http://127.0.0.1:8765)")
            one.add_argument("--token-file", metavar="FILE", help="a file with the token (default: the text of TRACETYPES_TOKEN)")
            one.add_argument("--authority", metavar="FILE", help="the authority of its certificate, if it is not public")
        return one

    one = add("serve", "serve the workspace in a folder over HTTP", is_client=False)
    one.add_argument("folder", metavar="FOLDER", help="the folder of the service, with registry.toml; made if need be")
    one.add_argument("--host", default="127.0.0.1", help="the address to listen at (default: 127.0.0.1)")
    one.add_argument("--port", type=int, default=8765, help="the port to listen at; 0 for one that is free (default: 8765)")
    one.add_argument("--certificate", metavar="FILE", help="the certificate for TLS")
    one.add_argument("--private-key", metavar="FILE", help="the key of the certificate")
    one.add_argument("--without-tls", action="store_true", help="listen where others reach it without TLS")
    one.add_argument("--backend", choices=("local", "spark"), default="local", help="what runs the flows (default: local)")

    one = add("backup", "write a backup of a workspace, or of a service, that does not run", is_client=False)
    one.add_argument("folder", metavar="FOLDER", help="the directory of the workspace, or the folder of the service")
    one.add_argument("backup", metavar="BACKUP", help="the directory to write, which is not there yet")

    one = add("restore", "put back what a backup has", is_client=False)
    one.add_argument("backup", metavar="BACKUP", help="the directory that backup has written")
    one.add_argument("folder", metavar="FOLDER", help="where the workspace shall lie; that of a service is where it was")

    one = add("submit", "start a flow")
    one.add_argument("name", metavar="NAME", help="its name")
    _flow(one)
    one.add_argument("--dry-run", action="store_true", help="say what would start and be shared, and start nothing")

    one = add("replace", "let another flow take the place of one")
    one.add_argument("name", metavar="NAME", help="the flow")
    _flow(one)
    _seconds(one)

    one = add("remove", "stop a flow")
    one.add_argument("name", metavar="NAME", help="the flow")
    one.add_argument("--drain", action="store_true", help="answer its open blocks first")
    one.add_argument("--purge", action="store_true", help="delete its outputs")
    _seconds(one)

    one = add("list", "list the flows")
    one.add_argument("--catalog", action="store_true", help="list the types and inputs that JSON may name")
    one.add_argument("--json", action="store_true", help="as JSON")

    one = add("show", "show a flow")
    one.add_argument("name", metavar="NAME", help="the flow")
    one.add_argument("--owner", help="whose it is, for an administrator")
    one.add_argument("--json", action="store_true", help="as JSON")

    one = add("outputs", "list the outputs of a flow, or print one")
    one.add_argument("name", metavar="NAME", help="the flow")
    one.add_argument("sink", metavar="SINK", nargs="?", help="print the files of this sink")
    one.add_argument("--owner", help="whose it is, for an administrator")

    one = add("token", "list, make or revoke tokens")
    what = one.add_mutually_exclusive_group()
    what.add_argument("--new", dest="new_owner", metavar="OWNER", help="make a token for an owner, and print it")
    what.add_argument("--revoke", metavar="ID", help="end a token now")
    one.add_argument("--role", choices=("owner", "reader", "administrator"), default="owner", help="of a new one")
    one.add_argument("--days", type=float, default=90, help="how long a new one is valid (default: 90)")

    for each in actions.choices.values():
        each.set_defaults(options=tuple(each._option_string_actions))


def _flow(one: argparse.ArgumentParser) -> None:
    one.add_argument("flow", metavar="FLOW", help="FILE.json, - for standard input, or MODULE:NAME of an allowed package")
    pairs = (("--input", "-i", "SOURCE=NAME", "an input"), ("--output", "-o", "SINK=PLACE", "a place"))
    for option, short, metavar, what in pairs:
        one.add_argument(option, short, action="append", default=[], metavar=metavar, help=f"of MODULE:NAME: {what} by its name")
    one.add_argument("--start", default="now", help="where it begins: now, earliest, or a time (default: now)")
    one.add_argument("--share", choices=("states", "exact"), default="states", help="take states that are there, or start anew")
    one.add_argument("--backfill", action="store_true", help="share nothing, and read all inputs from their beginning")


def _seconds(one: argparse.ArgumentParser) -> None:
    one.add_argument("--seconds", type=float, default=60, help="how long it may take (default: 60)")
