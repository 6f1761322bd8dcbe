"""A fake schema registry on loopback: the part of Confluent's HTTP interface that the connectors use, and nothing else of a
registry.

It says so in each answer (``Server: tracetypes-fake-registry``). It keeps schemas in memory, and takes every schema for a
subject unless a test says otherwise.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import attrs

NAME = "tracetypes-fake-registry"


@attrs.define
class Entry:
    """A schema of the registry. ``serialized``: of Protocol Buffers, the description of its file."""

    id: int
    kind: str
    text: str
    references: Sequence[Mapping[str, Any]] = ()
    serialized: bytes = b""

    def answer(self, form: str) -> dict[str, Any]:
        """As it is sent."""
        text = base64.b64encode(self.serialized).decode() if form == "serialized" else self.text
        return {"schema": text, "schemaType": self.kind, "references": list(self.references)}


class FakeRegistry:
    """``login``: USER:PASSWORD that it wants. ``refuses``: the reason for which it registers nothing. ``asked``: the requests
    that it has got."""

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.subjects: dict[str, list[Entry]] = {}
        self.login: str | None = None
        self.refuses: str | None = None
        self.asked: list[str] = []
        self.port = 0
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def add(
        self,
        subject: str,
        schema: Any,
        kind: str = "AVRO",
        *,
        references: Sequence[Mapping[str, Any]] = (),
        serialized: bytes = b"",
        number: int | None = None,
    ) -> int:
        """Register a schema; its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        entry = Entry(number or len(self.entries) + 101, kind, text, references, serialized)
        self.entries[entry.id] = entry
        self.subjects.setdefault(subject, []).append(entry)
        return entry.id

    def start(self) -> None:
        """Serve, where it has served before."""
        fake = self

        class Handler(BaseHTTPRequestHandler):
            server_version, protocol_version = NAME, "HTTP/1.1"

            def do_GET(self) -> None:
                fake.asked.append(f"GET {self.path}")
                self.reply(*fake.get(self.path) if self.may() else (401, error(40101, "Unauthorized")))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                fake.asked.append(f"POST {self.path}")
                self.reply(*fake.post(self.path, body) if self.may() else (401, error(40101, "Unauthorized")))

            def may(self) -> bool:
                expected = None if fake.login is None else "Basic " + base64.b64encode(fake.login.encode()).decode()
                return expected is None or self.headers.get("Authorization") == expected

            def reply(self, status: int, answer: Any) -> None:
                raw = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(raw)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(raw)
                self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Answer nobody any more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def get(self, path: str) -> tuple[int, Any]:
        """The answer to a question."""
        parts, form = urlsplit(path), parse_qs(urlsplit(path).query).get("format", [""])[0]
        match [unquote(one) for one in parts.path.strip("/").split("/")]:
            case ["schemas", "ids", number] if int(number) in self.entries:
                return 200, self.entries[int(number)].answer(form)
            case ["schemas", "ids", _]:
                return 404, error(40403, "Schema not found")
            case ["subjects", subject, "versions", version]:
                entries = self.subjects.get(subject, [])
                if not entries:
                    return 404, error(40401, f"Subject '{subject}' not found.")
                at = len(entries) if version == "latest" else int(version)
                entry = entries[at - 1]
                return 200, {"subject": subject, "version": at, "id": entry.id, **entry.answer(form)}
            case _:
                return 404, error(404, "HTTP 404 Not Found")

    def post(self, path: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        """The answer to a schema."""
        words = [unquote(one) for one in urlsplit(path).path.strip("/").split("/")]
        subject, entries = words[1], self.subjects.get(words[1], [])
        kind = body.get("schemaType", "AVRO")
        known = next((at for at, one in enumerate(entries, 1) if one.kind == kind and one.text == body["schema"]), None)
        if known is not None:
            return 200, {"subject": subject, "version": known, "id": entries[known - 1].id, **entries[known - 1].answer("")}
        if len(words) == 2:
            return 404, error(40403, "Schema not found") if entries else error(40401, f"Subject '{subject}' not found.")
        if self.refuses is not None:
            return 409, error(409, self.refuses)
        return 200, {"id": self.add(subject, body["schema"], kind)}


def error(code: int, message: str) -> dict[str, Any]:
    """The answer of a registry that says no."""
    return {"error_code": code, "message": message}


@contextmanager
def fake_registry() -> Iterator[FakeRegistry]:
    """One that runs."""
    fake = FakeRegistry()
    fake.start()
    try:
        yield fake
    finally:
        fake.stop()
