"""What a run reads, writes and does: its places and its options."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tracetypes.compiler.backend.summary import Limits
from tracetypes.compiler.connectors.files import Order
from tracetypes.compiler.plan.plan import Plan
from tracetypes.compiler.store.output_interface import Output, SideOutputs
from tracetypes.compiler.store.overlap import is_listed
from tracetypes.compiler.store.places import Place, place_of
from tracetypes.compiler.store.topic_channel import Topics

__all__ = ["Places", "RunOptions"]


def _place(checkpoint: str | os.PathLike[str] | Place) -> Place:
    return place_of(checkpoint) if isinstance(checkpoint, str | os.PathLike) else checkpoint


@attrs.frozen(eq=False, kw_only=True)
class Places:
    """Where a run reads and writes. Paths are absolute: Spark stays in the directory in which it started.

    ``inputs``: a path, ``kafka://host:port/topic``, ``delta:path`` or :class:`Rows` for each source. ``outputs``: for
    each sink a function from its plan and the run's name to an output. ``side_outputs``: a function from a run's name
    to the outputs of late and rejected rows of segments that feed a channel. ``topics``: the place of topics that are
    channels, instead of files in the checkpoint."""

    inputs: Mapping[str, Any]
    outputs: Mapping[str, Callable[[Plan, str], Output]]
    checkpoint: Place = attrs.field(converter=_place)
    side_outputs: Callable[[str], SideOutputs]
    topics: Topics | None = None

    @property
    def input_files(self) -> dict[str, str]:
        """The inputs that are files which the driver lists, by source."""
        return {name: one for name, one in self.inputs.items() if is_listed(one)}


@attrs.frozen(eq=False, kw_only=True)
class RunOptions:
    """What a run does.

    ``drain``: at the end of the inputs the sources end too, and open blocks are answered; a drained checkpoint takes no
    more rows. ``follow``: it goes on until it is stopped (Ctrl-C, SIGTERM). ``files_per_step``: the largest number of files in
    a micro-batch. ``orders``: the order of the files of a source, by modification time unless given. ``appended``: whether to
    read lines that are appended to known files of text, instead of raising ``TT230``. ``verify``: whether traced answers are
    compared with plain Python on a sample. ``limits``: of late and rejected rows."""

    drain: bool = True
    follow: bool = False
    files_per_step: int | None = None
    orders: Mapping[str, Order] = attrs.field(factory=dict)
    appended: bool = False
    verify: bool = True
    limits: Limits | None = None

    @property
    def drains(self) -> bool:
        """Whether the sources end with the inputs: a run that follows them does not know their end."""
        return self.drain and not self.follow
