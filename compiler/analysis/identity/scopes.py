"""Which variable each name of a function means: a variable of the function itself, of the function around it, or a global.

Python's own table of symbols is no help, because versions differ: comprehensions have scopes of their own before 3.12.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final, TypeAlias, final

import attrs

__all__ = [
    "COMPREHENSIONS",
    "Comprehension",
    "Function",
    "Scope",
    "Scopes",
    "Variable",
    "is_path",
    "names_a_class",
    "parameters_of",
]

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension: TypeAlias = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp

COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@final
@attrs.frozen(eq=False)
class Variable:
    """A variable of a function or comprehension. Its name counts for parameters only."""

    name: str
    parameter: bool = False


@final
@attrs.define(eq=False)
class Scope:
    """The names that a function or comprehension binds, and those that it declares to be of further out."""

    above: Scope | None
    comprehension: bool = False
    bound: dict[str, Variable] = attrs.field(factory=dict)
    global_names: set[str] = attrs.field(factory=set)
    nonlocal_names: set[str] = attrs.field(factory=set)

    def variable(self, name: str) -> Variable | None:
        """The variable of that name; None for one from outside of the outermost function."""
        at: Scope | None = self
        while at is not None:
            if name in at.global_names:
                return None
            if name in at.bound:
                return at.bound[name]
            at = at.above
        return None

    def is_global(self, name: str) -> bool:
        """Whether a name from outside was declared ``global``."""
        at: Scope | None = self
        while at is not None:
            if name in at.global_names:
                return True
            if name in at.bound:
                return False
            at = at.above
        return False


def parameters_of(node: Function) -> list[ast.arg]:
    """All parameters of a function."""
    of = node.args
    return [*of.posonlyargs, *of.args, *([of.vararg] if of.vararg else []), *of.kwonlyargs, *([of.kwarg] if of.kwarg else [])]


@final
class Scopes:
    """The scope of a function and of each function and comprehension inside of it. ``assigned_outside``: names that it assigns
    and that are not its own."""

    def __init__(self, function: Function) -> None:
        self.of: dict[ast.AST, Scope] = {}
        self.assigned_outside: set[str] = set()
        # Inner functions come after all of the outer one, which may bind a name further down.
        self._pending: list[tuple[Function, Scope | None]] = [(function, None)]
        for node, above in self._pending:
            self._function(node, above)

    def _function(self, node: Function, above: Scope | None) -> None:
        scope = self.of[node] = Scope(above)
        for parameter in parameters_of(node):
            scope.bound[parameter.arg] = Variable(parameter.arg, parameter=True)
        body: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else list(node.body)
        for statement in [] if isinstance(node, ast.Lambda) else node.body:
            self._declared(statement, scope)
        for one in body:
            self._visit(one, scope)

    def _declared(self, node: ast.AST, scope: Scope) -> None:
        """The names that are declared in a function, not in functions inside of it."""
        if isinstance(node, ast.Global):
            scope.global_names.update(node.names)
        elif isinstance(node, ast.Nonlocal):
            scope.nonlocal_names.update(node.names)
        elif not isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.expr)):
            for inner in ast.iter_child_nodes(node):
                self._declared(inner, scope)

    def _bind(self, name: str, scope: Scope) -> None:
        if name in scope.global_names or (name in scope.nonlocal_names and self._is_outside(name, scope)):
            self.assigned_outside.add(name)
        elif name not in scope.nonlocal_names:
            scope.bound.setdefault(name, Variable(name))

    @staticmethod
    def _is_outside(name: str, scope: Scope) -> bool:
        at = scope.above
        while at is not None:
            if name in at.bound:
                return False
            at = at.above
        return True

    def _visit(self, node: ast.AST, scope: Scope) -> None:
        for name in _names_bound(node):
            self._bind(name, _function_scope(scope) if isinstance(node, ast.NamedExpr) else scope)
        if isinstance(node, _FUNCTIONS):
            for default in (*node.args.defaults, *node.args.kw_defaults):
                if default is not None:
                    self._visit(default, scope)
            for decorator in () if isinstance(node, ast.Lambda) else node.decorator_list:
                self._visit(decorator, scope)
            self._pending.append((node, scope))
        elif isinstance(node, ast.NamedExpr):
            self._visit(node.value, scope)
        elif isinstance(node, COMPREHENSIONS):
            inner = self.of[node] = Scope(scope, comprehension=True)
            self._visit(node.generators[0].iter, scope)
            for at, generator in enumerate(node.generators):
                self._visit(generator.target, inner)
                for one in (*([generator.iter] if at else []), *generator.ifs):
                    self._visit(one, inner)
            results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            for result in results:
                self._visit(result, inner)
        else:
            for child in ast.iter_child_nodes(node):
                self._visit(child, scope)


def _function_scope(scope: Scope) -> Scope:
    """The scope of the function around comprehensions: ``:=`` binds there."""
    while scope.comprehension and scope.above is not None:
        scope = scope.above
    return scope


def _names_bound(node: ast.AST) -> Iterator[str]:
    """The names that a node itself binds in its scope."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.NamedExpr(target=ast.Name(id=name)):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
        case ast.alias(name=name, asname=asname):
            yield asname or name.partition(".")[0]
        case _:
            pass


def names_a_class(node: ast.expr) -> bool:
    """Whether an expression may be the class of something."""
    return any(
        (isinstance(one, ast.Attribute) and one.attr == "__class__") or (isinstance(one, ast.Name) and one.id == "type")
        for one in ast.walk(node)
    )


def is_path(node: ast.expr) -> bool:
    """Whether an expression is a name or a path of attributes."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)
