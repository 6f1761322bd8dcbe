"""A server of a directory's files as objects: as much of S3 as readers and writers ask for, and as fast as Python sends bytes.

    python -m benchmarks._object_server DIRECTORY [--latency SECONDS]

It prints its port. ``s3://BUCKET/KEY`` is ``DIRECTORY/BUCKET/KEY``. It looks at no credentials. It is no store: it has no
latency of its own, no throttling and no other clients.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

ROOT = Path()
LATENCY = [0.0]


def tag(about: os.stat_result) -> str:
    """The etag of a file."""
    return f'"{hashlib.blake2b(f"{about.st_size} {about.st_mtime_ns}".encode(), digest_size=16).hexdigest()}"'


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def place(self) -> Path:
        return ROOT / unquote(urlsplit(self.path).path).lstrip("/")

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if body and self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        time.sleep(LATENCY[0])
        query = parse_qs(urlsplit(self.path).query)
        if "list-type" in query:
            self.answer(200, self.listing(query.get("prefix", [""])[0]), Content_Type="application/xml")
            return
        place = self.place()
        if not place.is_file():
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        about = place.stat()
        if (wanted := self.headers.get("If-Match")) and wanted != tag(about):
            self.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            return
        start, end, status = 0, about.st_size, 200
        if part := self.headers.get("Range"):
            first, _, last = part.removeprefix("bytes=").partition("-")
            start, end, status = int(first), min(end, int(last) + 1 if last else end), 206
        self.send_response(status)
        self.send_header("ETag", tag(about))
        self.send_header("Last-Modified", formatdate(about.st_mtime, usegmt=True))
        self.send_header("Content-Length", str(end - start))
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{about.st_size}")
        self.end_headers()
        if self.command == "GET":
            with place.open("rb") as file:
                while start < end:
                    start += os.sendfile(self.connection.fileno(), file.fileno(), start, end - start)

    def listing(self, prefix: str) -> bytes:
        bucket = self.place()
        entries: list[str] = []
        for one in sorted(bucket.rglob("*")):
            key = str(one.relative_to(bucket))
            if one.is_file() and key.startswith(prefix):
                about = one.stat()
                at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(about.st_mtime))
                entries.append(
                    f"<Contents><Key>{escape(key)}</Key><LastModified>{at}</LastModified><ETag>{escape(tag(about))}</ETag>"
                    f"<Size>{about.st_size}</Size></Contents>"
                )
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(entries)}</ListBucketResult>".encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    arguments = parser.parse_args()
    global ROOT
    ROOT, LATENCY[0] = arguments.directory, arguments.latency
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
