"""What Spark reports of a query that has failed, as the error of a run."""

from __future__ import annotations

import re

from py4j.protocol import Py4JNetworkError

from tracetypes.errors import RunError, from_text

__all__ = ["translated"]


def translated(error: Exception) -> Exception:
    """Our own error, if one is inside what Spark reports."""
    ours = from_text(str(error))
    if ours is not None:
        return ours
    if isinstance(error, ConnectionError | Py4JNetworkError):
        return RunError(
            "TT214",
            "Spark's Java process has ended",
            fix="run again to go on; if memory was short, set TRACETYPES_DRIVER_MEMORY (now 4g unless set)",
        )
    lines = str(error).partition("=== Streaming Query ===")[0].splitlines()
    missing = re.search(r"ModuleNotFoundError: (No module named '[^']+')", str(error))
    if missing is not None:
        return RunError(
            "TT214",
            f"a Python worker cannot run the flow: {missing[1]}",
            fix="install the module where the executors run, or send it to them: see docs/cluster.md",
        )
    first = next((line for line in lines if line.strip()), type(error).__name__)
    first = first.partition(" An exception was raised by the Python Proxy")[0]
    causes = [
        line.strip() for line in lines if line != first and re.match(r"(Caused by: )?[A-Za-z_][\w.$]*(: .*)?$", line)
    ]
    text = "\n    ".join([first, *list(dict.fromkeys(causes))[-3:]])
    return RunError("TT214", f"Spark stopped the query: {text}", fix="see the cause above; run again to go on")
