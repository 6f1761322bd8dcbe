"""Launches on disk: the dataflow behind each decision that started operators, so that they can start again in another process.

::

    WORKSPACE/launches/000012     the checked dataflow, its inputs and outputs, pickled, with a checksum

A file appears whole or not at all. It stays as long as an operator of its launch runs, also when the flow that brought it has
gone. Functions and classes of scripts and notebooks are in it by value. Those of modules are in it by name: their files lie in
the copies of the code (:mod:`.code_copies`), and are imported from there.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import types
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import attrs

from tracetypes.check import Checked
from tracetypes.compiler.analysis.pickles import ShippingPickler, loads
from tracetypes.compiler.store.small_files import damaged
from tracetypes.compiler.wire.seals import seal_bytes, unseal_bytes
from tracetypes.compiler.workspace.code_copies import Sources, sources_of

__all__ = ["Launch", "Launches", "sources_of_launch"]

LOST = "the dataflow of operators that run"


@attrs.frozen(eq=False, kw_only=True)
class Launch:
    """A dataflow that was submitted, as its operators run. ``flow``: the name that it was submitted under. ``start``: the marker
    at which its states begin exactly, if it asked for that. ``identities``: of its nodes; ``cheap``: the numbers of those that
    each reader computes again (:mod:`.cheap_operators`). ``inputs`` and ``outputs``: addresses by
    source and sink. ``code``: the digest of the copy of its source files, empty for one without. ``places``: from where on it
    reads channels that ran already."""

    flow: str
    start: int | None
    checked: Checked
    identities: Mapping[int, str | None]
    cheap: frozenset[int]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    orders: Mapping[str, Any]
    parallelism: int
    key_groups: int
    code: str = ""
    places: Mapping[str, int] = attrs.field(factory=dict)


class Launches:
    """The launches of a workspace, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, number: int, launch: Launch, moved: Mapping[str, str] | None = None) -> None:
        """Write a launch, durably. One of this number that is there was never decided on, and is replaced. ``moved``: where the
        copies of source files are."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path, part = self._path(number), self.folder / f".part-{os.getpid()}"
        with open(part, "wb") as file:
            file.write(seal_bytes(_pickled(launch, moved or {})[0], path.name))
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def of(self, number: int) -> Launch:
        """A launch. The folders of its code have to be importable. Raises :class:`RunError` ``TT225``."""
        path = self._path(number)
        try:
            data = unseal_bytes(path.read_bytes(), path.name)
        except (OSError, ValueError) as error:
            raise damaged(path, error, LOST) from error
        return Launch(**loads(data))

    def forget_others(self, numbers: Collection[int]) -> None:
        """Remove the launches that nobody needs, and what a kill has left of one."""
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            if not path.name.isdecimal() or int(path.name) not in numbers:
                path.unlink()

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}"


def sources_of_launch(launch: Launch) -> Sources | None:
    """The source files of the modules that a dataflow names, and of those that they import: what does not belong to an installed
    distribution, to tracetypes or to Python. None if there are none."""
    data, code = _pickled(launch, {})
    names = _Names(io.BytesIO(data))
    names.load()
    files: dict[str, Path] = {}
    versions: dict[str, str] = {}
    for module, root in sorted(_own_modules(names.modules, code)):
        sources = sources_of(module, root)
        files |= sources.files
        versions |= sources.versions
    return Sources(files=files, versions=versions) if files else None


def _pickled(launch: Launch, moved: Mapping[str, str]) -> tuple[bytes, set[str]]:
    """A launch as bytes, and the files of the code that is in it by value. ``moved``: where their copies are."""
    pickler = _LaunchPickler(file := io.BytesIO(), moved)
    pickler.dump(attrs.asdict(launch, recurse=False))
    return file.getvalue(), pickler.files


class _LaunchPickler(ShippingPickler):
    """Keeps the files of functions that it pickles by value, so that they are traced in another process too."""

    def __init__(self, file: io.BytesIO, moved: Mapping[str, str]) -> None:
        super().__init__(file, protocol=5)
        self.moved, self.files = moved, set[str]()

    def reducer_override(self, value: Any) -> Any:
        """Code with the name of its file, in place of what stands for one."""
        if not isinstance(value, types.CodeType):
            return super().reducer_override(value)
        self.files.add(value.co_filename)
        build, parts, *rest = self.dispatch_table[types.CodeType](value)
        file = self.moved.get(os.path.realpath(value.co_filename), value.co_filename)
        return (build, tuple(file if one == _NO_FILE else one for one in parts), *rest)


_NO_FILE = "<dynamic-code>"
"""What cloudpickle writes for the file of a function."""


class _Names(pickle.Unpickler):
    """Reads what we have just written, and notes the modules that it names."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.modules: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        """Note the module."""
        self.modules.add(module)
        return super().find_class(module, name)


_MAIN = ("__main__", "__mp_main__")
"""Names of the script that runs."""


@lru_cache(16_384)
def _real(file: str) -> str:
    """The real path of the file of a module. Finding it takes some calls of the system, and there are thousands of modules."""
    return os.path.realpath(file)


def _own_modules(names: Collection[str], code: Collection[str]) -> Iterator[tuple[str, Path]]:
    """Modules of the author, each with the folder that it is imported from. ``names``: of modules; ``code``: files."""
    installed = [Path(_real(one)) for one in {*sys.path} if "site-packages" in one or "dist-packages" in one]
    installed += [Path(_real(os.__file__)).parent, Path(_real(__file__)).parents[1]]
    wanted = {file for file in map(_real, code) if not any(Path(file).is_relative_to(folder) for folder in installed)}
    named = [(one, sys.modules[one]) for one in names if one in sys.modules]
    found = {
        name: Path(_real(file))
        for name, module in (list(sys.modules.items()) if wanted else named)  # there are thousands of modules
        if isinstance(file := getattr(module, "__file__", None), str)
        and (name in names or _real(file) in wanted)
        and name.partition(".")[0] != "tracetypes"
    }
    for name, path in found.items():
        if any(path.is_relative_to(folder) for folder in installed):
            continue
        above = name.count(".") + (path.name == "__init__.py")
        top = name.partition(".")[0]
        yield (path.stem if name in _MAIN or not top.isidentifier() else top), path.parents[above]
