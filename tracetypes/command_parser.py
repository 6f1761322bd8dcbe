"""A parser of arguments whose errors are those of tracetypes: the command, the value, and what to write instead."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from tracetypes.calls import like
from tracetypes.errors import UsageError

__all__ = ["CommandParser"]


class CommandParser(argparse.ArgumentParser):
    """Raises :class:`UsageError` ``TT402`` for arguments that it does not take. ``parser`` of what it returns is the parser of
    the command."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.set_defaults(parser=self)

    @property
    def options(self) -> Mapping[str, argparse.Action]:
        """Its options, by name."""
        return self._option_string_actions

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with an argument, and how it is written. ``message``: of argparse."""
        of_one = re.match(r"argument (\S+): (.*)", message, re.DOTALL)
        action = next((one for one in self._actions if of_one is not None and _name(one) == of_one[1]), None)
        missing = message.rpartition("arguments are required: ")[2] if "are required: " in message else None
        if of_one is not None and action is not None:
            what = f"{self.prog} {of_one[1]}: {of_one[2]}"
            raise UsageError("TT402", what, fix=f"write {_example(action)}; see {self.prog} --help")
        if missing is not None:
            commands = [name for name, _ in self._commands()]
            fix = f"its commands are {_listed(commands)}" if commands else f"write {self._short_usage()}"
            raise UsageError("TT402", f"{self.prog}: {missing} is missing", fix=fix)
        raise UsageError("TT402", f"{self.prog}: {message}", fix=f"see {self.prog} --help")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = action.choices
        if choices is None or value in choices:
            return
        if isinstance(action, argparse._SubParsersAction):
            fix = like(value, choices) or f"the commands are {_listed(choices)}"
            raise UsageError("TT402", f"{self.prog} has no command {value!r}", fix=fix)
        fix = like(str(value), map(str, choices)) or f"it is one of {_listed(choices)}"
        raise UsageError("TT402", f"{self.prog} {_name(action)} is {value!r}", fix=fix)

    def _short_usage(self) -> str:
        """What the command takes, on one line."""
        usage = " ".join(self.format_usage().split())
        return re.sub(r"\[-h\] ", "", usage.removeprefix("usage: "))

    def refuse_unknown(self, arguments: Sequence[str], whole: CommandParser) -> None:
        """Raises :class:`UsageError` ``TT402`` for arguments that it does not have. ``whole``: the parser of all commands."""
        name = next((one for one in arguments if one.startswith("-")), arguments[0]).partition("=")[0]
        if not name.startswith("-"):
            raise UsageError("TT402", f"{name} is one argument too many", fix=f"write {self._short_usage()}")
        fix = like(name, self.options) or f"see {self.prog} --help for its options"
        others = [other for other, one in whole._commands() if name in one.options]
        if others:
            fix = f"{name} is an option of tracetypes {_listed(others)}"
        raise UsageError("TT402", f"{self.prog}: there is no option {name}", fix=fix)

    def _commands(self) -> Iterator[tuple[str, CommandParser]]:
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from action.choices.items()


def _name(action: argparse.Action) -> str | None:
    """The name of an argument in messages of argparse."""
    if action.option_strings:
        return "/".join(action.option_strings)
    return action.metavar if isinstance(action.metavar, str) else action.dest


def _example(action: argparse.Action) -> str:
    """How an argument is written."""
    values = "{" + ",".join(map(str, action.choices)) + "}" if action.choices is not None else action.dest.upper()
    metavar = action.metavar if isinstance(action.metavar, str) else values
    if not action.option_strings:
        return metavar
    return action.option_strings[0] + ("" if action.nargs == 0 else f" {metavar}")


def _listed(names: Iterable[Any]) -> str:
    return ", ".join(map(str, names))
