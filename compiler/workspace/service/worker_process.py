"""A worker as the service sees it: calls, and what happens when it ends.

A worker that ends is started again, after half a second, then one, two and so on. A flow that was being submitted when it ended
is left out from then on. If it ends three times within a minute of its start, the drain that began last is left out, or else the
flow that came last: one of them was the last change to what ran. The others go on.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tracetypes.compiler.workspace.service.heartbeats import Heartbeats
from tracetypes.errors import RunError

__all__ = ["CallFailed", "WorkerProcess"]

SOON: Final = 60.0
"""Seconds. A worker that ends sooner after its start may have been ended by what it runs."""

TIMES: Final = 3
"""How often, one time after the other, before the last flow is left out."""

LONGEST: Final = 30.0
"""Seconds between two starts."""

GRACE: Final = 15.0
"""Seconds for a worker to end by itself."""

PATIENCE: Final = 5.0
"""Seconds that a worker may say nothing in addition to those of a call, on a busy machine."""

ENDLESS: Final = "one call of its operators does not end"

ENDS_DRAIN: Final = "the worker process ended while it was drained, and its open blocks are not answered"

_SEGMENT: Final = re.compile(r"\d+-\d+( drain)?")
"""The name of a segment, and of its thread. Those of flows that are being drained have a mark."""

KEPT_FROM_ENVIRONMENT: Final = ("PATH", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "JAVA_HOME", "SPARK_HOME", "PYTHONHASHSEED")


class CallFailed(Exception):
    """What a call of a worker raised there. ``plain``: code, message, fix and problems."""

    def __init__(self, plain: Mapping[str, Any]) -> None:
        self.plain = plain
        super().__init__(str(plain["message"]))


class WorkerProcess:
    """A worker process that is kept running. ``about``: what it is told first. ``left_out``: called with flows that it does not
    start any more, and why. ``latest``: gives the name of the flow that came last."""

    def __init__(
        self, about: Mapping[str, Any], left_out: Callable[[str, str], None], latest: Callable[[], str | None]
    ) -> None:
        self.about, self.left_out, self.latest = about, left_out, latest
        self._without: list[str] = []
        self._deaths: list[float] = []
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._pending: dict[int, tuple[Future[dict[str, Any]], str | None]] = {}
        self._ready = threading.Event()
        self._ended = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._beats: Heartbeats | None = None
        self._stuck: str | None = None
        """The name of the segment, or thread, in which a call does not end: the process ends for that."""
        self._without_segments: list[str] = []
        self._without_drain = False
        """Whether the drain that began last is left out."""
        self._starts: str | None = None
        """The flow whose segments it starts now."""
        self.failure: Mapping[str, Any] | None = None
        """Why it could not open its workspace the last time."""
        self._thread = threading.Thread(target=self._keep, name="worker of the workspace", daemon=True)
        self._thread.start()
        threading.Thread(target=self._watch, name="heartbeats of a worker", daemon=True).start()

    @property
    def pid(self) -> int | None:
        """The process that runs now."""
        return None if self._process is None else self._process.pid

    @property
    def is_ready(self) -> bool:
        """Whether it has its workspace open."""
        return self._ready.is_set()

    def call(self, call: str, flow: str | None = None, patience: float = 60.0, /, **arguments: Any) -> dict[str, Any]:
        """The answer of a call. ``flow``: the one that it starts. ``patience``: seconds. Raises :class:`CallFailed`, and
        :class:`RunError` ``TT419`` if the worker ends meanwhile, does not start or does not answer in time."""
        if not self._ready.wait(patience) or self._channel is None:
            raise self._gone()
        number, future = next(self._numbers), Future[dict[str, Any]]()
        with self._lock:
            self._pending[number] = future, flow
        try:
            self._channel.sendall(json.dumps({"id": number, "call": call, "with": arguments}).encode() + b"\n")
        except OSError as error:
            self._pending.pop(number, None)
            raise self._gone() from error
        try:
            return future.result(patience + GRACE)
        except TimeoutError as error:
            raise self._gone() from error
        finally:
            self._pending.pop(number, None)

    def close(self) -> None:
        """Let it stop its segments and end."""
        self._ended.set()
        process, channel = self._process, self._channel
        if channel is not None:
            _shut(channel)
        if process is not None:
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
        self._thread.join(GRACE)

    # --------------------------------------------------------------------------------------------------- inside

    def _gone(self) -> RunError:
        fix = "try again; the flows run on when it has started again"
        if self.failure is not None:
            fix = "the administrator sees more in the standard error of the service"
            return RunError("TT419", f"the worker process cannot start: {self.failure['message']}", fix=fix)
        return RunError("TT419", "the worker process ended, or does not answer", fix=fix)

    def _keep(self) -> None:
        """Start the process, read what it says, and start it again."""
        while not self._ended.is_set():
            started = time.monotonic()
            mine, theirs = socket.socketpair()
            environment = {name: os.environ[name] for name in KEPT_FROM_ENVIRONMENT if name in os.environ}
            scratch = str(self.about["scratch"])
            command = [sys.executable, "-P", "-m", "tracetypes.compiler.workspace.service.worker", str(theirs.fileno())]
            os.makedirs(scratch, exist_ok=True)
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd=scratch,
                env={**environment, "HOME": scratch, "TMPDIR": scratch},
                start_new_session=True,
            )
            theirs.close()
            self._channel = mine
            self._beats = Heartbeats(self._process.pid, self.about["seconds"] + PATIENCE)
            self._listen(mine)
            self._beats = None
            self._ready.clear()
            mine.close()
            self._end_of(self._process)
            if not self._ended.is_set():
                self._after_death(started)

    def _listen(self, channel: socket.socket) -> None:
        try:
            without = {"without": self._without, "without_segments": self._without_segments}
            without_drain = {"without_drain": self._without_drain}
            channel.sendall(json.dumps({**self.about, **without, **without_drain}).encode() + b"\n")
            with channel.makefile("r") as lines:
                for line in lines:
                    answer = json.loads(line)
                    if "beat" in answer:
                        self._beat()
                    elif "starts" in answer:
                        self._starts = answer["starts"]
                    elif "stuck" in answer:
                        self._stuck = answer["stuck"]
                    elif "leaves_out" in answer:
                        self.left_out(answer["leaves_out"], ENDS_DRAIN if "drains" in answer else ENDLESS)
                    elif answer["id"] == 0:
                        self._opened(answer)
                    elif (waiting := self._pending.get(answer["id"])) is not None:
                        if "error" in answer:
                            waiting[0].set_exception(CallFailed(answer["error"]))
                        else:
                            waiting[0].set_result(answer["answer"])
        except (OSError, ValueError):
            pass  # it was killed in the middle of a line

    def _opened(self, answer: Mapping[str, Any]) -> None:
        self.failure = answer.get("error")
        if self.failure is None:
            self._without, self._without_segments, self._without_drain = [], [], False
            self._ready.set()

    def _beat(self) -> None:
        if self._beats is not None:
            self._beats.heard()

    def _watch(self) -> None:
        """End a process that says nothing any more."""
        while not self._ended.wait(1):
            beats, process = self._beats, self._process
            if beats is not None and process is not None and beats.is_frozen:
                self._beats = None
                self._stuck = beats.busiest()
                process.kill()

    def _end_of(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the process is over, and end what it has started."""
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)

    def _after_death(self, started: float) -> None:
        with self._lock:
            waiting, self._pending = list(self._pending.values()), {}
        starting = [flow for flow in (*(flow for _, flow in waiting), self._starts) if flow is not None]
        stuck, self._stuck, self._starts = self._stuck, None, None
        segment = _SEGMENT.fullmatch(stuck or "")
        if stuck is not None and segment is None and not starting and (latest := self.latest()) is not None:
            starting = [latest]
        for culprit in starting if segment is None else ():
            why = "the worker process ended while it started" if stuck is None else ENDLESS
            self._leave_out(culprit, why)
        if segment is not None:
            self._without_segments.append(segment.group())
            # Whoever submits at this moment gets an error, so his flow does not run either.
            self._without += [flow for _, flow in waiting if flow is not None]
            starting = [*starting, segment.group()]
        self._deaths = [*self._deaths, started] if time.monotonic() - started < SOON and not starting else []
        if len(self._deaths) >= TIMES and self.failure is None:
            self._deaths = []
            # A drain takes seconds. One that is still there after three starts is what ends the process.
            if any(Path(self.about["workspace"]).glob("draining/*/drain.json")):
                self._without_drain = True
            elif (flow := self.latest()) is not None:
                self._leave_out(flow, "the worker process ended again and again, and this flow came last")
        for future, _ in waiting:
            future.set_exception(self._gone())
        self._ended.wait(min(LONGEST, 2.0 ** len(self._deaths) / 4 if not starting else 0))

    def _leave_out(self, flow: str, why: str) -> None:
        self._without.append(flow)
        self.left_out(flow, why)


def _shut(channel: socket.socket) -> None:
    with suppress(OSError):
        channel.shutdown(socket.SHUT_RDWR)
