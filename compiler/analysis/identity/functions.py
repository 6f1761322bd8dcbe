"""Descriptions of functions. A function of the author is its syntax tree with all that it reaches; a function of a library is its
name and the version."""

from __future__ import annotations

import builtins
import functools
import inspect
import types
from contextlib import suppress
from typing import Any, Final, final

import attrs

from tracetypes.compiler.analysis.identity.code_text import CodeText
from tracetypes.compiler.analysis.identity.description import Description, Reads, Unidentified
from tracetypes.compiler.analysis.identity.expression_text import Outside
from tracetypes.compiler.analysis.identity.libraries import (
    class_library,
    is_library_file,
    library,
    module_library,
    named,
)
from tracetypes.compiler.analysis.identity.machine import reason_against
from tracetypes.compiler.analysis.identity.scopes import Function, parameters_of
from tracetypes.compiler.analysis.identity.uses import CHANGING_METHODS, INSIDE, STORED, Use, depth_of_change
from tracetypes.compiler.analysis.identity.writer import Arguments, Context, Writer
from tracetypes.function_source import NoSource, node_of, source_of
from tracetypes.record_classes import is_generated
from tracetypes.redaction import redact_passwords

__all__ = ["FunctionUses", "describe_arguments", "describe_builtin", "describe_cached", "describe_function", "uses_of"]


@final
@attrs.frozen(eq=False)
class FunctionUses:
    """What a function does with its parameters, by name; with its first parameter itself, and with the attributes of it:
    what it uses, and what it assigns."""

    own: dict[str, Use]
    first: Use
    of_first: dict[str, Use]
    sets: frozenset[str]
    positional: tuple[str, ...]


_LATER: Final = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


def describe_function(function: types.FunctionType, context: Context) -> Description:
    """A function in Python."""
    module = str(function.__globals__.get("__name__", "?"))
    writer = Writer(context)
    found = library(module, function.__code__.co_filename)
    if found is None and is_generated(function):
        raise Unidentified(f"{_name(function)} is generated code")
    if found is not None:
        qualname = function.__code__.co_qualname
        writer.library_object(found, module, qualname)
        # One that the library has made while it ran, as a decorator does, or a lambda.
        if getattr(named(module, qualname), "__code__", None) is not function.__code__:
            writer.out.append(f" at {_place(function.__code__)}")
            for cell in function.__closure__ or ():
                writer.named("cell", _content(cell, "a variable"))
            for one in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
                writer.named("default", one)
        return writer.description()
    try:
        return _author_function(function, writer, context)
    except Unidentified as error:
        text = str(error)
        raise Unidentified(text if text.startswith("the ") else f"the function {_name(function)} {text}") from None
    except RecursionError:
        raise Unidentified(f"the function {_name(function)} is nested too deeply") from None


def _place(code: types.CodeType) -> tuple[int, int]:
    """The line and column where a function begins."""
    try:
        node = node_of(code)
    except NoSource as error:
        raise Unidentified(f"the function {code.co_qualname} {error}") from None
    return node.lineno, node.col_offset


def _name(function: types.FunctionType) -> str:
    return function.__qualname__.rpartition("<locals>.")[2]


def _content(cell: types.CellType, name: str) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        raise Unidentified(f"reads {name}, which has no value yet") from None


def _author_function(function: types.FunctionType, writer: Writer, context: Context) -> Description:
    code = function.__code__
    if code.co_flags & _LATER:
        raise Unidentified("is a coroutine")
    try:
        node = node_of(code)
        source = source_of(code.co_filename)
    except NoSource as error:
        raise Unidentified(str(error)) from None
    if tuple(one.arg for one in _in_order_of_code(node)) != code.co_varnames[: len(parameters_of(node))]:
        raise Unidentified("has a source that cannot be told from another one of its line")
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))

    def outside(name: str, declared: bool) -> Outside:
        if name in cells and not declared:
            if name in source.nonlocal_names and name != "__class__":
                raise Unidentified(f"reads {name}, which a function beside it may change")
            return Outside(name, _content(cells[name], name), None, name)
        if name in function.__globals__:
            return Outside(name, function.__globals__[name], function.__globals__, name)
        if hasattr(builtins, name):
            return Outside(name, getattr(builtins, name), None, name)
        raise Unidentified(f"reads the global {name}, which is not there")

    def write(found: Outside) -> None:
        by = None
        if found.namespace is not None:
            files = context.changes.files(found.namespace)
            own = (code.co_filename,) if found.namespace is function.__globals__ else ()
            by = context.changes.assigns((*own, *files), found.name)
        if by is not None:
            raise Unidentified(f"reads the global {found.label}, which {by} changes")
        if isinstance(found.value, str) and redact_passwords(text := f"{found.name}={found.value!r}") != text:
            writer.out.append(context.secret(text))
        else:
            writer.value(found.value)

    above = function.__qualname__.rpartition(".")[0]
    text = CodeText(node, writer.out, write, outside, is_method=above != "" and not above.endswith("<locals>"))
    if text.scopes.assigned_outside:
        raise Unidentified(f"changes {min(text.scopes.assigned_outside)}, which lies outside of it")
    kind = "generator" if code.co_flags & inspect.CO_GENERATOR else "function"
    writer.out.append(kind)
    text.parameters(node, text.root)
    _defaults(function, node, writer)
    text.body(node, text.root)
    writer.reads |= text.reads
    if "__class__" in cells:
        writer.named("class", _content(cells["__class__"], "__class__"))
    if vars(function) and (by := context.changes.changes(function)) is not None:
        raise Unidentified(f"is changed by {by}")
    for name, one in sorted(vars(function).items()):
        if name not in ("__wrapped__", "__isabstractmethod__"):
            writer.named(f".{name}", one)
    context.uses_of[id(function)] = FunctionUses(
        text.own, text.first_alone, text.of_first, frozenset(text.sets), _positional(node)
    )
    _refuse_changes(function, node, text)
    return writer.description(
        name=f"{function.__module__}.{function.__qualname__} {text.inner_names}",
        docs=f"{function.__doc__} {text.inner_docs}",
        uses=text.of_any,
        assigned=frozenset(text.assigned),
    )


