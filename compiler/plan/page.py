"""A dataflow and its plan on one page: HTML that needs no network and no script. Its pictures fit the window, and can be zoomed
and moved."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from html import escape

import attrs

from tracetypes.check import Checked
from tracetypes.compiler.analysis.summaries import leaves_some
from tracetypes.compiler.graph.segments import Segment
from tracetypes.compiler.plan.drawing import (
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
from tracetypes.compiler.plan.explain import show_plan
from tracetypes.compiler.plan.facts import is_straight, needs_of
from tracetypes.compiler.plan.operator_runs import Runs, Wording, combining_run, keyed_runs, stateless_runs
from tracetypes.compiler.plan.plan import FromChannel, FromSource, FromStage, Link, Plan, Stage, links
from tracetypes.compiler.plan.program import Program
from tracetypes.compiler.plan.viewing import FRAMES, framed
from tracetypes.errors import counted
from tracetypes.nodes import Apply, title

__all__ = ["page", "plan_figure"]


def plan_figure(program: Program) -> Figure:
    """The plans: a frame for what runs without moving data, with an arrow for each exchange between them, and a box for each
    channel."""
    figure = Figure()
    for segment, plan in zip(program.segments, program.plans, strict=True):
        _Plan(segment, plan).add_to(figure)
    return figure


class _Plan:
    def __init__(self, segment: Segment, plan: Plan) -> None:
        self.segment, self.plan, self.straight = segment, plan, is_straight(plan)

    def add_to(self, figure: Figure) -> None:
        plan, query = self.plan, self.segment.name
        for stage in plan.stages:
            name = (query, "stage", stage.number)
            for link in links(stage.region):
                match link.leaf:
                    case FromSource():
                        above: Hashable = (query, "reading", stage.number, link.number)
                        pieces = Pill("RR", "A source is read in pieces, by several workers: no data moves.")
                        figure.box(above, self.reading(stage, link, node_shape(link.leaf.source), pieces))
                    case FromChannel(name=channel):
                        above = (query, "reading", stage.number, link.number)
                        manifests = Pill("manifests", "Rows and markers that the other query has committed, each once.")
                        figure.box(above, self.reading(stage, link, Pill(channel, "channel"), manifests))
                        figure.arrow(("channel", channel), above)
                    case FromStage(stage=earlier):
                        above = (query, "stage", earlier)
                figure.arrow(above, name, self.exchange())
            figure.box(name, self.stage(stage))
        end: Hashable = (query, "sink")
        if self.segment.sends is None:
            figure.box(end, node_shape(plan.sink))
        else:
            end = ("channel", self.segment.sends)
            figure.box(end, Box(self.segment.sends, ("channel", "rows and markers, in files"), None, "sink"))
        figure.arrow((query, "stage", plan.stages[-1].number), end, str(plan.edge))

    def exchange(self) -> Pill:
        if self.straight:
            return Pill("no exchange", "The workers make rows of the sink; the driver closes the blocks.")
        groups = self.plan.key_groups
        return Pill(f"HASH({groups})", f"Items and markers go to {groups} key groups, in Arrow batches.")

    def reading(self, stage: Stage, link: Link, leaf: Shape, pieces: Pill) -> Group:
        inside = Figure()
        inside.box("source", leaf)
        below = [*_stateless(link), *_combining(stage)]
        if below:
            _chain(inside, ["source"], below, pieces)
        else:
            _chain(inside, ["source"], [pieces])
        return Group(f"reading, {_tasks(self.plan)}", inside)

    def stage(self, stage: Stage) -> Group:
        inside = Figure()
        first: list[Shape] = []
        if len(stage.region.leaves) > 1:
            first.append(Pill("merge", "The union of the blocks of all inputs, aligned on markers."))
        first += [_shape(one) for one in keyed_runs(stage)]
        if not stage.steps:
            first.append(Box("close blocks", ("no operator is keyed here",)))
        end = _chain(inside, [], first)
        for later in self.plan.stages[stage.number + 1 :]:
            for link in links(later.region):
                if isinstance(link.leaf, FromStage) and link.leaf.stage == stage.number:
                    _chain(inside, end, [*_stateless(link), *_combining(later)])
        if stage is self.plan.stages[-1]:
            (tail,) = links(self.plan.region)
            _chain(inside, end, _stateless(tail))
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


def _stateless(link: Link) -> list[Shape]:
    return [_shape(one) for one in stateless_runs(link)]


def _combining(stage: Stage) -> list[Shape]:
    one = combining_run(stage)
    if one is None:
        return []
    if needs := needs_of(stage):
        if not all(map(leaves_some, needs)):
            return []
        needed = "Items that the operator does not need stay behind."
        return [Box("choose", (f"for {one.name}", "before the exchange"), Badge("native", "native"), hover=needed)]
    how = "Aggregates move instead of items" + ("." if one.native else f", where that makes them fewer.\n{_why(one)}")
    return [Box("combine", (f"by {one.name}", "before the exchange"), _badge(one), hover=how)]


def _shape(one: Runs) -> Shape:
    if not isinstance(one.node, Apply):
        return Pill(one.name.removesuffix(" (fused)"), f"{hover_of(one.node)}\nIt is part of its stage: no data moves.")
    more = one.name.removeprefix(title(one.node)).strip(" ()")
    shape = node_shape(one.node, _badge(one), more)
    return attrs.evolve(shape, hover=f"{shape.hover}\n\n{_why(one)}")


def _badge(one: Runs) -> Badge:
    return Badge("native", "native") if one.native else Badge("Python", "python")


def _why(one: Runs) -> str:
    if one.native:
        return "Native: it runs over columns."
    at = "" if one.where is None else f" ({one.where})"
    return f"Python, because {one.reason}{at}." if one.reason is not None else "Python."


def _tasks(plan: Plan) -> str:
    return counted(plan.width, "task")


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
main {{ display: flex; gap: 20px; align-items: stretch; }}
section {{ background: #ffffff; border: 1px solid #d1d9e0; border-radius: 8px; padding: 16px;
           box-sizing: border-box; min-width: 0; flex: 1 1 0; position: relative; }}
{viewing}details {{ margin-top: 20px; }}
pre {{ overflow-x: auto; font-size: 13px; }}
@media (max-width: 800px) {{ main {{ flex-direction: column; }} section {{ max-width: 100%; }} }}
@media (prefers-color-scheme: dark) {{
  body {{ background: #010409; color: #e6edf3; }}
  section {{ background: #0d1117; border-color: #3d444d; }}
}}
{style}</style>
</head>
<body>
<h1>{name}</h1>
<p>{about} Point at a box for the line of the program, its parameters, and why an operator runs in Python. </p>
<main>
<section>
<h2>Typed graph</h2>
{graph}</section>
{plan}</main>
{text}</body>
</html>
"""

