"""The source of a function, as the node of a syntax tree that it was compiled from."""

from __future__ import annotations
import __future__

import ast
import dis
import linecache
import types
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

__all__ = ["FUTURE", "NoSource", "Source", "node_of", "source_of"]

FUTURE: Final = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


class NoSource(Exception):
    """The function cannot be rewritten; the text says why, without its subject. ``line``: of the function, where it is
    one line that is to blame."""

    def __init__(self, why: str, line: int | None = None) -> None:
        super().__init__(why)
        self.line = line


class Source:
    """The functions of a file: ``functions`` by their name and first line, ``lambdas`` by their first line, outer ones first.
    ``nonlocal_names``: all that a function declares ``nonlocal``."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text = file, text
        self.tree = ast.parse(text, file)
        self.functions: dict[tuple[str, int], ast.FunctionDef] = {}
        self.lambdas: dict[int, list[ast.Lambda]] = {}
        self.nonlocal_names: set[str] = set()
        self._codes: dict[int, frozenset[types.CodeType]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                self.functions[node.name, first] = node
            elif isinstance(node, ast.Lambda):
                self.lambdas.setdefault(node.lineno, []).append(node)
            elif isinstance(node, ast.Nonlocal):
                self.nonlocal_names.update(node.names)

    def codes(self, flags: int) -> frozenset[types.CodeType]:
        """All code that the text compiles to."""
        if flags not in self._codes:
            codes: set[types.CodeType] = set()
            pending = [compile(self.text, self.file, "exec", flags=flags, dont_inherit=True)]
            while pending:
                at = pending.pop()
                codes.add(at)
                pending.extend(const for const in at.co_consts if isinstance(const, types.CodeType))
            self._codes[flags] = frozenset(codes)
        return self._codes[flags]


_sources: Final = OrderedDict[str, tuple[list[str], Source]]()
"""The last files that were looked at. Lines that are read again are another list."""

_MOST: Final = 256


def source_of(file: str) -> Source:
    """The source of a file. Raises :class:`NoSource` where there is none."""
    lines = linecache.getlines(file)
    known = _sources.get(file)
    if known is None or known[0] is not lines:
        if not lines:
            raise NoSource("has a source that is not there")
        try:
            known = lines, Source(file, "".join(lines))
        except (SyntaxError, ValueError) as error:
            raise NoSource("has a source that is not there") from error
        _sources[file] = known
        if len(_sources) > _MOST:
            _sources.popitem(last=False)
    return known[1]


def node_of(code: types.CodeType) -> ast.FunctionDef | ast.Lambda:
    """The node that the code was compiled from."""
    source = source_of(code.co_filename)
    if code not in source.codes(code.co_flags & FUTURE):
        if code.co_filename == "<string>":  # eval, exec and python -c all call their text so
            raise NoSource("has a source that is not there")
        raise NoSource("has a source that has changed since it was imported")
    if code.co_name == "<lambda>":
        return _find_lambda(source.lambdas.get(code.co_firstlineno, ()), code)
    node = source.functions.get((code.co_name, code.co_firstlineno))
    if node is None:
        raise NoSource("is no plain function")
    return node


def _find_lambda(lambdas: Sequence[ast.Lambda], code: types.CodeType) -> ast.Lambda:
    """The lambda of that line; of several the smallest one whose body spans all instructions."""
    if len(lambdas) == 1:
        return lambdas[0]
    spans = [
        (line, column, end_line, end_column)
        for line, end_line, column, end_column in code.co_positions()
        if line is not None and end_line is not None and column is not None and end_column is not None
        if (line, column) != (end_line, end_column)
    ]
    if not spans:
        constant = [node for node in lambdas if all(isinstance(one, _IN_CONSTANTS) for one in ast.walk(node.body))]
        if len(constant) == 1 and {one.opname for one in dis.get_instructions(code)} <= _RETURN_CONSTANT:
            return constant[0]  # in Python 3.12 a constant body has no place
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


_IN_CONSTANTS: Final = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.Tuple, ast.operator, ast.unaryop, ast.expr_context)
"""The nodes of expressions that the compiler may replace by a constant."""

_RETURN_CONSTANT: Final = frozenset(["RESUME", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST", "NOP", "CACHE"])


def _start(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0
