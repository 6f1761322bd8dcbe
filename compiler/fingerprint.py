"""What of a plan a checkpoint depends on, as lines that a person can compare."""

from __future__ import annotations

from typing import Any, get_origin

import attrs

from tracetypes.compiler.plan import FromChannel, FromSource, FromStage, Mapped, Plan, Region, Stage, United, links
from tracetypes.edges import edge_type
from tracetypes.graph import Apply, RowPosition, Sort, title
from tracetypes.markers import EventTime
from tracetypes.records import show, show_type
from tracetypes.templates import Operator

__all__ = ["described", "fingerprint"]


def fingerprint(plan: Plan) -> list[str]:
    """One line a source, operator and sink: structure, types and parameters; not the code of functions."""
    lines = [f"key groups: {plan.key_groups}"]
    for stage in plan.stages:
        lines.append(f"stage {stage.number}")
        lines += [f"  {line}" for line in _region(stage.region)]
        lines += [f"  {_step(stage, at)}" for at in range(len(stage.steps))]
    lines += _region(plan.region)
    lines.append(f"sink {plan.sink.name}: {plan.edge}")
    return lines


def described(plan: Plan) -> list[dict[str, Any]]:
    """The stages for whoever looks into a checkpoint: names of operators, and which earlier stages each reads."""
    return [
        {
            "stage": stage.number,
            "operators": [title(step.node) for step in stage.steps],
            "reads": [link.leaf.stage.number for link in links(stage.region) if isinstance(link.leaf, FromStage)],
        }
        for stage in plan.stages
    ]


def _region(region: Region) -> list[str]:
    match region:
        case FromSource(source=source):
            how = source.markers
            times = f"every {how.period} us, delay {how.delay} us" if isinstance(how, EventTime) else "in band"
            by = source.ordered_by
            order = "" if by is None else f", ordered by {'position' if isinstance(by, RowPosition) else 'a function'}"
            return [f"source {source.name}: {edge_type(source.edge)}, markers {times}{order}"]
        case FromChannel(name=name, edge=edge):
            return [f"channel {name}: {edge}"]
        case FromStage(stage=stage):
            return [f"from stage {stage.number}"]
        case Mapped():
            return [*_region(region.upstream), _operator(region.node.op)]
        case United():
            return ["merge of", *[f"  {line}" for one in region.upstreams for line in _region(one)]]


def _step(stage: Stage, at: int) -> str:
    node = stage.steps[at].node
    if isinstance(node, Apply):
        return _operator(node.op)
    return "sort" if isinstance(node, Sort) else "sort by position"


def _operator(op: Operator) -> str:
    cls = type(op)
    fields = attrs.fields(cls) if attrs.has(cls) else ()
    shown = ", ".join(f"{a.name}={_parameter(getattr(op, a.name))}" for a in fields)
    bases = ", ".join(show_type(base) for base in getattr(cls, "__orig_bases__", ()))
    return f"{cls.__qualname__}({shown}): {bases}"


def _parameter(value: object) -> str:
    """A parameter by its value where that is the same in every process, else by its type."""
    if isinstance(value, type) or get_origin(value) is not None:
        return show_type(value)
    text = show(_sorted(value), 200)
    return type(value).__name__ if " at 0x" in text or callable(value) else text


def _sorted(value: object) -> object:
    """With its sets as sorted lists: the order of a set of texts differs from process to process."""
    match value:
        case set() | frozenset():
            return sorted((_sorted(one) for one in value), key=repr)
        case dict():
            return {key: _sorted(one) for key, one in value.items()}
        case list() | tuple():
            return [_sorted(one) for one in value]
        case _:
            return value
