"""The hash of an object with all that it reaches.

Objects are described one by one, each once for all operators (:class:`.Description`). The hash is that of the graph of
descriptions, whose nodes are numbered as they are met. So it says which places hold one and the same object: two record
classes with equal fields are not one where code tells them apart, and code that refers to itself needs no special care.
"""

from __future__ import annotations

import collections
import functools
import hashlib
import types
from typing import Any, Final, NewType, TypeVar, final

from tracetypes.compiler.analysis.identity.classes import Member, describe_class, describe_member
from tracetypes.compiler.analysis.identity.description import Description, Hide, Reads, Unidentified
from tracetypes.compiler.analysis.identity.functions import (
    describe_arguments,
    describe_builtin,
    describe_cached,
    describe_function,
)
from tracetypes.compiler.analysis.identity.instances import describe_container, describe_instance
from tracetypes.compiler.analysis.identity.uses import ESCAPES, KEPT, depth_of_change
from tracetypes.compiler.analysis.identity.writer import Arguments, Context, Writer

__all__ = ["Reach"]

_IN_C: Final = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)


@final
class Reach:
    """The descriptions of objects, kept as long as this object is. No object may change meanwhile."""

    def __init__(self, hide: Hide | None) -> None:
        self.context = Context(hide, self.digest)
        self._described: dict[int, tuple[Any, Description | str]] = {}
        self._hashes: dict[int, tuple[Description, bytes]] = {}
        self._active: set[int] = set()

    def digest(self, value: Any) -> str:
        """The hash of a value by itself. Raises :class:`Unidentified`."""
        if id(value) in self._active:
            raise Unidentified(f"a {type(value).__name__} contains itself")
        self._active.add(id(value))
        try:
            writer = Writer(self.context)
            writer.value(value)
            return self.hash_of(writer.description())[0]
        finally:
            self._active.discard(id(value))

    def describe(self, value: Any) -> Description:
        """The description of an object. Raises :class:`Unidentified`."""
        known = self._described.get(id(value))
        if known is None:
            result: Description | str
            try:
                result = _describe(value, self.context)
            except Unidentified as error:
                result = str(error)
            except RecursionError:
                result = f"a {type(value).__name__} is nested too deeply"
            known = self._described[id(value)] = value, result
        if isinstance(known[1], str):
            raise Unidentified(known[1])
        return known[1]

    def hash_of(self, root: Description) -> tuple[str, Reads]:
        """The hash of a description with all that it reaches, and what all the code there looks at. Raises
        :class:`Unidentified`."""
        order, numbers, hasher = [root], dict[int, int](), hashlib.sha256()
        attributes, others = set[str](), Reads()
        done: set[tuple[int, str]] = set()
        at = 0
        while True:
            while at < len(order):
                one = order[at]
                places = []
                for part in one.parts:
                    place = numbers.get(id(part))
                    if place is None:
                        place = numbers[id(part)] = len(order)
                        order.append(self.describe(part))
                    places.append(place)
                hasher.update(self._hash_of_text(one))
                hasher.update(f"{places}\n".encode())
                attributes |= one.reads.attributes
                others |= Reads(frozenset(), *_flags(one.reads))
                at += 1
            more = _demanded(order, attributes, others.everything, done)
            if not more:
                break
            for place, name in more:
                hasher.update(f"member {place} {name} {len(order)}\n".encode())
                order.append(self.describe(order[place].members[name]))
        _refuse_changes(order)
        hasher.update("\n".join(_looked_at(order, others)).encode("utf-8", "backslashreplace"))
        return hasher.hexdigest(), Reads(frozenset(attributes), *_flags(others))

    def _hash_of_text(self, one: Description) -> bytes:
        known = self._hashes.get(id(one))
        if known is None:
            digest = hashlib.sha256(one.text.encode("utf-8", "backslashreplace")).digest()
            known = self._hashes[id(one)] = one, digest
        return known[1]


def _flags(reads: Reads) -> tuple[bool, bool, bool, bool, bool]:
    return reads.everything, reads.names, reads.shown, reads.types, reads.docs


def _demanded(
    order: list[Description], attributes: set[str], everything: bool, done: set[tuple[int, str]]
) -> list[tuple[int, str]]:
    """The members of classes that count and were not there yet, by the number of the class and their name."""
    more: list[tuple[int, str]] = []
    for place, one in enumerate(order):
        for name in one.members:
            if (everything or name in attributes or name in one.always) and (place, name) not in done:
                more.append((place, name))
    done.update(more)
    return sorted(more)


def _refuse_changes(order: list[Description]) -> None:
    """Refuse classes whose values, which all instances share, code may change."""
    classes = [one for one in order if one.constants]
    if not classes:
        return
    assigned = {name for one in order for name in one.assigned}
    for one in classes:
        for name in one.constants.keys() & one.members.keys() & assigned:
            raise Unidentified(f"code assigns {name}, which a class has for all its instances")
    least: dict[str, int] = {}
    for one in order:
        for name, use in one.uses.items():
            least[name] = min(use, least.get(name, KEPT))
    for one in classes:
        for name, value in one.constants.items():
            if depth_of_change(value) > max(least.get(name, KEPT), ESCAPES):  # of a number it is 0
                raise Unidentified(f"code does more than read with {name}, which a class has for all its instances")


def _looked_at(order: list[Description], reads: Reads) -> list[str]:
    """The names and docstrings that code looks at."""
    lines: list[str] = []
    if reads.names or (reads.shown and reads.types):
        lines += [f"{one.name} {one.class_name}" for one in order]
    elif reads.shown:
        lines += [one.class_name for one in order]
    if reads.docs:
        lines += [one.docs for one in order]
    return lines


def _describe(value: Any, context: Context) -> Description:
    if isinstance(value, types.FunctionType):
        return describe_function(value, context)
    if isinstance(value, Member):
        return describe_member(value, context)
    if isinstance(value, Arguments):
        return describe_arguments(value, context)
    if isinstance(value, functools._lru_cache_wrapper):
        return describe_cached(value, context)
    if isinstance(value, _IN_C):
        return describe_builtin(value, context)
    if isinstance(value, TypeVar):
        return Description(text="type variable", name=value.__name__)
    if isinstance(value, NewType):
        writer = Writer(context)
        writer.out.append("new type")
        writer.type(value.__supertype__)
        return writer.description(name=value.__name__)
    if isinstance(value, type):
        return describe_class(value, context)
    if type(value) in (list, set, dict, collections.OrderedDict):
        return describe_container(value, context)
    return describe_instance(value, context)
