"""Laws of a whole run: neither the order within a block nor the other keys change the output."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tracetypes.arrangement import merge_channels
from tracetypes.elements import elements
from tracetypes.equations.messages import advice_on_floats, message_of
from tracetypes.equations.purity import FORGET
from tracetypes.equations.subject import Elements, Subject, items_in, text_of
from tracetypes.errors import LawBroken
from tracetypes.markers import Marker
from tracetypes.templates import OpKeyedOrdered
from tracetypes.trace import Element, Item, blocks

__all__ = ["ignores_order", "keeps_keys_apart"]


def _swap_orders(stream: Elements) -> Iterator[Elements]:
    """The stream with each block reversed, turned by one, and with its first two items exchanged.

    Turning and exchanging generate all permutations, so an output that survives both for every stream survives all;
    reversal shortens the way.
    """
    hows: list[Callable[[list[Item]], list[Item]]] = [
        lambda block: block[::-1],
        lambda block: block[1:] + block[:1],
        lambda block: block[1::-1] + block[2:],
    ]
    for how in hows:
        out: list[Element] = []
        for block in blocks(stream):
            out += how(list(block.items))
            if block.marker is not None:
                out.append(block.marker)
        if any(one is not other for one, other in zip(out, stream, strict=True)):  # 0.0 == -0.0, and yet it is a swap
            yield tuple(out)


def keeps_keys_apart(subject: Subject, stream: Elements, law: str) -> LawBroken | None:
    together = subject.run(stream)
    keys = list(dict.fromkeys(item.key for item in items_in(stream)))
    markers = [element for element in stream if isinstance(element, Marker)]
    runs = [subject.run([e for e in stream if isinstance(e, Marker) or e.key == key]) for key in keys]
    apart: tuple[Element, ...] = tuple(elements(merge_channels([markers, *runs], True, None)))
    if subject.equal(together, apart):
        return None
    subject.run(stream)
    memory = subject.world.changes()
    shared = memory[:3] or ["initial_state() may give every key the same object, which on_item then changes"]
    return LawBroken(
        "TT305",
        message_of(
            f"{subject.name}: the keys are not independent of each other",
            law,
            [
                ("items", text_of(stream)),
                ("together", text_of(together)),
                ("apart", text_of(apart)),
                *([("memory", one) for one in shared] if memory or subject.template is OpKeyedOrdered else []),
            ],
        ),
        fix="keep nothing outside the state, and let initial_state() build a new object at every call",
    )


def ignores_order(subject: Subject, stream: Elements, law: str) -> LawBroken | None:
    one = subject.run(stream)
    for swapped in _swap_orders(stream):
        other = subject.run(swapped)
        if not subject.equal(one, other):
            subject.run(stream)
            memory = subject.world.changes()
            return LawBroken(
                "TT306",
                message_of(
                    f"{subject.name}: the order of the items of a block changes the output",
                    law,
                    [
                        ("order 1", text_of(stream)),
                        ("gives", text_of(one)),
                        ("order 2", text_of(swapped)),
                        ("gives", text_of(other)),
                        *[("memory", change) for change in memory[:3]],
                    ],
                ),
                fix=advice_on_floats((stream,), one, other)
                or (
                    FORGET[subject.template]
                    if memory
                    else "make the output depend on the bag of items alone; where order matters use sort and OpKeyedOrdered"
                ),
            )
    return None
