"""A worker process of the service: it has a workspace open, and runs the operators. The process that speaks HTTP runs none.

``python -m tracetypes.compiler.workspace.service.worker`` gets one socket and is spoken to in lines of JSON::

    -> {"id": 7, "call": "show", "with": {}}
    <- {"id": 7, "answer": {...}}         or   {"id": 7, "error": {"code": ..., "message": ..., "fix": ..., "problems": [...]}}

The first line says which workspace to open. It ends when the socket ends.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tracetypes.compiler.workspace.service.landlock import AVAILABLE, restrict
from tracetypes.compiler.workspace.service.registry import read_registry

__all__ = ["main", "plain_error"]

PATIENCE: Final = 20.0
"""Seconds for the worker before this one to leave the workspace."""

THREADS: Final = 16
"""Calls at once. Those that wait for a drain take one each."""

SWITCH: Final = 0.0005
"""Seconds until a thread that has Python's lock lets another one have it. A submit asks for it again after each write, while
others plan what was submitted before: Python's 5 ms each time would be most of what it takes."""


def main() -> None:
    """Serve the socket that is given as a file descriptor."""
    with socket.socket(fileno=int(sys.argv[1])) as channel, channel.makefile("r") as lines:
        about = json.loads(lines.readline())
        registry = read_registry(Path(about["registry"]))
        about["registry"] = registry.of_owner(about["owner"]) if about["owner"] else registry
        _confine(about)
        sys.setswitchinterval(SWITCH)
        # Only now: threads that exist already are not restricted.
        from tracetypes.compiler.workspace.service.worker_calls import WorkerCalls

        lock = threading.Lock()

        def say(answer: Mapping[str, Any]) -> None:
            with lock, suppress(OSError):  # the service is gone: this process ends, too
                channel.sendall(json.dumps(answer).encode() + b"\n")

        try:
            calls = _opened(lambda: WorkerCalls(about, say))
        except Exception as error:  # the service says it
            say({"id": 0, "error": plain_error(error)})
            return
        say({"id": 0, "answer": {}})
        with ThreadPoolExecutor(THREADS) as threads:
            for line in lines:
                threads.submit(_answer, json.loads(line), calls, say)
        threading.Timer(PATIENCE, os._exit, (1,)).start()
        calls.close()
    os._exit(0)  # an operator may have left threads


def _answer(call: Mapping[str, Any], calls: Any, say: Callable[[Mapping[str, Any]], None]) -> None:
    try:
        answer = getattr(calls, call["call"])(**call["with"])
    except BaseException as error:  # an operator may raise anything
        say({"id": call["id"], "error": plain_error(error)})
    else:
        say({"id": call["id"], "answer": answer})


def _opened(make: Callable[[], Any]) -> Any:
    """Open the workspace. The worker before this one may still have it open for a moment."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return make()
        except Exception as error:
            if getattr(error, "code", "") != "TT221" or time.monotonic() > until:
                raise
            time.sleep(0.1)


def _confine(about: Mapping[str, Any]) -> None:
    """Limit memory, and what files, ports and processes can be reached."""
    resource.setrlimit(resource.RLIMIT_DATA, (about["memory"], about["memory"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.path[:0] = about["code"]
    for one in about["write"]:
        Path(one).mkdir(parents=True, exist_ok=True)
    if AVAILABLE:
        restrict(about["list"], about["read"], [*about["write"], "/dev/null"], about["ports"])


def plain_error(error: BaseException) -> dict[str, Any]:
    """An error as JSON has it."""
    problems: Any = getattr(error, "problems", None) or getattr(error, "violations", ())
    message = getattr(error, "message", None)
    return {
        "code": getattr(error, "code", "TT000"),
        "message": message if isinstance(message, str) else _first_line(error),
        "fix": getattr(error, "fix", "") or "",
        "timeout": isinstance(error, TimeoutError),
        "problems": [
            {
                "code": one.code,
                "task": getattr(one, "task", None) or getattr(one, "operator", ""),
                "found": one.found,
                "expected": one.expected,
                "fix": one.fix,
            }
            for one in problems
        ],
    }


def _first_line(error: BaseException) -> str:
    text = str(error).partition("\n")[0]
    return text if getattr(error, "code", None) or isinstance(error, TimeoutError) else f"{error.__class__.__name__}: {text}"


if __name__ == "__main__":
    main()
