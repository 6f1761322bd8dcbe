"""How good a model is, and how good it has to be."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Final

import attrs

from tracetypes.learned_gates import Model

__all__ = ["TREES", "Quality", "Standards", "Trained"]

TREES: Final = 100
"""Of a forest."""


@attrs.frozen
class Standards:
    """What a model has to reach in the test phase, as means over the steps, each between 0 and 1; else more training is needed.
    ``aim``: the recall that thresholds are chosen for; 0 for one half, the threshold of a forest that is not tuned. ``floor``:
    the least threshold. A step that had to run a few times only has no threshold that is sure to find all of them."""

    accuracy: float = 0.6
    precision: float = 0.0
    recall: float = 0.85
    aim: float = 0.95
    floor: float = 0.1

    def problems(self, quality: Sequence[Quality]) -> list[str]:
        """What falls short."""
        return [
            f"{name} {mean:.2f}, asked {asked:.2f}"
            for name in ("accuracy", "precision", "recall")
            if (mean := fmean(getattr(one, name) for one in quality)) < (asked := getattr(self, name))
        ]


@attrs.frozen
class Quality:
    """Of one step: shares between 0 and 1, with the positive class "has to run". ``area``: under the ROC curve."""

    accuracy: float
    precision: float
    recall: float
    area: float


@attrs.frozen
class Trained:
    """A model, and the quality of each step in the test phase."""

    model: Model
    quality: tuple[Quality, ...]
