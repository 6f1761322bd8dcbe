"""Kinds of joins, and the types of what they emit."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, Union

from tracetypes.errors import UsageError
from tracetypes.stdlib.joins import Joined

__all__ = ["How", "how_of", "result_of"]

How: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti"]


def how_of(how: object, among: tuple[object, ...]) -> Any:
    """``how`` itself. Raises :class:`UsageError` ``TT121`` for a kind of join that there is not."""
    if how not in among:
        bare = str(how).lower().replace("_", "").replace("-", "").replace(" ", "").replace("join", "")
        meant = {"leftouter": "left", "rightouter": "right", "outer": "full", "fullouter": "full", "leftsemi": "semi"}
        meant |= {"leftanti": "anti", **{str(one): str(one) for one in among}}
        fix = f"use one of {', '.join(map(repr, among))}"
        if meant.get(bare) in among:
            fix = f'pass how="{meant[bare]}"'
        elif bare in ("right", "full"):
            fix += "; rows of a table are not emitted without an item: window_join and interval_join have all kinds"
        elif bare == "cross":
            fix += "; for all pairs of a window give both streams one key: key_by(lambda *_: UNIT, to=Unit)"
        raise UsageError("TT121", f"how is {how!r}", fix=fix)
    return how


def result_of(how: How, left: Any, right: Any) -> Any:
    """The type of the values that a join emits, from those of its sides."""
    joined: Any = Joined
    match how:
        case "semi" | "anti":
            return left
        case _:
            union: Any = Union
            maybe_left = union[left, None] if how in ("right", "full") else left
            maybe_right = union[right, None] if how in ("left", "full") else right
            return joined[maybe_left, maybe_right]
