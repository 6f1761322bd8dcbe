"""``tracetypes workspace serve | backup | restore | submit | remove | replace | list | show | outputs | token``."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tracetypes.arguments import pairs
from tracetypes.errors import UsageError, counted
from tracetypes.workspace_client import FlowStatus, WorkspaceClient

__all__ = ["run"]

URL = "http://127.0.0.1:8765"


def run(arguments: argparse.Namespace) -> int:
    """Run a command of ``tracetypes workspace``. Returns its exit status."""
    if arguments.action == "serve":
        return _serve(arguments)
    if arguments.action in ("backup", "restore"):
        return _save(arguments)
    actions: dict[str, Callable[[argparse.Namespace, WorkspaceClient], None]] = {
        "submit": _submit,
        "remove": _remove,
        "replace": _replace,
        "list": _list,
        "show": _show,
        "outputs": _outputs,
        "token": _token,
    }
    url = arguments.url or os.environ.get("TRACETYPES_WORKSPACE", URL)
    with WorkspaceClient(url, _token_of(arguments.token_file), certificate=arguments.authority) as client:
        actions[arguments.action](arguments, client)
    return 0


def _serve(arguments: argparse.Namespace) -> int:
    if (arguments.certificate is None) != (arguments.private_key is None):
        raise UsageError("TT402", "one of --certificate and --private-key is missing", fix="give both")
    from .compiler.workspace.service.server import Address, serve

    address = Address(
        host=arguments.host,
        port=arguments.port,
        certificate=_file("--certificate", arguments.certificate),
        private_key=_file("--private-key", arguments.private_key),
        is_plain=arguments.without_tls,
    )

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    serve(Path(arguments.folder), address, backend=arguments.backend, say=say)
    return 0


def _save(arguments: argparse.Namespace) -> int:
    """Back up or restore a folder. No service is asked."""
    from .compiler.backend.compilation import extras

    with extras():
        from .compiler.workspace.folder_backups import back_up_folder, restore_folder

    folder, backup = Path(arguments.folder), Path(arguments.backup)
    if arguments.action == "backup":
        saved, what = back_up_folder(folder, backup), f"{backup}: a backup of {folder}"
    else:
        saved, what = restore_folder(backup, folder), f"{folder}: restored from {backup}"
    print(f"{what}, {counted(saved.workspaces, 'workspace')} and {counted(saved.outputs, 'output')}")
    return 0


def _submit(arguments: argparse.Namespace, client: WorkspaceClient) -> None:
    options = _flow_options(arguments)
    if arguments.dry_run:
        options.pop("start")
        print(client.dry_run(arguments.name, _flow_of(arguments.flow), **options))
    else:
        client.submit(arguments.name, _flow_of(arguments.flow), **options)
        print(client.wait_until_started(arguments.name))


def _replace(arguments: argparse.Namespace, client: WorkspaceClient) -> None:
    options = _flow_options(arguments)
    print(client.replace(arguments.name, _flow_of(arguments.flow), seconds=arguments.seconds, **options))


def _remove(arguments: argparse.Namespace, client: WorkspaceClient) -> None:
    client.remove(arguments.name, drain=arguments.drain, purge=arguments.purge, seconds=arguments.seconds)
    print(f"{arguments.name}: removed")


def _list(arguments: argparse.Namespace, client: WorkspaceClient) -> None:
    if arguments.catalog:
        for what, names in client.catalog().items():
            print(f"{what}: {', '.join(names) or 'none'}")
        return
    flows = client.flows()
    if arguments.json:
        print(json.dumps([_plain(one) for one in flows]))
        return
    rows = [("FLOW", "OWNER", "STATE", "OPERATORS", "SHARED", "ROWS")]
    rows += [(one.name, one.owner, one.state, str(one.operators), str(one.shared), f"{one.rows:,}") for one in flows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _show(arguments: argparse.Namespace, client: WorkspaceClient) -> None:
    flow = client.flow(arguments.name, arguments.owner)
    print(json.dumps(_plain(flow)) if arguments.json else flow)


def _outputs(arguments: argparse.Namespace, client: WorkspaceClient) -> None:
    outputs = client.outputs(arguments.name, arguments.owner)
    if arguments.sink is None:
        for one in outputs:
            print(f"{one.sink}: {len(one.files)} files, {sum(one.files.values()):,} bytes, in {one.place}")
        return
    found = next((one for one in outputs if one.sink == arguments.sink), None)
    if found is None:
        there = ", ".join(one.sink for one in outputs) or "none"
        raise UsageError("TT402", f"there is no sink {arguments.sink!r}", fix=f"the sinks are: {there}")
    for file in found.files:
        sys.stdout.buffer.write(client.read(arguments.name, found.sink, file, arguments.owner))
    sys.stdout.flush()


def _token(arguments: argparse.Namespace, client: WorkspaceClient) -> None:
    if arguments.revoke is not None:
        client.revoke(arguments.revoke)
        print(f"{arguments.revoke}: revoked")
    elif arguments.new_owner is not None:
        made = client.make_token(arguments.new_owner, arguments.role, arguments.days)
        print(made.token)
        print(f"token {made.id} of {made.owner}, {made.role}, until {_day(made.expires)}; it is not shown again", file=sys.stderr)
    else:
        for one in client.tokens():
            end = f"revoked {_day(one['revoked'])}" if one["revoked"] else f"until {_day(one['expires'])}"
            print(f"{one['id']}  {one['owner']}  {one['role']}  {end}")


def _plain(flow: FlowStatus) -> dict[str, Any]:
    return {name: getattr(flow, name) for name in FlowStatus.__annotations__}


def _day(seconds: float) -> str:
    return f"{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%d}"


def _flow_options(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "inputs": pairs(arguments.input, "--input", "NAME"),
        "outputs": pairs(arguments.output, "--output", "PLACE"),
        "start": arguments.start,
        "share": arguments.share,
        "backfill": arguments.backfill,
    }


def _flow_of(text: str) -> dict[str, Any] | str:
    """A file of JSON, or a target."""
    if not text.endswith(".json") and text != "-":
        return text
    try:
        plain = json.loads(sys.stdin.read() if text == "-" else Path(text).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        fix = "give FILE.json, or MODULE:NAME of a dataflow"
        raise UsageError("TT402", f"{text} cannot be read: {error}", fix=fix) from error
    if not isinstance(plain, dict):
        raise UsageError("TT402", f"{text} is no object", fix='write {"tasks": [...], "streams": [...]}')
    return plain


def _token_of(file: str | None) -> str:
    """The token of the user. It is never an argument: other users see those."""
    if file is None and (text := os.environ.get("TRACETYPES_TOKEN")):
        return text
    if file is None:
        fix = "set TRACETYPES_TOKEN, or give --token-file FILE"
        raise UsageError("TT415", "there is no token", fix=fix)
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise UsageError("TT415", f"the token cannot be read: {error}", fix="give --token-file FILE") from error


def _file(option: str, path: str | None) -> Path | None:
    if path is not None and not Path(path).is_file():
        raise UsageError("TT402", f"{option} {path} is no file", fix="give a file in PEM form")
    return None if path is None else Path(path)
