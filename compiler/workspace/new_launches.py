"""Makes a launch of what a user submits, or refuses it. Nothing is written, and nothing starts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracetypes.calls import need_inputs, need_outputs, need_whole
from tracetypes.check import Checked
from tracetypes.compiler.analysis.identity.identities import Digest, identities
from tracetypes.compiler.backend.backend import Engine, refuse_unsupported
from tracetypes.compiler.backend.compilation import check_once
from tracetypes.compiler.plan.planner import DEFAULT_KEY_GROUPS, require_groups
from tracetypes.compiler.tracing.cache_keys import AnalysisCache
from tracetypes.compiler.workspace.arguments import addresses_of, need_all, refuse_overlapping
from tracetypes.compiler.workspace.cheap_operators import cheap_operators
from tracetypes.compiler.workspace.launches import Launch
from tracetypes.graph import Dataflow

__all__ = ["launch_of"]


def launch_of(
    name: str,
    flow: Dataflow | Checked,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    *,
    order: Mapping[str, Any],
    parallelism: int,
    key_groups: int | None,
    alone: bool,
    engine: Engine,
    path: Path,
) -> Launch:
    """What a user submits. ``alone``: nothing is shared. ``engine``: that runs it; ``path``: of the workspace. Raises
    :class:`CheckFailed`, :class:`UsageError` ``TT402``, and what is wrong with an address."""
    need_inputs(inputs)
    need_outputs(outputs)
    need_whole("parallelism", parallelism)
    groups = key_groups or max(DEFAULT_KEY_GROUPS, parallelism)
    require_groups(parallelism, groups)
    checked = check_once(flow)
    places, targets = addresses_of("source", inputs), addresses_of("sink", outputs)
    need_all("source", {one.name for one in checked.graph.sources}, places, "inputs")
    need_all("sink", {one.name for one in checked.graph.sinks}, targets, "outputs")
    refuse_unsupported(name, engine.unsupported(places))
    refuse_overlapping(places, targets, path)
    how = {source: f"{address} {order.get(source, 'modified')}" for source, address in places.items()}
    by_node = identities(checked, inputs=how, outputs=targets)
    return Launch(
        flow=name,
        start=None,
        checked=checked,
        identities={
            id: None if alone or not isinstance(one, Digest) else one.text for id, one in by_node.items()
        },
        cheap=cheap_operators(checked, AnalysisCache()),
        inputs=places,
        outputs=targets,
        orders=dict(order),
        parallelism=parallelism,
        key_groups=groups,
    )
