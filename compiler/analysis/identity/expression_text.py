"""The expressions of a function as a text, and what they do with values from outside of it."""

from __future__ import annotations

import ast
import types
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, final

import attrs

from tracetypes.compiler.analysis.identity.description import NOTHING, Reads, Unidentified, refuse
from tracetypes.compiler.analysis.identity.libraries import library
from tracetypes.compiler.analysis.identity.machine import (
    HOLDING_CLASSES,
    NAMING,
    READING_BY_NAME,
    SETTING,
    SHOWING,
    SHOWING_CODE,
    is_pure,
    reason_against,
)
from tracetypes.compiler.analysis.identity.scopes import (
    Comprehension,
    Function,
    Scope,
    Scopes,
    Variable,
    is_path,
    names_a_class,
    parameters_of,
)
from tracetypes.compiler.analysis.identity.uses import (
    CHANGING_METHODS,
    ESCAPES,
    INSIDE,
    KEPT,
    READING_METHODS,
    STORED,
    Use,
    steps_of_method,
)

__all__ = ["ExpressionText", "Outside"]


@final
@attrs.frozen
class Outside:
    """A name from outside of a function: what it stands for, as the code says it, and the module that has it as a global."""

    label: str
    value: Any
    namespace: dict[str, Any] | None
    name: str


