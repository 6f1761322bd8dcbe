"""The law of ``chooses``: an operator answers the same without the items that it does not need."""

from __future__ import annotations

from typing import Any

from tracetypes.canonical import canonical
from tracetypes.equations.messages import message_of
from tracetypes.equations.subject import Abandon, Elements, Subject, text_of
from tracetypes.errors import LawBroken
from tracetypes.trace import Element, Item

__all__ = ["needs_what_it_chooses"]


def needs_what_it_chooses(subject: Subject, stream: Elements, law: str) -> LawBroken | None:
    """Without the items of each block and key that ``chooses`` leaves out an operator emits the same."""
    whole = canonical(subject.takes.value)
    choices, left = subject.op.chooses(), list[Element]()
    block: dict[Any, list[Item]] = {}

    def close() -> None:
        for items in block.values():
            values = [item.value for item in items]
            try:
                rows = {row for choice in choices for row in choice.rows(values, whole)}
            except Exception:
                raise Abandon from None  # the operator raises of it, too
            left.extend(items[row] for row in sorted(rows) or [0])
        block.clear()

    for element in stream:
        if isinstance(element, Item):
            block.setdefault(element.key, []).append(element)
        else:
            close()
            left.append(element)
    close()
    of_all, of_some = subject.run(stream), subject.run(left)
    if subject.equal(of_all, of_some):
        return None
    return LawBroken(
        "TT314",
        message_of(
            f"{subject.name}: it says which items it needs, and the others change what it emits",
            law,
            [
                ("items", text_of(stream)),
                ("chosen", text_of([one for one in left if isinstance(one, Item)])),
                ("of all", text_of([one for one in of_all if isinstance(one, Item)])),
                ("of those chosen", text_of([one for one in of_some if isinstance(one, Item)])),
            ],
        ),
        fix="let chooses() name all items that matter; or do not define it",
    )
