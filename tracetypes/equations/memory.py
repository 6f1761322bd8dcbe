"""What an operator can remember besides its state, and how it is put back between two runs."""

from __future__ import annotations

import collections
import copy
import inspect
import types as python_types
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Generic

import attrs

from tracetypes.equations.equality import fields_of, same
from tracetypes.records import show
from tracetypes.templates import TEMPLATES

__all__ = ["LiveWorld", "World"]


_CONTAINERS: Final = (list, dict, set, bytearray, collections.deque)
_REMEMBERING: Final = (*_CONTAINERS, bool, int, float, str, bytes, tuple, frozenset, type(None))
_LARGEST: Final = 1000
_ABSENT: Final = object()


@attrs.frozen(eq=False)
class _Place:
    """Somewhere an operator could keep something. ``own``: on the instance itself."""

    name: str
    get: Callable[[], Any]
    put: Callable[[Any], None]
    before: Any
    own: bool = False


class World:
    """All that an operator can reach besides its arguments, as it was: fields, class attributes, defaults, closures
    and the globals that its functions name. :meth:`reset` makes the next run start like one in a fresh process."""

    def __init__(self, op: Any) -> None:
        self.places: list[_Place] = []
        self.seen: set[int] = set()
        for name, value in fields_of(op).items():
            self._place(f"self.{name}", value, partial(getattr, op, name, _ABSENT), _setter(op, name), own=True)
            self._function(value)
        for cls in type(op).__mro__:
            if cls not in (*TEMPLATES, object, Generic) and cls.__module__ != "abc":
                self._class(cls)

    def reset(self) -> None:
        """Undo what changed."""
        for place in self.places:
            now = place.get()
            if now is place.before and not isinstance(now, _CONTAINERS):
                continue
            if type(now) is not type(place.before) or not same(now, place.before):
                if isinstance(now, _CONTAINERS) and type(now) is type(place.before):
                    _refill(now, copy.deepcopy(place.before))
                else:
                    place.put(copy.deepcopy(place.before) if place.before is not _ABSENT else _ABSENT)

    def changes(self, *, own: bool = False) -> list[str]:
        """What is remembered now, in words. ``own``: on the instance only."""
        changes = []
        for place in self.places:
            now = place.get()
            if (place.own or not own) and now is not place.before and not same(now, place.before):
                was = "did not exist" if place.before is _ABSENT else f"was {_brief(place.before)}"
                changes.append(f"{place.name} {was} and became {_brief(now)}")
        return changes

    def _place(
        self, name: str, value: Any, get: Callable[[], Any], put: Callable[[Any], None], own: bool = False
    ) -> None:
        if value is not _ABSENT:
            if not isinstance(value, _REMEMBERING):
                return
            if isinstance(value, (*_CONTAINERS, tuple, frozenset)) and len(value) > _LARGEST:
                return
            try:
                value = copy.deepcopy(value)
            except Exception:  # it holds what cannot be copied, and so cannot be put back either
                return
        self.places.append(_Place(name, get, put, value, own))

    def _class(self, cls: type[Any]) -> None:
        if id(cls) in self.seen:
            return
        self.seen.add(id(cls))
        for name, value in list(vars(cls).items()):
            if name.startswith("__") or name.startswith("_abc"):
                continue
            self._place(f"{cls.__name__}.{name}", value, partial(vars(cls).get, name, _ABSENT), _setter(cls, name))
            inner = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            self._function(inner.fget if isinstance(inner, property) else inner)

    def _function(self, function: Any) -> None:
        if not isinstance(function, python_types.FunctionType) or id(function) in self.seen:
            return
        self.seen.add(id(function))
        title = function.__qualname__.rpartition("<locals>.")[2]
        names = list(inspect.signature(function).parameters) if function.__defaults__ else []
        for at, value in enumerate(function.__defaults__ or ()):
            if isinstance(value, _CONTAINERS):
                name = names[at - len(function.__defaults__ or ())] if names else "?"
                self._place(f"the default of {title}({name})", value, partial(_itself, value), _keep)
        for name, value in (function.__kwdefaults__ or {}).items():
            if isinstance(value, _CONTAINERS):
                self._place(f"the default of {title}({name})", value, partial(_itself, value), _keep)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            value = _cell(cell)
            if isinstance(value, type):
                self._helper(value, function)
            else:
                self._place(name, value, partial(_cell, cell), partial(setattr, cell, "cell_contents"))
                self._function(value)
        space = function.__globals__
        for name in sorted(_names(function.__code__)):
            value = space.get(name, _ABSENT)
            if value is _ABSENT or isinstance(value, _REMEMBERING):
                self._place(name, value, partial(space.get, name, _ABSENT), _putter(space, name))
            else:
                self._helper(value, function)

    def _helper(self, value: Any, function: python_types.FunctionType) -> None:
        """Functions and classes of the same module may remember for the operator."""
        if getattr(value, "__module__", None) == function.__module__:
            if isinstance(value, type):
                if not issubclass(value, TEMPLATES):
                    self._class(value)
            else:
                self._function(value)


class LiveWorld:
    """The world of an operator that runs: nobody puts anything back, because others may use it."""

    def reset(self) -> None:
        """Leave all as it is."""

    def changes(self, *, own: bool = False) -> list[str]:
        """Nothing is known."""
        return []


def _brief(value: Any) -> str:
    """Short, and the same in every run: a set has no order of its own."""
    if isinstance(value, set | frozenset) and value:
        return "{" + show(sorted(value, key=repr), 60)[1:-1] + "}"
    return show(value, 60)


def _cell(cell: python_types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return _ABSENT


def _itself(value: Any) -> Any:
    return value


def _keep(_: Any) -> None:
    """For places that are only ever refilled."""


def _setter(owner: Any, name: str) -> Callable[[Any], None]:
    def put(value: Any) -> None:
        if isinstance(owner, type):
            delattr(owner, name) if value is _ABSENT else setattr(owner, name, value)
        else:
            object.__setattr__(owner, name, value)

    return put


def _putter(space: dict[str, Any], name: str) -> Callable[[Any], None]:
    def put(value: Any) -> None:
        if value is _ABSENT:
            space.pop(name, None)
        else:
            space[name] = value

    return put


def _names(code: python_types.CodeType) -> set[str]:
    inner = (_names(const) for const in code.co_consts if isinstance(const, python_types.CodeType))
    return set(code.co_names).union(*inner)


def _refill(container: Any, content: Any) -> None:
    if isinstance(container, list | bytearray):
        container[:] = content
    else:
        container.clear()
        getattr(container, "extend" if isinstance(container, collections.deque) else "update")(content)
