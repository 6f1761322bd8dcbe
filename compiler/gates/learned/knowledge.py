"""The knowledge base: examples on disk, as lines of JSON that a person can read.

The first line names the graph, the steps and their bounds. Each further line is a wave. A line that a crash has cut off at the
end of the file is dropped and its wave written again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from tracetypes.compiler.gates.learned.steps import Example, Step, gates_before
from tracetypes.errors import UsageError
from tracetypes.learned_gates import Subject

__all__ = ["KnowledgeBase", "subject_of"]

FORMAT: Final = 2


def subject_of(graph: str, steps: Sequence[Step]) -> Subject:
    """The subject of the steps of a workflow, in topological order: each gated step is told the features of those on the way to
    it."""
    gates = [(step.name, step.gate) for step in steps if step.gate is not None]
    before = gates_before(steps)
    numbers = range(len(gates))
    return Subject(
        graph,
        tuple(name for name, _ in gates),
        tuple(gate.bound for _, gate in gates),
        tuple(tuple(sorted(one)) for one in before),
        tuple((n, *(other for other in numbers if n in before[other] and other != n)) for n in numbers),
        tuple(tuple(name for name, _ in gate.features) for _, gate in gates),
    )


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
    if any(len(line[name]) != steps for name in ("features", "errors", "asked", "labels")):
        raise ValueError(f"it is not about {steps} steps")
    return Example(
        wave=int(line["wave"]),
        features=tuple(tuple(map(float, one)) for one in line["features"]),
        errors=tuple(map(float, line["errors"])),
        asked=tuple(map(bool, line["asked"])),
        labels=tuple(map(bool, line["labels"])),
    )
