"""What functions that a registry allows take: streams, and the config of a task."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["is_factory", "parameters_of", "stream_parameters", "text_of"]


def is_factory(operator: Any) -> bool:
    """Whether it has to be called with a config to give an operator: a function or a class."""
    return (inspect.isfunction(operator) or inspect.isclass(operator)) and not stream_parameters(operator)


def parameters_of(operator: Any) -> dict[str, inspect.Parameter]:
    """What a config may have. None for an operator that is there already."""
    streams = stream_parameters(operator)
    if not streams and not is_factory(operator):
        return {}
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {name: one for name, one in _signature(operator).items() if one.kind in kinds and name not in streams}


def stream_parameters(operator: Any) -> list[str]:
    """The streams that a function takes, by its annotations."""
    if not inspect.isfunction(operator):
        return []
    return [name for name, one in _signature(operator).items() if re.match(r"([\w.]*\.)?\w*Stream\[", text_of(one))]


def _signature(operator: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(operator).parameters
    except (TypeError, ValueError):
        return {}


def text_of(parameter: inspect.Parameter) -> str:
    """The annotation of a parameter, as its author wrote it."""
    one = parameter.annotation
    if one is inspect.Parameter.empty:
        return ""
    return one if isinstance(one, str) else inspect.formatannotation(one)
