"""The code of a function as a text: its syntax tree, without what does not count.

These do not count: names of variables that are no parameters, annotations, docstrings, places. Names from outside stand as what
they mean, so ``math.sqrt`` and ``sqrt`` are one. Fields of nodes that are empty are left out, because newer versions of Python
have more of them.
"""

from __future__ import annotations

import ast
from typing import Any, Final, final

from tracetypes.compiler.analysis.identity.description import Reads, Unidentified
from tracetypes.compiler.analysis.identity.expression_text import ExpressionText
from tracetypes.compiler.analysis.identity.libraries import module_library
from tracetypes.compiler.analysis.identity.machine import reason_against
from tracetypes.compiler.analysis.identity.scopes import Function, Scope
from tracetypes.compiler.analysis.identity.uses import ESCAPES, INSIDE, KEPT, STORED

__all__ = ["CodeText"]

_IGNORED: Final = frozenset(["ctx", "type_comment", "kind", "annotation", "returns", "type_params", "lineno"])


@final
class CodeText(ExpressionText):
    """Writes the body of a function."""

    def body(self, node: Function, scope: Scope) -> None:
        """The body of a function."""
        if isinstance(node, ast.Lambda):
            self.out.append("(return ")
            self.value(node.body, scope, ESCAPES)
            self.out.append(")")
        else:
            if scope is not self.root and (docs := ast.get_docstring(node, clean=False)):
                self.inner_docs.append(docs)
            self.block(node.body, scope)

    def block(self, body: list[ast.stmt], scope: Scope) -> None:
        """Statements, without those that do nothing."""
        self.out.append("[")
        for one in body:
            match one:
                case ast.Pass() | ast.Expr(value=ast.Constant()) | ast.Global() | ast.Nonlocal():
                    pass
                case ast.AnnAssign(value=None, target=ast.Name()):
                    pass
                case _:
                    self.statement(one, scope)
        self.out.append("]")

    def inner(self, node: Function, scope: Scope) -> None:
        """A function inside of the function: parameters, defaults, decorators, body."""
        self.out.append("(function")
        if isinstance(node, ast.AsyncFunctionDef):
            raise Unidentified("has a coroutine inside")
        if isinstance(node, ast.FunctionDef):
            self.inner_names.append(node.name)
            for decorator in node.decorator_list:
                self.out.append(" @")
                self.value(decorator, scope, ESCAPES)
            self.out.append(f" name={self.number(node.name, scope)}")
        of = node.args
        for default in (*of.defaults, *of.kw_defaults):
            self.out.append(" default ")
            if default is None:
                self.out.append("none")
            else:
                self.value(default, scope, ESCAPES)
        own = self.scopes.of[node]
        self.parameters(node, own)
        self.body(node, own)
        self.out.append(")")

    def parameters(self, node: Function, scope: Scope) -> None:
        """Kinds, names and numbers of parameters."""
        of = node.args
        for kind, some in (
            ("/", of.posonlyargs),
            ("", of.args),
            ("*", [of.vararg] if of.vararg else []),
            ("=", of.kwonlyargs),
            ("**", [of.kwarg] if of.kwarg else []),
        ):
            for one in some:
                self.out.append(f" {kind}{one.arg}:{self.number(one.arg, scope)}")

    def statement(self, node: ast.stmt, scope: Scope) -> None:
        """A statement."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.inner(node, scope)
            case ast.ClassDef():
                raise Unidentified("defines a class while it runs")
            case ast.AnnAssign(target=target, value=value):
                self.out.append("(Assign targets=[")
                self.target(target, scope)
                self.out.append("] value=")
                if value is not None:
                    self.value(value, scope, ESCAPES)
                self.out.append(")")
            case ast.Assign(targets=targets, value=value):
                self.out.append("(Assign targets=[")
                for one in targets:
                    self.target(one, scope)
                self.out.append("] value=")
                self.value(value, scope, ESCAPES)
                self.out.append(")")
            case ast.AugAssign(target=target, op=op, value=value):
                self.out.append(f"(AugAssign {type(op).__name__} ")
                self.target(target, scope)
                if isinstance(target, ast.Name):
                    self.note(target, scope, STORED)
                self.value(value, scope, INSIDE)
                self.out.append(")")
            case ast.Delete(targets=targets):
                self.out.append("(Delete ")
                for one in targets:
                    self.target(one, scope)
                self.out.append(")")
            case ast.Expr(value=value):
                self.out.append("(Expr ")
                self.value(value, scope, KEPT)
                self.out.append(")")
            case ast.Import(names=names):
                self.imports(names, None, scope)
            case ast.ImportFrom(module=module, names=names, level=level):
                self.imports(names, module if module and not level else "", scope)
            case _:
                self.fields(node, scope)

    def imports(self, names: list[ast.alias], of: str | None, scope: Scope) -> None:
        """An import while the function runs: of what has a version."""
        for one in names:
            module = one.name if of is None else of
            found = None if not module or one.name == "*" else module_library(module)
            if found is None or (why := reason_against(module, one.name)):
                raise Unidentified(f"imports {one.name} while it runs" if found is None else f"{why}")
            self.reads |= Reads(everything=True, names=True)
            bound = self.number(one.asname or one.name.partition(".")[0], scope)
            whole = one.name if of is None and one.asname is None else ""
            self.out.append(f"(import {found}: {module}.{'' if of is None else one.name} as {bound} {whole})")

    def fields(self, node: ast.AST, scope: Scope) -> None:
        """Any node: its fields that hold anything."""
        self.out.append(f"({type(node).__name__}")
        for name in node._fields:
            one = getattr(node, name, None)
            if name in _IGNORED or one is None or one == []:
                continue
            self.out.append(f" {name}=")
            if isinstance(one, list) and one and isinstance(one[0], ast.stmt):
                self.block(one, scope)
            elif isinstance(one, list):
                self.out.append("[")
                for each in one:
                    self.field(node, name, each, scope)
                self.out.append("]")
            else:
                self.field(node, name, one, scope)
        self.out.append(")")

    def field(self, node: ast.AST, name: str, one: Any, scope: Scope) -> None:
        """One value in a field of a node."""
        match node, name:
            case (ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar(), "name") | (ast.MatchMapping(), "rest"):
                self.out.append(self.number(one, scope))
            case ast.MatchClass(), "kwd_attrs":
                self.reads |= Reads(frozenset([one]))
                self.out.append(f"{one!r},")
            case (ast.For() | ast.comprehension(), "target") | (ast.withitem(), "optional_vars"):
                self.target(one, scope)
            case (ast.For() | ast.comprehension(), "iter") | (ast.AsyncFor(), "iter"):
                self.value(one, scope, INSIDE)
            case (ast.If() | ast.While() | ast.Assert() | ast.IfExp(), "test") | (ast.comprehension(), "ifs"):
                self.value(one, scope, KEPT)
            case (ast.ExceptHandler(), "type") | (ast.MatchClass(), "cls") | (ast.MatchValue(), "value"):
                self.value(one, scope, KEPT)
            case _, _ if isinstance(one, ast.expr):
                self.value(one, scope, ESCAPES)
            case _, _ if isinstance(one, ast.AST):
                self.fields(one, scope)
            case _:
                self.out.append(f"{one!r},")
