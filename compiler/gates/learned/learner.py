"""The phases of learned gates: training, test, application, and back.

Each decision is a function of the impacts, the model's version and the waves before, all of which are recorded: a run that goes
on after a crash, or is repeated from the record, decides the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

import attrs

from tracetypes.compiler.gates.learned.drift import distances
from tracetypes.compiler.gates.learned.knowledge import KnowledgeBase
from tracetypes.compiler.gates.learned.models import Models
from tracetypes.compiler.gates.learned.quality import TREES, Standards, Trained
from tracetypes.compiler.gates.learned.steps import Example
from tracetypes.compiler.gates.learned.training import train
from tracetypes.errors import UsageError
from tracetypes.learned_gates import Subject

__all__ = ["Learner", "Phase"]

RECENT: Final = 50
"""Waves whose impacts are compared with those of the training."""


class Phase(Enum):
    """Where a learner stands. The test phase takes no wave: it is the end of a training."""

    TRAINING = "training"
    APPLICATION = "application"


@attrs.define(eq=False)
class Learner:
    """Decides for the gated steps of a workflow. ``waves``: of a training; ``more``: added if the test falls short of the
    ``standards``. ``drift``: the distance between recent impacts and those of the training, from 0 to 1, above which it trains
    again; 1: never."""

    knowledge: KnowledgeBase
    models: Models
    waves: int = 168
    more: int = 50
    standards: Standards = attrs.field(factory=Standards)
    seed: int = 0
    trees: int = TREES
    drift: float = 1.0
    version: int = attrs.field(init=False, default=0)
    shortfall: str = attrs.field(init=False, default="")
    """Why the last test did not end the training."""
    _model: Trained | None = attrs.field(init=False, default=None)
    _goal: int = attrs.field(init=False, default=0)
    _recent: list[tuple[float, ...]] = attrs.field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        self._goal = self.waves
        if versions := self.models.versions:
            self.use(versions[-1])

    @property
    def phase(self) -> Phase:
        """Training while there is no model."""
        return Phase.TRAINING if self._model is None else Phase.APPLICATION

    @property
    def subject(self) -> Subject:
        """What its examples and models are about."""
        return self.knowledge.subject

    def use(self, version: int) -> None:
        """Decide by a model from now on."""
        self._model, self.version = self.models.load(version, self.subject), version
        self._recent.clear()

    def retrain(self) -> None:
        """Train again: with the examples that are there and as many new waves as the first training had."""
        self._model, self.version = None, 0
        self._goal = len(self.knowledge.examples) + self.waves

    def decide(self, step: int, features: Sequence[Sequence[float]]) -> bool:
        """Whether a gated step has to run. ``features``: of the gated steps up to this one; those on the way to it count. In
        training each step runs."""
        return self._model is None or self._model.model.runs(step, self.subject.told(step, features))

    def observe(self, impacts: Sequence[float]) -> None:
        """A wave of the application is over. Drift begins a new training."""
        self._recent = [*self._recent[-RECENT + 1 :], tuple(impacts)]
        if len(self._recent) == RECENT and self.distance > self.drift:
            self.retrain()

    @property
    def distance(self) -> float:
        """The largest distance, over the steps, between the distributions of recent impacts and of those of the training: that of
        Kolmogorov and Smirnov."""
        return max(distances(self._recent, self.knowledge.examples), default=0.0)

    def learn(self, example: Example) -> None:
        """Take a wave of training. At the end of the training, test: a good model is stored and decides from then on."""
        self.knowledge.add([example])
        if len(self.knowledge.examples) >= self._goal:
            self.test()

    def test(self) -> None:
        """The test phase: train, and use the model if it reaches the standards. Otherwise train for ``more`` waves."""
        examples = self.knowledge.examples
        try:
            trained = train(examples, self.subject, self.standards, self.seed, self.trees)
            problems = self.standards.problems(trained.quality)
        except UsageError as error:
            if error.code not in ("TT254", "TT255"):
                raise
            problems = [str(error)]
        self.shortfall = "; ".join(problems)
        if problems:
            self._goal = len(examples) + self.more
            return
        self.use(self.models.add(trained, len(examples)))
