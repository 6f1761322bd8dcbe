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
from typing import Any, final

import attrs

from tracetypes.bounds import Bound, Columns, Decision, Group, Impact, Measure, Observation, Rows
from tracetypes.errors import UsageError
from tracetypes.forests import Forest
from tracetypes.impacts import Variation, relative_error, relative_magnitude
from tracetypes.records import show

__all__ = ["Learned", "Model", "Subject", "feature", "learned"]

@attrs.frozen
class Subject:
    """What examples and models are about. ``graph``: its fingerprint. ``steps``: the names of gated steps, in topological order.
    ``bounds``: of their errors. ``before``: of each, the numbers of the gated steps whose features it is told, and its own.
    ``behind``: its own number, and those of the gated steps that read it, directly or through others. ``features``: of each, what
    its gate looks at beside the impact."""

    graph: str
    steps: tuple[str, ...]
    bounds: tuple[float, ...]
    before: tuple[tuple[int, ...], ...]
    behind: tuple[tuple[int, ...], ...]
    features: tuple[tuple[str, ...], ...]

    @classmethod
    def from_json(cls, one: Mapping[str, Any]) -> Subject:
        """Of its JSON form, ``attrs.asdict``. Raises KeyError, TypeError or ValueError if it is none."""
        before, behind = (tuple(tuple(map(int, numbers)) for numbers in one[name]) for name in ("before", "behind"))
        features = tuple(tuple(map(str, names)) for names in one["features"])
        steps, bounds = tuple(map(str, one["steps"])), tuple(map(float, one["bounds"]))
        return cls(str(one["graph"]), steps, bounds, before, behind, features)

    def told(self, step: int, features: Sequence[Sequence[float]]) -> tuple[float, ...]:
        """What a step is told of the features of all steps. The first one of each is its impact."""
        return tuple(one for n in self.before[step] for one in features[n])

    def require(self, other: Subject, what: str) -> None:
        """Raise :class:`UsageError` ``TT251`` if ``other``, which ``what`` is about, is not this."""
        for part, fix in (
            ("steps", "give the directory of this dataflow's gates, or train again"),
            ("bounds", "train again: labels depend on the bounds"),
            ("before", "train again: the steps read each other in another way"),
            ("behind", "train again: the steps read each other in another way"),
            ("features", "train again: the gates look at something else"),
            ("graph", "train again: another graph changes in another way"),
        ):
            ours, theirs = getattr(self, part), getattr(other, part)
            if ours != theirs:
                raise UsageError("TT251", f"{what} is of another dataflow: {part} {theirs!r}, here {ours!r}", fix=fix)


@attrs.frozen(repr=False)
class Model:
    """A forest for each gated step, over the features that it is told. Its labels are the steps behind it, the step first:
    whether the error of each is above its bound. ``thresholds``: the probability of each label from which on the step runs.
    ``version``: in its directory, 0 if it was not stored."""

    subject: Subject
    forests: tuple[Forest, ...]
    thresholds: tuple[tuple[float, ...], ...]
    version: int = 0

    def __repr__(self) -> str:
        return f"model {self.version}"

    def runs(self, step: int, told: Sequence[float]) -> bool:
        """Whether a step has to run. ``told``: the features that it is told (:meth:`Subject.told`)."""
        chances = self.forests[step].probabilities(told)
        return any(chance >= threshold for chance, threshold in zip(chances, self.thresholds[step], strict=True))


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
    features: tuple[Impact, ...]
    model: Model | None

    def __repr__(self) -> str:
        return f"learned({self.name!r}, error={self.error:g}, {'in training' if self.model is None else self.model})"

    @property
    def changes(self) -> Impact:
        """The impact as the gate measures it."""
        return Impact(self.impact, self.columns, self.rows, self.accumulates)

    def measures(self) -> tuple[Measure, ...]:
        return tuple(dict.fromkeys((self.changes, *self.features)))

    def decide(self, seen: Observation, state: Any) -> Decision:
        impact = seen.measures[self.changes]
        if self.accumulates and seen.execution != seen.previous:
            impact += state or 0.0
        if self.model is None or seen.execution is None:
            return Decision(True, impact)
        step = self.model.subject.steps.index(self.name)
        return Decision(self.model.runs(step, (impact, *(seen.measures[one] for one in self.features))), impact)


def learned(
    name: str,
    *,
    error: float,
    columns: str | tuple[str, ...] = (),
    rows: Rows | None = None,
    impact: Variation[float, Any] | None = None,
    variation: Variation[float, Any] | None = None,
    accumulates: bool = False,
    features: Sequence[Impact] = (),
    model: Model | None = None,
) -> Bound:
    """Reached when the output of the step behind the gate would be off by more than ``error`` if the step did not run.

    ``name``: of the step; each learned gate has its own. ``columns``, ``rows``: as of :func:`tracetypes.gates.value`, the
    numbers of the container whose change is the impact. ``impact``: how the change is measured, equation 2 by default;
    ``variation``: how the error of the output is, equation 3 by default (:mod:`tracetypes.impacts`). ``accumulates``: changes
    from marker to marker are added; else they may cancel each other. ``features``: what the model is told beside the impact
    (:func:`feature`). ``model``: None lets all markers through, as training needs it.

    Raises :class:`UsageError` ``TT121`` for an error that is not positive and ``TT251`` for a model that is not about this step.
    """
    if not error > 0:
        fix = "give an error above 0, or leave the gate out: a step that tolerates no error runs at each marker"
        raise UsageError("TT121", f"error={show(error)}", fix=fix)
    if model is not None:
        _require_step(model, name, error, tuple(map(str, features)))
    return Learned(
        name,
        float(error),
        (columns,) if isinstance(columns, str) else tuple(columns),
        rows,
        relative_magnitude() if impact is None else impact,
        relative_error() if variation is None else variation,
        accumulates,
        tuple(features),
        model,
    )


def _require_step(model: Model, name: str, error: float, features: tuple[str, ...]) -> None:
    """Raise :class:`UsageError` ``TT251`` if a model is not about a step."""
    subject = model.subject
    bounds = dict(zip(subject.steps, subject.bounds, strict=True))
    fix = "train again with this dataflow"
    if bounds.get(name) != error:
        knows = f"knows {name!r} with an error of {bounds[name]:g}" if name in bounds else f"knows the steps {', '.join(bounds)}"
        raise UsageError("TT251", f"{model} {knows}, here is {name!r} with {error:g}", fix=fix)
    theirs = subject.features[subject.steps.index(name)]
    if theirs != features:
        raise UsageError("TT251", f"{model} knows {name!r} with the features {theirs}, here {features}", fix=fix)


def feature(
    function: Variation[float, Any],
    columns: str | tuple[str, ...] = (),
    *,
    rows: Rows | None = None,
    by: Group | None = None,
) -> Impact:
    """What a learned gate is told beside its impact: another measure of how its container has changed since the last execution.

    ``function``: of :mod:`tracetypes.impacts`, or the author's own. ``columns``, ``rows``: as of :func:`learned`. ``by``: a
    function of the key, such as the area of a sensor; what is compared is the mean number of all keys for which it is the same.
    """
    return Impact(function, (columns,) if isinstance(columns, str) else tuple(columns), rows, by=by)
