"""Which globals the functions of a module change. Whoever reads one of them may see another value for the next item."""

from __future__ import annotations

import ast
import os
import sys
import types
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, final

import attrs

import tracetypes.errors
from tracetypes.compiler.analysis.identity.libraries import is_library_file
from tracetypes.compiler.analysis.identity.scopes import Function, parameters_of
from tracetypes.compiler.analysis.identity.uses import CHANGING_METHODS
from tracetypes.function_source import NoSource, Source, source_of

__all__ = ["Changes"]

_OURS: Final = str(Path(tracetypes.errors.__file__).parent) + os.sep
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@attrs.frozen(eq=False)
class _Changed:
    """Of a module: the names that functions assign, those whose items or attributes they assign, and those of which they call a
    method that changes a container; each with the function."""

    assigned: dict[str, str]
    stored: dict[str, str]
    called: dict[str, str]


@final
class Changes:
    """What functions of modules change, found once for each module."""

    def __init__(self) -> None:
        self._files: dict[str, _Changed] = {}
        self._owners = dict[int, list[tuple[str, str]]]()
        self._of_namespace: dict[int, tuple[dict[str, Any], tuple[str, ...]]] = {}

    def files(self, namespace: dict[str, Any]) -> tuple[str, ...]:
        """The files of a namespace."""
        known = self._of_namespace.get(id(namespace))
        if known is None:
            known = self._of_namespace[id(namespace)] = namespace, _files_of(namespace)
        return known[1]

    def assigns(self, files: Iterable[str], name: str) -> str | None:
        """The function that assigns a global of some files; None if there is none."""
        return next((by for file in files if (by := self._of(file).assigned.get(name)) is not None), None)

    def changes(self, value: Any) -> str | None:
        """The function that changes an object, as far as the modules show that hold it; None if there is none."""
        for file, name in self._globals().get(id(value), ()):
            found = self._of(file)
            by = found.stored.get(name)
            if by is None and isinstance(value, list | dict | set | bytearray):
                by = found.called.get(name)
            if by is not None:
                return by
        return None

    def _globals(self) -> dict[int, list[tuple[str, str]]]:
        """Objects of the author's modules: where each is held."""
        if not self._owners:
            for module in list(sys.modules.values()):
                if not issubclass(type(module), types.ModuleType):  # it may be any object
                    continue
                namespace = vars(module)
                file = namespace.get("__file__")
                if isinstance(file, str) and (is_library_file(file) or file.startswith(_OURS)):
                    continue
                if not isinstance(file, str) and namespace.get("__name__") != "__main__":
                    continue
                files = self.files(namespace)
                for name, value in list(namespace.items()):
                    self._owners.setdefault(id(value), []).extend((file, name) for file in files)
        return self._owners

    def _of(self, file: str) -> _Changed:
        if file not in self._files:
            try:
                source = None if is_library_file(file) else source_of(file)
            except NoSource:
                source = None
            self._files[file] = _NOTHING if source is None else _changed_by(source)
        return self._files[file]


def _files_of(namespace: dict[str, Any]) -> tuple[str, ...]:
    """The file of a module and those of its functions. In a notebook each cell is one."""
    file = namespace.get("__file__")
    named = [file] if isinstance(file, str) else []
    if named and is_library_file(named[0]):
        return ()
    # Some objects raise when they are asked for their class: a proxy, for example.
    functions = [one for one in list(namespace.values()) if type(one) is types.FunctionType]
    own = [one.__code__.co_filename for one in functions if one.__globals__ is namespace]
    return tuple(dict.fromkeys([*named, *own]))


_NOTHING: Final = _Changed({}, {}, {})


@lru_cache(maxsize=256)
def _changed_by(source: Source) -> _Changed:
    """What the functions of a file change."""
    changed = _Changed({}, {}, {})
    _look(source.tree, changed)
    return changed


def _look(tree: ast.AST, changed: _Changed) -> None:
    """Find what the functions of a syntax tree change."""
    pending: list[tuple[ast.AST, str, frozenset[str]]] = [(tree, "", frozenset())]
    while pending:
        node, function, own = pending.pop()
        for one in ast.iter_child_nodes(node):
            if isinstance(one, _FUNCTIONS):
                name = "a lambda" if isinstance(one, ast.Lambda) else f"{one.name}()"
                pending.append((one, name, own | _own(one)))
                continue
            if function:
                _note(one, function, own, changed)
            pending.append((one, function, own))


def _own(node: Function) -> frozenset[str]:
    """The names that are a function's own, those of functions inside of it included."""
    inside = list(ast.walk(node))
    outside = {name for one in inside if isinstance(one, ast.Global) for name in one.names}
    bound = {one.id for one in inside if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return frozenset({one.arg for one in parameters_of(node)} | bound) - outside


def _note(node: ast.AST, function: str, own: frozenset[str], changed: _Changed) -> None:
    match node:
        case ast.Global(names=names):
            for name in names:
                changed.assigned.setdefault(name, function)
        case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
            for name in _root(node, own):
                changed.stored.setdefault(name, function)
        case ast.Call(func=ast.Attribute(value=owner, attr=attr)) if attr in CHANGING_METHODS:
            for name in _root(owner, own):
                changed.called.setdefault(name, function)
        case _:
            pass


def _root(node: ast.AST, own: frozenset[str]) -> Iterator[str]:
    """The global that an expression begins with. Of ``module.name`` it is the name too."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id not in own:
            yield node.attr
        node = node.value
    if isinstance(node, ast.Name) and node.id not in own:
        yield node.id
