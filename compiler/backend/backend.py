"""What a backend is: it runs segments of a program, one at a time or many at once."""

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
    """A segment that was started."""

    def drain(self) -> None:
        """Follow its inputs no longer, end its sources, and answer what is open. It may be called again."""

    def stop(self) -> None:
        """End soon, and leave open what is open. It may be called again."""

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is over, for so long at most. Is it over?"""

    @property
    def failure(self) -> BaseException | None:
        """What it failed of, when it is over."""

    @property
    def metrics(self) -> Batch | None:
        """What it has told of its last epoch."""


class Backend(Protocol[I, C]):
    """Runs segments. Inputs ``I`` and channels ``C`` are opened as this backend takes them."""

    def unsupported(self, program: Program) -> Sequence[str]:
        """What of a program it cannot run, and why. Asked before anything runs."""

    def start(
        self, segment: Segment, plan: Plan, inputs: Mapping[str, I], channels: Mapping[str, C], store: RunStore
    ) -> Running:
        """Start a segment, behind those that it reads from. ``inputs``: by source; ``channels``: by name; ``store``: what it goes
        on with, and where its output is."""


def refuse_unsupported(backend: Backend[I, C], program: Program) -> None:
    """Raise :class:`UsageError` ``TT402`` for a program that a backend cannot run."""
    reasons = backend.unsupported(program)
    if reasons:
        raise UsageError(
            "TT402",
            "\n    ".join([f"this backend cannot run {program.name}:", *reasons]),
            fix="choose another backend, or write it without that",
        )
