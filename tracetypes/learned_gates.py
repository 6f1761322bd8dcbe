"""Bounds that have learned when a step has to run (Esteves, Galhardas, Veiga: SmartFlux, 2016).

The author says how large an error of the step's output may be; nobody can tell from the input alone when it is reached. While
there is no model every marker is let through. :func:`tracetypes.train_gates` makes a model from such a run, and with
it the gate predicts at each marker, from the change of its container since the last execution, whether the error would exceed
the bound.

A model is a value of the dataflow, like any parameter of an operator: so a run can be repeated, and another model needs another
checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, final

import attrs

from tracetypes.bounds import Bound, Columns, Decision, Impact, Measure, Observation, Rows
from tracetypes.errors import UsageError
from tracetypes.forests import Forest
from tracetypes.impacts import Variation, relative_error, relative_magnitude
from tracetypes.records import show

__all__ = ["Learned", "Model", "Subject", "learned"]

UNKNOWN: Final = -1.0
"""In the place of an impact that is not there. Impacts are not negative."""


@attrs.frozen
class Subject:
    """What examples and models are about. ``graph``: its fingerprint. ``steps``: the names of gated steps, in topological order.
    ``bounds``: of their errors. ``before``: of each, the numbers of the gated steps whose impacts it is told, and its own."""

    graph: str
    steps: tuple[str, ...]
    bounds: tuple[float, ...]
    before: tuple[tuple[int, ...], ...]

    @classmethod
    def from_json(cls, one: Mapping[str, Any]) -> Subject:
        """Of its JSON form, ``attrs.asdict``. Raises KeyError, TypeError or ValueError if it is none."""
        before = tuple(tuple(map(int, numbers)) for numbers in one["before"])
        return cls(str(one["graph"]), tuple(map(str, one["steps"])), tuple(map(float, one["bounds"])), before)

    def told(self, step: int, impacts: Sequence[float]) -> tuple[float, ...]:
        """What a step is told of all impacts. :data:`UNKNOWN` stands for the others."""
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


@attrs.frozen(repr=False)
class Model:
    """A forest over the impacts of gated steps. ``thresholds``: of each step, the probability from which on it runs.
    ``version``: in its directory, 0 if it was not stored."""

    subject: Subject
    forest: Forest
    thresholds: tuple[float, ...]
    version: int = 0

    def __repr__(self) -> str:
        return f"model {self.version}"

    def runs(self, step: int, impacts: Sequence[float]) -> bool:
        """Whether a step has to run. ``impacts``: of all steps; only those that it is told count."""
        return self.forest.probabilities(self.subject.told(step, impacts))[step] >= self.thresholds[step]


@final
@attrs.frozen(repr=False)
class Learned(Bound):
    """See :func:`learned`. ``error``: the largest error that is tolerated."""

    name: str
    error: float
    columns: Columns
    rows: Rows | None
    impact: Variation[float, Any]
    variation: Variation[float, Any]
    accumulates: bool
    model: Model | None

    def __repr__(self) -> str:
        return f"learned({self.name!r}, error={self.error:g}, {'in training' if self.model is None else self.model})"

    @property
    def changes(self) -> Impact:
        """The impact as the gate measures it."""
        return Impact(self.impact, self.columns, self.rows, self.accumulates)

    def measures(self) -> tuple[Measure, ...]:
        return (self.changes,)

    def decide(self, seen: Observation, state: Any) -> Decision:
        impact = seen.measures[self.changes]
        if self.accumulates and seen.execution != seen.previous:
            impact += state or 0.0
        if self.model is None or seen.execution is None:
            return Decision(True, impact)
        steps = self.model.subject.steps
        impacts = [impact if name == self.name else UNKNOWN for name in steps]
        return Decision(self.model.runs(steps.index(self.name), impacts), impact)


def learned(
    name: str,
    *,
    error: float,
    columns: str | tuple[str, ...] = (),
    rows: Rows | None = None,
    impact: Variation[float, Any] | None = None,
    variation: Variation[float, Any] | None = None,
    accumulates: bool = False,
    model: Model | None = None,
) -> Bound:
    """Reached when the output of the step behind the gate would be off by more than ``error`` if the step did not run.

    ``name``: of the step; each learned gate has its own. ``columns``, ``rows``: as of :func:`tracetypes.gates.value`, the
    numbers of the container whose change is the impact. ``impact``: how the change is measured, equation 2 by default;
    ``variation``: how the error of the output is, equation 3 by default (:mod:`tracetypes.impacts`). ``accumulates``: changes
    from marker to marker are added; else they may cancel each other. ``model``: None lets all markers through, as training
    needs it.

    Raises :class:`UsageError` ``TT121`` for an error that is not positive and ``TT251`` for a model that is not about this step.
    """
    if not error > 0:
        fix = "give an error above 0, or leave the gate out: a step that tolerates no error runs at each marker"
        raise UsageError("TT121", f"error={show(error)}", fix=fix)
    if model is not None:
        known = dict(zip(model.subject.steps, model.subject.bounds, strict=True))
        if known.get(name) != error:
            found = f"knows {name!r} with an error of {known[name]:g}" if name in known else f"knows the steps {', '.join(known)}"
            raise UsageError("TT251", f"{model} {found}, here is {name!r} with {error:g}", fix="train again with this dataflow")
    return Learned(
        name,
        float(error),
        (columns,) if isinstance(columns, str) else tuple(columns),
        rows,
        relative_magnitude() if impact is None else impact,
        relative_error() if variation is None else variation,
        accumulates,
        model,
    )
