"""Writes values and types as text."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable
from typing import Any, Final, Literal, NewType, TypeVar, final, get_args, get_origin

import attrs

from tracetypes.compiler.analysis.identity.changes import Changes
from tracetypes.compiler.analysis.identity.description import (
    NOTHING,
    SCALARS,
    Description,
    Hide,
    Reads,
    Unidentified,
)
from tracetypes.compiler.analysis.identity.libraries import class_library, has_name
from tracetypes.compiler.analysis.identity.machine import LOOK_AT_VALUES, reason_against
from tracetypes.compiler.analysis.identity.uses import depth_of_change
from tracetypes.record_classes import fields_of
from tracetypes.redaction import redact_passwords

__all__ = ["Arguments", "Context", "Writer"]


@final
@attrs.define(eq=False)
class Context:
    """What descriptions need of one another. ``hide``: a keyed hash for secrets; None where there is none. ``digest``: the
    hash of a value by itself."""

    hide: Hide | None
    digest: Callable[[Any], str]
    changes: Changes = attrs.field(factory=Changes)
    uses_of: dict[int, Any] = attrs.field(factory=dict)
    """What functions do with their parameters, by function (:mod:`.functions`)."""

    def secret(self, text: str) -> str:
        """A secret as a text that tells it from others and does not give it away."""
        if self.hide is None:
            raise Unidentified("holds a secret, and there is no key to compare it with")
        return self.hide(text)

    def without_passwords(self, text: str) -> str:
        """A text with hashes in the place of passwords."""
        without = redact_passwords(text)
        return text if without == text else f"{without} {self.secret(text)}"


_FORMS: Final = ("_SpecialForm", "ForwardRef", "ParamSpec", "TypeVarTuple", "_TypedCacheSpecialForm", "_AnyMeta")
"""The classes of types without parts: their ``repr`` says all."""

_UNIONS: Final = (typing.Union, types.UnionType)


class Writer:
    """The text of one object. ``parts``: the objects in it that have descriptions of their own."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.out: list[str] = []
        self.parts: list[Any] = []
        self.reads = NOTHING

    def description(self, **more: Any) -> Description:
        """What was written."""
        text = self.context.without_passwords("".join(self.out))
        return Description(text=text, parts=tuple(self.parts), reads=self.reads, **more)

    def part(self, value: Any) -> None:
        """An object with a description of its own."""
        self.out.append("@")
        self.parts.append(value)

    def named(self, label: str, value: Any) -> None:
        """A value behind a name."""
        self.out.append(f" {label}=")
        self.value(value)

    def value(self, value: Any) -> None:
        """Any value."""
        cls = type(value)
        if cls in SCALARS:
            self.out.append(f"{value!r} ")
        elif cls is tuple:
            self.out.append("(")
            if any(isinstance(one, type) for one in value):
                self.reads |= Reads(types=True)
            if set(map(type, value)) <= set(SCALARS):
                self.out.append(repr(value))
            else:
                for one in value:
                    self.value(one)
            self.out.append(")")
        elif cls is frozenset:
            self.unordered("frozenset", value)
        elif cls is types.MethodType:
            self.out.append("method")
            self.named("of", value.__self__)
            self.named("function", value.__func__)
        elif cls is functools.partial:
            self.partial(value)
        elif isinstance(value, type) or get_origin(value) is not None or isinstance(value, TypeVar | NewType):
            self.type(value)
        else:
            self.part(value)

    def partial(self, value: functools.partial[Any]) -> None:
        """A function with some of its arguments."""
        self.out.append("partial")
        self.named("function", value.func)
        for one in value.args:
            self.named("", one)
        for name, one in sorted(value.keywords.items()):
            self.named(name, one)
        if any(map(depth_of_change, (*value.args, *value.keywords.values()))):
            self.part(Arguments(value))

    def unordered(self, word: str, values: Any) -> None:
        """Values in no order: in that of their texts."""
        if set(map(type, values)) <= set(SCALARS):
            self.out.append(f"{word}({sorted(map(repr, values))})")
            return
        by_digest: dict[str, Any] = {}
        for one in values:
            by_digest.setdefault(self.context.digest(one), []).append(one)
        if any(len(same) > 1 for same in by_digest.values()):
            raise Unidentified(f"holds a {word} of things that cannot be told apart")
        self.out.append(f"{word}(")
        for _, (one,) in sorted(by_digest.items()):
            self.value(one)
        self.out.append(")")

    def library_object(self, found: str, module: str, name: str) -> None:
        """A function or class of a library, by its name and version."""
        if why := reason_against(module, name):
            raise Unidentified(why)
        top = module.partition(".")[0]
        if top != "tracetypes" and module not in LOOK_AT_VALUES and top not in LOOK_AT_VALUES:
            self.reads |= Reads(everything=True, names=True, shown=True)
        if module in ("_operator", "operator") and name in ("mod", "imod"):
            self.reads |= Reads(shown=True)
        if module == "operator" and name in ("attrgetter", "methodcaller"):
            self.reads |= Reads(everything=True, names=True)
        self.out.append(f"<{found}: {module}.{name}>")

    def type(self, annotation: Any) -> None:
        """A type as its author declared it."""
        origin, args = get_origin(annotation), get_args(annotation)
        if origin is annotation:  # Generic says so of itself
            origin = None
        if annotation is None or annotation is types.NoneType:
            self.out.append("None ")
        elif isinstance(annotation, str):
            self.out.append(f"{annotation!r} ")
        elif isinstance(annotation, list):  # the parameters of a Callable
            for one in annotation:
                self.type(one)
        elif origin in _UNIONS:
            self.union(args)
        elif origin is Literal:
            self.out.append("Literal[")
            for one in args:
                self.value(one)
            self.out.append("]")
        elif origin is typing.Annotated:
            self.out.append("Annotated[")
            self.type(args[0])
            for one in args[1:]:
                self.value(one)
            self.out.append("]")
        elif origin is not None:
            self.type(origin)
            self.out.append("[")
            for one in args:
                self.type(one)
            self.out.append("]")
        elif isinstance(annotation, type):
            found = class_library(annotation)
            if found is None:
                self.part(annotation)
            elif not has_name(annotation):
                raise Unidentified(f"the class {annotation.__qualname__} is not what {annotation.__module__} has under its name")
            else:
                self.library_object(found, annotation.__module__, annotation.__qualname__)
        elif isinstance(annotation, TypeVar | NewType):
            self.part(annotation)
        elif type(annotation).__name__ == "TypeAliasType":  # of Python 3.12
            self.type(annotation.__value__)
        elif isinstance(annotation, dataclasses.InitVar):
            self.out.append("InitVar ")
            self.type(annotation.type)
        elif annotation is ... or type(annotation).__name__ in _FORMS:
            self.out.append(f"{annotation!r} ")
        else:
            raise Unidentified(f"the type {annotation!r} is not known")

    def union(self, args: tuple[Any, ...]) -> None:
        """A union. Messages name the members of a union of records, and their order is that of their modules and names
        (:func:`tracetypes.schemas.schema_of`), so these count."""
        classes = [get_origin(one) or one for one in args]
        records = [one for one in classes if isinstance(one, type) and fields_of(one) is not None]
        order = sorted({(one.__module__, one.__qualname__) for one in records}) if len(records) > 1 else []
        self.out.append("Union[")
        for one, cls in zip(args, classes, strict=True):
            if order and cls in records:
                self.out.append(f"{order.index((cls.__module__, cls.__qualname__))} {cls.__name__} ")
            self.type(one)
        self.out.append("]")


@final
@attrs.frozen(eq=False)
class Arguments:
    """The arguments that a partial has already: what its function does with them."""

    of: functools.partial[Any]
