"""Functions and attributes of Python by what else they look at: the machine, names, classes, code, nothing."""

from __future__ import annotations

import builtins
from typing import Any, Final

__all__ = [
    "HOLDING_CLASSES",
    "LOOK_AT_VALUES",
    "NAMING",
    "PURE_BUILTINS",
    "PURE_MODULES",
    "READING_BY_NAME",
    "SETTING",
    "SHARING_ARRAYS",
    "SHOWING",
    "SHOWING_CODE",
    "is_pure",
    "reason_against",
]

PURE_BUILTINS: Final[frozenset[Any]] = frozenset(
    getattr(builtins, name)
    for name in [
        "abs", "all", "any", "ascii", "bin", "bool", "bytes", "chr", "complex", "dict", "divmod", "enumerate", "filter",
        "float", "format", "frozenset", "hasattr", "hex", "int", "isinstance", "issubclass", "iter", "len",
        "list", "map", "max", "min", "oct", "ord", "pow", "print", "range", "repr", "reversed", "round", "set", "slice",
        "sorted", "str", "sum", "tuple", "type", "zip",
    ]
)
"""They change no argument, and return at most what is in it."""

PURE_MODULES: Final = frozenset(
    ["math", "cmath", "statistics", "bisect", "_bisect", "itertools", "heapq", "_heapq", "copy", "numpy"]
)

SHARING_ARRAYS: Final = frozenset(
    [
        "asarray", "asanyarray", "reshape", "ravel", "transpose", "squeeze", "atleast_1d", "atleast_2d", "broadcast_to", "copyto",
        "put", "place", "putmask", "fill_diagonal", "frombuffer", "swapaxes", "moveaxis", "expand_dims", "split", "array_split",
    ]
)
"""Functions of numpy that change an array, or return one with the same numbers in memory."""

SHOWING: Final[frozenset[Any]] = frozenset([str, repr, ascii, format, print])
"""They turn an object into a text, which may have the name of its class in it."""

LOOK_AT_VALUES: Final = frozenset(
    [
        "builtins", "math", "cmath", "statistics", "bisect", "_bisect", "itertools", "heapq", "_heapq", "datetime",
        "zoneinfo", "decimal", "_decimal", "fractions", "numbers", "functools", "_functools", "operator", "_operator",
        "collections", "collections.abc", "re", "json", "enum", "typing", "dataclasses", "attr", "attrs", "abc", "_abc",
        "copy", "hashlib", "zlib", "binascii", "base64", "unicodedata", "types", "_collections", "_collections_abc",
        "struct", "_struct", "posixpath", "ntpath", "genericpath", "numpy",
    ]
)
"""Modules whose functions call no method of their arguments by name, but for those with two underscores."""

NAMING: Final = frozenset(["__name__", "__qualname__", "__module__"])
HOLDING_CLASSES: Final = frozenset(["__class__", "__mro__", "mro", "__base__", "__bases__", "__origin__", "__args__", "__self__"])
"""Attributes that are classes, or have some in them."""
READING_BY_NAME: Final = frozenset(["__getattribute__", "__getattr__"])
"""Methods that read an attribute by its name."""
SHOWING_CODE: Final = frozenset(
    [
        "__code__", "__globals__", "__closure__", "__annotations__", "__annotate__", "__dict__", "__builtins__",
        "__subclasses__", "__firstlineno__", "__defaults__", "__kwdefaults__", "__static_attributes__", "__spec__",
        "__loader__", "__path__", "gi_frame", "f_locals", "f_globals", "tb_frame", "__type_params__",
    ]
)
"""Attributes that show how code is made."""
SETTING: Final = frozenset(["__setattr__", "__delattr__"])

_BUILTINS: Final = frozenset([
    "eval", "exec", "compile", "__import__", "globals", "locals", "vars", "dir", "open", "input", "breakpoint", "id",
    "hash", "memoryview",
])
_MODULES: Final = frozenset(
    [
        "time", "random", "_random", "secrets", "os", "posix", "nt", "socket", "_socket", "sys", "threading", "_thread",
        "multiprocessing", "subprocess", "io", "_io", "tempfile", "shutil", "glob", "urllib", "http", "ssl", "select",
        "asyncio", "signal", "gc", "inspect", "importlib", "weakref", "_weakref", "contextvars", "ctypes", "sqlite3",
        "dbm", "shelve", "mmap", "platform", "getpass", "pwd", "resource", "locale", "linecache", "traceback", "warnings",
        "logging", "queue", "concurrent", "sched", "curses", "cffi", "numpy.random",
    ]
)
_FUNCTIONS: Final = frozenset(
    [
        *(("datetime", name) for name in ("now", "utcnow", "today")),
        ("typing", "get_type_hints"),
        *(("uuid", name) for name in ("uuid1", "uuid4", "getnode")),
        ("decimal", "getcontext"),
        ("_decimal", "getcontext"),
    ]
)


def reason_against(module: str, name: str) -> str | None:
    """Why a function of Python is not the same in every process, or has effects: a text without its subject. None if it is
    the same."""
    if module == "builtins":
        return f"calls {name}, whose result depends on the process" if name in _BUILTINS else None
    top = module.partition(".")[0]
    if top in _MODULES or module in _MODULES or (module, name) in _FUNCTIONS:
        return f"uses {module}{'.' + name if name else ''}, which depends on the machine or has effects"
    return None


def is_pure(value: Any) -> bool:
    """Whether a function only reads its arguments, and returns at most what is in them."""
    if any(value is one for one in PURE_BUILTINS):
        return True
    name = getattr(value, "__name__", "")
    changing = name.startswith(("insort", "heapify", "heappush", "heappop")) or name in SHARING_ARRAYS
    return getattr(value, "__module__", None) in PURE_MODULES and not changing
