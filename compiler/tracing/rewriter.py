"""A function of an author as one that hands its operations to a tracer."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, Final

from tracetypes.compiler.tracing.expression_rewriter import ExpressionRewriter, bound_names, own_nodes, places
from tracetypes.function_source import NoSource

__all__ = ["INSIDE", "FunctionRewriter"]

INSIDE: Final = "__inside__"
"""The name of a rewritten function that is no lambda."""


class FunctionRewriter(ExpressionRewriter):
    """Statements, and the function as a whole."""

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
        body = [one for statement in node.body for one in self.statements(_copy(statement))]
        return ast.copy_location(ast.FunctionDef(INSIDE, args, body, []), node)

    def statements(self, node: ast.stmt) -> list[ast.stmt]:
        result = self.visit(node)
        return result if isinstance(result, list) else [result]

    def refused(self, node: ast.stmt, what: str) -> ast.stmt:
        return ast.copy_location(ast.Expr(self.tracer(node, "refuse", ast.Constant(what))), node)

    def visit_If(self, node: ast.If) -> ast.stmt:
        self.generic_visit(node)
        node.test = self.tracer(node, "truth", node.test)
        return node

    def visit_While(self, node: ast.While) -> ast.stmt:
        self.loops.append(("", False))
        self.generic_visit(node)
        self.loops.pop()
        node.test = self.tracer(node, "truth", node.test)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        return ast.copy_location(ast.Assert(self.tracer(node, "truth", self.visit(node.test)), None), node)

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        """Whatever the exception: without ``try`` the path ends in one."""
        return ast.copy_location(ast.Expr(self.tracer(node, "raises")), node)

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        """The loop. A turn that stands for all others leaves what cannot be used in the variables that it assigns::

            loop = TRACER.loop(iterable)
            for n in loop:
                if TRACER.turning(loop): total = TRACER.left("total")
                total = ...
            else:
                if TRACER.turning(loop): n, total = TRACER.left("n"), TRACER.left("total")
        """
        loop = self.fresh("loop")
        name = ast.Name(loop, ast.Load())
        yields = ast.Constant(any(isinstance(one, ast.Yield | ast.YieldFrom) for one in own_nodes(node.body)))
        before = ast.Assign([ast.Name(loop, ast.Store())], self.tracer(node.iter, "loop", self.visit(node.iter), yields))
        iterable: ast.expr = name
        if isinstance(node.target, ast.Tuple | ast.List):
            iterable = self.tracer(node.iter, "unpacked", iterable, places(node.target))
        at_target, in_body = bound_names([node.target]), bound_names(node.body)
        self.loops.append((loop, True))
        body = [inner for one in node.body for inner in self.statements(one)]
        self.loops.pop()
        otherwise = [inner for one in node.orelse for inner in self.statements(one)]
        body = [*self.left_in(node, name, in_body - at_target), *body]
        otherwise = [*self.left_in(node, name, at_target | in_body), *otherwise]
        made = ast.For(self.target(node.target), iterable, body, otherwise)
        return [ast.fix_missing_locations(ast.copy_location(one, node)) for one in (before, made)]

    def left_in(self, node: ast.For, loop: ast.expr, names: set[str]) -> list[ast.stmt]:
        """What a turn that stands for all others leaves in variables."""
        left: list[ast.stmt] = [
            ast.Assign([ast.Name(name, ast.Store())], self.tracer(node, "left", ast.Constant(name))) for name in sorted(names)
        ]
        return [ast.copy_location(ast.If(self.tracer(node, "turning", loop), left, []), node)] if left else []

    def visit_Break(self, node: ast.Break) -> list[ast.stmt]:
        return [self.leave(node, "break", [self.loops[-1][0]] if self.loops[-1][1] else []), node]

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        self.generic_visit(node)
        return [self.leave(node, "return", [loop for loop, is_for in self.loops if is_for]), node]

    def leave(self, node: ast.stmt, how: str, loops: list[str]) -> ast.stmt:
        names = [ast.Name(loop, ast.Load()) for loop in loops]
        return ast.copy_location(ast.Expr(self.tracer(node, "leave", ast.Constant(how), *names)) if names else ast.Pass(), node)

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        value = self.visit(node.value)
        match node.targets:
            case [ast.Tuple() | ast.List() as target]:
                value = self.tracer(node, "unpack", value, places(target))
            case targets if any(isinstance(target, ast.Tuple | ast.List) for target in targets):
                raise NoSource("assigns to several targets", node.lineno)
            case _:
                pass
        return ast.copy_location(ast.Assign([self.target(t) for t in node.targets], value), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([self.target(node.target)], self.visit(node.value)), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        name, value = ast.Constant(type(node.op).__name__), self.visit(node.value)
        match node.target:
            case ast.Name(id=id):
                changed = self.tracer(node, "in_place", name, ast.Name(id, ast.Load()), value)
                return ast.copy_location(ast.Assign([node.target], changed), node)
            case ast.Subscript():
                whole, index = self.visit(node.target.value), self.index(node.target.slice)
                return ast.copy_location(ast.Expr(self.tracer(node, "in_place_at", name, whole, index, value)), node)
            case _:
                return self.refused(node, "sets an attribute")

    def visit_Delete(self, node: ast.Delete) -> ast.stmt:
        return ast.copy_location(ast.Delete([self.target(target) for target in node.targets]), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        """A function inside; :meth:`function` makes the outermost."""
        node.args = self.arguments(node.args)
        node.decorator_list = [self.visit(decorator) for decorator in node.decorator_list]
        if node.decorator_list:
            raise NoSource("decorates a function", node.lineno)
        node.returns = None
        outer, self.loops = self.loops, []
        node.body = [inner for one in node.body for inner in self.statements(one)]
        self.loops = outer
        return node

    def visit_Try(self, node: ast.Try) -> ast.stmt:
        return self.refused(node, "uses try")

    def visit_TryStar(self, node: ast.stmt) -> ast.stmt:
        return self.refused(node, "uses try")

    def visit_With(self, node: ast.With) -> ast.stmt:
        return self.refused(node, "uses with")

    def outside(self, node: ast.Global | ast.Nonlocal) -> ast.stmt:
        raise NoSource(f"changes {', '.join(node.names)}, which outlives the call", node.lineno)

    visit_Global = visit_Nonlocal = outside

    def elsewhere(self, node: ast.stmt) -> ast.stmt:
        raise NoSource(f"has a {type(node).__name__}", node.lineno)

    visit_ClassDef = visit_AsyncFunctionDef = visit_AsyncFor = visit_AsyncWith = elsewhere

    def visit_Match(self, node: ast.Match) -> list[ast.stmt]:
        """Conditions, one for each case."""
        subject = self.fresh("case")
        cases: list[ast.stmt] = []
        for case in reversed(node.cases):
            captured: dict[str, str] = {}
            tests = [self.pattern(case.pattern, ast.Name(subject, ast.Load()), captured)]
            tests += [_kept(name, ast.Name(fresh, ast.Load())) for name, fresh in captured.items()]
            if case.guard is not None:
                tests.append(self.tracer(case.guard, "truth", self.visit(case.guard)))
            body = [one for statement in case.body for one in self.statements(statement)]
            test = ast.BoolOp(ast.And(), [ast.Constant(True), *tests])
            cases = [ast.fix_missing_locations(ast.copy_location(ast.If(test, body, cases), case.pattern))]
        assigned = ast.Assign([ast.Name(subject, ast.Store())], self.visit(node.subject))
        return [ast.fix_missing_locations(ast.copy_location(assigned, node)), *cases]

    def fresh(self, prefix: str) -> str:
        """A name that no author uses."""
        self.names += 1
        return f"__{prefix}_{self.names}__"

    def pattern(self, node: ast.pattern, value: ast.expr, captured: dict[str, str]) -> ast.expr:
        """Does it match? What it captures goes by names of its own, and to those of the author once all of it matches."""

        def keep(name: str, value: ast.expr) -> ast.expr:
            return _kept(captured.setdefault(name, captured.get(name) or self.fresh("case")), value)

        def parts(method: str, patterns: Sequence[ast.pattern], *how: ast.expr) -> ast.expr:
            parts_name = self.fresh("case")
            parts_of = ast.NamedExpr(ast.Name(parts_name, ast.Store()), self.tracer(node, method, value, *how))
            tests: list[ast.expr] = [ast.Compare(parts_of, [ast.IsNot()], [ast.Constant(None)])]
            for at, inner in enumerate(patterns):
                part = ast.Subscript(ast.Name(parts_name, ast.Load()), ast.Constant(at), ast.Load())
                tests.append(self.pattern(inner, part, captured))
            return ast.BoolOp(ast.And(), [ast.Constant(True), *tests])

        match node:
            case ast.MatchValue(value=literal):
                return self.tracer(
                    node, "truth", self.tracer(node, "compare", ast.Constant("Eq"), value, self.visit(literal))
                )
            case ast.MatchSingleton(value=literal):
                same = self.tracer(node, "compare", ast.Constant("Is"), value, ast.Constant(literal))
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
                raise NoSource(f"has a {type(node).__name__}", node.lineno)


def _kept(name: str, value: ast.expr) -> ast.expr:
    """A true expression that gives a name to a value."""
    return ast.List([ast.NamedExpr(ast.Name(name, ast.Store()), value)], ast.Load())


def _copy(node: Any) -> Any:
    """A copy of a syntax tree, which is shared by all functions of a module."""
    if isinstance(node, list):
        return [_copy(one) for one in node]
    if not isinstance(node, ast.AST):
        return node
    clone = type(node)(**{name: _copy(value) for name, value in ast.iter_fields(node)})
    return ast.copy_location(clone, node) if hasattr(node, "lineno") else clone
