"""Pictures of what gates save and what it costs, like the figures of the papers. Needs ``tracetypes[plots]``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from tracetypes.compiler.gates.reports import ShadowReport, behind_first

__all__ = ["draw", "draw_sweep"]

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#444444")
"""Told apart by most eyes (Okabe and Ito)."""

WRONG: Final = "#c8102e"
"""Of violations."""

GREY: Final = "#8a8a8a"


def draw(reports: Sequence[ShadowReport], directory: Path) -> list[Path]:
    """All pictures of a shadow. Returns their paths."""
    learned, shown = [one for one in reports if one.decisions is not None], _distinct(reports)
    paths = [
        _save(_stack(shown, _errors, "error"), directory / "errors.png"),
        _save(_executions(shown), directory / "executions.png"),
    ]
    if learned:
        paths.append(_save(_confidence(learned), directory / "confidence.png"))
        paths.append(_save(_stack(learned, _decisions, "error"), directory / "decisions.png"))
        paths.append(_save(_stack(learned, _deviations, "deviation"), directory / "deviations.png"))
        paths.append(_save(_impacts(learned), directory / "impacts.png"))
    return paths


def draw_sweep(shadows: Mapping[float, Sequence[ShadowReport]], directory: Path, label: str) -> list[Path]:
    """Pictures of several shadows of a dataflow, by their bounds. Returns their paths."""
    bounds = sorted(shadows)
    by_name = [{one.name: one for one in shadows[bound]} for bound in bounds]
    shown = {one.name for bound in bounds for one in _distinct(shadows[bound])}
    names = [name for name in by_name[0] if name in shown and all(name in other for other in by_name)]

    def lines(axes: Axes, of: Callable[[ShadowReport], float], style: str = "-", note: str = "") -> None:
        for number, name in enumerate(names):
            heights = [of(one[name]) for one in by_name]
            axes.plot(bounds, heights, style, marker="o", markersize=4, color=_colour(number), label=name + note)

    figure, axes = _figure(7, 4)
    lines(axes, lambda one: 100 * (1 - one.saved))
    axes.set_ylabel("executions, of those without gates")
    axes.set_ylim(0, 104)
    axes.yaxis.set_major_formatter(PercentFormatter(decimals=0))
    _legend(axes, len(names))
    axes.set_xlabel(label)
    other, errors = _figure(7, 4)
    lines(errors, lambda one: one.mean, note=", mean")
    lines(errors, lambda one: one.largest, "--", note=", largest")
    errors.set_ylabel("error")
    errors.set_ylim(bottom=0)
    errors.set_xlabel(label)
    _legend(errors, 2 * len(names))
    return [_save(figure, directory / "executions_by_bound.png"), _save(other, directory / "errors_by_bound.png")]


# ------------------------------------------------------------------------------------------------------ pictures


def _errors(axes: Axes, one: ShadowReport, colour: str) -> None:
    """Measured errors, the bound, and where it was violated."""
    top = _top(one.errors, one.bound)
    shown = [min(error, top) for error in one.errors]
    numbers = range(1, len(shown) + 1)
    axes.plot(numbers, shown, color=colour, linewidth=1.2, drawstyle="steps-mid")
    wrong = [n for n, error in enumerate(one.errors) if one.bound is not None and not error <= one.bound]
    beyond = [n for n, error in enumerate(one.errors) if error > top and n not in set(wrong)]
    title = f"{one.name}: mean {one.mean:.4f}, largest {one.largest:.4f}"
    if one.bound is not None:
        axes.axhline(one.bound, color=GREY, linestyle="--", linewidth=1, label=f"bound {one.bound:g}")
        title += f", {len(wrong)} of {len(shown)} above {one.bound:g}"
    for places, tint in ((wrong, WRONG), (beyond, colour)):
        inside = [n for n in places if one.errors[n] <= top]
        above = [n for n in places if not one.errors[n] <= top]
        axes.scatter([n + 1 for n in inside], [shown[n] for n in inside], color=tint, s=12, zorder=3)
        axes.scatter([n + 1 for n in above], [top] * len(above), color=tint, s=26, marker="^", zorder=3, clip_on=False)
    axes.set_ylim(0, top)
    axes.set_title(title, loc="left", fontsize=9)


KINDS: Final = (
    (False, False, "right not to run", "#9fc5e8", "o"),
    (True, False, "ran, not needed", "#bbbbbb", "^"),
    (True, True, "ran, needed", "#2f6b3a", "^"),
    (False, True, "needed, did not run", WRONG, "o"),
)
"""Decisions: whether the step ran, whether it had to, and how that is drawn."""


def _decisions(axes: Axes, one: ShadowReport, _: str) -> None:
    """What the gate decided about the error that there is if the step does not run."""
    assert one.decisions is not None
    later = range(len(one.came))[behind_first(one.ran)]
    stale, needed = one.decisions.stale, one.decisions.needed
    top = _top([stale[n] for n in later], one.bound)
    for ran, had, name, colour, marker in KINDS:
        at = [n for n in later if one.came[n] and one.ran[n] == ran and needed[n] == had]
        heights = [min(stale[n], top) for n in at]
        axes.scatter([n + 1 for n in at], heights, color=colour, s=14, marker=marker, label=f"{name}: {len(at)}", clip_on=False)
    axes.axhline(one.bound or 0.0, color=GREY, linestyle="--", linewidth=1)
    axes.set_ylim(0, top)
    axes.set_title(f"{one.name}: the error if it does not run, bound {one.bound:g}", loc="left", fontsize=9)
    axes.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.05), borderaxespad=0.2)


def _deviations(axes: Axes, one: ShadowReport, colour: str) -> None:
    """Predicted minus measured errors."""
    numbers = range(1, len(one.deviations) + 1)
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.plot(numbers, one.deviations, color=colour, linewidth=1.2, drawstyle="steps-mid")
    most = max([abs(deviation) for deviation in one.deviations if math.isfinite(deviation)], default=0.0)
    half = 1.15 * max(most, (one.bound or 1.0) / 2)  # so that rounding looks small
    axes.set_ylim(-half, half)
    axes.set_title(f"{one.name}: predicted minus measured error, at most {most:.4f} apart", loc="left", fontsize=9)


def _executions(reports: Sequence[ShadowReport]) -> Figure:
    """Accumulated over the markers."""
    figure, axes = _figure(7, 4)
    together = len({one.without for one in reports}) == 1
    for number, one in enumerate(reports):
        ungated, gated = _running_sum(one.without), _running_sum(one.ran)
        if number == 0 or not together:
            colour, name = (GREY, "without gates") if together else (_colour(number), f"{one.name}, without gates")
            axes.plot(range(1, len(ungated) + 1), ungated, color=colour, linestyle="--", linewidth=1.2, label=name)
        name = f"{one.name}: {one.executions:,} of {one.ungated:,} ({100 * (1 - one.saved):.0f} %)"
        axes.plot(range(1, len(gated) + 1), gated, color=_colour(number), linewidth=1.6, label=name)
    axes.set_ylabel("executions, accumulated")
    axes.set_ylim(bottom=0)
    _by_markers(axes, len(reports[0].errors))
    _legend(axes, len(reports) + 1)
    return figure


def _confidence(reports: Sequence[ShadowReport]) -> Figure:
    """Over the markers (figure 10)."""
    figure, axes = _figure(7, 3.5)
    for number, one in enumerate(reports):
        shares = [100 * share for share in one.confidences]
        name = f"{one.name}: {100 * one.confidence:.1f} % within {one.bound:g}"
        axes.plot(range(1, len(shares) + 1), shares, color=_colour(number), linewidth=1.6, label=name)
    axes.set_ylabel("confidence")
    lowest = min((100 * share for one in reports for share in one.confidences[len(one.confidences) // 10 :]), default=0.0)
    axes.set_ylim(max(0.0, math.floor(lowest / 10) * 10 - 5), 101)
    axes.yaxis.set_major_formatter(PercentFormatter(decimals=0))
    _by_markers(axes, len(reports[0].errors))
    _legend(axes, len(reports))
    return figure


def _impacts(reports: Sequence[ShadowReport]) -> Figure:
    """Input impacts against errors (figure 7)."""
    columns = min(3, len(reports))
    rows = math.ceil(len(reports) / columns)
    figure = Figure(figsize=(max(3.6 * columns, 4.5), 3.4 * rows + 0.3), layout="constrained")
    for number, one in enumerate(reports):
        axes = _with_style(figure.add_subplot(rows, columns, number + 1))
        decisions = one.decisions
        assert decisions is not None
        for ran, marker, name in ((False, "o", "did not run"), (True, "^", "ran")):
            later = range(len(one.came))[behind_first(one.ran)]
            at = [n for n in later if one.came[n] and one.ran[n] == ran]
            x, y = [decisions.impacts[n] for n in at], [decisions.stale[n] for n in at]
            axes.scatter(x, y, s=14, marker=marker, color=_colour(1 if ran else 0), alpha=0.6, linewidths=0, label=name)
        axes.axhline(one.bound or 0.0, color=GREY, linestyle="--", linewidth=1)
        r = "" if math.isnan(decisions.correlation) else f", r = {decisions.correlation:.2f}"
        axes.set_title(f"{one.name}{r}", loc="left", fontsize=9)
        axes.set_xlabel("input impact")
        axes.set_ylabel("error if it does not run")
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
        axes.legend(fontsize=8, framealpha=0.9, edgecolor="none")
    return figure


# ---------------------------------------------------------------------------------------------------------- parts


def _distinct(reports: Sequence[ShadowReport]) -> list[ShadowReport]:
    """Gates, and the sinks that gates are in front of and that show something else than these."""
    shown = [one for one in reports if not one.is_sink]
    for one in reports:
        touched = one.ran != one.without or one.largest != 0
        if one.is_sink and touched and not any(_alike(one, other) for other in shown):
            shown.append(one)
    return shown


def _alike(one: ShadowReport, other: ShadowReport) -> bool:
    """Whether nobody could tell their lines apart."""
    near = max(one.largest, other.largest) / 20
    return one.ran == other.ran and all(abs(a - b) <= near for a, b in zip(one.errors, other.errors, strict=True))


def _stack(reports: Sequence[ShadowReport], one: Callable[[Axes, ShadowReport, str], None], label: str) -> Figure:
    """A part of a picture for each report, one below the other."""
    figure = Figure(figsize=(7, 1.45 * len(reports) + 0.6), layout="constrained")
    first: Axes | None = None
    for number, report in enumerate(reports):
        axes = _with_style(figure.add_subplot(len(reports), 1, number + 1, sharex=first))
        first = first or axes
        one(axes, report, _colour(number))
        axes.set_ylabel(label)
        axes.yaxis.set_major_locator(MaxNLocator(4))
        if number + 1 < len(reports):
            axes.tick_params(labelbottom=False)
        else:
            _by_markers(axes, len(report.errors))
    return figure


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, _with_style(figure.add_subplot())


def _with_style(axes: Axes) -> Axes:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    return axes


def _by_markers(axes: Axes, markers: int) -> None:
    axes.set_xlabel("marker")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(0, markers + 1)


def _legend(axes: Axes, lines: int) -> None:
    """Beside the lines, where there are many."""
    place: dict[str, Any] = {"loc": "best"} if lines <= 4 else {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0)}
    axes.legend(fontsize=8, frameon=False, **place)


def _top(errors: Sequence[float], bound: float | None) -> float:
    """The highest error that is shown at its height: a few that are far above all others, as at the first markers, which are held
    when there is no output yet, would leave no room for them."""
    finite = sorted(error for error in errors if math.isfinite(error))
    most = finite[-1] if finite else 1.0
    usual = max(finite[len(finite) * 19 // 20] if finite else 0.0, bound or 0.0)
    return 1.15 * (usual if 0 < usual < most / 4 else max(most, bound or 0.0)) or 1.0


def _running_sum(flags: Iterable[bool]) -> list[int]:
    count, counts = 0, []
    for one in flags:
        count += one
        counts.append(count)
    return counts


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _save(figure: Figure, path: Path) -> Path:
    FigureCanvasAgg(figure)
    figure.savefig(path, dpi=144, format="png", metadata={"Software": None})
    return path
