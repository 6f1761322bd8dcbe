"""A parameter as a text that is the same in every process: its class, its values and their types. Code is not compared,
so all functions have the same text.

Instead of a secret the text has a keyed hash of it, so that another secret gives another text
(:mod:`tracetypes.redaction`).
"""

from __future__ import annotations

import copyreg
import datetime as dt
import enum
import functools
import hashlib
import types
from collections.abc import Callable
from typing import Any, Final, get_origin

import attrs

from tracetypes.redaction import hidden_fields, names_of, redact_passwords
from tracetypes.schemas import show_type

__all__ = ["Hidden", "Incomparable", "content", "shortened"]

Hide = Callable[[str], str]

_SHOWN: Final = (bool, int, float, complex, str, bytes, range, types.NoneType, dt.timedelta)
_BUILTIN: Final = types.BuiltinFunctionType | types.MethodDescriptorType | types.WrapperDescriptorType
_LONGEST: Final = 200


class Incomparable(Exception):
    """The value cannot be compared with a value of another process."""

    def __init__(self, cls: type[Any]) -> None:
        super().__init__(f"{cls.__module__}.{cls.__qualname__}")


@attrs.frozen
class Hidden:
    """A value that is shown as a keyed hash."""

    value: object = attrs.field(repr=False)


def content(value: object, hide: Hide) -> str:
    """The text of a value. ``hide``: a keyed hash for secrets. Raises :class:`Incomparable`."""
    text = _Content(hide).of(value)
    without_passwords = redact_passwords(text)
    return text if without_passwords == text else f"{without_passwords} {hide(text)}"


def shortened(text: str) -> str:
    """A text that fits into a line. Different texts stay different."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST - 40]}... ({hashlib.sha256(text.encode('utf-8', 'backslashreplace')).hexdigest()[:16]})"


def _is_plain(values: Any) -> bool:
    """Whether each value is shown as its ``repr``."""
    return set(map(type, values)) <= set(_SHOWN)


class _Content:
    def __init__(self, hide: Hide) -> None:
        self.hide = hide
        self.above: list[int] = []

    def of(self, value: Any) -> str:
        if isinstance(value, type) or get_origin(value) is not None:
            return show_type(value)
        if type(value) in _SHOWN:
            return repr(value)
        if type(value) is Hidden:
            return self.hide(self.of(value.value))
        if id(value) in self.above:
            return "itself"
        self.above.append(id(value))
        try:
            return self.inside(value)
        finally:
            self.above.pop()

    def inside(self, value: Any) -> str:
        cls: Any = type(value)
        if cls in (list, tuple, dict) and _is_plain(value) and (cls is not dict or _is_plain(value.values())):
            return repr(value)
        if cls in (list, tuple, set, frozenset):
            parts = self.several(value)
            if cls in (set, frozenset):
                return f"{cls.__name__}({', '.join(sorted(parts))})"
            ends = "[]" if cls is list else "()"
            return ends[0] + ", ".join(parts) + ("," if cls is tuple and len(parts) == 1 else "") + ends[1]
        if cls in (dict, types.MappingProxyType):
            keys, values = self.several(value), self.several(value.values())
            return "{" + ", ".join(f"{key}: {one}" for key, one in zip(keys, values, strict=True)) + "}"
        if isinstance(value, enum.Enum):
            return f"{cls.__qualname__}.{value.name}"
        if isinstance(value, types.MethodType):
            return f"{value.__func__.__name__} of {self.of(value.__self__)}"
        if isinstance(value, functools.partial):
            words = {f"{name}=": one for name, one in sorted(value.keywords.items())}
            return self.call("partial", [("", value.func), *(("", one) for one in value.args), *words.items()])
        if isinstance(value, _BUILTIN):
            owner = getattr(value, "__self__", None)
            name = value.__qualname__
            return (
                name if owner is None or isinstance(owner, types.ModuleType | type) else f"{name} of {self.of(owner)}"
            )
        if isinstance(value, types.FunctionType | types.ModuleType):
            return cls.__name__ if isinstance(value, types.FunctionType) else value.__name__
        names = names_of(cls)
        if names is not None:
            return self.call(cls.__qualname__, [(f"{name}=", getattr(value, name, None)) for name in names], cls)
        return self.reduced(value)

    def several(self, values: Any) -> list[str]:
        return list(map(repr if _is_plain(values) else self.of, values))

    def call(self, name: str, parts: list[tuple[str, Any]], cls: Any = object) -> str:
        hidden = {f"{field}=" for field in hidden_fields(cls)}
        texts = (label + self.of(Hidden(one) if label in hidden else one) for label, one in parts)
        return f"{name}({', '.join(texts)})"

    def reduced(self, value: Any) -> str:
        """Any other object by what it would be pickled as."""
        cls = type(value)
        try:
            reduce = copyreg.dispatch_table.get(cls)
            reduction = value.__reduce_ex__(4) if reduce is None else reduce(value)
        except Exception as error:  # it is the author's, or open
            raise Incomparable(cls) from error
        if isinstance(reduction, str):
            return f"{cls.__module__}.{reduction}"
        function, args, state, items, pairs = (*reduction, None, None, None)[:5]
        parts: list[tuple[str, Any]] = [("", one) for one in args if one is not cls]
        if not isinstance(function, type) and function not in (copyreg.__newobj__, copyreg._reconstructor):  # type: ignore[attr-defined]
            parts.insert(0, ("", f"{function.__module__}.{function.__qualname__}"))
        for one in state if isinstance(state, tuple) and len(state) == 2 else (state,):
            named = isinstance(one, dict) and all(type(name) is str for name in one)
            if one is not None:
                parts += [(f"{name}=", part) for name, part in sorted(one.items())] if named else [("", one)]
        parts += [("", list(more)) for more in (items, pairs) if more is not None]
        return self.call(cls.__qualname__, parts)
