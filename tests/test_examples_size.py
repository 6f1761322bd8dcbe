"""Each application among the examples is at most so many lines of its author's code."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import defaultdict
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
LIMIT = 65
LIMITS = {
    "Yahoo VI": 75,
    "home energy": 43,
    "web log": 85,
    "Nexmark 0 to 8": 150,
    "TPCx-BB": 195,
    "air quality": 115,
    "air quality of real hours": 75,
    "forest fire": 150,
    "Linear Road": 246,
}
"""Where it is another."""

APPLICATIONS = {
    "Yahoo I": ("yahoo", "query_1"),
    "Yahoo II": ("yahoo", "query_2"),
    "Yahoo III": ("yahoo", "query_3"),
    "Yahoo IV": ("yahoo", "query_4"),
    "Yahoo V": ("yahoo", "query_5"),
    "Yahoo VI": ("yahoo", "query_6"),
    "smart homes": ("smart_homes", "predictions"),
    "home energy": ("home_energy", "flow"),
    "Nexmark 0 to 8": ("nexmark", "flow"),
    "air quality": ("air_quality", "flow"),
    "air quality of real hours": ("air_quality_hours", "flow"),
    "forest fire": ("forest_fire", "flow"),
    "Linear Road": ("linear_road", "flow"),
    "TPCx-BB": ("tpcx_bb", "flow"),
    "web log": ("web_log", "flow"),
    "sensors, filled in": ("sensors", "filled"),
    "sensors, the largest": ("sensors", "largest"),
}
QUIET = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}

SCOPES = ast.FunctionDef | ast.Lambda | ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp


class Module:
    """A module's statements by the names they define, and the lines of it that are code."""

    def __init__(self, text: str) -> None:
        tree = ast.parse(text)
        self.imported: dict[str, str] = {}
        self.defined: dict[str, list[ast.stmt]] = defaultdict(list)
        for one in tree.body:
            if isinstance(one, ast.ImportFrom) and (one.module or "").startswith("examples."):
                self.imported |= {alias.name: (one.module or "").removeprefix("examples.") for alias in one.names}
            for name in _defines(one):
                self.defined[name].append(one)
        self.code = {
            line
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type not in QUIET
            for line in range(token.start[0], token.end[0] + 1)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom) or _is_text(node):
                self.code -= _lines(node)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _defines(one: ast.stmt) -> set[str]:
    """What a statement defines, or what it adds to: ``flow.sink(...)`` is part of ``flow``."""
    match one:
        case ast.ClassDef() | ast.FunctionDef():
            return {one.name}
        case ast.Assign():
            return {node.id for target in one.targets for node in ast.walk(target) if isinstance(node, ast.Name)}
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return {name}
        case _:
            return set()


def _uses(node: ast.AST) -> set[str]:
    """Names that are read, without those that functions bind themselves."""
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    used = {name for child in ast.iter_child_nodes(node) for name in _uses(child)}
    return used - _binds(node, node) if isinstance(node, SCOPES) else used


def _binds(node: ast.AST, scope: ast.AST) -> set[str]:
    """Parameters and variables of a scope, without those of scopes inside."""
    match node:
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
            return {name}
        case _ if isinstance(node, SCOPES) and node is not scope:
            return set()
        case _:
            pass
    return {name for child in ast.iter_child_nodes(node) for name in _binds(child, scope)}


def _lines(node: ast.AST) -> set[int]:
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])  # type: ignore[attr-defined]
    return set(range(first, node.end_lineno + 1))  # type: ignore[attr-defined]


def size(module: str, name: str, modules: dict[str, Module]) -> int:
    """Lines of a definition and of all that it uses, each counted once. Generated data is no part of an application."""
    lines: set[tuple[str, int]] = set()
    seen, pending = set(), [(module, name)]
    while pending:
        at, wanted = place = pending.pop()
        if place in seen or at.endswith("_data"):
            continue
        seen.add(place)
        here = modules[at]
        if wanted in here.imported:
            pending.append((here.imported[wanted], wanted))
        for one in here.defined.get(wanted, ()):
            lines |= {(at, line) for line in _lines(one) & here.code}
            pending += [(at, name) for name in _uses(one)]
    return len(lines)


def examples() -> dict[str, Module]:
    return {path.stem: Module(path.read_text()) for path in EXAMPLES.glob("*.py")}


def test_each_application_is_small() -> None:
    modules = examples()
    sizes = {name: size(module, root, modules) for name, (module, root) in APPLICATIONS.items()}
    assert min(sizes.values()) > 20, f"something is not counted; all: {sizes}"
    beyond = {name: lines for name, lines in sizes.items() if lines > LIMITS.get(name, LIMIT)}
    assert not beyond, f"{beyond} are too many; all: {sizes}"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a = 1\n# comment\n\nb = 2\n", 1),
        (
            'def a():\n    """Text\n    of two lines."""\n    import os\n\n    return b  # here\n\n\nb = os\n"""Of b."""\n',
            3,
        ),
        ("@frozen\nclass a:\n    x: b = 1\n\n\nb = 1\nc = 2\n", 4),
        ("a = 1\na.sink(\n    b,\n)\nb = c = 0\n", 5),
        ('a = """one\n\ntwo"""\n', 3),
        ("def a():\n    return a()\n", 2),
        ("def a(b):\n    c = d = b\n    return lambda e: c, d, e\n\n\nb = c = 1\nd = 1\ne = 1\n", 4),
        ("class a:\n    b: c\n\n\nb = 1\nc = 1\n", 3),
    ],
)
def test_lines_are_counted(text: str, lines: int) -> None:
    assert size("example", "a", {"example": Module(text)}) == lines


def test_imported_definitions_count_and_data_does_not() -> None:
    modules = {
        "one": Module("from examples.two import b, c\nfrom examples.two_data import d\na = b, d\n"),
        "two": Module("b = [\n    e,\n]\nc = 1\ne = 1\n"),
        "two_data": Module("d = 1\n"),
    }
    assert size("one", "a", modules) == 5
