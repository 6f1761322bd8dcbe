"""What the page of a workspace and that of a run have in common: files, headers, and the events that keep them live."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from importlib.resources import files
from typing import Final, Literal

from anyio import sleep

from tracetypes.compiler.plan.live_page import RULES, Shown

__all__ = ["HEADERS", "html_of", "script", "style", "updates"]

SECONDS: Final = 1.0
"""Between two looks for what has changed."""

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def html_of(kind: Literal["workspace", "run"]) -> str:
    """The page before it shows anything. That of a run asks for no token."""
    return _text("page.html").replace("{kind}", kind)


def script() -> str:
    """The script of both pages."""
    return _text("page.js")


def style() -> str:
    """The style of both pages."""
    return RULES + _text("page.css")


async def updates(
    look: Callable[[], Awaitable[Shown | None]], is_over: Callable[[], Awaitable[bool]]
) -> AsyncIterator[Mapping[str, str]]:
    """Server-sent events for one reader: what has changed, until it is over. ``look``: what there is to see; None ends it."""
    last: Shown | None = None
    while not await is_over() and (now := await look()) is not None:
        if new := now.since(last):
            yield {"event": "news", "data": json.dumps(new)}
        last = now
        await sleep(SECONDS)


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