_ABOUT = "U: unordered between markers. O: ordered per key."


def page(checked: Checked, wording: Wording, program: Program) -> str:
    """The page of a graph and its plans."""
    name = checked.graph.name
    stages = counted(sum(len(plan.stages) for plan in program.plans), "stage", "stages")
    queries = f"{counted(len(program.plans), 'query', 'queries')}, " if len(program.plans) > 1 else ""
    heading = f": {queries}{stages}, parallelism {program.width}, {program.plans[0].key_groups} key groups"
    picture = svg(plan_figure(program), f"plan of {name}", style=False)
    section = f"<section>\n<h2>Plan{heading}</h2>\n{framed(picture, 'plan')}</section>\n"
    lines = [*program.shared]
    for query, plan in program.named:
        lines += [*([f"query {query}"] if len(program.plans) > 1 else []), *show_plan(plan, wording)]
    plan_text = escape("\n".join(lines))
    text = f"<details><summary>The plan as text</summary>\n<pre>{plan_text}</pre>\n</details>\n"
    return _filled(checked, section, text)


def _filled(checked: Checked, plan: str, text: str) -> str:
    name = checked.graph.name
    graph = framed(svg(typed_graph(checked), f"typed graph of {name}", style=False), "graph")
    return _PAGE.format(
        name=escape(name), about=_ABOUT, style=STYLE, graph=graph, plan=plan, text=text, viewing=FRAMES
    )
