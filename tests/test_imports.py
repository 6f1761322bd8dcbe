"""Who may import whom: read off the syntax trees of all sources, imports inside functions included."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Where the sources lie, by the name under which they are imported.
PACKAGES = {
    "tracetypes": ROOT / "tracetypes",
    "tracetypes.compiler": ROOT / "compiler",
    "tracetypes.stdlib": ROOT / "stdlib",
}

HEAVY = ("pyspark", "pandas", "pyarrow", "numpy", "hypothesis")
OUTER = (
    "tracetypes.compiler",
    "tracetypes.stdlib",
    "tracetypes.cli",
    "tracetypes.laws",
    "tracetypes.testing",
    "tracetypes.recovery",
)


class Rule(NamedTuple):
    """No module inside `within` imports anything inside `forbidden`, unless it lies inside `but`."""

    reason: str
    within: str
    forbidden: tuple[str, ...]
    but: tuple[str, ...] = ()


RULES = (
    Rule(
        "what a program means does not depend on how it runs",
        within="tracetypes",
        forbidden=(*HEAVY, "py4j", "sklearn", "matplotlib", *OUTER),
        but=(
            *OUTER,
            "tracetypes.__main__",
            "tracetypes.running",
            "tracetypes.spark",
            "tracetypes.suggestions",
            "tracetypes.workspace",
            "tracetypes.state_command",
            "tracetypes.workspace_commands",
        ),
    ),
    Rule("only laws need Hypothesis", "tracetypes", ("hypothesis",), but=("tracetypes.testing", "tracetypes.laws")),
    Rule("laws are looked for by testing", "tracetypes", ("tracetypes.laws",), but=("tracetypes.testing", "tracetypes.laws")),
    Rule("only compiler.spark needs Spark", "tracetypes", ("pyspark", "py4j"), but=("tracetypes.compiler.spark",)),
    Rule(
        "only the connectors of Kafka need its client",
        "tracetypes",
        ("confluent_kafka",),
        but=(
            "tracetypes.compiler.connectors.kafka",
            "tracetypes.compiler.connectors.kafka_clients",
            "tracetypes.compiler.connectors.kafka_records",
            "tracetypes.compiler.connectors.kafka_sink",
            "tracetypes.compiler.connectors.kafka_topic",
            "tracetypes.compiler.connectors.registered_rows",
            "tracetypes.compiler.connectors.schema_registry",
            "tracetypes.compiler.spark.kafka",
        ),
    ),
    Rule(
        "only records of Avro need fastavro",
        "tracetypes",
        ("fastavro",),
        but=("tracetypes.compiler.connectors.avro_records", "tracetypes.compiler.connectors.registered_values"),
    ),
    Rule(
        "only records of Protocol Buffers need their parser",
        "tracetypes",
        ("google.protobuf",),
        but=("tracetypes.compiler.connectors.protobuf_records", "tracetypes.compiler.connectors.protobuf_values"),
    ),
    Rule(
        "only the connectors of object stores need their clients",
        "tracetypes",
        ("obstore", "boto3"),
        but=tuple(
            f"tracetypes.compiler.connectors.{name}"
            for name in ("object_ranges", "object_store", "object_writes", "store_clients")
        ),
    ),
    Rule(
        "only the connectors of Delta need its tables",
        "tracetypes",
        ("deltalake",),
        but=tuple(f"tracetypes.compiler.connectors.{name}" for name in ("delta", "delta_sink", "delta_store_sink")),
    ),
    Rule(
        "only the service of workspaces needs a server",
        "tracetypes",
        ("fastapi", "uvicorn", "pydantic", "starlette", "sse_starlette", "anyio"),
        but=("tracetypes.compiler.workspace.service",),
    ),
    Rule("only its client needs httpx", "tracetypes", ("httpx",), but=("tracetypes.workspace_client",)),
    Rule(
        "only trees and the training of gates need scikit-learn",
        "tracetypes",
        ("sklearn",),
        but=("tracetypes.stdlib.trees", "tracetypes.compiler.gates.learned.training"),
    ),
    Rule(
        "only machine code needs numba",
        "tracetypes",
        ("numba", "llvmlite"),
        but=("tracetypes.compiler.columns.machine.numba_code", "tracetypes.compiler.columns.machine.objects"),
    ),
    Rule("only pictures of gates need matplotlib", "tracetypes", ("matplotlib",), but=("tracetypes.compiler.gates.figures",)),
    Rule(
        "the compiler knows templates, not the operators written with them",
        within="tracetypes.compiler",
        forbidden=("tracetypes.stdlib", "tracetypes.cli", "tracetypes.testing", "tracetypes.recovery"),
    ),
    Rule("the standard library is ordinary user code", "tracetypes.stdlib", ("tracetypes.compiler",)),
    Rule("imported by its folder's name, a module would exist twice", "tracetypes", ("compiler", "stdlib")),
)


class Import(NamedTuple):
    """`from a import b` stands for two: `a` and, since it may be a module, `a.b`."""

    line: int
    name: str


def inside(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def imports(source: str, module: str, *, is_package: bool) -> Iterator[Import]:
    """All imports of `source` by absolute name; of computed ones, those whose name is a literal."""
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (Import(node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=origin, names=names, level=level):
                if level:
                    parents = package.split(".")
                    origin = ".".join([*parents[: len(parents) - level + 1], *([origin] if origin else [])])
                assert origin is not None
                yield Import(node.lineno, origin)
                yield from (Import(node.lineno, f"{origin}.{alias.name}") for alias in names)
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield Import(node.lineno, name)
            case _:
                pass


def violations(source: str, module: str, *, is_package: bool = False) -> list[str]:
    """What `module` with this `source` imports against the rules, one line each."""
    found: dict[tuple[int, str], None] = {}
    for line, name in imports(source, module, is_package=is_package):
        for rule in RULES:
            if inside(module, rule.within) and not any(inside(module, exempt) for exempt in rule.but):
                for forbidden in rule.forbidden:
                    if inside(name, forbidden):
                        found[line, f"{module}:{line} imports {forbidden}: {rule.reason}"] = None
    return [text for _, text in sorted(found)]


def sources() -> Iterator[tuple[str, Path]]:
    """Every module of the three packages, each once: links to folders are not followed."""
    for package, top in PACKAGES.items():
        for folder, _, files in os.walk(top, followlinks=False):
            for file in files:
                if file.endswith(".py"):
                    path = Path(folder, file)
                    parts = path.relative_to(top).with_suffix("").parts
                    yield ".".join([package, *(part for part in parts if part != "__init__")]), path


def test_the_sources_keep_the_rules() -> None:
    found = [
        violation
        for module, path in sources()
        for violation in violations(path.read_text(encoding="utf-8"), module, is_package=path.name == "__init__.py")
    ]
    assert not found, "\n".join(found)


def test_all_three_packages_are_read() -> None:
    modules = [module for module, _ in sources()]
    assert len(modules) == len(set(modules))
    assert {"tracetypes", "tracetypes.compiler.plan", "tracetypes.stdlib"} <= set(modules)


@pytest.mark.parametrize(
    ("module", "source", "forbidden"),
    [
        ("tracetypes.graph", "import tracetypes.compiler.plan.plan", "tracetypes.compiler"),
        ("tracetypes.graph", "from tracetypes import compiler", "tracetypes.compiler"),
        ("tracetypes.graph", "from .compiler import plan", "tracetypes.compiler"),
        ("tracetypes.graph", "from . import stdlib", "tracetypes.stdlib"),
        ("tracetypes.graph", "def late():\n    import numpy.random as r", "numpy"),
        ("tracetypes.graph", "import importlib\nimportlib.import_module('pandas')", "pandas"),
        ("tracetypes.graph", "if TYPE_CHECKING:\n    from pyarrow import Table", "pyarrow"),
        ("tracetypes.cli", "class A:\n    def f(self):\n        import hypothesis", "hypothesis"),
        ("tracetypes.testing", "from pyspark.sql import SparkSession", "pyspark"),
        ("tracetypes.compiler.local.run", "from pyspark import sql", "pyspark"),
        ("tracetypes.compiler.sparkle", "import pyspark", "pyspark"),
        ("tracetypes.compiler.spark.run", "from ...stdlib import windows", "tracetypes.stdlib"),
        ("tracetypes.compiler.plan.plan", "from ...testing import check_laws", "tracetypes.testing"),
        ("tracetypes.stdlib.windows", "from tracetypes.compiler.plan.plan import Plan", "tracetypes.compiler"),
        ("tracetypes.stdlib.windows", "from sklearn import ensemble", "sklearn"),
        ("tracetypes.cli", "from compiler.plan.plan import Plan", "compiler"),
    ],
)
def test_a_forbidden_import_is_found(module: str, source: str, forbidden: str) -> None:
    line = len(source.splitlines())
    assert any(text.startswith(f"{module}:{line} imports {forbidden}: ") for text in violations(source, module))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tracetypes.graph", "import numpydoc, tracetypes.trace\nfrom . import edges"),
        ("tracetypes.cli", "from tracetypes.compiler import plan\nfrom .stdlib import windows"),
        ("tracetypes.testing", "import hypothesis"),
        ("tracetypes.compiler.spark.run", "import pyspark.sql, numpy\nfrom ..plan import Plan"),
        ("tracetypes.stdlib.trees", "import sklearn.ensemble"),
    ],
)
def test_a_permitted_import_is_not(module: str, source: str) -> None:
    assert violations(source, module) == []


def test_relative_imports_of_a_package_start_at_itself() -> None:
    assert violations("from .stdlib import windows", "tracetypes", is_package=True) != []
    assert violations("from .stdlib import windows", "tracetypes.compiler", is_package=True) == []


def test_importing_the_core_loads_nothing_heavy() -> None:
    script = f"import sys, tracetypes; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    fresh = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=ROOT)
    assert fresh.stdout.split() == []


def test_extras_are_not_imported_before_they_are_used() -> None:
    """Runs of files go without the clients of Kafka and Delta."""
    code = "import sys; sys.modules.update(deltalake=None, confluent_kafka=None, psycopg=None)\n"
    code += "import tracetypes.cli, tracetypes.compiler.spark.run, tracetypes.compiler.spark.channels"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
