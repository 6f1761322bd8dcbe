"""The interface of a backend, which runs segments of a program, one at a time or many at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from tracetypes.compiler.graph.segments import Segment
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.plan.program import Program
from tracetypes.compiler.store.metrics import Batch
from tracetypes.compiler.store.run_store import RunStore
from tracetypes.errors import UsageError

__all__ = ["Backend", "Running", "refuse_unsupported"]

I = TypeVar("I", contravariant=True)
C = TypeVar("C", contravariant=True)


class Running(Protocol):
    """A segment that has been started."""

    def drain(self) -> None:
        """Follow its inputs no longer, end its sources, and answer all open blocks. May be called again."""

    def stop(self) -> None:
        """End soon, and leave open blocks open. May be called again."""

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is over, or for this many seconds. Returns whether it is over."""

    @property
    def failure(self) -> BaseException | None:
        """The error that ended it, if it is over."""

    @property
    def metrics(self) -> Batch | None:
        """The metrics of its last epoch."""


class Backend(Protocol[I, C]):
    """Runs segments. It opens inputs ``I`` and channels ``C`` in its own way."""

    @staticmethod
    def unsupported(program: Program, inputs: Mapping[str, object]) -> Sequence[str]:
        """What it cannot do of a program with these inputs, with reasons. Called before anything runs."""

    def start(
        self, segment: Segment, plan: Plan, inputs: Mapping[str, I], channels: Mapping[str, C], store: RunStore
    ) -> Running:
        """Start a segment, after those that it reads from. ``inputs``: by source. ``channels``: by name. ``store``: its
        earlier progress and its output."""


def refuse_unsupported(program: Program, reasons: Sequence[str]) -> None:
    """Raise :class:`UsageError` ``TT402`` if a backend has reasons why it cannot run a program."""
    if reasons:
        raise UsageError(
            "TT402",
            "\n    ".join([f"this backend cannot run {program.name}:", *reasons]),
            fix="choose another backend, or do without that",
        )