class ExpressionText(ABC):
    """Writes expressions. ``out``: the text so far. ``write``: writes a value. ``outside``: what a name from outside is
    (``declared``: as a global). ``uses``: what the code does with values from outside, by label; ``own``: with its parameters;
    ``of_first``: with attributes of its first parameter."""

    def __init__(
        self,
        function: Function,
        out: list[str],
        write: Callable[[Outside], None],
        outside: Callable[[str, bool], Outside],
        *,
        is_method: bool,
    ) -> None:
        self.out, self.write, self.outside = out, write, outside
        self.scopes = Scopes(function)
        self.root = self.scopes.of[function]
        self.reads, self.inner_names, self.inner_docs = NOTHING, list[str](), list[str]()
        self.uses: dict[str, tuple[Outside, Use]] = {}
        self.own: dict[str, Use] = {one.arg: Use() for one in parameters_of(function)}
        self.of_first: dict[str, Use] = {}
        self.first_alone = Use()
        self.of_any: dict[str, int] = {}
        self.assigned: set[str] = set()
        self.sets: set[str] = set()
        """Attributes of the first parameter that it assigns."""
        positional = [*function.args.posonlyargs, *function.args.args]
        self.first = self.root.bound[positional[0].arg] if positional else None
        self.is_method = is_method
        self.in_constructor = getattr(function, "name", "") in ("__init__", "__new__", "__post_init__", "__attrs_post_init__")
        self._numbers: dict[Variable, int] = {}

    @abstractmethod
    def inner(self, node: Function, scope: Scope) -> None:
        """A function inside of the function."""

    @abstractmethod
    def fields(self, node: ast.AST, scope: Scope) -> None:
        """Any node: its fields that hold anything."""

    def number(self, name: str, scope: Scope) -> str:
        """The number of a variable of the function; variables are numbered as they come."""
        variable = scope.variable(name)
        if variable is None:
            raise Unidentified(f"assigns {name}, which lies outside of it")
        return f"#{self._numbers.setdefault(variable, len(self._numbers))}"

    def target(self, node: ast.expr, scope: Scope) -> None:
        """What is assigned to, or deleted."""
        match node:
            case ast.Name(id=name):
                self.out.append(f"{self.number(name, scope)} ")
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                self.out.append("(")
                for one in elts:
                    self.target(one, scope)
                self.out.append(")")
            case ast.Starred(value=value):
                self.out.append("*")
                self.target(value, scope)
            case ast.Attribute(value=value, attr=attr):
                if isinstance(value, ast.Name) and self.is_first(value, scope) and self.is_method:
                    self.sets.add(attr)
                elif names_a_class(value):
                    raise Unidentified(f"assigns {attr} of a class")
                else:
                    self.assigned.add(attr)
                self.out.append(f"(Attribute {attr} ")
                self.value(value, scope, STORED)
                self.out.append(")")
            case ast.Subscript(value=value, slice=index):
                self.out.append("(Subscript ")
                self.value(value, scope, STORED)
                self.value(index, scope, ESCAPES)
                self.out.append(")")
            case _:
                self.value(node, scope, STORED)

    def value(self, node: ast.expr, scope: Scope, use: int, *, method: bool = False) -> None:
        """An expression. ``use``: what becomes of its value (:mod:`.uses`)."""
        found = self.from_outside(node, scope)
        if found is not None:
            self.read_outside(found, use, method=method)
            return
        match node:
            case ast.Name(id=name):
                self.note(node, scope, use, method=method)
                self.out.append(f"{self.number(name, scope)} ")
            case ast.Constant(value=value):
                self.constant(value)
            case ast.JoinedStr():
                self.formatted(node, scope)
            case ast.Lambda():
                self.inner(node, scope)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self.comprehension(node, scope)
            case ast.Attribute(value=value, attr=attr):
                self.attribute(attr)
                self.of_any[attr] = min(use, self.of_any.get(attr, KEPT))
                self.out.append(f"(Attribute {attr} ")
                if isinstance(value, ast.Name) and self.is_first(value, scope):
                    self.of_first.setdefault(attr, Use()).add(use, method=method)
                    self.own[value.id].add(use if use == STORED else min(use + 1, KEPT))
                    self.out.append(f"{self.number(value.id, scope)} ")
                elif attr in CHANGING_METHODS or use == STORED:
                    self.value(value, scope, STORED)
                else:
                    steps = INSIDE if attr in READING_METHODS else min(use + 1, KEPT)
                    owner = self.from_outside(value, scope)
                    if owner is not None:
                        self.read_outside(owner, steps, of_attribute=True)
                    else:
                        self.value(value, scope, steps)
                self.out.append(")")
            case ast.Subscript(value=value, slice=index):
                self.out.append("(Subscript ")
                inside = max(use, INSIDE) if isinstance(index, ast.Slice) else min(use + 1, KEPT)
                self.value(value, scope, use if use == STORED else inside)
                self.value(index, scope, ESCAPES)
                self.out.append(")")
            case ast.Call():
                self.call(node, scope, use)
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                self.out.append("(Compare ")
                self.value(left, scope, KEPT)
                for op, one in zip(ops, comparators, strict=True):
                    self.out.append(f"{type(op).__name__} ")
                    self.value(one, scope, KEPT)
                self.out.append(")")
            case ast.BoolOp(op=op, values=values):
                self.out.append(f"({type(op).__name__} ")
                for one in values:
                    self.value(one, scope, use)
                self.out.append(")")
            case ast.UnaryOp(op=op, operand=operand):
                self.out.append(f"({type(op).__name__} ")
                self.value(operand, scope, KEPT)
                self.out.append(")")
            case ast.BinOp(left=left, op=op, right=right):
                if isinstance(op, ast.Mod) and not (isinstance(right, ast.Constant) and isinstance(right.value, int | float)):
                    self.reads |= Reads(shown=True)
                self.out.append(f"({type(op).__name__} ")
                self.value(left, scope, INSIDE)
                self.value(right, scope, INSIDE)
                self.out.append(")")
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self.out.append("(IfExp ")
                self.value(test, scope, KEPT)
                self.value(body, scope, use)
                self.value(orelse, scope, use)
                self.out.append(")")
            case ast.NamedExpr(target=target, value=value):
                self.out.append("(NamedExpr ")
                self.target(target, scope)
                self.value(value, scope, ESCAPES)
                self.out.append(")")
            case ast.Starred(value=value):
                self.out.append("(Starred ")
                self.value(value, scope, INSIDE)
                self.out.append(")")
            case ast.Tuple(elts=elts) if use == KEPT:
                self.out.append("(Tuple ")
                for one in elts:
                    self.value(one, scope, KEPT)
                self.out.append(")")
            case ast.Dict(keys=keys, values=values):
                self.out.append("(Dict ")
                for key, one in zip(keys, values, strict=True):
                    if key is None:
                        self.out.append("** ")
                    else:
                        self.value(key, scope, ESCAPES)
                    self.value(one, scope, INSIDE if key is None else ESCAPES)
                self.out.append(")")
            case ast.Await():
                raise Unidentified("is a coroutine")
            case _:
                self.fields(node, scope)

    def call(self, node: ast.Call, scope: Scope, use: int) -> None:
        """A call: of a function whose arguments it only reads, of a method, or of anything."""
        self.out.append("(Call ")
        called = self.from_outside(node.func, scope)
        known = called is not None and is_pure(called.value)
        if called is not None and (called.value is getattr or called.value is hasattr):
            dynamic = len(node.args) < 2 or not isinstance(node.args[1], ast.Constant)
            self.reads |= Reads(everything=dynamic, names=dynamic)
        if called is None and isinstance(node.func, ast.Attribute):
            attr = node.func.attr
            if attr in ("format", "format_map"):
                self.reads |= Reads(shown=True)
            owner = self.from_outside(node.func.value, scope)
            if owner is not None and isinstance(owner.value, type) and (why := reason_against(owner.value.__module__, attr)):
                raise Unidentified(why)
            if attr in CHANGING_METHODS:
                if attr in SETTING and not self.in_constructor:
                    raise Unidentified(f"sets attributes by {attr}")
                steps = STORED
                if owner is not None and isinstance(owner.value, type | types.ModuleType):
                    steps = KEPT  # a function of a class: object.__setattr__, list.sort
                    known = False
            else:
                steps = steps_of_method(attr, use)
            self.attribute(attr)
            self.out.append(f"(Attribute {attr} ")
            value = node.func.value
            unknown = attr not in READING_METHODS and attr not in CHANGING_METHODS
            if isinstance(value, ast.Name) and self.is_first(value, scope):
                # If it is a method of the class, what it does is looked at there.
                self.of_first.setdefault(attr, Use()).add(KEPT)
                self.own[value.id].add(KEPT if unknown else steps, method=unknown)
                self.out.append(f"{self.number(value.id, scope)} ")
            elif unknown and not isinstance(value, ast.Call):
                self.value(value, scope, KEPT if is_path(value) else ESCAPES, method=True)
            else:
                self.value(value, scope, steps)
            self.out.append(")")
        else:
            self.value(node.func, scope, KEPT)
        asks = called is not None and (called.value is isinstance or called.value is issubclass)
        for argument in node.args:
            self.value(argument, scope, KEPT if asks else INSIDE if known else ESCAPES)
        for keyword in node.keywords:
            self.out.append(f" {keyword.arg or '**'}=")
            self.value(keyword.value, scope, INSIDE if known or keyword.arg is None else ESCAPES)
        self.out.append(")")

    def attribute(self, name: str) -> None:
        """An attribute that is read."""
        if name in SHOWING_CODE:
            raise Unidentified(f"reads {name}")
        dynamic = name in READING_BY_NAME
        self.reads |= Reads(
            frozenset([name]), dynamic, dynamic or name in NAMING, types=name in HOLDING_CLASSES, docs=name == "__doc__"
        )

    def constant(self, value: Any) -> None:
        """A constant of the code. A text may be the name of an attribute."""
        if isinstance(value, str):
            parts = value.split(".")
            if all(part.isidentifier() for part in parts):
                self.reads |= Reads(frozenset(parts), names=not NAMING.isdisjoint(parts), docs="__doc__" in parts)
        self.out.append(f"{value!r} ")

    def formatted(self, node: ast.JoinedStr, scope: Scope) -> None:
        """A text with values in it. Neighbouring constants are one, which versions of Python see differently."""
        self.out.append("(JoinedStr ")
        text = ""
        for one in node.values:
            if isinstance(one, ast.Constant):
                text += str(one.value)
                continue
            self.out.append(f"{text!r} ")
            text = ""
            if isinstance(one, ast.FormattedValue):
                if one.format_spec is None or one.conversion != -1:
                    self.reads |= Reads(shown=True)
                self.value(one.value, scope, INSIDE)
                self.out.append(f"!{one.conversion} ")
                if isinstance(one.format_spec, ast.JoinedStr):
                    self.formatted(one.format_spec, scope)
        self.out.append(f"{text!r})")

    def comprehension(self, node: Comprehension, scope: Scope) -> None:
        """A comprehension. Its first iterable belongs to the scope around it."""
        inner = self.scopes.of[node]
        self.out.append(f"({type(node).__name__} ")
        for at, generator in enumerate(node.generators):
            self.out.append(f"for{'' if not generator.is_async else ' async'} ")
            self.target(generator.target, inner)
            self.value(generator.iter, inner if at else scope, INSIDE)
            for one in generator.ifs:
                self.out.append("if ")
                self.value(one, inner, KEPT)
        for one in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self.value(one, inner, ESCAPES)
        self.out.append(")")

    # --------------------------------------------------------------------------------------------------- outside

    def is_first(self, node: ast.Name, scope: Scope) -> bool:
        """Whether a name is the first parameter: the instance, in a method."""
        return self.first is not None and scope.variable(node.id) is self.first

    def note(self, node: ast.Name, scope: Scope, use: int, *, method: bool = False) -> None:
        """What becomes of a parameter."""
        variable = scope.variable(node.id)
        if variable is not None and self.root.bound.get(node.id) is variable and node.id in self.own:
            self.own[node.id].add(use, method=method)
            if variable is self.first:
                self.first_alone.add(use)

    def from_outside(self, node: ast.expr, scope: Scope) -> Outside | None:
        """What a name means that is not the function's own, or an attribute of a module. None for any other expression."""
        if isinstance(node, ast.Name):
            if scope.variable(node.id) is not None:
                return None
            if node.id.startswith("__") and not node.id.endswith("__"):
                raise Unidentified(f"reads {node.id}, which has another name inside of a class")
            return self.outside(node.id, scope.is_global(node.id))
        if isinstance(node, ast.Attribute):
            of = self.from_outside(node.value, scope)
            if of is None or not isinstance(of.value, types.ModuleType):
                return None
            label, name = f"{of.label}.{node.attr}", node.attr
            if not hasattr(of.value, name):
                raise Unidentified(f"reads {label}, which is not there")
            return Outside(label, getattr(of.value, name), vars(of.value), name)
        return None

    def read_outside(self, found: Outside, use: int, *, method: bool = False, of_attribute: bool = False) -> None:
        """A value from outside. ``of_attribute``: only an attribute of it is read."""
        value = found.value
        if isinstance(value, ast.AST):
            raise Unidentified(f"reads {found.label}, a syntax tree")
        if isinstance(value, types.ModuleType):
            where = library(value.__name__, getattr(value, "__file__", None))
            if where is None:
                raise Unidentified(f"uses the module {found.label} as a value")
            if why := reason_against(value.__name__, ""):
                raise Unidentified(why)
            self.reads |= Reads(everything=True, names=True)
            self.out.append(f"module {value.__name__} of {where} ")
            return
        if any(value is one for one in SHOWING):
            self.reads |= Reads(shown=True)
        if value is type:
            self.reads |= Reads(types=True)
        if (value is getattr or value is hasattr) and use < KEPT:
            self.reads |= Reads(everything=True, names=True)
        if value is setattr or value is delattr:
            if not self.in_constructor:
                raise Unidentified(f"sets attributes by {found.label}")
        elif isinstance(value, types.BuiltinFunctionType) and value.__module__ == "builtins":
            refuse(reason_against("builtins", value.__name__))
        if isinstance(value, type) and use < KEPT and not of_attribute:
            self.reads |= Reads(types=True)
        _, uses = self.uses.setdefault(found.label, (found, Use()))
        uses.add(use, method=method)
        self.write(found)
        self.out.append(" ")
