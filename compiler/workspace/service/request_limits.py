"""What is refused of a request before anything reads it: too many bytes, JSON that is too deep, too many requests."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

from tracetypes.compiler.workspace.service.errors import Refused

__all__ = ["BodyLimit", "Rates", "depth_of"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MOST_KNOWN: Final = 10_000
"""Tokens and addresses whose rates are remembered."""


class Rates:
    """How often somebody may ask in a minute: a bucket that fills up again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._buckets: dict[tuple[str, str], tuple[float, float]] = {}

    def take(self, who: str, what: str, a_minute: int) -> None:
        """One request. Raises :class:`Refused` ``TT416`` if there were too many."""
        now = time.monotonic()
        with self._lock:
            if len(self._buckets) > MOST_KNOWN:
                self._buckets.clear()
            left, at = self._buckets.get((who, what), (float(a_minute), now))
            left = min(float(a_minute), left + (now - at) * a_minute / 60)
            if left < 1:
                raise Refused(429, "TT416", f"more than {a_minute} {what} in a minute", "ask again in some seconds")
            self._buckets[who, what] = left - 1, now


class BodyLimit:
    """An ASGI application in front of another one. It reads the body of a request up to a limit, and looks how deep it is."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], body: int, depth: int) -> None:
        self.app, self.body, self.depth = app, body, depth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "DELETE"):
            await self.app(scope, receive, send)
            return
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return
            parts.append(message.get("body", b""))
            size, more = size + len(parts[-1]), message.get("more_body", False)
            if size > self.body:
                await _refuse(send, 413, f"the body has more than {self.body:,} bytes", "make it smaller")
                return
        whole = b"".join(parts)
        if depth_of(whole) > self.depth:
            await _refuse(send, 413, f"the body is deeper than {self.depth} levels", "make it flatter")
            return
        sent = False

        async def again() -> MutableMapping[str, Any]:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": whole, "more_body": False}

        await self.app(scope, again, send)


def depth_of(text: bytes) -> int:
    """How many brackets are open at once at most, without those in texts. It needs no stack."""
    deepest = depth = 0
    is_text = is_escaped = False
    for char in text:
        if is_text:
            if is_escaped:
                is_escaped = False
            elif char == 0x5C:
                is_escaped = True
            elif char == 0x22:
                is_text = False
        elif char == 0x22:
            is_text = True
        elif char in (0x5B, 0x7B):
            depth += 1
            deepest = max(deepest, depth)
        elif char in (0x5D, 0x7D):
            depth -= 1
    return deepest


async def _refuse(send: Send, status: int, message: str, fix: str) -> None:
    body = json.dumps(Refused(status, "TT416", message, fix).plain).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
