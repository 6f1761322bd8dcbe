"""numba as a compiler: a Python function becomes an object file. Importing this module imports numba.

There is no fastmath, and LLVM fuses no multiplication with an addition by itself, so floats have the bits of Python's. Division
is that of Python, except by zero, which the source has to test.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
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


def _of_builder(result: Any, arguments: tuple[Any, ...], write: Callable[..., Any]) -> Any:
    """A function of one instruction of LLVM. ``write(builder, *arguments)``."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return write(builder, *values)

    signature = result(*arguments)
    parameters = ", ".join(f"a{at}" for at in range(len(arguments)))
    scope: dict[str, Any] = {}
    exec(
        f"def typed(context, {parameters}):\n    return signature, code", {"signature": signature, "code": code}, scope
    )
    return intrinsic(scope["typed"])


def _load(builder: Any, column: Any, place: Any) -> Any:
    pointer = builder.bitcast(builder.gep(column, [place]), ir.IntType(64).as_pointer())
    return builder.load(pointer, align=1)


def _store(builder: Any, column: Any, place: Any, value: Any) -> Any:
    pointer = builder.bitcast(builder.gep(column, [place]), ir.IntType(64).as_pointer())
    builder.store(value, pointer, align=1)
    return ir.Constant(ir.IntType(64), 0)


def _high(builder: Any, a: Any, b: Any) -> Any:
    wide = ir.IntType(128)
    product = builder.mul(builder.zext(a, wide), builder.zext(b, wide))
    return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))


NAMES: Final[dict[str, Any]] = {
    **{name: getattr(types, name) for name in ("int32", "int64", "uint8", "uint32", "uint64", "float64")},
    **{name: getattr(math, name) for name in ("isfinite", "isnan", "sqrt", "floor", "ceil", "copysign")},
    "add_over": _overflowing("sadd_with_overflow"),
    "sub_over": _overflowing("ssub_with_overflow"),
    "mul_over": _overflowing("smul_with_overflow"),
    "power": intrinsic(_power),
    "bits": _of_builder(types.int64, (types.float64,), lambda builder, x: builder.bitcast(x, ir.IntType(64))),
    "of_bits": _of_builder(types.float64, (types.uint64,), lambda builder, x: builder.bitcast(x, ir.DoubleType())),
    "load64": _of_builder(types.uint64, (types.CPointer(types.uint8), types.int64), _load),
    "store64": _of_builder(types.int64, (types.CPointer(types.uint8), types.int64, types.uint64), _store),
    "multiply_high": _of_builder(types.uint64, (types.uint64, types.uint64), _high),
    "leading_zeros": _of_builder(
        types.int64, (types.uint64,), lambda builder, x: builder.ctlz(x, ir.Constant(ir.IntType(1), 0))
    ),
    "trailing_zeros": _of_builder(
        types.int64, (types.uint64,), lambda builder, x: builder.cttz(x, ir.Constant(ir.IntType(1), 0))
    ),
}
"""What source may call. ``add_over(a, b)`` is the sum and whether it overflows; ``power`` is Python's of floats, without its
errors; ``bits(x)`` are those of a float, and ``of_bits`` the inverse. ``load64(column, at)`` and ``store64(column, at, value)``
are eight bytes of a column of ``uint8``; ``multiply_high`` are the upper 64 bits of a product."""


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
