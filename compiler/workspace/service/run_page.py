"""The page of a single run, for browsers on this machine. Another process serves it (:mod:`.run_page_process`)."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import Final

from tracetypes.compiler.backend.run_view import RunView
from tracetypes.compiler.plan.program import Program
from tracetypes.compiler.store.metrics import Batch
from tracetypes.errors import UsageError
from tracetypes.redaction import redact

__all__ = ["RunPage"]

SECONDS: Final = 1.0
"""Between two pages that the process gets."""

NEEDED: Final = ("starlette", "uvicorn", "sse_starlette")


class RunPage:
    """The page of a run. ``port``: 0 for one that is free. ``asides``: the directories of late and rejected rows, by these words.

    It is shown as long as its context lasts. A thread sends what is known to the process that shows it, once a second. If that
    process is slow or has ended, nobody waits but this thread. Raises :class:`UsageError` ``TT401`` without the extra, ``TT402``
    for a port that is taken or impossible.
    """

    def __init__(self, program: Program, port: int, asides: Mapping[str, str]) -> None:
        missing = [one for one in NEEDED if find_spec(one) is None]
        if missing:
            raise UsageError("TT401", f"{missing[0]} is not installed", fix="pip install 'tracetypes[workspace]'")
        self._view, token = RunView(program), secrets.token_urlsafe(32)
        with _listening(port) as listener:
            self.address = f"http://127.0.0.1:{listener.getsockname()[1]}/{token}/"
            module = f"{__name__}_process"
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(listener.fileno())],
                pass_fds=[listener.fileno()],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # Ctrl-C is for the run
            )
        self._over, self._sent = threading.Event(), threading.Event()
        threading.Thread(target=self._send, args=(token, dict(asides)), name="page of the run", daemon=True).start()

    def __enter__(self) -> RunPage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self.end("over" if error is None else f"failed: {str(error).partition(chr(10))[0] or type(error).__name__}")

    def add(self, batch: Batch) -> None:
        """Count an epoch."""
        self._view.add(batch)

    def end(self, text: str) -> None:
        """The run is over. Browsers that look get this text and the last figures."""
        self._view.status = redact(text)
        self._over.set()
        self._sent.wait(SECONDS)

    def _send(self, token: str, asides: Mapping[str, str]) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        with suppress(OSError), pipe:
            pipe.write(json.dumps({"token": token, "asides": asides}).encode() + b"\n")
            is_over = False
            while not is_over:
                is_over = self._over.is_set()
                pipe.write(json.dumps(self._view.page().plain).encode() + b"\n")
                pipe.flush()
                self._over.wait(SECONDS)
        self._sent.set()
        self._process.wait()


def _listening(port: int) -> socket.socket:
    if not 0 <= port < 65536:
        raise UsageError("TT402", f"--page {port} is no port", fix="give a port from 1 to 65535, or none")
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise UsageError("TT402", f"--page {port}: {error.strerror}", fix="give a port that is free") from error
    return listener
