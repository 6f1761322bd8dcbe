"""What a gate, or a sink behind gates, did at each marker, and what follows: executions, errors, violations, confidence, and how
well a learned gate decided (section 5 of SmartFlux)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs

__all__ = ["Agreement", "Decisions", "ShadowReport", "agreement", "behind_first", "pearson", "table"]


@attrs.frozen
class Agreement:
    """How decisions agree with what was needed: shares between 0 and 1, with the positive class "has to run". 1 if there is
    nothing to divide by."""

    accuracy: float
    precision: float
    recall: float


def agreement(ran: Sequence[bool], needed: Sequence[bool]) -> Agreement:
    """Of decisions, ``ran``, with what was ``needed``. Both of one length."""
    right = sum(one and other for one, other in zip(ran, needed, strict=True))
    same = sum(one == other for one, other in zip(ran, needed, strict=True))
    return Agreement(_share(same, len(ran)), _share(right, sum(ran)), _share(right, sum(needed)))


def _share(some: int, of: int) -> float:
    return float(some / of) if of else 1.0


def pearson(one: Sequence[float], other: Sequence[float]) -> float:
    """Pearson's coefficient of correlation of two sequences of one length. NaN if one of them never changes."""
    pairs = list(zip(one, other, strict=True))
    if not pairs:
        return math.nan
    x, y = (math.fsum(pair[n] for pair in pairs) / len(pairs) for n in (0, 1))
    both, left, right = (
        math.fsum(term) for term in zip(*(((a - x) * (b - y), (a - x) ** 2, (b - y) ** 2) for a, b in pairs), strict=True)
    )
    return both / math.sqrt(left * right) if left > 0 and right > 0 else math.nan


def behind_first(ran: Sequence[bool]) -> slice:
    """The places behind the first execution. At that one everything is new, so it says nothing of impacts and errors."""
    return slice(next((n + 1 for n, one in enumerate(ran) if one), len(ran)), None)


@attrs.frozen
class Decisions:
    """What a learned gate decided by, at each marker. ``impacts``: as it measured them. ``stale``: the error of the step's output
    if the step did not run. ``needed``: whether it had to run, as in training
    (:func:`tracetypes.compiler.gates.learned.steps.needed_steps`); False where no marker came to the gate. ``correlation``: of
    impacts and stale errors behind the first execution, Pearson's coefficient; NaN if one of them never changes."""

    impacts: tuple[float, ...]
    stale: tuple[float, ...]
    needed: tuple[bool, ...]
    correlation: float