def _in_order_of_code(node: Function) -> list[Any]:
    """Parameters as code has them: ``*args`` and ``**kwargs`` last."""
    of = node.args
    return [*of.posonlyargs, *of.args, *of.kwonlyargs, *([of.vararg] if of.vararg else []), *([of.kwarg] if of.kwarg else [])]


def _positional(node: Function) -> tuple[str, ...]:
    return tuple(one.arg for one in (*node.args.posonlyargs, *node.args.args))


def _defaults(function: types.FunctionType, node: Function, writer: Writer) -> None:
    """The values of defaults, which were made when the function was."""
    names = _positional(node)
    defaults = function.__defaults__ or ()
    given = [*zip(names[len(names) - len(defaults) :], defaults, strict=True), *sorted((function.__kwdefaults__ or {}).items())]
    for name, value in given:
        writer.named(name, value)
        if isinstance(value, type):
            writer.reads |= Reads(types=True)


def _refuse_changes(function: types.FunctionType, node: Function, text: CodeText) -> None:
    """Refuse a function that does anything but read with an object that outlives its calls."""
    for found, use in text.uses.values():
        if use.changes(found.value):
            what = f"{found.label}, a {type(found.value).__name__} that lies outside of it"
            raise Unidentified(f"changes {what}" if use.least == STORED else f"does more than read with {what}")
    names = _positional(node)
    defaults = function.__defaults__ or ()
    given = [*zip(names[len(names) - len(defaults) :], defaults, strict=True), *(function.__kwdefaults__ or {}).items()]
    for name, value in given:
        if depth_of_change(value) and text.own[name].changes(value):
            raise Unidentified(f"does more than read with {name}, whose default is a {type(value).__name__}")


def uses_of(function: Any, context: Context) -> FunctionUses | None:
    """What a function of the author does with its parameters; None if that is not known."""
    while isinstance(function, staticmethod | classmethod):
        function = function.__func__
    if not isinstance(function, types.FunctionType):
        return None
    if id(function) not in context.uses_of:
        with suppress(Unidentified):
            describe_function(function, context)
    found: FunctionUses | None = context.uses_of.get(id(function))
    return found


def describe_arguments(arguments: Arguments, context: Context) -> Description:
    """The arguments of a partial that can change, of which the function may only read."""
    partial = arguments.of
    uses = uses_of(partial.func, context)
    given: list[tuple[str, Any]] = []
    if uses is not None and len(partial.args) <= len(uses.positional):
        given = [*zip(uses.positional, partial.args, strict=False), *partial.keywords.items()]
    if uses is None or not given or any(name not in uses.own or uses.own[name].changes(value) for name, value in given):
        raise Unidentified("a partial hands its function something that can change")
    return Writer(context).description()


def describe_cached(function: Any, context: Context) -> Description:
    """A function behind ``functools.lru_cache``: what is remembered is what the function returns."""
    writer = Writer(context)
    writer.out.append("cached")
    parameters = function.cache_parameters()
    writer.out.append(f" typed={parameters['typed']}")
    writer.named("function", function.__wrapped__)
    return writer.description(name=f"{function.__module__}.{function.__qualname__}")


def describe_builtin(function: Any, context: Context) -> Description:
    """A function in C: of a module, of a class, or bound to a value."""
    writer = Writer(context)
    owner = getattr(function, "__self__", None)
    name = getattr(function, "__name__", "?")
    if owner is None or isinstance(owner, types.ModuleType):
        objclass = getattr(function, "__objclass__", None)
        if objclass is not None:
            writer.out.append("method ")
            writer.type(objclass)
            writer.out.append(f".{name}")
            return writer.description()
        module = function.__module__ or (owner.__name__ if isinstance(owner, types.ModuleType) else None)
        if not isinstance(module, str):
            raise Unidentified(f"the function {name} belongs to no module")
        found = module_library(module)
        if found is None:
            raise Unidentified(f"the function {name} is written in C and has no version")
        writer.library_object(found, module, function.__qualname__)
        return writer.description()
    if isinstance(owner, type):
        if class_library(owner) is not None and (why := reason_against(owner.__module__, name)):
            raise Unidentified(why)
        writer.out.append("method ")
        writer.type(owner)
        writer.out.append(f".{name}")
        return writer.description()
    if depth_of_change(owner) and (name in CHANGING_METHODS or depth_of_change(owner) > INSIDE):
        raise Unidentified(f"{name} of a {type(owner).__name__} may change it")
    writer.out.append(f"bound {name}")
    writer.named("of", owner)
    return writer.description()


def is_library_function(function: Any) -> bool:
    """Whether a member of a class is code of a library."""
    while isinstance(function, staticmethod | classmethod | functools.cached_property | property):
        function = getattr(function, "__func__", None) or getattr(function, "fget", None) or getattr(function, "func", None)
    code = getattr(function, "__code__", None)
    return code is not None and is_library_file(code.co_filename)
