"""Copies of the source files of submitted flows: a restart runs what was submitted, whatever its author has changed since.

::

    WORKSPACE/code/DIGEST/about.json    the digest of each file, and the versions of what the files import
    WORKSPACE/code/DIGEST/files/...     the files, as they lie below the folder that they are imported from

A copy appears whole or not at all, and never changes. Equal files with equal versions have one copy.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import shutil
import sys
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import metadata
from pathlib import Path, PurePosixPath

import attrs

from tracetypes.compiler.store.small_files import damaged, read_json, write_json
from tracetypes.errors import UsageError
from tracetypes.version import VERSION

__all__ = ["LARGEST", "CodeCopies", "CodeCopy", "Sources", "sources_of"]

LARGEST = 64 << 20
"""Bytes of all files of a copy at most: data belongs into an input."""


@attrs.frozen(kw_only=True)
class Sources:
    """The source files of a flow. ``files``: by their place below the folder that they are imported from. ``versions``: of
    Python, tracetypes, and each distribution that the files import."""

    files: Mapping[str, Path]
    versions: Mapping[str, str]


@attrs.frozen(kw_only=True)
class CodeCopy:
    """A copy. ``root``: the folder that its modules are imported from. ``versions``: as of :class:`Sources`, when it was made."""

    digest: str
    root: Path
    versions: Mapping[str, str]

    @property
    def changes(self) -> list[str]:
        """What has another version now, or is gone."""
        now = {name: _version(name) for name in self.versions}
        return [
            f"{name} was {was}, and is {now[name] or 'not installed'}"
            for name, was in self.versions.items()
            if now[name] != was
        ]


class CodeCopies:
    """The copies of a workspace, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, sources: Sources) -> str:
        """Make a copy, if there is none of the same. Returns its digest. Raises :class:`UsageError` ``TT403`` if it is too
        large, or if a file is gone."""
        contents = {place: _content(path) for place, path in sorted(sources.files.items())}
        if (size := sum(map(len, contents.values()))) > LARGEST:
            raise UsageError(
                "TT403",
                f"the source files have {size:,} bytes, and a workspace copies at most {LARGEST:,}",
                fix="keep data out of the package, and give it as an input",
            )
        about = {
            "files": {place: hashlib.sha256(content).hexdigest() for place, content in contents.items()},
            "versions": dict(sorted(sources.versions.items())),
        }
        digest = _digest(about)
        if not (self.folder / digest).exists():
            part = self.folder / f".part-{uuid.uuid4().hex}"
            for place, content in contents.items():
                _write(part / "files" / place, content)
            write_json(part / "about.json", about)
            try:
                os.rename(part, self.folder / digest)
            except OSError:  # another process was faster
                shutil.rmtree(part)
                if not (self.folder / digest).exists():
                    raise
        return digest

    def of(self, digest: str) -> CodeCopy:
        """A copy, whose files are compared with their digests. Raises :class:`RunError` ``TT225``."""
        place = self.folder / digest
        about = read_json(place / "about.json")
        lost = "the code of a submitted flow"
        if about is None:
            raise damaged(place, "it is gone", lost)
        plain = {"files": about["files"], "versions": about["versions"]}
        if _digest(plain) != digest:
            raise damaged(place / "about.json", "it is of another copy", lost)
        for name, expected in plain["files"].items():
            try:
                found = hashlib.sha256((place / "files" / name).read_bytes()).hexdigest()
            except OSError as error:
                raise damaged(place / "files" / name, error, lost) from error
            if found != expected:
                raise damaged(place / "files" / name, "it has other content", lost)
        return CodeCopy(digest=digest, root=place / "files", versions=plain["versions"])

    def forget_others(self, needed: Collection[str]) -> None:
        """Remove the copies that nobody needs, and what a kill has left of one."""
        for place in self.folder.iterdir() if self.folder.is_dir() else ():
            if place.name not in needed:
                shutil.rmtree(place, ignore_errors=True)


def sources_of(module: str, root: Path) -> Sources:
    """The files of a module below the folder that it is imported from, and of all modules there that it imports: of a package the
    whole folder, because its code may read any file of it. Raises :class:`UsageError` ``TT403`` if there is no such module."""
    files: dict[str, Path] = {}
    imported: set[str] = set()
    pending, seen = [module.partition(".")[0]], set[str]()
    while pending:
        top = pending.pop()
        if top in seen:
            continue
        seen.add(top)
        found = {} if top == "tracetypes" else dict(_files_of(root, top))
        if not found:
            imported.add(top)
            continue
        files |= found
        for place, path in found.items():
            if place.endswith(".py"):
                about = path.stat()
                pending += _imports(path, about.st_mtime_ns, about.st_size)
    if not files:
        raise UsageError("TT403", f"there is no module {module} in {root}", fix="submit a flow of a file or a package")
    versions = {"python": platform.python_version(), "tracetypes": VERSION}
    distributions = _distributions()
    for top in imported - {"tracetypes"} - set(sys.stdlib_module_names):
        for name in distributions.get(top, ()):
            versions[name] = _installed_version(name)
    return Sources(files=files, versions=versions)


def _files_of(root: Path, top: str) -> Iterator[tuple[str, Path]]:
    if (file := root / f"{top}.py").is_file():
        yield file.name, file
    if not (root / top).is_dir() or not top.isidentifier():
        return
    for folder, below, names in os.walk(root / top, followlinks=True):
        below[:] = sorted(one for one in below if one != "__pycache__" and not one.startswith("."))
        for name in sorted(names):
            path = Path(folder, name)
            if not name.startswith(".") and not name.endswith((".pyc", ".pyo")) and path.is_file():
                yield str(PurePosixPath(path.relative_to(root))), path


@lru_cache(4096)
def _imports(path: Path, changed: int, size: int) -> tuple[str, ...]:
    """The first names of the modules that a file imports, not those relative to itself. ``changed``, ``size``: of the file, so
    that it is read again when it is another one."""
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError):  # a template, or of another Python: who imports it hears of it
        return ()
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=imported):
                names.update(one.name.partition(".")[0] for one in imported)
            case ast.ImportFrom(module=str(name), level=0):
                names.add(name.partition(".")[0])
            case _:
                pass
    return tuple(names)


@lru_cache(1)
def _distributions() -> Mapping[str, Sequence[str]]:
    """The installed distributions by the modules that they have. To look for them takes a second."""
    return metadata.packages_distributions()


@lru_cache(1024)
def _installed_version(name: str) -> str:
    """The version of a distribution. To read it takes a millisecond, and this process has imported it already."""
    return metadata.version(name)


def _version(name: str) -> str | None:
    if name in ("python", "tracetypes"):
        return platform.python_version() if name == "python" else VERSION
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _digest(about: object) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError("TT403", f"{path} cannot be read: {error.strerror}", fix="submit the flow again") from error


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
