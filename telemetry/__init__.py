"""Traces, metrics and logs: OpenTelemetry's API and standard logging, with no exporter of its own (OPS-3, OPS-7)."""
