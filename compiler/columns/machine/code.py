"""A function of numbers and columns as source text, and as machine code.

The source is a Python function named ``kernel``. Its arguments are numbers, and columns as pointers to their first values. These
have no length and no negative index, so the code itself stays within them. Its result is an integer. It may call the ``NAMES`` of
:mod:`tracetypes.compiler.columns.machine.numba_code`. It must not raise: it tests divisors itself. A call does not hold the GIL.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
from collections.abc import Callable
from typing import Any, Final, final

import attrs
import numpy as np

__all__ = ["SUGGESTION", "MachineCode", "MachineFunction", "ObjectCode", "available"]

SUGGESTION: Final = "pip install 'tracetypes[fast]'"
"""What makes machine code available."""

_ARGUMENT: Final = re.compile(r"(?:(?:const )?(?:u?int(?:8|16|32|64)|float64)\*|u?int64|float64)")


def available() -> bool:
    """Whether numba is installed. It is not imported."""
    return all(importlib.util.find_spec(name) is not None for name in ("numba", "llvmlite"))


def _known(code: MachineCode, field: Any, arguments: tuple[str, ...]) -> None:
    if wrong := [one for one in arguments if not _ARGUMENT.fullmatch(one)]:
        raise ValueError(f"no type of machine code: {wrong[0]!r}")


@attrs.frozen
class MachineCode:
    """``source``: of a function ``kernel``. ``arguments``: the types of its arguments: ``int64``, ``uint64`` and ``float64``;
    ``int64*`` and so on for columns that it writes, ``const int64*`` for those that it only reads. A column of truth values is
    one of ``uint8``."""

    source: str
    arguments: tuple[str, ...] = attrs.field(validator=_known)


@attrs.frozen
class ObjectCode:
    """What a compiler made. ``symbol``: the name of the function; ``needs``: the names of the functions that it calls;
    ``code``: an object file."""

    symbol: str
    needs: tuple[str, ...]
    code: bytes


@final
class MachineFunction:
    """A function that is machine code. ``address``: where it is; ``owner``: keeps it there."""

    def __init__(self, arguments: tuple[str, ...], address: int, owner: object) -> None:
        self._owner = owner
        self._passes = [_passed(one) for one in arguments]
        kinds = [_C_TYPES.get(one, ctypes.c_void_p) for one in arguments]
        # numba's own convention: a status, the place of the result, the place of an error, the arguments.
        self._function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *kinds)(address)

    def __call__(self, *arguments: Any) -> int:
        """Raises :class:`TypeError` for a column of another type, or one that does not lie in one piece."""
        result, error = ctypes.c_int64(), ctypes.c_void_p()
        values = [take(one) for take, one in zip(self._passes, arguments, strict=True)]
        if self._function(ctypes.byref(result), ctypes.byref(error), *values):
            raise RuntimeError("machine code raises an error")
        return result.value


_C_TYPES: Final[dict[str, Any]] = {"int64": ctypes.c_int64, "uint64": ctypes.c_uint64, "float64": ctypes.c_double}


def _passed(argument: str) -> Callable[[Any], Any]:
    """What makes a value of C of an argument."""
    if not argument.endswith("*"):
        return float if argument == "float64" else int
    dtype, reads = np.dtype(argument.removeprefix("const ")[:-1]), argument.startswith("const ")

    def address(column: Any) -> int:
        flags = column.flags
        if column.dtype != dtype or not flags.c_contiguous or not (reads or flags.writeable):
            raise TypeError(f"a column of {column.dtype} is no {argument}")
        place: int = column.__array_interface__["data"][0]
        return place

    return address
