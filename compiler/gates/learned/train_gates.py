"""Models for learned gates: train them from rows, and load them again.

```python
trained = train_gates(flow(), {"readings": rows}, "models")    # all gates open; writes models/model-000001.json
flow(load_model("models"))                                     # the newest
```

Needs ``tracetypes[learn]``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tracetypes.check import check
from tracetypes.compiler.gates.learned.drift import distances
from tracetypes.compiler.gates.learned.flows import TrainingRun
from tracetypes.compiler.gates.learned.knowledge import KnowledgeBase
from tracetypes.compiler.gates.learned.models import Models
from tracetypes.compiler.gates.learned.quality import TREES, Quality, Standards
from tracetypes.compiler.gates.learned.steps import Example, VirtualExecutions
from tracetypes.errors import UsageError
from tracetypes.graph import Dataflow
from tracetypes.learned_gates import Model

__all__ = ["Training", "load_model", "train_gates"]


@attrs.frozen
class Training:
    """What a training came to. ``quality``: of each step in the test phase, by name. ``examples``: what it has learned from.
    ``shortfall``: why the model is not good enough; empty if it is. ``drift``: of each step, how far the impacts of the rows are
    from those of the waves before, from 0 to 1; empty if there were none."""

    model: Model
    quality: Mapping[str, Quality]
    examples: Sequence[Example]
    shortfall: Sequence[str]
    drift: Mapping[str, float] = attrs.Factory(dict)


def train_gates(
    flow: Dataflow,
    inputs: Mapping[str, Sequence[Any]],
    directory: str | Path,
    *,
    standards: Standards | None = None,
    seed: int = 0,
    trees: int = TREES,
    drift: float | None = None,
) -> Training:
    """Run a dataflow with its learned gates open, and learn when each step behind one would have had to run.

    ``inputs``: the values of each source, in order of arrival; pairs of key and value where rows have a key. The interpreter runs
    them. ``directory``: of ``knowledge.jsonl``, to which the waves are added, and of the models. Models load from there without a
    question, so nobody else should be able to write to it. A model that falls short of the ``standards`` is not stored: train
    with more rows. ``drift``: the newest model stays, and nothing is written, unless the impacts of some step are further than
    this from those of the waves before (the distance of Kolmogorov and Smirnov, from 0 to 1).

    Raises :class:`UsageError` ``TT121`` without a learned gate, ``TT251`` if the knowledge is about another dataflow, ``TT254``
    without enough waves, ``TT255`` if a step always or never has to run, and ``TT401`` without scikit-learn.
    """
    if drift is not None and not 0 < drift < 1:
        raise UsageError("TT121", f"drift={drift!r} is no distance", fix="give a number between 0 and 1, such as 0.3")
    run = TrainingRun(check(flow))
    home = Path(directory)
    knowledge = KnowledgeBase(home / "knowledge.jsonl", run.subject)
    first = knowledge.examples[-1].wave + 1 if knowledge.examples else 0
    virtual = VirtualExecutions(run.steps)
    waves = [attrs.evolve(one, wave=first + one.wave) for one in map(virtual.take, run.waves(inputs))]
    apart = dict(zip(run.subject.steps, distances([one.impacts for one in waves], knowledge.examples), strict=False))
    models = Models(home)
    if drift is not None and models.versions and max(apart.values(), default=1.0) <= drift:
        newest = models.load(models.versions[-1], run.subject)
        return Training(newest.model, dict(zip(run.subject.steps, newest.quality, strict=True)), knowledge.examples, [], apart)
    knowledge.add(waves)
    standards = standards or Standards()
    try:
        from tracetypes.compiler.gates.learned.training import train

        trained = train(knowledge.examples, run.subject, standards, seed, trees)
    except ImportError as error:
        fix = "pip install 'tracetypes[learn]'"
        raise UsageError("TT401", f"training needs scikit-learn, which is not here ({error})", fix=fix) from None
    shortfall = standards.problems(trained.quality)
    version = 0 if shortfall else models.add(trained, len(knowledge.examples))
    quality = dict(zip(run.subject.steps, trained.quality, strict=True))
    return Training(attrs.evolve(trained.model, version=version), quality, knowledge.examples, shortfall, apart)


def load_model(directory: str | Path, version: int | None = None) -> Model:
    """A model of a directory that its owner trusts; the newest if no version is given.

    Raises :class:`UsageError` ``TT253`` if it is not there or damaged.
    """
    models = Models(Path(directory))
    if version is None and not models.versions:
        raise UsageError("TT253", f"{directory} has no model", fix="train_gates(...) makes one")
    return models.load(models.versions[-1] if version is None else version).model
