"""Pages of the documentation as tests read them: fenced blocks, console sessions, and the programs of the tour as files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TOUR = ROOT / "docs" / "tour.md"
COMING_FROM = ROOT / "docs" / "coming_from.md"


class Page(NamedTuple):
    """A page that builds up programs. ``folder`` holds ``files``, the programs."""

    text: str
    folder: Path
    files: tuple[Path, ...]


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def sessions(text: str) -> Iterator[tuple[list[str], str]]:
    """Commands of the console blocks, as words, with the output that the page shows."""
    for block in blocks(text, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command.split(), output


def written(folder: Path, page: Path, programs: dict[str, str]) -> Page:
    """The programs of a page, in files."""
    files = []
    for name, program in programs.items():
        files.append(folder / name)
        files[-1].write_text(program, encoding="utf-8")
    return Page(page.read_text(encoding="utf-8"), folder, tuple(files))


def write_tour(folder: Path) -> Page:
    """The tour's files: ``clicks.py``, ``sensors.py``, the same without its sort, and the rows of both."""
    text = TOUR.read_text(encoding="utf-8")
    clicks, *parts = blocks(text, "python")
    program = "\n\n".join(parts)
    unsorted = program.replace(".through(sort(by=lambda r: r.ts))", "")
    assert unsorted != program
    for name, rows in zip(("clicks", "hub"), blocks(text, "json"), strict=False):
        (folder / f"{name}.jsonl").write_text(rows, encoding="utf-8")
    return written(folder, TOUR, {"clicks.py": clicks, "sensors.py": program, "unsorted.py": unsorted})


class Idiom(NamedTuple):
    """A section of ``docs/coming_from.md``: its program with the beginning of the page, and the output that it shows."""

    title: str
    text: str
    program: str
    output: str


def idioms() -> list[Idiom]:
    """The sections of ``docs/coming_from.md`` that have a number."""
    beginning, *sections = re.split(r"^## (?=\d)", COMING_FROM.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (start,) = blocks(beginning, "python")
    found = []
    for section in sections:
        text = section.partition("\n## ")[0]
        (program,), (output,) = blocks(text, "python"), blocks(text, "text")
        found.append(Idiom(text.partition("\n")[0], text, f"{start}\n\n{program}", output))
    return found
