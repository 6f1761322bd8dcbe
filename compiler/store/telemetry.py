"""Traces of a run by OpenTelemetry: a span for the run, and in it one for each epoch, with its numbers."""

from __future__ import annotations

import os
import time
from typing import Any, Final

from tracetypes.compiler.store.metrics import Batch
from tracetypes.errors import UsageError
from tracetypes.version import VERSION

__all__ = ["EpochTraces"]

ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"


class EpochTraces:
    """Takes each epoch of a run. ``provider``: of OpenTelemetry, which sends what it gets."""

    def __init__(self, flow: str, provider: Any) -> None:
        from opentelemetry import trace

        self.flow, self.provider, self.trace = flow, provider, trace
        self.tracer = provider.get_tracer("tracetypes", VERSION)
        self.run = self.tracer.start_span(f"run {flow}", attributes={"tracetypes.flow": flow})
        self.inside = trace.set_span_in_context(self.run)

    @classmethod
    def sent(cls, flow: str, url: str | None) -> EpochTraces:
        """Traces that go to a collector, by OTLP over HTTP. ``url``: of its traces; None: what the environment says.

        Raises :class:`UsageError` ``TT401`` without the extra ``telemetry``, ``TT402`` where no collector is named.
        """
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ModuleNotFoundError as error:
            raise UsageError("TT401", f"{error.name} is not installed", fix="pip install 'tracetypes[telemetry]'") from error
        if url is None and not (os.environ.get(ENDPOINT) or os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")):
            fix = f"give --traces http://HOST:4318/v1/traces, or set {ENDPOINT}"
            raise UsageError("TT402", "--traces: no collector is named", fix=fix)
        if url is not None and not url.startswith(("http://", "https://")):
            raise UsageError("TT402", f"--traces {url} is no address", fix="give http://HOST:4318/v1/traces")
        provider = TracerProvider(resource=Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "tracetypes")}))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url) if url else OTLPSpanExporter()))
        return cls(flow, provider)

    def __call__(self, batch: Batch) -> None:
        """Add the span of an epoch that is over."""
        end = time.time_ns()
        attributes = {
            "tracetypes.flow": self.flow,
            "tracetypes.epoch": batch.number,
            "tracetypes.rows": batch.rows,
            "tracetypes.written": batch.written,
            "tracetypes.markers": batch.markers,
            "tracetypes.late": sum(batch.late.values()),
            "tracetypes.rejected": sum(batch.rejects.values()),
            "tracetypes.state_bytes": sum(one.bytes for one in batch.stages),
        }
        attributes |= {"tracetypes.query": batch.query} if batch.query else {}
        attributes |= {} if batch.lag is None else {"tracetypes.lag_seconds": batch.lag}
        start = end - round(batch.seconds * 1e9)
        span = self.tracer.start_span("epoch", context=self.inside, start_time=start, attributes=attributes)
        for stage in batch.stages:
            span.add_event(
                f"stage {stage.stage}", {"items": stage.items, "emitted": stage.emitted, "markers": stage.markers}, timestamp=end
            )
        span.end(end_time=end)

    def close(self) -> None:
        """The run is over: send the rest."""
        self.run.end()
        self.provider.shutdown()
