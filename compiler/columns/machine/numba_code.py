"""numba as a compiler: a Python function becomes an object file. Importing this module imports numba.

There is no fastmath, and LLVM fuses no multiplication with an addition by itself, so floats have the bits of Python's. Division
is that of Python, except by zero, which the source has to test.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any, Final

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core.compiler import Flags, compile_extra
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from tracetypes.compiler.columns.machine.code import MachineCode, ObjectCode
from tracetypes.compiler.columns.machine.objects import POWER, define_symbols

__all__ = ["NAMES", "object_code"]


def _overflowing(name: str) -> Any:
    """Addition and the like of 64 bits: the result, and whether it has no room."""

    def over(context: Any, a: Any, b: Any) -> Any:
        def code(inner: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pair = getattr(builder, name)(*arguments)
            return inner.make_tuple(
                builder, signature.return_type, [builder.extract_value(pair, at) for at in range(2)]
            )

        return types.Tuple((types.int64, types.boolean))(types.int64, types.int64), code

    return intrinsic(over)


def _power(context: Any, a: Any, b: Any) -> Any:
    """``pow`` of the C library, as Python calls it: under a name that LLVM does not know, else it writes some powers as other
    functions."""

    def code(inner: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        double = ir.DoubleType()
        function = ir.FunctionType(double, [double, double])
        module = builder.module
        called = module.globals.get(POWER) or ir.Function(module, function, POWER)
        return builder.call(called, arguments)

    return types.float64(types.float64, types.float64), code


def _bits(context: Any, number: Any) -> Any:
    """The bits of a float."""

    def code(inner: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), code


NAMES: Final[dict[str, Any]] = {
    **{name: getattr(types, name) for name in ("int32", "int64", "uint8", "uint32", "uint64", "float64")},
    **{name: getattr(math, name) for name in ("isfinite", "isnan", "sqrt", "floor", "ceil", "copysign")},
    "add_over": _overflowing("sadd_with_overflow"),
    "sub_over": _overflowing("ssub_with_overflow"),
    "mul_over": _overflowing("smul_with_overflow"),
    "power": intrinsic(_power),
    "bits": intrinsic(_bits),
}
"""What source may call. ``add_over(a, b)`` is the sum and whether it overflows; ``power`` is Python's of floats, without its
errors; ``bits(x)`` are those of a float."""


def object_code(code: MachineCode) -> ObjectCode:
    """Raises any error of numba."""
    define_symbols()
    names = dict(NAMES)
    exec(compile(code.source, "<machine code>", "exec"), names)
    flags = Flags()
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"
    typing, target = cpu_target.typing_context, cpu_target.target_context
    typing.refresh()
    target.refresh()
    arguments = tuple(map(_type, code.arguments))
    result = compile_extra(typing, target, names["kernel"], arguments, types.int64, flags, {})
    _, _, (binary, _) = result.library.serialize_using_object_code()
    return ObjectCode(result.fndesc.llvm_func_name, _needs(result.library.get_llvm_str()), bytes(binary))


def _type(argument: str) -> Any:
    kind = getattr(types, argument.removeprefix("const ").removesuffix("*"))
    return types.CPointer(kind) if argument.endswith("*") else kind


def _needs(text: str) -> tuple[str, ...]:
    """The functions that code calls. Raises :class:`ValueError` for one that is not of the C library."""
    module = llvm.parse_assembly(text)
    names = {one.name for one in module.functions if one.is_declaration and not one.name.startswith("llvm.")}
    library = ctypes.CDLL(None)
    for name in names - {POWER}:
        if name.startswith(("Py", "_Py", "NRT_", "numba_")) or not hasattr(library, name):
            raise ValueError(f"machine code would call {name}")
    return tuple(sorted(names))
