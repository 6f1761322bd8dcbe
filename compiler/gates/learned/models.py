"""Models on disk: a directory that its owner trusts, a file of JSON for each version.

``model-000001.json`` says what the model is about, its thresholds and quality, and has the trees as plain numbers with their
SHA-256. Nothing in it is executed. A model loads only by its version from this directory, only if the hash is right, only for the
same steps, bounds and graph.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any, Final

import attrs

from tracetypes.compiler.gates.learned.quality import Quality, Trained
from tracetypes.errors import UsageError
from tracetypes.forests import Forest
from tracetypes.learned_gates import Model, Subject

__all__ = ["Models"]

FORMAT: Final = 2


class Models:
    """The models of a directory. ``directory``: need not be there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def versions(self) -> list[int]:
        """The versions that are there, the newest last."""
        names = (re.fullmatch(r"model-(\d{6,})\.json", one.name) for one in self.directory.glob("model-*.json"))
        return sorted(int(name[1]) for name in names if name)

    def add(self, trained: Trained, examples: int) -> int:
        """Store a model as the next version, whole or not at all. ``examples``: how many it has learned from. Returns the
        version."""
        self.directory.mkdir(parents=True, exist_ok=True)
        version = max(self.versions, default=0) + 1
        forests = [attrs.asdict(one) for one in trained.model.forests]
        words = {
            "format": FORMAT,
            "subject": attrs.asdict(trained.model.subject),
            "examples": examples,
            "thresholds": trained.model.thresholds,
            "quality": [attrs.asdict(one) for one in trained.quality],
            "sha256": _digest(forests),
            "forests": forests,
        }
        path = self._path(version)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        with beside.open("w", encoding="utf-8") as file:
            json.dump(words, file)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        return version

    def load(self, version: int, subject: Subject | None = None) -> Trained:
        """A model by its version. ``subject``: what it has to be about. Raises :class:`UsageError` ``TT251`` if it is about
        something else, and ``TT253`` if it is damaged or not there."""
        try:
            words: dict[str, Any] = json.loads(self._path(version).read_text(encoding="utf-8"))
            if words["format"] != FORMAT:
                raise ValueError(f"its format is {words['format']!r}, ours {FORMAT}")
            theirs = Subject.from_json(words["subject"])
            thresholds = tuple(tuple(map(float, one)) for one in words["thresholds"])
            quality = tuple(Quality(**{name: float(one) for name, one in each.items()}) for each in words["quality"])
            digest, numbers = words["sha256"], list(words["forests"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._bad(version, f"{type(error).__name__}: {error}") from None
        if _digest(numbers) != digest:
            raise self._bad(version, "its trees are not those that were written: their SHA-256 differs")
        if subject is not None:
            subject.require(theirs, f"model {version} in {self.directory}")
        forests = tuple(map(Forest.from_json, numbers))
        if not len(forests) == len(thresholds) == len(quality) == len(theirs.steps):
            raise self._bad(version, "it has another number of steps")
        for n, (forest, own) in enumerate(zip(forests, thresholds, strict=True)):
            told = sum(1 + len(theirs.features[step]) for step in theirs.before[n])
            if forest.features != told or not forest.labels == len(own) == len(theirs.behind[n]):
                raise self._bad(version, f"the forest of step {theirs.steps[n]!r} has another number of features or labels")
        return Trained(Model(theirs, forests, thresholds, version), quality)

    def _path(self, version: int) -> Path:
        return self.directory / f"model-{version:06d}.json"

    def _bad(self, version: int, why: str) -> UsageError:
        fix = "train again, or restore the directory from a copy"
        return UsageError("TT253", f"model {version} in {self.directory} cannot be used: {why}", fix=fix)


def _digest(forests: Any) -> str:
    """The SHA-256 of the numbers of forests."""
    return hashlib.sha256(json.dumps(forests, sort_keys=True).encode()).hexdigest()
