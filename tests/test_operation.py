"""What watches a run: logs of JSON, spans of OpenTelemetry, and the rules and the board in ``deploy``."""

from __future__ import annotations

import json
import re
import socket
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.pages import ROOT
from tracetypes import UsageError
from tracetypes.cli import main
from tracetypes.compiler.store.metrics import Batch, OperatorMetrics, StageMetrics, prometheus
from tracetypes.compiler.store.telemetry import ENDPOINT, EpochTraces
from tracetypes.results import GateReport

STAGE = StageMetrics(0, 10, 5, 1, 50_000_000, 1_000, (OperatorMetrics("sum", 10, 5, 3),))
BATCH = Batch(
    3, 10, 1, 50_000_000, {"in": 2}, {"in": 1}, 0.5, "totals", {"in": 60_000_000}, (STAGE,), {"in": 10}, 5,
    gate=GateReport(bound="b", markers=2, executions=1, held=0),
)  # fmt: skip

FLOW = '''
import attrs
from tracetypes import Dataflow, U, every
from tracetypes.stdlib import aggregate, count

@attrs.frozen
class Click:
    page: str
    ts: int

flow = Dataflow("clicks")
clicks = flow.source("clicks", U[str, Click], key=lambda click: click.page, markers=every(seconds=10, time=lambda c: c.ts))
flow.sink("counts", clicks.through(aggregate(count())))
'''


def metrics_that_exist() -> set[str]:
    """The names of all metrics of a run, as Prometheus reads them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    prometheus("flow", port)(BATCH)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        text = page.read().decode()
    return {line.partition("{")[0].partition(" ")[0] for line in text.splitlines() if not line.startswith("#")}


def test_rules_and_board_ask_for_metrics_that_exist() -> None:
    existing = metrics_that_exist()
    for path in (ROOT / "deploy" / "prometheus" / "alerts.yml", ROOT / "deploy" / "grafana" / "tracetypes.json"):
        text = path.read_text(encoding="utf-8")
        names = set(re.findall(r"\btracetypes_\w+", text))
        assert len(names) > 5
        assert sorted(names - existing) == [], path.name


def test_labels_of_rules_are_those_of_the_metrics() -> None:
    yaml = pytest.importorskip("yaml")
    groups = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 5
    for rule in rules:
        assert {"summary", "action"} <= rule["annotations"].keys()
        used = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        assert used <= {"flow", "query", "source", "stage", "instance"}, rule["alert"]
        grouped = re.search(r"sum by \(([^)]*)\)", rule["expr"])
        if grouped is not None:
            assert used <= set(re.split(r",\s*", grouped[1]))


def test_the_board_is_one() -> None:
    board = json.loads((ROOT / "deploy/grafana/tracetypes.json").read_text())
    places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]
    assert len(set(places)) == len(places)
    assert all(target["expr"] for panel in board["panels"] for target in panel["targets"])


# ------------------------------------------------------------------------------------------------------- traces


def test_a_span_for_each_epoch() -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    traces = EpochTraces("clicks", provider)
    traces(BATCH)
    traces.close()
    epoch, run = kept.get_finished_spans()
    assert (epoch.name, run.name) == ("epoch", "run clicks")
    assert epoch.parent is not None
    assert run.context is not None
    assert epoch.parent.span_id == run.context.span_id
    attributes: Any = dict(epoch.attributes or {})
    assert attributes["tracetypes.epoch"] == 3
    assert attributes["tracetypes.late"] == 2
    assert attributes["tracetypes.rejected"] == 1
    assert attributes["tracetypes.lag_seconds"] == 10.0
    assert (epoch.end_time or 0) - (epoch.start_time or 0) == 500_000_000
    assert [event.name for event in epoch.events] == ["stage 0"]


def test_spans_need_a_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    monkeypatch.delenv(ENDPOINT, raising=False)
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", raising=False)
    with pytest.raises(UsageError, match="TT402 --traces: no collector is named"):
        EpochTraces.sent("clicks", None)
    with pytest.raises(UsageError, match="TT402 --traces localhost is no address"):
        EpochTraces.sent("clicks", "localhost")


# --------------------------------------------------------------------------------------------------------- logs


def test_logs_of_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TRACETYPES_BACKEND", "local")
    Path("logged_flow.py").write_text(FLOW)
    Path("clicks.jsonl").write_text("".join(json.dumps({"page": "a", "ts": ts}) + "\n" for ts in (100, 3, 101)) + "no row\n")
    command = ["run", "logged_flow.py", "-i", "clicks=clicks.jsonl", "-o", "counts=out", "--log-format", "json"]
    assert main(command) == 0
    records = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert all(record["at"] and record["level"] in ("info", "warning") for record in records)
    (epoch,) = [record for record in records if record.get("event") == "micro-batch"]
    assert (epoch["rows"], epoch["late"], epoch["rejects"]) == (4, {"clicks": 1}, {"clicks": 1})
    (warning,) = [record for record in records if record["level"] == "warning"]
    assert warning["code"] == "TT242"
    assert warning["message"].startswith("1 of 4 rows of source 'clicks' is late")
    assert "keeps all of them" in warning["fix"]
    assert main(command) == 1
    *_, error = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert (error["level"], error["code"]) == ("error", "TT212")
    assert "--overwrite" in error["fix"]
