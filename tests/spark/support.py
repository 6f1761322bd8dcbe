"""What the tests of the Spark backend share: running, the definition of what must come out, reading outputs back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from tracetypes import Dataflow, Item, Trace, check, cli, interpret
from tracetypes.arrangement import Arranged, arrange, streams_of
from tracetypes.check import Checked
from tracetypes.compiler.store.output_trace import Answer
from tracetypes.formats import Csv, JsonLines
from tracetypes.nodes import Sink
from tracetypes.parsing import Row, text_parser
from tracetypes.plain_data import to_plain
from tracetypes.records import Mismatch
from tracetypes.sources import reader
from tracetypes.trace import Element, blocks, closed

Lines = Sequence[str]


def defined(
    flow: Dataflow | Checked,
    lines: Mapping[str, Lines],
    *,
    drain: bool = True,
    format: Csv | JsonLines | None = None,
    header: Sequence[str] | None = None,
) -> tuple[Trace[Element], dict[str, Arranged]]:
    """What the interpreter says of lines of text that arrive in this order: the trace at the sink, and the sources."""
    traces, arranged = all_defined(flow, lines, drain=drain, format=format, header=header)
    (trace,) = traces.values()
    return (trace if drain else closed(trace)), arranged


def all_defined(
    flow: Dataflow | Checked,
    lines: Mapping[str, Lines],
    *,
    drain: bool = True,
    format: Csv | JsonLines | None = None,
    header: Sequence[str] | None = None,
) -> tuple[dict[str, Trace[Element]], dict[str, Arranged]]:
    """The same with the traces at all sinks."""
    checked = flow if isinstance(flow, Checked) else check(flow)
    arranged: dict[str, Arranged] = {}
    for source in checked.graph.sources:
        read, parse = reader(source).read, text_parser(format or JsonLines(), checked.layout(source), header)
        rows: list[Row] = []
        for line in lines.get(source.name, ()):
            try:
                key, value = parse(line)
            except Mismatch as error:
                rows.append(Row("reject", reason=str(error), text=line))
            else:
                rows.append(attrs.evolve(read(key, value), text=line))
        arranged[source.name] = arrange(source, rows, drain=drain)
    return interpret(checked, streams_of(arranged), complete=drain), arranged


def differences(
    flow: Dataflow | Checked, answer: Answer, expected: tuple[Trace[Element], Mapping[str, Arranged]]
) -> list[str]:
    """In what an answer is not what is expected: the trace, late items with reasons, rejects with reasons."""
    checked = flow if isinstance(flow, Checked) else check(flow)
    trace, arranged = expected
    late: Counter[tuple[str, str, str]] = Counter()
    rejects: Counter[tuple[str, str]] = Counter()
    for source in checked.graph.sources:
        stream = checked.streams[source.id]
        for one in arranged[source.name].late:
            plain = {"key": to_plain(stream.key, one.key), "value": to_plain(stream.value, one.value)}
            late[source.name, one.reason, json.dumps(plain, ensure_ascii=False)] += 1
        rejects.update((source.name, reason) for _, reason in arranged[source.name].rejects)
    return [
        f"{what}: {got} instead of {wanted}"
        for what, got, wanted in (
            ("trace", answer.trace, trace),
            ("late", Counter(answer.late), late),
            ("rejects", Counter((source, reason) for source, reason, _ in answer.rejects), rejects),
        )
        if got != wanted
    ]


def rows_at_sink(flow: Dataflow | Checked, trace: Trace[Element]) -> Counter[str]:
    """The rows that the sink of a flow writes for a trace, as JSON: each with its marker and its place if asked for."""
    checked = flow if isinstance(flow, Checked) else check(flow)
    (sink,) = checked.graph.sinks
    return rows_of(checked, sink, trace)


def rows_of(checked: Checked, sink: Sink, trace: Trace[Element]) -> Counter[str]:
    """The same for one of several sinks."""
    layout = checked.layout(sink)
    found: Counter[str] = Counter()
    for block in blocks(trace):
        places: Counter[Any] = Counter()
        for item in block.items:
            assert isinstance(item, Item)
            row = layout.plain(item.key, item.value)
            if sink.marker is not None:
                assert block.marker is not None
                row[sink.marker] = block.marker.datetime.isoformat()
            if sink.position is not None:
                row[sink.position] = places[item.key]
                places[item.key] += 1
            found[json.dumps(row, sort_keys=True)] += 1
    return found


def rows_in(directory: Path, *times: str) -> Counter[str]:
    """The rows in the JSON lines of an output directory; the columns ``times`` hold instants."""
    import datetime as dt

    found: Counter[str] = Counter()
    for path in sorted(directory.glob("part-*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            row |= {name: dt.datetime.fromisoformat(row[name]).astimezone(dt.UTC).isoformat() for name in times}
            found[json.dumps(row, sort_keys=True)] += 1
    return found


def side_outputs(directory: Path, source: str) -> list[dict[str, Any]]:
    """The late or rejected rows of a source, with their reasons."""
    found = [json.loads(line) for path in sorted((directory / source).glob("part-*")) for line in lines_of(path)]
    return sorted(found, key=lambda row: json.dumps(row))


def lines_of(path: Path) -> list[str]:
    """Lines of a text file."""
    return path.read_text().splitlines()


def write_lines(path: Path, lines: Iterable[str], *, at: int | None = None) -> Path:
    """Write a text file, with a modification time (seconds) if its place among others matters. It appears as a whole: a run may
    be looking for it."""
    import os

    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    hidden.write_text("".join(f"{line}\n" for line in lines))
    if at is not None:
        os.utime(hidden, (at, at))
    return hidden.replace(path)


def row(**fields: Any) -> str:
    """A line of JSON."""
    return json.dumps(fields)


def often(cases: Iterable[Any], count: int = 1) -> list[Any]:
    """Cases of a test that the local backend runs too: the first ones run on Spark every time, the others nightly."""
    return [
        one if at < count else pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=pytest.mark.repeated)
        for at, one in enumerate(cases)
    ]


@attrs.frozen
class Ran:
    """What a command line did."""

    code: int
    out: str
    err: str


@attrs.frozen
class Cli:
    """The command line in this process. No command may ever show a traceback."""

    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: object) -> Ran:
        self.capsys.readouterr()
        try:
            code = cli.main([str(a) for a in arguments])
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = self.capsys.readouterr()
        assert "Traceback" not in err
        assert "Traceback" not in out
        return Ran(code, out, err)
