"""Expressions of the author's functions as calls of a tracer."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tracetypes.compiler.tracing.operations.functions import FUNCTIONS
from tracetypes.function_source import NoSource

__all__ = ["TRACER", "ExpressionRewriter", "bound_names", "own_nodes", "parameters", "places"]

TRACER: Final = "__tracer__"
"""The global by which rewritten code calls its tracer."""

_PLAIN_CALLS: Final = frozenset(
    {"abs", "bool", "float", "int", "isinstance", "len", "max", "min", "repr", "round", "str"}
)
_PLAIN_METHODS: Final = frozenset(
    {"date", "endswith", "get", "lower", "lstrip", "replace", "rstrip", "startswith", "strip", "timestamp"}
    | {"total_seconds", "upper", "value", "weekday", "split", "rsplit", "join"}
    | {op.rpartition(".")[2] for op in FUNCTIONS if "." in op}
)
_PLAIN_NODES: Final = (
    ast.Name,
    ast.Constant,
    ast.Attribute,
    ast.Subscript,
    ast.Slice,
    ast.Compare,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.IfExp,
    ast.JoinedStr,
    ast.FormattedValue,
    ast.expr_context,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
)


def parameters(names: tuple[str, ...]) -> ast.arguments:
    return ast.arguments(
        posonlyargs=[], args=[ast.arg(name) for name in names], kwonlyargs=[], kw_defaults=[], defaults=[]
    )


def places(node: ast.Tuple | ast.List) -> ast.expr:
    """What is assigned to, as ``unpack`` of the tracer takes it."""
    parts: list[ast.expr] = [
        places(part) if isinstance(part, ast.Tuple | ast.List) else ast.Constant(not isinstance(part, ast.Starred))
        for part in node.elts
    ]
    return ast.Tuple(parts, ast.Load())


def _is_plain(node: ast.AST) -> bool:
    """May it be evaluated on trial, and again? Then nothing in it may change anything."""
    for part in ast.walk(node):
        match part:
            case ast.Call(func=ast.Name(id=name)) if name in _PLAIN_CALLS:
                pass
            case ast.Call(func=ast.Attribute(attr=name)) if name in _PLAIN_METHODS:
                pass
            case _:
                if not isinstance(part, _PLAIN_NODES):
                    return False
    return True


def _has(node: ast.AST, *kinds: type[ast.AST]) -> bool:
    return any(isinstance(part, kinds) for part in ast.walk(node))


def own_nodes(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a function's statements, without what other scopes contain: functions and comprehensions inside."""
    pending = list(body)
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            pending += [one for one in ast.walk(node) if isinstance(one, ast.NamedExpr)]
            continue
        pending += ast.iter_child_nodes(node)


def bound_names(body: Sequence[ast.AST]) -> set[str]:
    """The variables that statements of a function assign or delete."""
    names = set[str]()
    for node in own_nodes(body):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.MatchMapping(rest=str(name)):
                names.add(name)
            case ast.alias(name=name, asname=as_name):
                names.add(as_name or name.partition(".")[0])
            case _:
                pass
    return names


