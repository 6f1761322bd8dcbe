"""Values of authors' classes as bytes."""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle

__all__ = ["dumps", "loads"]


def dumps(value: Any) -> bytes:
    """State for a checkpoint. Classes of importable modules by name, those of scripts and notebooks by value."""
    try:
        data = pickle.dumps(value, protocol=5)
        if b"__main__" not in data:  # by name it would be found in this process only
            return data
    except (pickle.PicklingError, AttributeError, TypeError):
        pass
    return bytes(cloudpickle.dumps(value, protocol=5))


def loads(data: bytes | bytearray | memoryview) -> Any:
    """The inverse of :func:`dumps`. Only for bytes that we wrote into a checkpoint."""
    return pickle.loads(data)
