"""The knowledge base: examples on disk, as lines of JSON that a person can read.

The first line names the graph, the steps and their bounds. Each further line is a wave. A line that a crash has cut off at the
end of the file is dropped and its wave written again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from tracetypes.compiler.gates.learned.steps import Example, Step, gates_before
from tracetypes.errors import UsageError

__all__ = ["KnowledgeBase", "Subject"]

FORMAT: Final = 1

UNKNOWN: Final = -1.0
"""In the place of an impact that is not there yet. Impacts are not negative."""


@attrs.frozen
class Subject:
    """What examples and models are about. ``graph``: its fingerprint. ``steps``: the names of gated steps, in topological order.
    ``bounds``: of their errors. ``before``: of each, the numbers of the gated steps on the way to it, and its own."""

    graph: str
    steps: tuple[str, ...]
    bounds: tuple[float, ...]
    before: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, graph: str, steps: Sequence[Step]) -> Subject:
        """Of the steps of a workflow, in topological order."""
        gates = [(step.name, step.gate.bound) for step in steps if step.gate is not None]
        before = tuple(tuple(sorted(one)) for one in gates_before(steps))
        return cls(graph, tuple(name for name, _ in gates), tuple(bound for _, bound in gates), before)

    @classmethod
    def from_json(cls, one: Mapping[str, Any]) -> Subject:
        """Of its JSON form, ``attrs.asdict``. Raises KeyError, TypeError or ValueError if it is none."""
        before = tuple(tuple(map(int, numbers)) for numbers in one["before"])
        return cls(str(one["graph"]), tuple(map(str, one["steps"])), tuple(map(float, one["bounds"])), before)

    def known(self, step: int, impacts: Sequence[float]) -> tuple[float, ...]:
        """What is there of all impacts when a step is asked. :data:`UNKNOWN` stands for those behind it or beside it."""
        return tuple(impact if n in self.before[step] else UNKNOWN for n, impact in enumerate(impacts))

    def require(self, other: Subject, what: str) -> None:
        """Raise :class:`UsageError` ``TT251`` if ``other``, which ``what`` is about, is not this."""
        for part, fix in (
            ("steps", "give the directory of this dataflow's gates, or train again"),
            ("bounds", "train again: labels depend on the bounds"),
            ("before", "train again: the steps read each other in another way"),
            ("graph", "train again: another graph changes in another way"),
        ):
            ours, theirs = getattr(self, part), getattr(other, part)
            if ours != theirs:
                raise UsageError("TT251", f"{what} is of another dataflow: {part} {theirs!r}, here {ours!r}", fix=fix)


class KnowledgeBase:
    """The examples of a subject in a file. ``path``: need not be there."""

    def __init__(self, path: Path, subject: Subject) -> None:
        self.path, self.subject = path, subject
        self.examples: list[Example] = []
        if path.exists():
            self._read()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._append([{"format": FORMAT, **attrs.asdict(subject)}])

    def add(self, examples: Iterable[Example]) -> None:
        """Add waves. A wave that is there is not added again, so an epoch that runs again changes nothing."""
        last = self.examples[-1].wave if self.examples else -1
        fresh = [one for one in examples if one.wave > last]
        self._append([attrs.asdict(one) for one in fresh])
        self.examples += fresh

    def _append(self, lines: Iterable[dict[str, Any]]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())

    def _read(self) -> None:
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(self.path, len(whole))
        number = 1
        try:
            first, *lines = [json.loads(line) for line in whole.splitlines()]
            if first["format"] != FORMAT:
                raise ValueError(f"its format is {first['format']!r}, ours {FORMAT}")
            about = Subject.from_json(first)
            for number, line in enumerate(lines, 2):  # noqa: B007  # for the message
                self.examples.append(_example(line, len(about.steps)))
        except (ValueError, KeyError, TypeError) as error:
            fix = "remove the line, or the file to begin anew"
            raise UsageError("TT252", f"{self.path}, line {number}, is no example: {error}", fix=fix) from None
        self.subject.require(about, f"the knowledge base {self.path}")


def _example(line: dict[str, Any], steps: int) -> Example:
    if any(len(line[name]) != steps for name in ("impacts", "errors", "asked", "labels")):
        raise ValueError(f"it is not about {steps} steps")
    return Example(
        wave=int(line["wave"]),
        impacts=tuple(map(float, line["impacts"])),
        errors=tuple(map(float, line["errors"])),
        asked=tuple(map(bool, line["asked"])),
        labels=tuple(map(bool, line["labels"])),
    )
