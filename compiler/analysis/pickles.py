"""Values of authors' classes as bytes. Records come back as they are, without code of their class."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import cloudpickle

from tracetypes.record_copies import AS_DATA, as_data, is_pickled_by_hand

__all__ = ["ShippingPickler", "by_name", "dumps", "dumps_each", "loads", "shipped"]


class _Pickler(pickle.Pickler):
    dispatch_table = AS_DATA


class ShippingPickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles what a worker needs: functions and classes of scripts by value."""

    def reducer_override(self, value: Any) -> Any:
        """Records as data."""
        return as_data(value) if is_pickled_by_hand(type(value)) else super().reducer_override(value)


def dumps(value: Any) -> bytes:
    """State for a checkpoint. Classes of importable modules by name, those of scripts and notebooks by value."""
    return by_name(value) or shipped(value)


def by_name(value: Any, buffer_callback: Callable[[pickle.PickleBuffer], bool] | None = None) -> bytes | None:
    """A value whose classes any process can import; None for any other. ``buffer_callback``: as in ``pickle.dumps``."""
    try:
        data = _pickled(_Pickler(file := io.BytesIO(), protocol=5, buffer_callback=buffer_callback), value, file)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return None if b"__main__" in data else data


def dumps_each(values: Sequence[Any]) -> tuple[bytes, list[int]]:
    """Values as :func:`dumps` has them, each by itself, one after the other; and where each of them ends."""
    pickler, ends = _Pickler(file := io.BytesIO(), protocol=5), list[int]()
    try:
        for value in values:
            pickler.dump(value)
            pickler.clear_memo()
            ends.append(file.tell())
        if b"__main__" not in (data := file.getvalue()):
            return data, ends
    except (pickle.PicklingError, AttributeError, TypeError):
        pass
    each = list(map(shipped, values))
    return b"".join(each), list(accumulate(map(len, each)))


def shipped(value: Any) -> bytes:
    """A value for a worker, with the functions and classes of scripts."""
    return _pickled(ShippingPickler(file := io.BytesIO(), protocol=5), value, file)


def _pickled(pickler: pickle.Pickler, value: Any, file: io.BytesIO) -> bytes:
    pickler.dump(value)
    return file.getvalue()


def loads(data: bytes | bytearray | memoryview) -> Any:
    """The inverse of :func:`dumps`. Only for bytes that we wrote into a checkpoint."""
    return pickle.loads(data)
