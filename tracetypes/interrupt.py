"""Ctrl-C while the command line is imported: it ends with one line, not with the traceback of an import.

This module is the first that the package imports, so it imports little itself.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import pairwise
from types import FrameType

__all__ = ["end_by_interrupt", "raise_interrupts"]


def end_by_interrupt() -> None:
    """From now on Ctrl-C ends the process, if it is the command line and Ctrl-C would raise KeyboardInterrupt."""
    if _is_command_line() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_interrupts() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_command_line() -> bool:
    """Whether Python runs the script ``tracetypes``, or ``python -m tracetypes``."""
    script = os.path.basename("".join(sys.argv[:1]))
    return script == "tracetypes" or (script == "-m" and ("-m", "tracetypes") in pairwise(sys.orig_argv))


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"tracetypes: stopped\n")
    os._exit(130)
