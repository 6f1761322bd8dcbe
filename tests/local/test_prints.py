"""What operators print is shown line by line, and the streams below stay what they are."""

from __future__ import annotations

import io

from tracetypes.compiler.local.prints import _Tee


def test_a_stream_that_is_closed_is_not_flushed() -> None:
    """The collector flushes a stream that nobody has any more, maybe behind the one below it."""
    below = io.TextIOWrapper(io.BytesIO())
    above = _Tee(below)
    above.flush()
    below.close()
    above.flush()
