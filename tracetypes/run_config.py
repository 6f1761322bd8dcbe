"""Options of a run in a file: ``[tool.tracetypes.run.NAME]`` of ``pyproject.toml``, or a TOML file of its own.

::

    [tool.tracetypes.run.nightly]
    target = "clicks.py"
    parallelism = 4
    input.clicks = "kafka://${BROKER}/clicks"
    output.counts = "counts"

A key is the name of an option of ``tracetypes run``. ``${NAME}`` is a variable of the environment, with a default
``${NAME:-TEXT}``.
"""

from __future__ import annotations

import argparse
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tracetypes.calls import like
from tracetypes.errors import UsageError
from tracetypes.records import show

__all__ = ["configured", "refuse_unknown_tables"]

PROJECT: Final = "pyproject.toml"
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_PAIRS: Final = ("input", "output", "order")
_POSITIVE: Final = {"drain": "no-drain", "verify": "no-verify", "fuse": "no-fuse"}
"""Options that Python has, and what switches them off on the command line."""
_NOT_HERE: Final = ("help", "config")


def configured(arguments: Sequence[str], parsed: argparse.Namespace, actions: Mapping[str, argparse.Action]) -> list[str]:
    """The arguments of a command ``run`` with those of its ``--config`` before its own. ``actions``: of the command, by option.

    Raises :class:`UsageError` ``TT402`` for a file that cannot be read, and for names and values that a run does not have.
    """
    where, table = _table(parsed.config)
    given = {option: {one.partition("=")[0] for one in getattr(parsed, option)} for option in _PAIRS}
    at = list(arguments).index("run") + 1
    return [*arguments[:at], *_words(where, table, actions, given, parsed.target), *arguments[at:]]


def _table(name: str) -> tuple[str, Mapping[str, Any]]:
    """What stands under a name, and where that is, for messages."""
    if name.endswith(".toml"):
        content = _content(Path(name))
        tools = content.get("tool")
        if tools is not None:
            raise UsageError("TT402", f"--config {name}: it has a table [tool]", fix=f"write the options at the top of {name}")
        return name, content
    tools = _content(Path(PROJECT)).get("tool")
    ours = tools.get("tracetypes", {}) if isinstance(tools, dict) else {}
    refuse_unknown_tables(ours)
    runs = ours.get("run", {})
    if not isinstance(runs, dict) or name not in runs:
        known = list(runs) if isinstance(runs, dict) else []
        fix = like(name, known) or (f"its runs are {', '.join(known)}" if known else f"write [tool.tracetypes.run.{name}] there")
        raise UsageError("TT402", f"--config {name}: there is no [tool.tracetypes.run.{name}] in {PROJECT}", fix=fix)
    where = f"[tool.tracetypes.run.{name}] of {PROJECT}"
    if not isinstance(runs[name], dict):
        raise UsageError("TT402", f"{where} is {show(runs[name])}", fix="write a table, with an option of the run on each line")
    return where, runs[name]


def refuse_unknown_tables(ours: Any) -> None:
    """Raises :class:`UsageError` ``TT402`` for anything in ``[tool.tracetypes]`` that nothing reads."""
    if not isinstance(ours, dict):
        fix = 'write a table: [tool.tracetypes], and backend = "local" below it'
        raise UsageError("TT402", f"tool.tracetypes in {PROJECT} is {ours!r}", fix=fix)
    for key in ours:
        if key not in ("backend", "run"):
            fix = like(key, ("backend", "run")) or "it has backend, and tables [tool.tracetypes.run.NAME]"
            raise UsageError("TT402", f"[tool.tracetypes] of {PROJECT} has no {key!r}", fix=fix)


def _content(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        fix = "give NAME of [tool.tracetypes.run.NAME], in the folder of pyproject.toml, or FILE.toml"
        raise UsageError("TT402", f"--config: {path}: {error.strerror}", fix=fix) from error
    except ValueError as error:
        raise UsageError("TT402", f"--config: {path} is no TOML: {error}", fix="correct this line") from error


def _words(
    where: str,
    table: Mapping[str, Any],
    actions: Mapping[str, argparse.Action],
    given: Mapping[str, set[str]],
    target: str | None,
) -> Iterator[str]:
    names = {option.removeprefix("--") for option in actions if option.startswith("--")} - set(_NOT_HERE)
    known = sorted({*names, *_POSITIVE, "target"} - set(_POSITIVE.values()))
    for key, value in table.items():
        name = key.replace("_", "-")
        if name not in names and name not in known:
            fix = like(name, known) or f"it has {', '.join(known)}"
            raise UsageError("TT402", f"{where}: there is no option {key!r}", fix=fix)
        if name == "target":
            text = _text(where, key, value)
            if target is None:
                yield text
        elif name in _PAIRS:
            yield from _pairs_of(where, key, value, given[name])
        elif name in _POSITIVE:
            if not _truth(where, key, value):
                yield f"--{_POSITIVE[name]}"
        else:
            yield from _one(where, key, value, f"--{name}", actions[f"--{name}"])


def _pairs_of(where: str, key: str, value: Any, given: set[str]) -> Iterator[str]:
    if not isinstance(value, dict):
        raise UsageError("TT402", f'{where}: {key} is {show(value)}', fix=f'write {key}.NAME = "..." for each name')
    for name, one in value.items():
        if name not in given:
            yield from (f"--{key}", f"{name}={_text(where, f'{key}.{name}', one)}")


def _one(where: str, key: str, value: Any, option: str, action: argparse.Action) -> Iterator[str]:
    if action.nargs == 0:
        if _truth(where, key, value):
            yield option
        return
    if action.nargs == "?" and isinstance(value, bool):
        if value:
            yield option
        return
    text = _text(where, key, value)
    try:
        read = text if action.type is None else action.type(text)  # type: ignore[operator]
    except argparse.ArgumentTypeError as error:
        raise UsageError("TT402", f"{where}: {key} = {show(value)}: {error}", fix="correct this line") from None
    if action.choices is not None and read not in action.choices:
        choices = ", ".join(map(str, action.choices))
        raise UsageError("TT402", f"{where}: {key} is {show(value)}", fix=like(text, action.choices) or f"give one of {choices}")
    yield f"{option}={text}"


def _truth(where: str, key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError("TT402", f"{where}: {key} is {show(value)}", fix="give true or false")
    return value


def _text(where: str, key: str, value: Any) -> str:
    """A value as a word of the command line, with the variables of the environment put in."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError("TT402", f"{where}: {key} is {show(value)}", fix="give a text or a number")

    def variable(match: re.Match[str]) -> str:
        name: str = match[1]
        default: str | None = match[2]
        found = os.environ.get(name, default)
        if found is None:
            near = like(name, os.environ)
            fix = f"{near} Or set it, or write ${{{name}:-TEXT}}" if near else f"set it, or write ${{{name}:-TEXT}} for a default"
            raise UsageError("TT402", f"{where}: {key}: there is no variable {name} in the environment", fix=fix)
        return found

    return _VARIABLE.sub(variable, str(value))
