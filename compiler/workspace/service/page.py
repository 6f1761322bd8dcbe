"""The page of a service: the merged graph and the flows that a token may see, for a browser.

The browser gives its token once, and gets it back as a cookie that no script reads and no other site sends. With the cookie a
browser sees the page, and nothing else: it changes nothing, so no other site can make it do so. The page has no script, style or
image of another place.
"""

import threading
import time
from typing import Annotated, Final

from fastapi import Cookie, Depends, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel, Field
from sse_starlette import EventSourceResponse

from tracetypes.compiler.plan.live_page import Shown
from tracetypes.compiler.workspace.service.accounts import Token
from tracetypes.compiler.workspace.service.errors import Refused
from tracetypes.compiler.workspace.service.page_files import HEADERS, html_of, script, style, updates
from tracetypes.compiler.workspace.service.request_limits import Rates
from tracetypes.compiler.workspace.service.service import Service
from tracetypes.compiler.workspace.service.viewer import Viewer

__all__ = ["add_page"]

COOKIE: Final = "tracetypes"

FRESH: Final = 0.5
"""Seconds for which what a viewer sees is shown again."""


class LoginBody(BaseModel):
    """The token of whoever looks."""

    token: str = Field(max_length=300)


class Page:
    """What each viewer sees. It is made once a second for all browsers of an owner."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._views: dict[str, tuple[Viewer, threading.Lock]] = {}
        self._shown: dict[str, tuple[float, Shown]] = {}

    def shown(self, token: Token) -> Shown:
        """The graph and the flows that a token may see."""
        who, service = "" if token.is_administrator else token.owner, self.service
        view, lock = self._views.setdefault(who, (Viewer(is_administrator=token.is_administrator), threading.Lock()))
        with lock:
            at, shown = self._shown.get(who, (0.0, None))
            if shown is None or time.monotonic() > at + FRESH:
                seconds = service.processor_seconds() if token.is_administrator else None
                shown = view.shown(service.graph(token), service.flows(token), seconds)
                self._shown[who] = time.monotonic(), shown
            return shown


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