class ExpressionRewriter(ast.NodeTransformer):
    """``owner``: the class whose private names the function uses."""

    def __init__(self, owner: str | None) -> None:
        self.owner = owner
        self.first: str | None = None
        self.names = 0
        self.loops: list[tuple[str, bool]] = []
        """The loops around a statement, the innermost last: a variable that has what a ``for`` goes through, and whether it
        is a ``for``."""

    def tracer(self, at: ast.AST, method: str, *args: ast.expr, keywords: list[ast.keyword] | None = None) -> ast.expr:
        function = ast.Attribute(ast.Name(TRACER, ast.Load()), method, ast.Load())
        call = ast.copy_location(ast.Call(function, list(args), keywords or []), at)
        # Frames report the line where the name of a method ends.
        call.end_lineno, call.end_col_offset = call.lineno, call.col_offset
        return ast.fix_missing_locations(call)

    def thunk(self, node: ast.expr) -> ast.expr:
        return ast.copy_location(ast.Lambda(parameters(()), node), node)

    def later(self, node: ast.expr) -> bool:
        """Can it be moved into a lambda?"""
        return not _has(node, ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            if self.first is None:
                raise NoSource("calls super() without an argument of its own")
            names = [ast.Name(name, ast.Load()) for name in ("__class__", self.first)]
            return ast.fix_missing_locations(ast.copy_location(ast.Call(node.func, [*names], []), node))
        function = self.visit(node.func)
        args = [self.visit(arg) for arg in node.args]
        return self.tracer(node, "call", function, *args, keywords=[self.keyword(k) for k in node.keywords])

    def keyword(self, node: ast.keyword) -> ast.keyword:
        value = self.visit(node.value)
        return ast.keyword(node.arg, value if node.arg is not None else self.tracer(node, "entries", value))

    def visit_Dict(self, node: ast.Dict) -> ast.expr:
        keys = [None if key is None else self.visit(key) for key in node.keys]
        values = [self.visit(value) for value in node.values]
        values = [self.tracer(v, "entries", v) if k is None else v for k, v in zip(keys, values, strict=True)]
        return self.tracer(node, "own", ast.Dict(keys, values))

    def visit_Starred(self, node: ast.Starred) -> ast.expr:
        if not isinstance(node.ctx, ast.Load):
            return node
        iterable = self.tracer(node, "iterate", self.visit(node.value))
        return ast.copy_location(ast.Starred(iterable, ast.Load()), node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if self.owner is not None and node.id.startswith("__") and not node.id.endswith("__"):
            raise NoSource(f"uses the private name {node.id}")
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        name = node.attr
        if self.owner is not None and name.startswith("__") and not name.endswith("__"):
            name = f"_{self.owner.lstrip('_')}{name}"
        return self.tracer(node, "attribute", self.visit(node.value), ast.Constant(name))

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return self.tracer(node, "item", self.visit(node.value), self.index(node.slice))

    def index(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Slice):
            parts = [ast.Constant(None) if p is None else self.visit(p) for p in (node.lower, node.upper, node.step)]
            return self.tracer(node, "slice", *parts)
        if isinstance(node, ast.Tuple) and any(isinstance(part, ast.Slice) for part in node.elts):
            raise NoSource("uses a slice in several dimensions")
        place: ast.expr = self.visit(node)
        return place

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        name = ast.Constant(type(node.op).__name__)
        return self.tracer(node, "binary", name, self.visit(node.left), self.visit(node.right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return node
        return self.tracer(node, "unary", ast.Constant(type(node.op).__name__), self.visit(node.operand))

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        names = [ast.Constant(type(op).__name__) for op in node.ops]
        if len(names) == 1:
            return self.tracer(node, "compare", names[0], self.visit(node.left), self.visit(node.comparators[0]))
        if not self.later(node):
            raise NoSource("assigns inside a chain of comparisons")
        plain = ast.Constant(all(map(_is_plain, node.comparators)))
        rest = [self.thunk(self.visit(one)) for one in node.comparators]
        return self.tracer(node, "chain", ast.Tuple([*names], ast.Load()), plain, self.visit(node.left), *rest)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        if any(not self.later(one) for one in node.values[1:]):
            raise NoSource("assigns inside of and or or")
        first, *others = node.values
        plain = ast.Constant(all(map(_is_plain, others)))
        method = "all_of" if isinstance(node.op, ast.And) else "any_of"
        return self.tracer(node, method, plain, self.visit(first), *(self.thunk(self.visit(one)) for one in others))

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        plain = ast.Constant(_is_plain(node.body) and _is_plain(node.orelse))
        test, then, otherwise = self.visit(node.test), self.visit(node.body), self.visit(node.orelse)
        if not (self.later(node.body) and self.later(node.orelse)):
            return ast.copy_location(ast.IfExp(self.tracer(node, "truth", test), then, otherwise), node)
        return self.tracer(node, "choose", plain, test, self.thunk(then), self.thunk(otherwise))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        parts: list[ast.expr] = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                spec: ast.expr = ast.Constant("") if part.format_spec is None else self.visit(part.format_spec)
                parts.append(ast.Tuple([self.visit(part.value), ast.Constant(part.conversion), spec], ast.Load()))
            else:
                parts.append(self.visit(part))
        return self.tracer(node, "text", *parts)

    def owned(self, node: ast.expr) -> ast.expr:
        self.generic_visit(node)
        return self.tracer(node, "own", node) if isinstance(getattr(node, "ctx", ast.Load()), ast.Load) else node

    visit_List = visit_Set = visit_ListComp = visit_DictComp = visit_SetComp = owned

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        if node.is_async:
            raise NoSource("is asynchronous")
        iterable = self.tracer(node.iter, "iterate", self.visit(node.iter))
        tests = [self.tracer(test, "truth", self.visit(test)) for test in node.ifs]
        if isinstance(node.target, ast.Tuple | ast.List):
            iterable = self.tracer(node.iter, "unpacked", iterable, places(node.target))
        return ast.comprehension(self.target(node.target), iterable, tests, 0)

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        node.args = self.arguments(node.args)
        node.body = self.visit(node.body)
        return node

    def visit_Await(self, node: ast.Await) -> ast.expr:
        raise NoSource("is asynchronous")

    def target(self, node: ast.expr) -> Any:
        """What is assigned to or deleted."""
        match node:
            case ast.Name():
                return self.visit_Name(node)
            case ast.Tuple(elts=parts):
                return ast.copy_location(ast.Tuple([self.target(part) for part in parts], ast.Store()), node)
            case ast.List(elts=parts):
                return ast.copy_location(ast.List([self.target(part) for part in parts], ast.Store()), node)
            case ast.Starred(value=value):
                return ast.copy_location(ast.Starred(self.target(value), ast.Store()), node)
            case ast.Subscript(value=value, slice=slice):
                changed = self.tracer(node, "changed", self.visit(value))
                place = self.tracer(node, "place", self.index(slice))
                return ast.copy_location(ast.Subscript(changed, place, node.ctx), node)
            case _:
                raise NoSource("sets an attribute", node.lineno)

    def arguments(self, node: ast.arguments) -> ast.arguments:
        for one in (*node.posonlyargs, *node.args, *node.kwonlyargs, node.vararg, node.kwarg):
            if one is not None:
                one.annotation = None
        node.defaults = [self.visit(default) for default in node.defaults]
        node.kw_defaults = [None if default is None else self.visit(default) for default in node.kw_defaults]
        return node
