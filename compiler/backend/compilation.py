"""A dataflow as a program that can run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tracetypes.check import Checked, check
from tracetypes.errors import UsageError
from tracetypes.graph import Dataflow

if TYPE_CHECKING:
    from tracetypes.compiler.plan.program import Program

__all__ = ["check_once", "compile_program", "extras"]

PURGE_DELAY: Final = ("MIMALLOC_PURGE_DELAY", "10000")
"""The variable that Arrow's allocator reads when Arrow is loaded: after how many milliseconds it gives free memory back to the
system. All threads wait for that. By itself it does so after a second (Arrow 26), and soon needs the memory again."""


def compile_program(
    flow: Dataflow | Checked, *, parallelism: int = 1, key_groups: int | None = None, fuse: bool = True
) -> Program:
    """The program of a dataflow. ``fuse``: whether chains of operators are one stage. Raises :class:`CheckFailed`, and
    :class:`UsageError` ``TT401`` or ``TT404``."""
    with extras():
        from tracetypes.compiler.plan.planner import DEFAULT_KEY_GROUPS
        from tracetypes.compiler.plan.program import program

    groups = key_groups or max(DEFAULT_KEY_GROUPS, parallelism)
    return program(check_once(flow), parallelism=parallelism, key_groups=groups, fuse=fuse)


def check_once(flow: Dataflow | Checked) -> Checked:
    """A dataflow, or one that is checked already. Raises :class:`CheckFailed`."""
    return check(flow) if isinstance(flow, Dataflow) else flow


@contextmanager
def extras() -> Iterator[None]:
    """Inside, Arrow and the backends are imported. A package that is not installed is :class:`UsageError` ``TT401``."""
    if "pyarrow" not in sys.modules:
        os.environ.setdefault(*PURGE_DELAY)
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        more = "" if package in ("pyspark", "py4j", "pandas") else ", or 'tracetypes[local]' to run without Spark"
        raise UsageError("TT401", f"{error.name} is not installed", fix=f"pip install 'tracetypes[spark]'{more}") from error
