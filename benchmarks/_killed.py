"""The command line, killed by SIGKILL a moment after one of its steps has begun, for :mod:`benchmarks.torture`.

    python -m benchmarks._killed STEP TIMES MICROSECONDS run ...

``STEP`` is a name of :data:`STEPS`; it is done ``TIMES`` times before. A thread that waits kills the process, so that it ends in
the middle of the step, such as a commit of SQLite, or soon after it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from tracetypes.cli import main
from tracetypes.compiler.backend.channel_retention import ChannelRetention
from tracetypes.compiler.connectors.delta_sink import TableSink
from tracetypes.compiler.connectors.kafka_sink import Transactions
from tracetypes.compiler.local.log import LocalLog
from tracetypes.compiler.local.workers import Workers
from tracetypes.compiler.store import file_channel, output_interface, staging
from tracetypes.compiler.store.input_files import InputFiles
from tracetypes.compiler.store.run_store import RunStore

__all__ = ["STEPS"]

STEPS: Final[dict[str, tuple[Any, str]]] = {
    "look": (InputFiles, "look"),
    "begin": (LocalLog, "begin"),
    "work": (Workers, "run"),
    "stage": (staging, "open_sink_file"),
    "move": (output_interface, "move"),
    "channel": (file_channel, "take"),
    "table": (TableSink, "commit"),
    "topic": (Transactions, "once"),
    "commit": (RunStore, "commit"),
    "end": (LocalLog, "end"),
    "committed": (InputFiles, "committed"),
    "clean": (ChannelRetention, "clean"),
    "drain": (RunStore, "drain"),
    "finish": (RunStore, "finish"),
}
"""What of a run may be hit."""


def kills(real: Callable[..., Any], times: int, microseconds: int) -> Callable[..., Any]:
    """A step at which the process is killed."""
    countdown = [times]

    def die() -> None:
        time.sleep(microseconds / 1e6)
        os.kill(os.getpid(), signal.SIGKILL)

    def call(*args: Any, **options: Any) -> Any:
        countdown[0] -= 1
        if countdown[0] == -1:
            threading.Thread(target=die).start()
        return real(*args, **options)

    return call


if __name__ == "__main__":
    step, times, microseconds, *words = sys.argv[1:]
    owner, name = STEPS[step]
    setattr(owner, name, kills(getattr(owner, name), int(times), int(microseconds)))
    sys.exit(main(words))
