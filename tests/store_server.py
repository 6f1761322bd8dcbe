"""A server of objects on this machine, and what may go wrong on the way to it.

The server is moto's, which speaks S3 and keeps objects in memory. ``faults`` are asked at each request in turn until one answers.
"""

from __future__ import annotations

import re
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, unquote
from urllib.request import urlopen

import attrs
import obstore
import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.server import MotoRequestHandler  # type: ignore[attr-defined]
from obstore.store import S3Store
from werkzeug.serving import make_server

__all__ = ["KEY", "SECRET", "Request", "Server", "after", "broken_off", "lagging", "refused", "serving", "slow"]

KEY, SECRET = "AKIAOBJECTSOFTESTS00", "secret-of-the-tests-0123456789abcdef"


@attrs.frozen
class Request:
    """A request that a fault looks at."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]


Answer = Callable[[Any, Any], Iterable[bytes]]

Fault = Callable[[Request, Answer], Answer | None]
"""What answers a request instead of the server, which it may ask; None: the next one, or the server."""


@attrs.define(eq=False)
class Server:
    """A server with one bucket for each test."""

    port: int
    faults: list[Fault] = attrs.field(factory=list)
    requests: list[Request] = attrs.field(factory=list)
    """All since the last time that somebody emptied it."""
    bucket: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a run that uses it."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }

    @property
    def store(self) -> Any:
        """A client of the bucket."""
        return self.store_of(self.bucket)

    def store_of(self, bucket: str) -> Any:
        options: Any = {"allow_http": True}
        return S3Store(
            bucket, endpoint=self.url, access_key_id=KEY, secret_access_key=SECRET, region="us-east-1", client_options=options
        )

    def address(self, key: str = "") -> str:
        return f"s3://{self.bucket}/{key}"

    def put(self, key: str, content: bytes | str) -> None:
        obstore.put(self.store, key, content.encode() if isinstance(content, str) else content)

    def put_public(self, key: str, content: bytes) -> None:
        """So that it is read without credentials."""
        url = f"{self.url}/{self.bucket}/{quote(key)}"
        headers = {"x-amz-acl": "public-read", "Content-Type": "text/plain"}
        urlopen(urllib.request.Request(url, content, headers, method="PUT")).close()

    def keys(self, prefix: str = "") -> list[str]:
        return sorted(one["path"] for one in obstore.list(self.store, prefix=prefix or None).collect())

    def content(self, key: str) -> bytes:
        return obstore.get(self.store, key).bytes().to_bytes()

    @contextmanager
    def failing(self, *faults: Fault) -> Iterator[None]:
        self.faults[:] = faults
        try:
            yield
        finally:
            self.faults.clear()


@contextmanager
def serving() -> Iterator[Server]:
    """A server on a port of its own, on threads of this process."""
    real: Any = DomainDispatcherApplication(create_backend_app)
    server = Server(0)

    def application(environ: Any, start: Any) -> Iterable[bytes]:
        headers = {name: value for name, value in environ.items() if name.startswith("HTTP_")}
        request = Request(environ["REQUEST_METHOD"], unquote(environ["PATH_INFO"]), environ["QUERY_STRING"], headers)
        server.requests.append(request)
        answers = (fault(request, real) for fault in list(server.faults))
        answer = next((one for one in answers if one is not None), real)
        return answer(environ, start)

    web = make_server("127.0.0.1", 0, application, threaded=True, request_handler=MotoRequestHandler)
    server.port = web.server_port
    thread = threading.Thread(target=web.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        web.shutdown()
        thread.join()
        web.server_close()


_NUMBERS = iter(range(1_000_000))


def bucket_of(server: Server, patch: pytest.MonkeyPatch) -> Server:
    """The server with a new bucket, and the environment of its clients."""
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION"):
        patch.delenv(name, raising=False)
    for name, value in server.variables.items():
        patch.setenv(name, value)
    server.bucket = f"bucket-{next(_NUMBERS)}"
    urlopen(urllib.request.Request(f"{server.url}/{server.bucket}", method="PUT")).close()
    server.requests.clear()
    server.faults.clear()
    return server


# ------------------------------------------------------------------------------------------------------- faults


def refused(status: int, code: str, match: Callable[[Request], bool] = lambda _: True) -> Fault:
    """Requests are answered with an error of S3, whose text has what a real one has of the credentials."""
    text = f"<Error><Code>{code}</Code><AWSAccessKeyId>{KEY}</AWSAccessKeyId><StringToSign>{SECRET}</StringToSign></Error>"

    def answer(environ: Any, start: Any) -> Iterable[bytes]:
        start(f"{status} {code}", [("Content-Type", "application/xml"), ("Content-Length", str(len(text)))])
        return [text.encode()]

    return lambda request, _: answer if match(request) else None


def slow(seconds: float, match: Callable[[Request], bool] = lambda _: True) -> Fault:
    """Requests are answered later."""

    def fault(request: Request, real: Answer) -> Answer | None:
        if match(request):
            time.sleep(seconds)
        return None

    return fault


def broken_off(times: int, match: Callable[[Request], bool]) -> Fault:
    """The connection is lost in the middle of so many answers."""
    left = [times]

    def fault(request: Request, real: Answer) -> Answer | None:
        if not left[0] or not match(request):
            return None
        left[0] -= 1

        def answer(environ: Any, start: Any) -> Iterable[bytes]:
            whole = b"".join(real(environ, start))
            yield whole[: len(whole) // 2]
            raise ConnectionResetError

        return answer

    return fault


def lagging(key: str | re.Pattern[str]) -> Fault:
    """Listings do not have an object yet, or those of a pattern."""
    hidden = re.escape(key) if isinstance(key, str) else key.pattern

    def fault(request: Request, real: Answer) -> Answer | None:
        if "list-type" not in request.query:
            return None

        def answer(environ: Any, start: Any) -> Iterable[bytes]:
            kept: list[Any] = []
            whole = b"".join(real(environ, lambda status, headers, *_: kept.append((status, headers)))).decode()
            some = re.sub(rf"<Contents>\s*<Key>{hidden}</Key>.*?</Contents>", "", whole, flags=re.DOTALL).encode()
            status, headers = kept[0]
            start(status, [(n, str(len(some)) if n.lower() == "content-length" else v) for n, v in headers])
            return [some]

        return answer

    return fault


def after(match: Callable[[Request], bool], do: Callable[[], None]) -> Fault:
    """Something is done once, before the first such request is answered."""
    done = threading.Event()

    def fault(request: Request, real: Answer) -> Answer | None:
        if match(request) and not done.is_set():
            done.set()
            do()
        return None

    return fault
