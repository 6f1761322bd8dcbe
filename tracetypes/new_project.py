"""``tracetypes new``: a folder with a dataflow, its test and a sample of data, which run at once."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tracetypes.errors import UsageError

__all__ = ["first_steps", "module_name", "project_files", "project_files_for", "write_project"]

FLOW: Final = '''\
"""Sales: how much each shop takes in five minutes."""

import attrs

from tracetypes import Dataflow, U, Unit, every
from tracetypes.stdlib import key_by, sum, tumbling


@attrs.frozen
class Sale:
    shop: str
    amount: float
    at: int  # seconds since the epoch


flow = Dataflow("{name}")

# A marker ends a block of rows. It comes for each minute of event time, and waits 30 s for rows that are out of order.
sales = flow.source("sales", U[Unit, Sale], markers=every(seconds=60, time=lambda sale: sale.at, delay=30))

by_shop = sales.through(key_by(lambda key, sale: sale.shop))
totals = by_shop.through(tumbling(sum(lambda sale: sale.amount), size=300))
flow.sink("totals", totals, marker="until")
'''

TEST: Final = '''\
"""python -m pytest"""

import tracetypes
from {name} import Sale, flow


def test_windows_of_five_minutes() -> None:
    totals: list[tuple[str, float]] = []
    sales = [Sale("north", 2.5, 10), Sale("south", 1.0, 20), Sale("north", 4.0, 299), Sale("north", 8.0, 300)]
    result = tracetypes.run(flow, inputs={{"sales": sales}}, outputs={{"totals": totals}}, backend="local")
    assert sorted(totals) == [("north", 6.5), ("north", 8.0), ("south", 1.0)]
    assert not result.late_rows
    assert not result.rejected_rows
'''

DATA: Final = """\
shop,amount,at
north,12.50,1767225605
south,3.00,1767225630
north,7.25,1767225700
south,18.90,1767225690
west,4.10,1767225899
north,1.00,1767225910
west,22.00,1767226000
south,5.55,1767226205
north,9.99,1767226210
"""

SETTINGS: Final = """\
# tracetypes run --config sample
[tool.tracetypes.run.sample]
target = "{name}.py"
backend = "local"   # this process; or "spark"
input.{source} = "{data}"
output.{sink} = "-"
"""

_OWN: Final = '''\

# Rows by {key}, and how many there are in each minute. Change this to what you want to know.
by_key = rows.through(key_by(lambda key, row: {value}))
flow.sink("counts", by_key.through(tumbling(count(), size=60)), marker="until")
'''

_OWN_TEST: Final = '''\
"""python -m pytest"""

import tracetypes
from {name} import flow


def test_every_row_is_counted() -> None:
    counts: list[tuple[{kind}, int]] = []
    result = tracetypes.run(flow, inputs={{"{source}": {data!r}}}, outputs={{"counts": counts}}, backend="local")
    assert not result.rejected_rows
    assert sum(count for _, count in counts) + len(result.late_rows) == result.rows
'''


def project_files(name: str) -> Mapping[str, str]:
    """The files of a project with a sample of our own, by their names."""
    settings = SETTINGS.format(name=name, source="sales", sink="totals", data="sales.csv")
    return {
        f"{name}.py": FLOW.format(name=name),
        f"test_{name}.py": TEST.format(name=name),
        "sales.csv": DATA,
        "pyproject.toml": settings,
    }


def project_files_for(name: str, program: str, given: str, address: str) -> Mapping[str, str]:
    """The files of a project for data of the user. ``program``: the record and the source that are proposed for it. ``given``:
    the address as it was given. ``address``: as it means the same in every folder."""
    source = re.search(r'^flow = Dataflow\("(\w+)"\)$', program, re.MULTILINE)
    fields = re.findall(r"^    (\w+): (str|int|bool)(?:  #.*)?$", program.rpartition("@attrs.frozen")[2], re.MULTILINE)
    text = next((one for one in fields if one[1] == "str"), next(iter(fields), None))
    if source is None or "rows = flow.source(" not in program:
        raise UsageError(
            "TT402",
            f"--data {given}: no field looks like a time, which markers need",
            fix="write a source with tracetypes record, or add a column with a time",
        )
    key, kind = text if text is not None else ("all of them", "str")
    value = f"row.{key}" if text is not None else '"all"'
    begin = program.replace(f'Dataflow("{source[1]}")', f'Dataflow("{name}")', 1).rstrip("\n") + "\n"
    imported = "from tracetypes.stdlib import count, key_by, tumbling"
    first = begin.index("\nfrom tracetypes import ")
    end = begin.index("\n", first + 1)
    flow = f"{begin[:end]}\n{imported}{begin[end:]}{_OWN.format(key=key, value=value)}"
    return {
        f"{name}.py": flow,
        f"test_{name}.py": _OWN_TEST.format(name=name, kind=kind, source=source[1], data=address),
        "pyproject.toml": SETTINGS.format(name=name, source=source[1], sink="counts", data=address),
    }


def write_project(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files into a folder that has none of them. Raises :class:`UsageError` ``TT402``."""
    there = [name for name in files if (folder / name).exists()]
    if there:
        raise UsageError("TT402", f"{folder / there[0]} is there already", fix="give another NAME, or remove it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError("TT402", f"{folder}: {error.strerror}", fix="give a NAME in a folder that can be written") from error


def module_name(text: str) -> str:
    """The name of a module that is like a text. Raises :class:`UsageError` ``TT402``."""
    name = re.sub(r"\W+", "_", Path(text).name, flags=re.ASCII).strip("_").lower()
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError("TT402", f"{text!r} is no name of a dataflow", fix="give letters, digits and '_', such as sales")
    return name


def first_steps(folder: Path, files: Mapping[str, str]) -> list[str]:
    """What to do with a new project."""
    name = next(iter(files)).removesuffix(".py")
    steps = {
        f"cd {folder}": "",
        f"tracetypes check {name}.py": "says what is wrong with the dataflow",
        "tracetypes run --config sample": "runs it, and prints the rows",
        "python -m pytest": "runs its test",
        f"tracetypes test {name}.py": "tests the operators with random rows (extra test)",
    }
    wide = max(map(len, steps))
    return [f"wrote {', '.join(files)} in {folder}", *(f"  {step.ljust(wide)}  {what}".rstrip() for step, what in steps.items())]
