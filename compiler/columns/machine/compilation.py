"""Machine code that is made in the background, once for each source text in a process.

A thread loads numba and compiles. Meanwhile whoever wants the code works without it. Whatever goes wrong there only means that
there is no machine code. The thread ends with the process, in the middle of its work if need be.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import threading
from importlib.metadata import version
from typing import Final, final

from tracetypes.compiler.columns.machine.cache import CodeCache, directory
from tracetypes.compiler.columns.machine.code import MachineCode, MachineFunction, ObjectCode, available
from tracetypes.version import VERSION

__all__ = ["Compilation", "compilation", "compiled"]

_FORMAT: Final = "1"
"""Of the cache."""

_PATIENCE: Final = 10.0
"""Seconds that the end of a process waits for LLVM, which does not stop half way."""


def compiled(code: MachineCode, cache: CodeCache | None = None) -> MachineFunction:
    """The function, from the cache or compiled here and now. Raises any error of numba and LLVM."""
    from tracetypes.compiler.columns.machine.objects import load

    cache = CodeCache(directory()) if cache is None else cache
    if (function := _kept(code, cache)) is not None:
        return function
    with cache.alone():
        if (function := _kept(code, cache)) is not None:  # of a process that was faster
            return function
        made = _object_code(code)
        cache.put(_name(code), made)
    return load(code.arguments, made)


def _name(code: MachineCode) -> str:
    """The name of code for this processor and these versions in a cache."""
    from tracetypes.compiler.columns.machine.objects import processor

    versions = (platform.python_version(), version("numba"), version("llvmlite"), VERSION, _FORMAT)
    return CodeCache.name([code.source, *code.arguments, *versions, *processor()])


def _kept(code: MachineCode, cache: CodeCache) -> MachineFunction | None:
    """The function from the cache, if it can be used."""
    return _loaded(code, cache.get(_name(code)))


def _loaded(code: MachineCode, kept: ObjectCode | None) -> MachineFunction | None:
    """The function of code that was kept, if this process can run it."""
    from tracetypes.compiler.columns.machine.objects import load

    if kept is None:
        return None
    try:
        return load(code.arguments, kept)
    except (RuntimeError, ValueError):
        return None


def _object_code(code: MachineCode) -> ObjectCode:
    from tracetypes.compiler.columns.machine.numba_code import object_code

    return object_code(code)


@final
class Compilation:
    """The machine code of one source text. ``problem``: why there is none, once that is known."""

    def __init__(self, code: MachineCode) -> None:
        self.code = code
        self.problem: str | None = None if available() else "numba is not installed"
        self._function: MachineFunction | None = None
        self._thread: threading.Thread | None = None
        self._effort = 0
        self._lock = threading.Lock()

    def start(self, *, only_kept: bool = False) -> None:
        """Begin, if that has not been done. Returns at once. ``only_kept``: look for code in the cache, and compile nothing."""
        effort = 1 if only_kept else 2
        if self._effort >= effort or self._function is not None:
            return
        with self._lock:
            if self._effort >= effort or self.problem is not None or _ending.is_set():
                return
            self._effort = effort
            self._thread = threading.Thread(
                target=self._run, args=(only_kept,), name="tracetypes machine code", daemon=True
            )
            _threads.add(self._thread)
            self._thread.start()

    @property
    def function(self) -> MachineFunction | None:
        """The function, as soon as it is ready. None before, and where there is no machine code."""
        return self._function

    def wait(self, seconds: float | None = None) -> MachineFunction | None:
        """:attr:`function`, when it is ready or cannot be made."""
        self.start()
        if self._thread is not None:
            self._thread.join(seconds)
        return self._function

    def _run(self, only_kept: bool) -> None:
        try:
            self._function = _kept(self.code, CodeCache(directory())) if only_kept else compiled(self.code)
        except BaseException as error:  # anything: the run goes on without
            lines = str(error).strip().splitlines()
            self.problem = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
        finally:
            _threads.discard(threading.current_thread())


_threads: Final = set[threading.Thread]()
_ending: Final = threading.Event()
_known: Final = dict[MachineCode, Compilation]()
_guard = threading.Lock()


def compilation(code: MachineCode) -> Compilation:
    """The compilation of a source text, which all of this process share."""
    with _guard:
        return _known.setdefault(code, Compilation(code))


@atexit.register
def _end() -> None:
    """Stop the threads: LLVM must not run while a process takes itself apart."""
    _ending.set()
    for thread in list(_threads):
        if thread.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
            thread.join(_PATIENCE)


def _forget() -> None:
    """A process that is forked has none of the threads."""
    global _guard
    _guard = threading.Lock()
    _threads.clear()
    _known.clear()


os.register_at_fork(after_in_child=_forget)
