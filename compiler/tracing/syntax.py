"""The author's functions once more, with every operation handed to a tracer.

:func:`rewritten` finds the source of a function, makes sure that it is the source, and compiles it again so that what
overloading cannot see (``is``, ``in``, ``and``, conditions, calls, reading of attributes and items, f-strings) becomes a
call of a method of the global :data:`TRACER`::

    if a is None or a.x in TABLE:    ->    if TRACER.truth(TRACER.any_of(TRACER.compare("Is", a, None), ...)):
        emit(key, f(a))              ->        TRACER.call(emit, key, TRACER.call(f, a))

What is done to objects from outside (setting attributes, ``nonlocal``) and what would hide an exception (``try``, ``with``)
is refused; where possible only when it is reached.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import linecache
import types
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from tracetypes.compiler.tracing.functions import FUNCTIONS
from tracetypes.compiler.tracing.identity import Same

__all__ = ["PREFIX", "TRACER", "NoSource", "is_rewritten", "rewritten"]

TRACER: Final = "__tracer__"
"""The global by which rewritten code calls its tracer."""

PREFIX: Final = "<traced>"
"""Begins the file name of rewritten code."""

_INSIDE: Final = "__inside__"
_FUTURE: Final = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
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


class NoSource(Exception):
    """The function cannot be rewritten; the text says why."""


def is_rewritten(code: types.CodeType) -> bool:
    """Did :func:`rewritten` make it?"""
    return code.co_filename.startswith(PREFIX)


def rewritten(code: types.CodeType) -> types.CodeType:
    """The code that hands its operations to :data:`TRACER`; the same parameters, the free variables of ``code`` or some
    of them. Raises :class:`NoSource`."""
    return _rewritten(Same(code))


@lru_cache(maxsize=4096)
def _rewritten(same: Same) -> types.CodeType:
    """Of the source alone: globals, closures and defaults are those of the function at each call."""
    code, file = same.value, same.value.co_filename
    node = _find(code)
    owner = code.co_qualname.split(".")[-2:-1]
    change = _Rewriter(None if not owner or owner[0] == "<locals>" else owner[0])
    made = change.function(node)
    outer = ast.FunctionDef(
        name="__outer__",
        args=_parameters(code.co_freevars),
        body=[ast.Return(made)] if isinstance(made, ast.Lambda) else [made],
        decorator_list=[],
    )
    ast.copy_location(outer, node)
    program = ast.fix_missing_locations(ast.Module([outer], []))
    compiled = compile(program, PREFIX + file, "exec", flags=code.co_flags & _FUTURE, dont_inherit=True)
    (inside,) = (const for const in compiled.co_consts if isinstance(const, types.CodeType))
    found = next(c for c in inside.co_consts if isinstance(c, types.CodeType) and c.co_name in (_INSIDE, "<lambda>"))
    if (found.co_flags ^ code.co_flags) & inspect.CO_GENERATOR:
        raise NoSource("it yields inside of what cannot be traced")
    return found.replace(co_name=code.co_name, co_qualname=code.co_qualname)


def _parameters(names: tuple[str, ...]) -> ast.arguments:
    return ast.arguments(
        posonlyargs=[], args=[ast.arg(name) for name in names], kwonlyargs=[], kw_defaults=[], defaults=[]
    )


# ------------------------------------------------------------------------------------------------ finding it


@lru_cache(maxsize=256)
def _functions(file: str, text: str) -> tuple[list[ast.FunctionDef], list[ast.Lambda]]:
    """All functions and lambdas in the text, outer ones before those inside of them."""
    try:
        nodes = list(ast.walk(ast.parse(text, file)))
    except SyntaxError as error:
        raise NoSource("its source is not there") from error
    return [n for n in nodes if isinstance(n, ast.FunctionDef)], [n for n in nodes if isinstance(n, ast.Lambda)]


@lru_cache(maxsize=256)
def _codes(file: str, text: str, flags: int) -> frozenset[types.CodeType]:
    """All code that the text compiles to."""
    found: set[types.CodeType] = set()
    pending = [compile(text, file, "exec", flags=flags, dont_inherit=True)]
    while pending:
        at = pending.pop()
        found.add(at)
        pending.extend(const for const in at.co_consts if isinstance(const, types.CodeType))
    return frozenset(found)


def _find(code: types.CodeType) -> ast.FunctionDef | ast.Lambda:
    """The node that the code was compiled from."""
    text = "".join(linecache.getlines(code.co_filename))
    if not text:
        raise NoSource("its source is not there")
    functions, lambdas = _functions(code.co_filename, text)
    if code not in _codes(code.co_filename, text, code.co_flags & _FUTURE):
        raise NoSource("its source has changed since it was imported")
    if code.co_name == "<lambda>":
        return _find_lambda(lambdas, code)
    for node in functions:
        if node.name == code.co_name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first == code.co_firstlineno:
                return node
    raise NoSource("it is no plain function")


def _find_lambda(lambdas: Sequence[ast.Lambda], code: types.CodeType) -> ast.Lambda:
    """The smallest lambda whose body spans all instructions."""
    spans = [
        (line, column, end_line, end_column)
        for line, end_line, column, end_column in code.co_positions()
        if line is not None and end_line is not None and column is not None and end_column is not None
        if (line, column) != (end_line, end_column)
    ]
    if not spans:
        raise NoSource("its place in the source is not known")
    start = min((line, column) for line, column, _, _ in spans)
    end = max((line, column) for _, _, line, column in spans)
    best: ast.Lambda | None = None
    for node in lambdas:
        if _start(node.body) <= start and end <= _end(node.body):
            best = node if best is None or _start(best.body) <= _start(node.body) else best
    if best is None:
        raise NoSource("its source is not there")
    return best


def _start(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


# ---------------------------------------------------------------------------------------------- rewriting it


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


class _Rewriter(ast.NodeTransformer):
    def __init__(self, owner: str | None) -> None:
        self.owner = owner
        self.first: str | None = None
        self.names = 0

    def function(self, node: ast.FunctionDef | ast.Lambda) -> ast.FunctionDef | ast.Lambda:
        """The function without decorators, annotations and defaults, which belong to the function object."""
        args = ast.arguments(
            posonlyargs=[ast.arg(a.arg) for a in node.args.posonlyargs],
            args=[ast.arg(a.arg) for a in node.args.args],
            vararg=node.args.vararg and ast.arg(node.args.vararg.arg),
            kwonlyargs=[ast.arg(a.arg) for a in node.args.kwonlyargs],
            kw_defaults=[None] * len(node.args.kwonlyargs),
            kwarg=node.args.kwarg and ast.arg(node.args.kwarg.arg),
            defaults=[],
        )
        self.first = next((a.arg for a in (*args.posonlyargs, *args.args)), None)
        if isinstance(node, ast.Lambda):
            return ast.copy_location(ast.Lambda(args, self.visit(_copy(node.body))), node)
        body = [made for statement in node.body for made in self.statements(_copy(statement))]
        return ast.copy_location(ast.FunctionDef(_INSIDE, args, body, []), node)

    def statements(self, node: ast.stmt) -> list[ast.stmt]:
        made = self.visit(node)
        return made if isinstance(made, list) else [made]

    def tracer(self, at: ast.AST, method: str, *args: ast.expr, keywords: list[ast.keyword] | None = None) -> ast.expr:
        function = ast.Attribute(ast.Name(TRACER, ast.Load()), method, ast.Load())
        made = ast.copy_location(ast.Call(function, list(args), keywords or []), at)
        # Frames report the line where the name of a method ends.
        made.end_lineno, made.end_col_offset = made.lineno, made.col_offset
        return ast.fix_missing_locations(made)

    def refused(self, node: ast.stmt, what: str) -> ast.stmt:
        return ast.copy_location(ast.Expr(self.tracer(node, "refuse", ast.Constant(what))), node)

    def thunk(self, node: ast.expr) -> ast.expr:
        return ast.copy_location(ast.Lambda(_parameters(()), node), node)

    def later(self, node: ast.expr) -> bool:
        """Can it be moved into a lambda?"""
        return not _has(node, ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)

    # ------------------------------------------------------------------------------------------ expressions

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            if self.first is None:
                raise NoSource("it calls super() without an argument of its own")
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
        made = self.tracer(node, "iterate", self.visit(node.value))
        return ast.copy_location(ast.Starred(made, ast.Load()), node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if self.owner is not None and node.id.startswith("__") and not node.id.endswith("__"):
            raise NoSource(f"it uses the private name {node.id}")
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
            raise NoSource("it uses a slice in several dimensions")
        made: ast.expr = self.visit(node)
        return made

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
            raise NoSource("it assigns inside a chain of comparisons")
        plain = ast.Constant(all(map(_is_plain, node.comparators)))
        rest = [self.thunk(self.visit(one)) for one in node.comparators]
        return self.tracer(node, "chain", ast.Tuple([*names], ast.Load()), plain, self.visit(node.left), *rest)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        if any(not self.later(one) for one in node.values[1:]):
            raise NoSource("it assigns inside of and or or")
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
        made = self.generic_visit(node)
        assert isinstance(made, ast.expr)
        if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            return made
        return self.tracer(node, "own", made)

    visit_List = visit_Set = visit_ListComp = visit_DictComp = visit_SetComp = owned

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        if node.is_async:
            raise NoSource("it is asynchronous")
        iterable = self.tracer(node.iter, "iterate", self.visit(node.iter))
        tests = [self.tracer(test, "truth", self.visit(test)) for test in node.ifs]
        if isinstance(node.target, ast.Tuple | ast.List):
            iterable = self.tracer(node.iter, "unpacked", iterable, _places(node.target))
        return ast.comprehension(self.target(node.target), iterable, tests, 0)

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        node.args = self.arguments(node.args)
        node.body = self.visit(node.body)
        return node

    def visit_Await(self, node: ast.Await) -> ast.expr:
        raise NoSource("it is asynchronous")

    # ------------------------------------------------------------------------------------------- statements

    def visit_If(self, node: ast.If) -> ast.stmt:
        made = self.generic_visit(node)
        assert isinstance(made, ast.If)
        made.test = self.tracer(node, "truth", made.test)
        return made

    def visit_While(self, node: ast.While) -> ast.stmt:
        made = self.generic_visit(node)
        assert isinstance(made, ast.While)
        made.test = self.tracer(node, "truth", made.test)
        return made

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        return ast.copy_location(ast.Assert(self.tracer(node, "truth", self.visit(node.test)), None), node)

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        """Whatever the exception: without ``try`` the path ends in one."""
        return ast.copy_location(ast.Expr(self.tracer(node, "raises")), node)

    def visit_For(self, node: ast.For) -> ast.stmt:
        iterable = self.tracer(node.iter, "iterate", self.visit(node.iter))
        if isinstance(node.target, ast.Tuple | ast.List):
            iterable = self.tracer(node.iter, "unpacked", iterable, _places(node.target))
        body = [made for one in node.body for made in self.statements(one)]
        otherwise = [made for one in node.orelse for made in self.statements(one)]
        return ast.copy_location(ast.For(self.target(node.target), iterable, body, otherwise), node)

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        value = self.visit(node.value)
        if any(isinstance(target, ast.Tuple | ast.List) for target in node.targets):
            if len(node.targets) > 1:
                raise NoSource(f"it assigns to several targets at line {node.lineno}")
            (target,) = node.targets
            assert isinstance(target, ast.Tuple | ast.List)
            value = self.tracer(node, "unpack", value, _places(target))
        return ast.copy_location(ast.Assign([self.target(t) for t in node.targets], value), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([self.target(node.target)], self.visit(node.value)), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        name, value = ast.Constant(type(node.op).__name__), self.visit(node.value)
        match node.target:
            case ast.Name(id=id):
                made = self.tracer(node, "in_place", name, ast.Name(id, ast.Load()), value)
                return ast.copy_location(ast.Assign([node.target], made), node)
            case ast.Subscript():
                whole, index = self.visit(node.target.value), self.index(node.target.slice)
                return ast.copy_location(ast.Expr(self.tracer(node, "in_place_at", name, whole, index, value)), node)
            case _:
                return self.refused(node, "sets an attribute")

    def visit_Delete(self, node: ast.Delete) -> ast.stmt:
        return ast.copy_location(ast.Delete([self.target(target) for target in node.targets]), node)

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
                raise NoSource(f"it sets an attribute at line {node.lineno}")

    def visit_Match(self, node: ast.Match) -> list[ast.stmt]:
        """Conditions, one for each case."""
        subject = self.fresh()
        made: list[ast.stmt] = []
        for case in reversed(node.cases):
            captured: dict[str, str] = {}
            tests = [self.pattern(case.pattern, ast.Name(subject, ast.Load()), captured)]
            tests += [_kept(name, ast.Name(found, ast.Load())) for name, found in captured.items()]
            if case.guard is not None:
                tests.append(self.tracer(case.guard, "truth", self.visit(case.guard)))
            body = [one for statement in case.body for one in self.statements(statement)]
            test = ast.BoolOp(ast.And(), [ast.Constant(True), *tests])
            made = [ast.fix_missing_locations(ast.copy_location(ast.If(test, body, made), case.pattern))]
        kept = ast.Assign([ast.Name(subject, ast.Store())], self.visit(node.subject))
        return [ast.fix_missing_locations(ast.copy_location(kept, node)), *made]

    def fresh(self) -> str:
        """A name that no author uses."""
        self.names += 1
        return f"__case_{self.names}__"

    def pattern(self, node: ast.pattern, value: ast.expr, captured: dict[str, str]) -> ast.expr:
        """Does it match? What it captures goes by names of its own, and to those of the author once all of it matches."""

        def keep(name: str, value: ast.expr) -> ast.expr:
            return _kept(captured.setdefault(name, captured.get(name) or self.fresh()), value)

        def parts(method: str, patterns: Sequence[ast.pattern], *how: ast.expr) -> ast.expr:
            taken = self.fresh()
            asked = ast.NamedExpr(ast.Name(taken, ast.Store()), self.tracer(node, method, value, *how))
            tests: list[ast.expr] = [ast.Compare(asked, [ast.IsNot()], [ast.Constant(None)])]
            for at, inner in enumerate(patterns):
                part = ast.Subscript(ast.Name(taken, ast.Load()), ast.Constant(at), ast.Load())
                tests.append(self.pattern(inner, part, captured))
            return ast.BoolOp(ast.And(), [ast.Constant(True), *tests])

        match node:
            case ast.MatchValue(value=wanted):
                return self.tracer(
                    node, "truth", self.tracer(node, "compare", ast.Constant("Eq"), value, self.visit(wanted))
                )
            case ast.MatchSingleton(value=wanted):
                same = self.tracer(node, "compare", ast.Constant("Is"), value, ast.Constant(wanted))
                return self.tracer(node, "truth", same)
            case ast.MatchSequence(patterns=patterns):
                star = next((at for at, one in enumerate(patterns) if isinstance(one, ast.MatchStar)), None)
                named = any(isinstance(one, ast.MatchStar) and one.name is not None for one in patterns)
                how = (len(patterns) - (star is not None), star, named)
                return parts("case_sequence", patterns, *map(ast.Constant, how))
            case ast.MatchStar(name=name):
                return ast.Constant(True) if name is None else keep(name, value)
            case ast.MatchMapping(keys=keys, patterns=patterns, rest=rest):
                wanted_keys = ast.Tuple([self.visit(key) for key in keys], ast.Load())
                inside = [*patterns, *([] if rest is None else [ast.MatchAs(None, rest)])]
                return parts("case_mapping", inside, wanted_keys, ast.Constant(rest is not None))
            case ast.MatchClass(cls=cls, patterns=patterns, kwd_attrs=names, kwd_patterns=named_patterns):
                asked_names = ast.Tuple([ast.Constant(name) for name in names], ast.Load())
                how_many = ast.Constant(len(patterns))
                return parts("case_class", [*patterns, *named_patterns], self.visit(cls), how_many, asked_names)
            case ast.MatchAs(pattern=inner, name=name):
                tests = [] if inner is None else [self.pattern(inner, value, captured)]
                if name is not None:
                    tests.append(keep(name, value))
                return ast.BoolOp(ast.And(), [ast.Constant(True), ast.Constant(True), *tests])
            case ast.MatchOr(patterns=patterns):
                return ast.BoolOp(ast.Or(), [self.pattern(one, value, captured) for one in patterns])
            case _:
                raise NoSource(f"it has a {type(node).__name__} at line {node.lineno}")

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        """A function inside; :meth:`function` makes the outermost."""
        node.args = self.arguments(node.args)
        node.decorator_list = [self.visit(decorator) for decorator in node.decorator_list]
        if node.decorator_list:
            raise NoSource(f"it decorates a function at line {node.lineno}")
        node.returns = None
        node.body = [made for one in node.body for made in self.statements(one)]
        return node

    def arguments(self, node: ast.arguments) -> ast.arguments:
        for one in (*node.posonlyargs, *node.args, *node.kwonlyargs, node.vararg, node.kwarg):
            if one is not None:
                one.annotation = None
        node.defaults = [self.visit(default) for default in node.defaults]
        node.kw_defaults = [None if default is None else self.visit(default) for default in node.kw_defaults]
        return node

    def visit_Try(self, node: ast.Try) -> ast.stmt:
        return self.refused(node, "uses try")

    def visit_TryStar(self, node: ast.stmt) -> ast.stmt:
        return self.refused(node, "uses try")

    def visit_With(self, node: ast.With) -> ast.stmt:
        return self.refused(node, "uses with")

    def outside(self, node: ast.Global | ast.Nonlocal) -> ast.stmt:
        raise NoSource(f"it changes {', '.join(node.names)} at line {node.lineno}, which outlives the call")

    visit_Global = visit_Nonlocal = outside

    def elsewhere(self, node: ast.stmt) -> ast.stmt:
        raise NoSource(f"it has a {type(node).__name__} at line {node.lineno}")

    visit_ClassDef = visit_AsyncFunctionDef = visit_AsyncFor = visit_AsyncWith = elsewhere


def _kept(name: str, value: ast.expr) -> ast.expr:
    """A true expression that gives a name to a value."""
    return ast.List([ast.NamedExpr(ast.Name(name, ast.Store()), value)], ast.Load())


def _places(node: ast.Tuple | ast.List) -> ast.expr:
    """What is assigned to, as ``unpack`` of the tracer takes it."""
    made: list[ast.expr] = [
        _places(part) if isinstance(part, ast.Tuple | ast.List) else ast.Constant(not isinstance(part, ast.Starred))
        for part in node.elts
    ]
    return ast.Tuple(made, ast.Load())


def _copy(node: Any) -> Any:
    """A copy of a syntax tree, which is shared by all functions of a module."""
    if isinstance(node, list):
        return [_copy(one) for one in node]
    if not isinstance(node, ast.AST):
        return node
    made = type(node)(**{name: _copy(value) for name, value in ast.iter_fields(node)})
    return ast.copy_location(made, node) if hasattr(node, "lineno") else made
