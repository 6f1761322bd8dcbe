"""Object files in memory, by LLVM alone: importing this module does not import numba, which costs ten times as much."""

from __future__ import annotations

import ctypes
import os
from typing import Final

import llvmlite.binding as llvm

from tracetypes.compiler.columns.machine.code import MachineFunction, ObjectCode

__all__ = ["POWER", "define_symbols", "load", "processor"]

POWER: Final = "tracetypes_pow"


def processor() -> tuple[str, ...]:
    """For which processor code is compiled: its name, its features, and what the environment says of it."""
    said = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("NUMBA_")]
    return llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), *said


def define_symbols() -> None:
    """Define the functions that only our code calls."""
    address = ctypes.cast(ctypes.CDLL(None).pow, ctypes.c_void_p).value
    llvm.add_symbol(POWER, address)


def load(arguments: tuple[str, ...], object_code: ObjectCode) -> MachineFunction:
    """Raises :class:`ValueError` or :class:`RuntimeError` for code that this process cannot run."""
    define_symbols()
    for name in object_code.needs:  # LLVM ends the process where one is missing
        if not llvm.address_of_symbol(name):
            raise ValueError(f"{name} is not there")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(object_code.code))
    engine.finalize_object()
    address = engine.get_function_address(object_code.symbol)
    if not address:
        raise ValueError(f"{object_code.symbol} is not there")
    return MachineFunction(arguments, address, engine)
