"""The source of a function, as the node of a syntax tree that it was compiled from."""

from __future__ import annotations
import __future__

import ast
import linecache
import types
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

__all__ = ["FUTURE", "NoSource", "node_of"]

FUTURE: Final = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


class NoSource(Exception):
    """The function cannot be rewritten; the text says why, without its subject. ``line``: of the function, where it is
    one line that is to blame."""

    def __init__(self, why: str, line: int | None = None) -> None:
        super().__init__(why)
        self.line = line


@lru_cache(maxsize=256)
def _functions(file: str, text: str) -> tuple[list[ast.FunctionDef], list[ast.Lambda]]:
    """All functions and lambdas in the text, outer ones before those inside of them."""
    try:
        nodes = list(ast.walk(ast.parse(text, file)))
    except SyntaxError as error:
        raise NoSource("has a source that is not there") from error
    return [n for n in nodes if isinstance(n, ast.FunctionDef)], [n for n in nodes if isinstance(n, ast.Lambda)]


@lru_cache(maxsize=256)
def _codes(file: str, text: str, flags: int) -> frozenset[types.CodeType]:
    """All code that the text compiles to."""
    codes: set[types.CodeType] = set()
    pending = [compile(text, file, "exec", flags=flags, dont_inherit=True)]
    while pending:
        at = pending.pop()
        codes.add(at)
        pending.extend(const for const in at.co_consts if isinstance(const, types.CodeType))
    return frozenset(codes)


def node_of(code: types.CodeType) -> ast.FunctionDef | ast.Lambda:
    """The node that the code was compiled from."""
    text = "".join(linecache.getlines(code.co_filename))
    if not text:
        raise NoSource("has a source that is not there")
    functions, lambdas = _functions(code.co_filename, text)
    if code not in _codes(code.co_filename, text, code.co_flags & FUTURE):
        raise NoSource("has a source that has changed since it was imported")
    if code.co_name == "<lambda>":
        return _find_lambda(lambdas, code)
    for node in functions:
        if node.name == code.co_name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first == code.co_firstlineno:
                return node
    raise NoSource("is no plain function")


def _find_lambda(lambdas: Sequence[ast.Lambda], code: types.CodeType) -> ast.Lambda:
    """The smallest lambda whose body spans all instructions."""
    spans = [
        (line, column, end_line, end_column)
        for line, end_line, column, end_column in code.co_positions()
        if line is not None and end_line is not None and column is not None and end_column is not None
        if (line, column) != (end_line, end_column)
    ]
    if not spans:
        raise NoSource("has no known place in its source")
    start = min((line, column) for line, column, _, _ in spans)
    end = max((line, column) for _, _, line, column in spans)
    best: ast.Lambda | None = None
    for node in lambdas:
        if _start(node.body) <= start and end <= _end(node.body):
            best = node if best is None or _start(best.body) <= _start(node.body) else best
    if best is None:
        raise NoSource("has a source that is not there")
    return best


def _start(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0
