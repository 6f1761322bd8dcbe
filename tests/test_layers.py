"""A layer is a folder of ``compiler/``, the standard library, or ``tracetypes/``: each imports only what lies below it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.test_imports import PACKAGES, imports, inside, sources

TOP = (
    "tracetypes.__main__",
    "tracetypes.cli",
    "tracetypes.recovery",
    "tracetypes.running",
    "tracetypes.spark",
    "tracetypes.workspace",
    "tracetypes.state_command",
    "tracetypes.workspace_commands",
    "tracetypes.suggestions",
    "tracetypes.testing",
)
"""What stands on top of everything, beside ``tracetypes`` itself: its public names."""

ORDER = (  # the lowest first; those of one line do not know each other
    ("core",),
    ("tracing", "stdlib"),
    ("analysis",),
    ("graph",),
    ("plan",),
    ("columns",),
    ("runtime",),
    ("gates",),
    ("wire",),
    ("connectors",),
    ("store",),
    ("backend",),
    ("spark", "local"),
    ("workspace",),
    ("trial",),
    ("top",),
)
LEVELS = {layer: level for level, layers in enumerate(ORDER) for layer in layers}


def layer(module: str) -> str:
    """The layer of a module."""
    if module == "tracetypes" or any(inside(module, one) for one in TOP):
        return "top"
    if inside(module, "tracetypes.stdlib"):
        return "stdlib"
    return module.split(".")[2] if inside(module, "tracetypes.compiler") and module.count(".") > 1 else "core"


def against(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """The imports that run against the order of layers."""
    return [
        f"{layer(here)}: {here} imports {there} of {layer(there)}"
        for here, imported in graph.items()
        for there in imported
        if layer(here) != layer(there) and LEVELS[layer(here)] <= LEVELS[layer(there)]
    ]


def import_graph() -> dict[str, set[str]]:
    """What each module imports of ours. A package stands for its own names only."""
    texts = {module: (path.read_text(encoding="utf-8"), path.name == "__init__.py") for module, path in sources()}
    graph: dict[str, set[str]] = {}
    for module, (text, is_package) in texts.items():
        names = [one.name for one in imports(text, module, is_package=is_package)]
        found = {name for name in names if name in texts} - {module}
        # `from package import module` names both, and needs the second only.
        graph[module] = {one for one in found if not any(inside(other, one) and other != one for other in found)}
    return graph


def test_layers_import_only_what_lies_below() -> None:
    graph = import_graph()
    assert {layer(module) for module in graph} <= LEVELS.keys(), "a folder that the order does not name"
    assert not against(graph), "\n".join(against(graph))


def test_no_modules_import_each_other_in_a_circle() -> None:
    try:
        TopologicalSorter(import_graph()).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(error.args[1]))


def test_no_module_lies_flat_in_the_compiler() -> None:
    assert not list(PACKAGES["tracetypes.compiler"].glob("*.py"))


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("tracetypes.graph", "tracetypes.compiler.plan.plan"),
        ("tracetypes.compiler.plan.planner", "tracetypes.compiler.runtime.stage"),
        ("tracetypes.compiler.local.run", "tracetypes.compiler.spark.run"),
        ("tracetypes.stdlib.windows", "tracetypes.compiler.tracing.expr"),
        ("tracetypes.compiler.store.version", "tracetypes"),
    ],
)
def test_an_import_against_the_order_is_found(here: str, there: str) -> None:
    assert against({here: {there}})
    assert not against({there: {here}} if layer(here) not in ("local", "stdlib") else {})
