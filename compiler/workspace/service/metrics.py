"""What flows do, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

__all__ = ["metrics_text"]

GAUGES: Final = {
    "operators": "Operators that the flow needs.",
    "shared": "Operators of the flow that other flows need too.",
    "rows": "Rows that its sources have read.",
    "late": "Late rows of its sources.",
    "rejects": "Rejected rows of its sources.",
    "seconds": "Processor seconds, with its part of what it shares.",
    "saved": "Processor seconds that it would cost more alone.",
}

STATES: Final = ("starting", "running", "failed", "held", "over", "draining", "stopped", "pending", "unknown")


def metrics_text(flows: Iterable[Mapping[str, Any]], workers: Mapping[str, bool]) -> str:
    """Flows as the service shows them, and worker processes by name, each with whether it is ready."""
    flows = list(flows)
    lines = []
    for name, help in GAUGES.items():
        lines += [f"# HELP tracetypes_flow_{name} {help}", f"# TYPE tracetypes_flow_{name} gauge"]
        lines += [f"tracetypes_flow_{name}{{{_labels(one)}}} {one[name]}" for one in flows]
    lines += ["# HELP tracetypes_flow_state 1 for the state of the flow.", "# TYPE tracetypes_flow_state gauge"]
    for one in flows:
        lines += [f'tracetypes_flow_state{{{_labels(one)},state="{state}"}} {int(one["state"] == state)}' for state in STATES]
    lines += ["# HELP tracetypes_worker_ready Whether a worker process answers.", "# TYPE tracetypes_worker_ready gauge"]
    lines += [f'tracetypes_worker_ready{{worker="{_escaped(name or "json")}"}} {int(ready)}' for name, ready in workers.items()]
    return "\n".join(lines) + "\n"


def _labels(one: Mapping[str, Any]) -> str:
    return f'owner="{_escaped(one["owner"])}",flow="{_escaped(one["name"])}"'


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
