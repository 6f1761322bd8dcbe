"""What the patterns of ``match`` ask of a value, with Python's exact meaning.

:mod:`tracetypes.compiler.tracing.syntax` writes a ``match`` as conditions. Literals and None are comparisons; three others
are asked here for the parts that they take apart, None where they do not match.
"""

from __future__ import annotations

from typing import Any, Final

from tracetypes.compiler.tracing.symbolic.allowed import MAPPINGS, SELF_MATCHING, is_instance, is_mapping, is_sequence
from tracetypes.compiler.tracing.symbolic.containers import Containers
from tracetypes.compiler.tracing.symbolic.known import name_of_function
from tracetypes.compiler.tracing.symbolic.paths import isa
from tracetypes.compiler.tracing.symbolic.proxies import TracedParts, describe

__all__ = ["Patterns"]

_OWN: Final = tuple((cls.__len__, cls.__getitem__) for cls in (tuple, list))
_MISSING: Final = object()


class Patterns(Containers):
    """Parts of what is matched."""

    def case_sequence(self, value: Any, count: int, star: int | None, named: bool) -> list[Any] | None:
        """``[a, *b, c]``: so many parts besides that at ``star``, which is ``named`` or not. That one is a list."""
        value = self.settle(value)
        if isa(value, TracedParts):
            if not self.truth(self.compare("Eq" if star is None else "GtE", self.length(value), count)):
                return None
            if named:
                self.refuse("takes several parts of a text that is split")
            at = count if star is None else star
            parts = [self.item(value, place) for place in (*range(at), *range(at - count, 0))]
            return parts if star is None else [*parts[:star], [], *parts[star:]]
        if not is_sequence(self.class_of(value)):
            return None
        if self.holds(value):
            cls: Any = type(value)
            if not isa(value, tuple | list) or (cls.__len__, cls.__getitem__) not in _OWN:
                self.refuse(f"matches {describe(value)} as a sequence")
        length = len(value)
        if length < count or (star is None and length > count):
            return None
        all_of_them = [self.seen(value[at]) for at in range(length)]
        if star is None:
            return all_of_them
        end = length - (count - star)
        return [*all_of_them[:star], self.own(all_of_them[star:end]), *all_of_them[end:]]

    def case_mapping(self, value: Any, keys: tuple[Any, ...], rest: bool) -> list[Any] | None:
        """``{key: a, **b}``: the values of these keys, and with ``rest`` a dict of all others."""
        value = self.settle(value)
        if not is_mapping(self.class_of(value)):
            return None
        if self.holds(keys) or (self.holds(value) and type(value) not in MAPPINGS):
            self.refuse(f"matches {describe(value)} as a mapping")
        if len(value) < len(keys):
            return None
        if len(set(keys)) < len(keys):
            raise ValueError("a mapping pattern checks a key twice")
        items = [value.get(key, _MISSING) for key in keys]
        if any(one is _MISSING for one in items):
            return None
        parts = [self.seen(one) for one in items]
        return [*parts, self.own({k: v for k, v in value.items() if k not in keys})] if rest else parts

    def case_class(self, value: Any, cls: Any, count: int, names: tuple[str, ...]) -> list[Any] | None:
        """``Class(a, name=b)``: the first ``count`` attributes of the class and those with names."""
        value = self.settle(value)
        if not isa(cls, type):
            raise TypeError("called match pattern must be a class")
        if not self.call_isinstance(value, cls):
            return None
        if count and not hasattr(cls, "__match_args__") and issubclass(cls, SELF_MATCHING):
            if count > 1:
                raise TypeError(f"{cls.__name__}() accepts 1 positional sub-pattern ({count} given)")
            first, args = [value], ()
        else:
            first, args = [], getattr(cls, "__match_args__", ()) if count else ()
            if type(args) is not tuple or count > len(args):
                raise TypeError(f"{cls.__name__}() accepts {len(args)} positional sub-patterns ({count} given)")
        read = (*args[:count], *names)
        if len(set(read)) < len(read):
            raise TypeError("a class pattern reads an attribute twice")
        try:
            return [*first, *(self.attribute(value, name) for name in read)]
        except AttributeError:
            return None

    def call_isinstance(self, value: Any, classes: Any, /) -> bool:
        """``isinstance(value, classes)``."""
        value = self.settle(value)
        if not self.holds(value):
            return isinstance(value, classes)
        answer = is_instance(self.class_of(value), classes)
        if answer is None:
            self.refuse(f"asks whether {describe(value)} is a {name_of_function(classes)}")
        return answer
