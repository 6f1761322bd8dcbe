"""The process that shows the page of a run to browsers. It runs no operator, and nobody who looks can make the run wait.

``python -m tracetypes.compiler.workspace.service.run_page_process NUMBER`` listens on a socket that the run has opened, and reads
lines of JSON from standard input: first ``{"token": ..., "asides": {...}}``, then pages as :attr:`.LivePage.plain` has them. It
ends some moments after standard input has ended, so that browsers get the last page.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import sys
import threading
from pathlib import Path
from typing import Any, Final

import attrs
import uvicorn
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tracetypes.compiler.plan.live_page import Column, Drawing, LivePage, Row, Shown, Table
from tracetypes.compiler.workspace.service.page_files import HEADERS, SECONDS, html_of, script, style, updates
from tracetypes.redaction import redact_passwords

__all__ = ["RunPages", "main"]

READERS: Final = 50
"""At once. More are refused."""

REASONS: Final = 5
"""Of late and of rejected rows of a source that are shown, the last ones."""

LONGEST: Final = 200
"""Characters of a reason."""


class RunPages:
    """The pages that a run has sent. ``asides``: the directories of late and rejected rows, by these words."""

    def __init__(self, asides: dict[str, str]) -> None:
        self._asides = {what: Path(place) for what, place in asides.items()}
        self._drawing, self._lock = Drawing(), threading.Lock()
        self._plain: dict[str, Any] | None = None
        self._shown: Shown | None = None
        self.is_over = False
        """Whether the run sends no more."""

    def take(self, plain: dict[str, Any]) -> None:
        """The next page."""
        with self._lock:
            self._plain = plain

    def shown(self) -> Shown | None:
        """The last page as HTML. It is made once, however many look at it."""
        with self._lock:
            if self._plain is not None:
                page, self._plain = LivePage.of_plain(self._plain), None
                self._shown = self._drawing.of(attrs.evolve(page, tables=(*page.tables, *self._reasons())))
            return self._shown

    def _reasons(self) -> list[Table]:
        """Why the last late and rejected rows went aside, as far as the run keeps them."""
        columns = (Column("source"), Column("rows"), Column("reason"))
        rows = []
        for what, place in self._asides.items():
            for source in sorted(one for one in place.glob("*") if one.is_dir() and one.name[0] not in "._"):
                rows += [
                    Row(name=f"{what} {source.name} {number}", cells=(source.name, what, reason), words=source.name)
                    for number, reason in enumerate(last_reasons(source))
                ]
        return [Table(title="The last reasons", columns=columns, rows=tuple(rows))] if rows else []


def last_reasons(directory: Path) -> list[str]:
    """Of the newest files of a side output, without repetitions."""
    found: dict[str, None] = {}
    files = sorted(directory.glob("part-*.jsonl"), key=lambda one: one.name, reverse=True)
    for file in files[:REASONS]:
        with file.open("rb") as content:
            for line in content.readlines(100_000):
                try:
                    found.setdefault(redact_passwords(str(json.loads(line)["reason"]))[:LONGEST])
                except (ValueError, KeyError, TypeError):  # the last line may not be whole
                    continue
                if len(found) == REASONS:
                    return list(found)
    return list(found)


def application(pages: RunPages, token: str) -> Starlette:
    """The page under its token. Everything else is not there."""

    def answer(request: Request) -> Response:
        path = request.path_params["path"]
        files = {"": (html_of("run"), "text/html"), "page/page.js": (script(), "text/javascript")}
        files["page/page.css"] = style(), "text/css"
        if not secrets.compare_digest(request.path_params["token"].encode(), token.encode()):
            return PlainTextResponse("not found", 404, HEADERS)
        if path == "page/events":
            return EventSourceResponse(_events(request, pages), headers=HEADERS)
        if path not in files:
            return PlainTextResponse("not found", 404, HEADERS)
        text, kind = files[path]
        return Response(text, media_type=kind, headers=HEADERS)

    async def page(request: Request) -> Response:
        return answer(request)

    async def missing(_: Request, __: Exception) -> Response:
        return PlainTextResponse("not found", 404, HEADERS)

    return Starlette(routes=[Route("/{token}/{path:path}", page)], exception_handlers={404: missing})


async def _events(request: Request, pages: RunPages) -> Any:
    ended = False

    async def is_over() -> bool:
        nonlocal ended
        if ended:
            return True
        ended = pages.is_over  # one more look, at the last page
        return await request.is_disconnected()

    async def look() -> Shown | None:
        while (shown := pages.shown()) is None and not pages.is_over:
            await asyncio.sleep(0.05)
        return shown

    async for one in updates(look, is_over):
        yield one
    yield {"event": "over", "data": ""}


def main() -> None:
    """Serve the socket that is given as a file descriptor."""
    about = json.loads(sys.stdin.buffer.readline())
    pages = RunPages(about["asides"])
    config = uvicorn.Config(
        application(pages, about["token"]),
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        limit_concurrency=READERS,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)

    def read() -> None:
        for line in sys.stdin.buffer:
            pages.take(json.loads(line))
        pages.is_over = True
        threading.Timer(2 * SECONDS, lambda: setattr(server, "should_exit", True)).start()

    threading.Thread(target=read, name="pages of the run", daemon=True).start()
    server.run([socket.socket(fileno=int(sys.argv[1]))])


if __name__ == "__main__":
    main()
