"""What belongs to Python, to an installed distribution or to tracetypes. It is known by its name and version."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
import types
from functools import cache, lru_cache
from importlib import metadata
from typing import Any, Final

from tracetypes.compiler.analysis.identity.description import Unidentified
from tracetypes.version import VERSION

__all__ = ["class_library", "has_name", "is_library_file", "library", "module_library", "named"]

_HEAP_TYPE: Final = 1 << 9
"""The flag of a class that is made while a program runs."""

_PYTHON: Final = "python"
_STANDARD: Final = f"python {sys.version_info.major}.{sys.version_info.minor}"


@cache
def _folders() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The folders of the standard library, and those of installed packages."""
    paths = sysconfig.get_paths()
    standard = {paths["stdlib"], paths["platstdlib"], os.path.dirname(os.__file__)}
    user = site.getusersitepackages() if site.ENABLE_USER_SITE else None
    packages = {paths["purelib"], paths["platlib"], *site.getsitepackages(), *([user] if user else [])}
    return _real(standard), _real(packages)


def _real(folders: set[str]) -> tuple[str, ...]:
    return tuple(sorted({form + os.sep for one in folders for form in (one, os.path.realpath(one))}))


@lru_cache(16_384)
def is_library_file(file: str) -> bool:
    """Whether a file of code belongs to Python or to an installed package."""
    standard, packages = _folders()
    return file.startswith(("<frozen ", *standard, *packages))


@cache
def library(module: str, file: str | None) -> str | None:
    """The distribution and version that a module belongs to; None for a module of the author."""
    top = module.partition(".")[0]
    if top == "tracetypes":
        return f"tracetypes {VERSION}"
    if top == "builtins":
        return _PYTHON
    if file is None or file.startswith("<frozen "):
        return _STANDARD if top in sys.stdlib_module_names else None
    standard, packages = _folders()
    if file.startswith(packages) or any(f"{os.sep}{name}{os.sep}" in file for name in ("site-packages", "dist-packages")):
        return _distribution(top)
    return _STANDARD if file.startswith(standard) else None


def _distribution(top: str) -> str:
    names = _distributions().get(top)
    if not names:
        raise Unidentified(f"the package {top} is installed without a version")
    return ", ".join(f"{name} {metadata.version(name)}" for name in sorted(set(names)))


@cache
def _distributions() -> dict[str, list[str]]:
    return dict(metadata.packages_distributions())


def module_library(name: str) -> str | None:
    """The distribution of a module that is imported."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    return library(name, file if isinstance(file, str) else None)


_LANGUAGE: Final = frozenset(["abc", "enum", "typing", "types", "datetime", "decimal", "collections.abc"])
"""Modules whose classes make the types of fields. They are the same in every version."""


def class_library(cls: type[Any]) -> str | None:
    """The distribution of a class; None for a class of the author."""
    found = _class_library(cls)
    return _PYTHON if found == _STANDARD and cls.__module__ in _LANGUAGE else found


def _class_library(cls: type[Any]) -> str | None:
    name: object = cls.__module__
    return module_library(name) if isinstance(name, str) else None


def has_name(cls: type[Any]) -> bool:
    """Whether a class of a library is what its module has under its name. A class in C may have none there."""
    return not cls.__flags__ & _HEAP_TYPE or named(cls.__module__, cls.__qualname__) is cls


def named(module: str, qualname: str) -> Any:
    """What a module has under a name; None for nothing."""
    at: Any = sys.modules.get(module)
    for name in qualname.split("."):
        at = getattr(at, name, None)
    return at if not isinstance(at, types.ModuleType) else None
