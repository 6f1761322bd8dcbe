"""The page of a service: the merged graph and the flows that a token may see, for a browser.

The browser gives its token once, and gets it back as a cookie that no script reads and no other site sends. With the cookie a
browser sees the page, and nothing else: it changes nothing, so no other site can make it do so. The page has no script, style or
image of another place.
"""

import json
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Annotated, Any, Final

import attrs
from fastapi import Cookie, Depends, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel, Field
from sse_starlette import EventSourceResponse

from tracetypes.compiler.workspace.box_places import BoxPlaces
from tracetypes.compiler.workspace.merged_graph import RULES, OperatorView, picture_of
from tracetypes.compiler.workspace.service.accounts import Token
from tracetypes.compiler.workspace.service.errors import Refused
from tracetypes.compiler.workspace.service.request_limits import Rates
from tracetypes.compiler.workspace.service.service import Service

__all__ = ["add_page"]

COOKIE: Final = "tracetypes"

EVENTS: Final = 1.0
"""Seconds between two looks for what has changed."""

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class LoginBody(BaseModel):
    """The token of whoever looks."""

    token: str = Field(max_length=300)


class Picture:
    """The graph as one owner sees it. It has places and numbers of its own: gaps in them would tell of flows of others."""

    def __init__(self) -> None:
        self._places, self._numbers = BoxPlaces(), dict[str, str]()
        self._lock = threading.Lock()

    def of(self, operators: Sequence[OperatorView]) -> str:
        """As SVG."""
        with self._lock:
            for one in operators:
                self._numbers.setdefault(one.name, str(len(self._numbers)))
            number = self._numbers
            views = [
                attrs.evolve(one, name=number[one.name], inputs=tuple(number[each] for each in one.inputs)) for one in operators
            ]
            return picture_of(views, self._places, has_style=False)


class Page:
    """What each viewer sees."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._pictures: dict[str, Picture] = {}

    def parts(self, token: Token) -> dict[str, str]:
        """The graph as SVG, and the flows as a table."""
        picture = self._pictures.setdefault("" if token.is_administrator else token.owner, Picture())
        flows = self.service.flows(token)
        return {"graph": picture.of(self.service.graph(token)), "flows": _table(flows, has_owner=token.is_administrator)}


def _table(flows: list[dict[str, Any]], *, has_owner: bool) -> str:
    rows = []
    for one in flows:
        name = f"{one['owner']}.{one['name']}" if has_owner else one["name"]
        facts = [one["state"], *(f"{one[what]:,}" for what in ("operators", "shared", "rows", "late", "rejects"))]
        facts += [f"{one['seconds']:,.1f} s", f"{one['saved']:,.1f} s"]
        cells = "".join(f"<td>{escape(fact)}</td>" for fact in facts)
        notes = " ".join(filter(None, [one["error"], *one["notes"]]))
        rows.append(
            f'<tr data-flow="{escape(name)}" class="{escape(one["state"])}"><th scope="row">{escape(name)}</th>{cells}'
            f"<td>{escape(notes)}</td></tr>"
        )
    return "".join(rows)


def add_page(app: FastAPI, service: Service, rates: Rates, *, is_secure: bool) -> None:
    """Add the page to the application of a service. ``is_secure``: whether the browser reaches it by TLS."""
    page, limits = Page(service), service.registry.limits
    texts = {name: files(__package__).joinpath(name).read_text(encoding="utf-8") for name in ("page.html", "page.js", "page.css")}

    def viewer(request: Request, text: Annotated[str, Cookie(alias=COOKIE, max_length=300)] = "") -> Token:
        """Who looks."""
        token = service.accounts.token_of(text) if text else None
        if token is None:
            host = "" if request.client is None else request.client.host
            rates.take(host, "requests without a token", limits.requests)
            raise Refused(401, "TT415", "there is no token, or it has expired or was revoked", "give it on the page")
        rates.take(token.id, "requests", limits.requests)
        return token

    Viewer = Annotated[Token, Depends(viewer)]

    @app.get("/", include_in_schema=False)
    def whole() -> HTMLResponse:
        return HTMLResponse(texts["page.html"], headers=HEADERS)

    @app.get("/page/page.js", include_in_schema=False)
    def script() -> Response:
        return Response(texts["page.js"], media_type="text/javascript", headers=HEADERS)

    @app.get("/page/page.css", include_in_schema=False)
    def style() -> Response:
        return Response(RULES + texts["page.css"], media_type="text/css", headers=HEADERS)

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
    async def events(token: Viewer, request: Request) -> EventSourceResponse:
        async def changes() -> AsyncIterator[Mapping[str, str]]:
            from anyio import sleep

            last: dict[str, str] = {}
            while not await request.is_disconnected():
                if service.accounts.token_of(request.cookies.get(COOKIE, "")) is None:
                    return
                now = await run_in_threadpool(page.parts, token)
                if new := {part: text for part, text in now.items() if last.get(part) != text}:
                    yield {"event": "parts", "data": json.dumps(new)}
                last = now
                await sleep(EVENTS)

        return EventSourceResponse(changes(), headers=HEADERS)
