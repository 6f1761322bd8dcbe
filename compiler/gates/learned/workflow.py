"""The paper's workflow in one process: waves, steps that read containers and write one, and somebody who decides which steps run.

It is the definition of what learned gates do, small enough to be read at once, and fast enough for sweeps over bounds and seeds.
Beside the gated workflow runs the synchronous one, so the error of each step is known at each wave.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import attrs

from tracetypes.compiler.gates.learned.learner import Learner, Phase
from tracetypes.compiler.gates.learned.steps import Looks, Step, Values, VirtualExecutions, needed_steps
from tracetypes.impacts import variation
from tracetypes.learned_gates import Model

__all__ = ["Decider", "Every", "Learned", "Modelled", "Oracle", "Replay", "Sometimes", "Wave", "Workflow", "WorkflowStep"]


@attrs.frozen(kw_only=True)
class WorkflowStep(Step):
    """A step that can run. ``compute``: makes its container from those that it reads."""

    compute: Callable[..., Values]


@attrs.frozen
class Wave:
    """What a wave did, for each gated step: its ``impacts`` when it was asked, whether it ``ran``, and the ``errors`` of its
    container behind the wave, against the synchronous workflow's."""

    impacts: tuple[float, ...]
    ran: tuple[bool, ...]
    errors: tuple[float, ...]


class Decider(Protocol):
    """Decides which steps run."""

    def decides(self, step: int, features: Sequence[Sequence[float]], needed: bool) -> bool:
        """Whether a gated step runs. ``features``: of the gated steps up to this one. ``needed``: whether it is needed
        (:func:`needed_steps`); only an oracle may look at it."""

    def after(self, features: Sequence[Sequence[float]], containers: Mapping[str, Values]) -> None:
        """A wave is over. ``containers``: of the synchronous workflow."""


class Workflow:
    """Steps in topological order, gated by a decider."""

    def __init__(self, steps: Sequence[WorkflowStep], decider: Decider) -> None:
        self.steps, self.decider = tuple(steps), decider
        self.gates = [(step, step.gate) for step in steps if step.gate is not None]
        self.containers: dict[str, Values] = {}
        self.looks = Looks(steps)
        self.nothing: Mapping[str, Values] = {step.name: {} for step in steps}
        self.executions = dict.fromkeys((step.name for step in steps), 0)
        self.waves = 0

    def run(self, waves: Iterable[Mapping[str, Values]]) -> list[Wave]:
        """Run waves. Each brings the containers of the sources, by name."""
        return [self._wave(sources) for sources in waves]

    def _synchronous(self, sources: Mapping[str, Values]) -> Mapping[str, Values]:
        """The containers of the workflow in which all steps run at each wave."""
        correct = dict(sources)
        for step in self.steps:
            correct[step.name] = step.compute(*(correct[name] for name in step.reads))
        return correct

    def _output(self, step: WorkflowStep, correct: Mapping[str, Values]) -> Values:
        """The container of a step that runs."""
        return step.compute(*(self.containers[name] for name in step.reads))

    def _wave(self, sources: Mapping[str, Values]) -> Wave:
        correct = self._synchronous(sources)
        self.containers.update((name, sources[name]) for name in sources if name not in self.executions)
        needed = needed_steps(
            self.steps, {step.name: variation(gate.error, correct[step.name], self.containers.get(step.name, {})) for step, gate
            in self.gates},
        )
        changed = {name for name in sources if name not in self.executions}
        features: list[tuple[float, ...]] = []
        ran: list[bool] = []
        errors: list[float] = []
        for step in self.steps:
            runs = any(name in changed for name in step.reads)
            if step.gate is not None:
                features.append(self.looks.see(step.name, {**self.nothing, **self.containers}))
                runs = runs and (
                    step.name not in self.containers or self.decider.decides(len(ran), features, step.name in needed)
                )
                ran.append(runs)
            if runs:
                self.containers[step.name] = self._output(step, correct)
                changed.add(step.name)
                self.executions[step.name] += 1
                if step.gate is not None:
                    self.looks.reset(step.name)
            if step.gate is not None:
                errors.append(variation(step.gate.error, correct[step.name], self.containers.get(step.name, {})))
        self.waves += 1
        self.decider.after(features, correct)
        return Wave(tuple(one[0] for one in features), tuple(ran), tuple(errors))


class Replay(Workflow):
    """The same with waves that were recorded, such as those of a dataflow: each brings the containers of all steps as they were
    when all
    ran. A step that runs has the output of its wave, as if it had read fresh containers."""

    def __init__(self, steps: Sequence[Step], decider: Decider) -> None:
        super().__init__([WorkflowStep(one.name, one.reads, one.gate, compute=_nothing) for one in steps], decider)

    def _synchronous(self, sources: Mapping[str, Values]) -> Mapping[str, Values]:
        return sources

    def _output(self, step: WorkflowStep, correct: Mapping[str, Values]) -> Values:
        return correct[step.name]


def _nothing(*containers: Values) -> Values:
    """Is not called."""
    return {}


@attrs.define(eq=False)
class Learned:
    """Decides as a learner does, which learns from the waves of its training phases."""

    learner: Learner
    steps: Sequence[Step]
    virtual: VirtualExecutions = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.virtual = VirtualExecutions(self.steps)

    def decides(self, step: int, features: Sequence[Sequence[float]], needed: bool) -> bool:
        """As the model says; always in training."""
        return self.learner.decide(step, features)

    def after(self, features: Sequence[Sequence[float]], containers: Mapping[str, Values]) -> None:
        """Learn, or look for drift."""
        if self.learner.phase is Phase.TRAINING:
            self.learner.learn(self.virtual.take(containers))
        else:
            self.learner.observe([one[0] for one in features])


class _Fixed:
    def after(self, features: Sequence[Sequence[float]], containers: Mapping[str, Values]) -> None:
        """Nothing is learned."""


@attrs.define(eq=False)
class Modelled(_Fixed):
    """Decides as a model says."""

    model: Model

    def decides(self, step: int, features: Sequence[Sequence[float]], needed: bool) -> bool:
        """By the features that the step is told."""
        return self.model.runs(step, self.model.subject.told(step, features))


@attrs.define(eq=False)
class Sometimes(_Fixed):
    """Runs a step with a probability: "random" of figure 11."""

    probability: float
    seed: int
    _random: random.Random = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def decides(self, step: int, features: Sequence[Sequence[float]], needed: bool) -> bool:
        """As a coin says."""
        return self._random.random() < self.probability


@attrs.define(eq=False)
class Every(_Fixed):
    """Runs a step each time that it is asked for the n-th time: "seq2" and "seq3" of figure 11."""

    n: int
    _asked: dict[int, int] = attrs.field(init=False, factory=dict)

    def decides(self, step: int, features: Sequence[Sequence[float]], needed: bool) -> bool:
        """Count."""
        self._asked[step] = self._asked.get(step, 0) + 1
        return self._asked[step] % self.n == 0


class Oracle(_Fixed):
    """Knows the errors: runs a step only when it is needed. "Optimal" of figure 12."""

    def decides(self, step: int, features: Sequence[Sequence[float]], needed: bool) -> bool:
        """Look."""
        return needed