@attrs.frozen
class ShadowReport:
    """A gate, or a sink, at each marker of a run. ``without``: whether the step is executed there without gates. ``came``:
    whether the marker came. ``ran``: whether the gate let it through (to a sink: whether it came). ``errors``: of the output of
    the step behind the gate against the same without gates. ``bound``: of the error, where the gate has one. ``decisions``: of a
    learned gate. ``is_sink``: whether it is a sink."""

    name: str
    without: tuple[bool, ...]
    came: tuple[bool, ...]
    ran: tuple[bool, ...]
    errors: tuple[float, ...]
    bound: float | None = None
    decisions: Decisions | None = None
    is_sink: bool = False

    @property
    def ungated(self) -> int:
        """The executions without gates."""
        return sum(self.without)

    @property
    def markers(self) -> int:
        """The markers that came, past the gates before this one."""
        return sum(self.came)

    @property
    def executions(self) -> int:
        """The executions with gates."""
        return sum(self.ran)

    @property
    def saved(self) -> float:
        """The share of the executions without gates that were saved."""
        return 1 - self.executions / self.ungated if self.ungated else 0.0

    @property
    def mean(self) -> float:
        """The mean error."""
        return math.fsum(self.errors) / len(self.errors) if self.errors else 0.0

    @property
    def largest(self) -> float:
        """The largest error."""
        return max(self.errors, default=0.0)

    @property
    def violations(self) -> tuple[float, ...]:
        """By how much the error was above its bound, at the markers where it was."""
        return () if self.bound is None else tuple(one - self.bound for one in self.errors if one > self.bound)

    @property
    def confidences(self) -> tuple[float, ...]:
        """After each marker the share of markers so far at which the error was within the bound (figure 10)."""
        if self.bound is None:
            return ()
        right = 0
        shares = []
        for number, one in enumerate(self.errors, 1):
            right += one <= self.bound
            shares.append(right / number)
        return tuple(shares)

    @property
    def confidence(self) -> float:
        """The last of the confidences; 1 if there is none."""
        return self.confidences[-1] if self.confidences else 1.0

    @property
    def predicted(self) -> tuple[float, ...]:
        """Of a learned gate, at each marker: the error that comes of its decisions alone (figure 9). A step that runs is taken to
        have the output that it has without gates."""
        if self.decisions is None:
            return ()
        return tuple(0.0 if ran else stale for ran, stale in zip(self.ran, self.decisions.stale, strict=True))

    @property
    def deviations(self) -> tuple[float, ...]:
        """Of a learned gate: predicted minus measured errors. Below 0 where the inputs of the step were out of date, too."""
        return tuple(a - b for a, b in zip(self.predicted, self.errors, strict=True)) if self.decisions else ()

    @property
    def agreement(self) -> Agreement | None:
        """Of a learned gate: how its decisions agree with what was needed, at the markers that came."""
        if self.decisions is None:
            return None
        pairs = [(ran, needed) for came, ran, needed in zip(self.came, self.ran, self.decisions.needed, strict=True) if came]
        return agreement([ran for ran, _ in pairs], [needed for _, needed in pairs])

    @property
    def missed(self) -> int:
        """Of a learned gate: the markers at which the step had to run and did not."""
        return 0 if self.decisions is None else sum(b and not a for a, b in zip(self.ran, self.decisions.needed, strict=True))

    @property
    def spare(self) -> int:
        """Of a learned gate: the markers at which the step ran and did not have to."""
        return 0 if self.decisions is None else sum(a and not b for a, b in zip(self.ran, self.decisions.needed, strict=True))

    def plain(self) -> dict[str, Any]:
        """As values of JSON. None in the place of numbers that are not finite."""
        plain: dict[str, Any] = {
            "name": self.name,
            "is_sink": self.is_sink,
            "ungated": self.ungated,
            "markers": self.markers,
            "executions": self.executions,
            "saved": self.saved,
            "mean": _number(self.mean),
            "largest": _number(self.largest),
            "bound": self.bound,
        }
        series: dict[str, Iterable[Any]] = {"without": self.without, "came": self.came, "ran": self.ran}
        series["errors"] = map(_number, self.errors)
        if self.bound is not None:
            plain |= {"violations": [_number(one) for one in self.violations], "confidence": self.confidence}
            series["confidences"] = self.confidences
        if self.decisions is not None and self.agreement is not None:
            plain |= {**attrs.asdict(self.agreement), "missed": self.missed, "spare": self.spare}
            plain["correlation"] = _number(self.decisions.correlation)
            series |= {name: map(_number, getattr(self.decisions, name)) for name in ("impacts", "stale")}
            series |= {name: map(_number, getattr(self, name)) for name in ("predicted", "deviations")}
            series["needed"] = self.decisions.needed
        return plain | {name: list(one) for name, one in series.items()}


def _number(one: float) -> float | None:
    return one if math.isfinite(one) else None


SAVED: Final = ("", "ungated", "markers", "executions", "saved", "mean error", "largest")
LEARNED: Final = (
    *("", "bound", "violations", "by at most", "confidence"),
    *("precision", "recall", "missed", "spare", "deviation", "r"),
)


def table(reports: Iterable[ShadowReport]) -> str:
    """Reports as text: a line for each, and a second table with a line for each learned gate."""
    saved, learned = list[Sequence[str]]([SAVED]), list[Sequence[str]]([LEARNED])
    for one in reports:
        counts = (f"{one.ungated:,}", f"{one.markers:,}", f"{one.executions:,}")
        saved.append((one.name, *counts, f"{100 * one.saved:.1f} %", f"{one.mean:.4f}", f"{one.largest:.4f}"))
        if one.decisions is None or one.agreement is None:
            continue
        shares = (f"{100 * share:.1f} %" for share in (one.confidence, one.agreement.precision, one.agreement.recall))
        finite = [abs(deviation) for deviation in one.deviations if math.isfinite(deviation)]
        apart = math.fsum(finite) / max(1, len(finite))
        violations = (f"{len(one.violations):,}", f"{max(one.violations, default=0.0):.4f}")
        correlation = "" if math.isnan(one.decisions.correlation) else f"{one.decisions.correlation:.2f}"
        wrong = (f"{one.missed:,}", f"{one.spare:,}")
        learned.append((one.name, f"{one.bound:g}", *violations, *shares, *wrong, f"{apart:.4f}", correlation))
    return _align(saved) + (f"\n\n{_align(learned)}" if len(learned) > 1 else "")


def _align(lines: Sequence[Sequence[str]]) -> str:
    """Names to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
