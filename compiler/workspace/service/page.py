"""The page of a service: the merged graph and the flows that a token may see, for a browser.

The browser gives its token once, and gets it back as a cookie that no script reads and no other site sends. With the cookie a
browser sees the page, and nothing else: it changes nothing, so no other site can make it do so. The page has no script, style or
image of another place.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import attrs
from fastapi import Cookie, Depends, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel, Field
from sse_starlette import EventSourceResponse

from tracetypes.compiler.plan.live_page import Column, Drawing, LivePage, Row, Shown, Table
from tracetypes.compiler.workspace.merged_graph import OperatorView, box_of
from tracetypes.compiler.workspace.service.accounts import Token
from tracetypes.compiler.workspace.service.errors import Refused
from tracetypes.compiler.workspace.service.page_files import HEADERS, html_of, script, style, updates
from tracetypes.compiler.workspace.service.request_limits import Rates
from tracetypes.compiler.workspace.service.service import Service
from tracetypes.errors import counted

__all__ = ["add_page"]

COOKIE: Final = "tracetypes"

class LoginBody(BaseModel):
    """The token of whoever looks."""

    token: str = Field(max_length=300)


class Viewer:
    """What one owner sees. The boxes have places and numbers of their own: gaps in them would tell of flows of others."""

    def __init__(self) -> None:
        self._drawing, self._numbers = Drawing(), dict[str, str]()
        self._lock = threading.Lock()

    def shown(self, operators: Sequence[OperatorView], flows: Sequence[Mapping[str, Any]], *, has_owner: bool) -> Shown:
        """The page as HTML."""
        with self._lock:
            for one in operators:
                self._numbers.setdefault(one.name, str(len(self._numbers)))
            number = self._numbers
            boxes = [
                attrs.evolve(box_of(one), name=number[one.name], inputs=tuple(number[each] for each in one.inputs))
                for one in operators
            ]
            names = [f"{one['owner']}.{one['name']}" if has_owner else one["name"] for one in flows]
            rows = tuple(_row(name, one) for name, one in zip(names, flows, strict=True))
            heading = f"Workspace: {counted(len(flows), 'flow')}, {counted(len(operators), 'operator')}"
            return self._drawing.of(
                LivePage(heading=heading, boxes=tuple(boxes), tables=(Table(title="Flows", columns=_FLOWS, rows=rows),))
            )


_FLOWS: Final = (
    Column("flow"),
    Column("state"),
    Column("operators", is_number=True, about="that it needs"),
    Column("shared", is_number=True, about="operators that other flows need, too"),
    Column("rows", is_number=True, about="that its sources have read since its submit"),
    Column("late", is_number=True),
    Column("rejected", is_number=True),
    Column("processor", is_number=True, about="seconds, with its part of what it shares"),
    Column("saved", is_number=True, about="processor seconds that it saves by sharing"),
    Column("notes"),
)


def _row(name: str, one: Mapping[str, Any]) -> Row:
    counts = (f"{one[what]:,}" for what in ("operators", "shared", "rows", "late", "rejects"))
    seconds = (f"{one[what]:,.1f} s" for what in ("seconds", "saved"))
    notes = " ".join(filter(None, [one["error"], *one["notes"]]))
    cells = (name, one["state"], *counts, *seconds, notes)
    return Row(name=name, cells=cells, words=name, is_failed=one["state"] in ("failed", "stopped"))


class Page:
    """What each viewer sees."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._viewers: dict[str, Viewer] = {}

    def shown(self, token: Token) -> Shown:
        """The graph and the flows that a token may see."""
        viewer = self._viewers.setdefault("" if token.is_administrator else token.owner, Viewer())
        return viewer.shown(self.service.graph(token), self.service.flows(token), has_owner=token.is_administrator)


def add_page(app: FastAPI, service: Service, rates: Rates, *, is_secure: bool) -> None:
    """Add the page to the application of a service. ``is_secure``: whether the browser reaches it by TLS."""
    page, limits = Page(service), service.registry.limits

    def viewer(request: Request, text: Annotated[str, Cookie(alias=COOKIE, max_length=300)] = "") -> Token:
        """Who looks."""
        token = service.accounts.token_of(text) if text else None
        if token is None:
            host = "" if request.client is None else request.client.host
            rates.take(host, "requests without a token", limits.requests)
            raise Refused(401, "TT415", "there is no token, or it has expired or was revoked", "give it on the page")
        rates.take(token.id, "requests", limits.requests)
        return token

    Who = Annotated[Token, Depends(viewer)]

    @app.get("/", include_in_schema=False)
    def whole() -> HTMLResponse:
        return HTMLResponse(html_of("workspace"), headers=HEADERS)

    @app.get("/page/page.js", include_in_schema=False)
    def page_script() -> Response:
        return Response(script(), media_type="text/javascript", headers=HEADERS)

    @app.get("/page/page.css", include_in_schema=False)
    def page_style() -> Response:
        return Response(style(), media_type="text/css", headers=HEADERS)

    @app.post("/page/session", status_code=204, include_in_schema=False)
    def login(request: Request, body: LoginBody) -> Response:
        host = "" if request.client is None else request.client.host
        rates.take(host, "requests without a token", limits.requests)
        token = service.accounts.token_of(body.token.strip())
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin" or token is None:
            raise Refused(401, "TT415", "there is no such token, or it has expired or was revoked", "ask the administrator")
        answer = Response(status_code=204, headers=HEADERS)
        answer.set_cookie(
            COOKIE, body.token.strip(), max_age=86_400, path="/page", httponly=True, samesite="strict", secure=is_secure
        )
        return answer

    @app.delete("/page/session", status_code=204, include_in_schema=False)
    def logout() -> Response:
        answer = Response(status_code=204, headers=HEADERS)
        answer.delete_cookie(COOKIE, path="/page", httponly=True, samesite="strict", secure=is_secure)
        return answer

    @app.get("/page/events", include_in_schema=False)
    async def events(token: Who, request: Request) -> EventSourceResponse:
        async def is_over() -> bool:
            return await request.is_disconnected() or service.accounts.token_of(request.cookies.get(COOKIE, "")) is None

        async def look() -> Shown:
            return await run_in_threadpool(page.shown, token)

        return EventSourceResponse(updates(look, is_over), headers=HEADERS)
