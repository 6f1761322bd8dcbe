"""A dataflow and its plan on one page: HTML that needs no network and no script."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from html import escape

import attrs

from tracetypes.check import Checked
from tracetypes.compiler.drawing import (
    STYLE,
    Badge,
    Box,
    Figure,
    Group,
    Pill,
    Shape,
    hover_of,
    node_shape,
    svg,
    typed_graph,
)
from tracetypes.compiler.explain import Runs, combining_run, keyed_runs, show_plan, stateless_runs
from tracetypes.compiler.kernels import is_straight
from tracetypes.compiler.plan import FromSource, FromStage, Link, Mapped, Plan, Stage, links
from tracetypes.graph import Apply, title

__all__ = ["page", "plan_figure"]


def plan_figure(plan: Plan) -> Figure:
    """The plan: a frame for what runs without moving data, with an arrow for each exchange between them."""
    return _Plan(plan).figure()


class _Plan:
    def __init__(self, plan: Plan) -> None:
        self.plan, self.straight = plan, is_straight(plan)

    def figure(self) -> Figure:
        figure, plan = Figure(), self.plan
        for stage in plan.stages:
            name = ("stage", stage.number)
            for link in links(stage.region):
                match link.leaf:
                    case FromSource():
                        above: Hashable = ("source", stage.number, link.number)
                        figure.box(above, self.source(stage, link, link.leaf))
                    case FromStage(stage=earlier):
                        above = ("stage", earlier.number)
                figure.arrow(above, name, self.exchange())
            figure.box(name, self.stage(stage))
        figure.box("sink", node_shape(plan.sink))
        figure.arrow(("stage", plan.stages[-1].number), "sink", str(plan.edge))
        return figure

    def exchange(self) -> Pill:
        if self.straight:
            return Pill("no exchange", "The workers make rows of the sink; the driver closes the blocks.")
        groups = self.plan.key_groups
        return Pill(f"HASH({groups})", f"Items and markers go to {groups} key groups, in Arrow batches.")

    def source(self, stage: Stage, link: Link, leaf: FromSource) -> Group:
        inside = Figure()
        inside.box("source", node_shape(leaf.source))
        pieces = Pill("RR", "A source is read in pieces, by several workers: no data moves.")
        below = [*_stateless(link.path), *_combining(stage)]
        if below:
            _chain(inside, ["source"], below, pieces)
        else:
            _chain(inside, ["source"], [pieces])
        return Group(f"reading, {_tasks(self.plan)}", inside)

    def stage(self, stage: Stage) -> Group:
        inside = Figure()
        first: list[Shape] = []
        if len(links(stage.region)) > 1:
            first.append(Pill("MRG", "The union of the blocks of all inputs, aligned on markers."))
        first += [_shape(one) for one in keyed_runs(stage)]
        if not stage.steps:
            first.append(Box("close blocks", ("no operator is keyed here",)))
        end = _chain(inside, [], first)
        for later in self.plan.stages:
            for link in links(later.region):
                if isinstance(link.leaf, FromStage) and link.leaf.stage is stage:
                    _chain(inside, end, [*_stateless(link.path), *_combining(later)])
        if stage is self.plan.stages[-1]:
            (tail,) = links(self.plan.region)
            _chain(inside, end, _stateless(tail.path))
        where = "in the driver" if self.straight else f"{_tasks(self.plan)}, by key group"
        return Group(f"stage {stage.number}, {where}", inside)


def _chain(figure: Figure, end: list[Hashable], shapes: Iterable[Shape], first: Pill | None = None) -> list[Hashable]:
    """Add shapes below each other, and below ``end``; the last of them. ``first``: what is on the first arrow."""
    for shape in shapes:
        name = len(figure.shapes)
        figure.box(name, shape)
        for above in end:
            figure.arrow(above, name, first)
        end, first = [name], None
    return end


def _stateless(path: tuple[Mapped, ...]) -> list[Shape]:
    return [_shape(one) for one in stateless_runs(path)]


def _combining(stage: Stage) -> list[Shape]:
    one = combining_run(stage)
    if one is None:
        return []
    how = "Aggregates move instead of items" + ("." if one.native else f", where that makes them fewer.\n{_why(one)}")
    return [Box("combine", (f"by {one.name}", "before the exchange"), _badge(one), hover=how)]


def _shape(one: Runs) -> Shape:
    if not isinstance(one.node, Apply):
        return Pill(one.name.removesuffix(" (fused)"), f"{hover_of(one.node)}\nIt is part of its stage: no data moves.")
    more = one.name.removeprefix(title(one.node)).strip(" ()")
    made = node_shape(one.node, _badge(one), more)
    return attrs.evolve(made, hover=f"{made.hover}\n\n{_why(one)}")


def _badge(one: Runs) -> Badge:
    return Badge("native", "native") if one.native else Badge("Python", "python")


def _why(one: Runs) -> str:
    if one.native:
        return "Native: it runs over columns."
    return f"Python, because {one.reason}." if one.reason is not None else "Python."


def _tasks(plan: Plan) -> str:
    return f"{plan.width} task{'' if plan.width == 1 else 's'}"


# ----------------------------------------------------------------------------------------------------- page

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 24px; font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
        background: #eef1f4; color: #1f2328; }}
h1 {{ font-size: 22px; margin: 0 0 4px; }}
h2 {{ font-size: 16px; margin: 0 0 10px; }}
p {{ margin: 0 0 14px; }}
main {{ display: flex; gap: 20px; align-items: flex-start; }}
section {{ background: #ffffff; border: 1px solid #d1d9e0; border-radius: 8px; padding: 16px;
           box-sizing: border-box; min-width: 340px; overflow-x: auto; }}
section svg {{ display: block; margin: 0 auto; }}
.without {{ max-width: 24em; white-space: pre-wrap; }}
details {{ margin-top: 20px; }}
pre {{ overflow-x: auto; font-size: 13px; }}
@media (max-width: 800px) {{ main {{ flex-direction: column; }} section {{ min-width: 0; max-width: 100%; }} }}
@media (prefers-color-scheme: dark) {{
  body {{ background: #010409; color: #e6edf3; }}
  section {{ background: #0d1117; border-color: #3d444d; }}
}}
{style}</style>
</head>
<body>
<h1>{name}</h1>
<p>{about} Point at a box for the line of the program, its parameters, and why an operator runs in Python.</p>
<main>
<section>
<h2>Typed graph</h2>
{graph}</section>
<section>
<h2>Plan{heading}</h2>
{plan}</section>
</main>
{text}</body>
</html>
"""

_ABOUT = "U: unordered between markers. O: ordered per key."


def page(checked: Checked, plan: Plan | str) -> str:
    """The page of a graph and its plan, or of the reason why there is none."""
    name = checked.graph.name
    if isinstance(plan, str):
        heading, drawn, text = "", f'<p class="without">There is no plan: {escape(plan)}</p>\n', ""
    else:
        stages = f"{len(plan.stages)} stage{'' if len(plan.stages) == 1 else 's'}"
        heading = f": {stages}, parallelism {plan.width}, {plan.key_groups} key groups"
        drawn = svg(plan_figure(plan), f"plan of {name}", style=False)
        shown = escape("\n".join(show_plan(plan)))
        text = f"<details><summary>The plan as text</summary>\n<pre>{shown}</pre>\n</details>\n"
    graph = svg(typed_graph(checked), f"typed graph of {name}", style=False)
    return _PAGE.format(
        name=escape(name), about=_ABOUT, style=STYLE, graph=graph, heading=heading, plan=drawn, text=text
    )
