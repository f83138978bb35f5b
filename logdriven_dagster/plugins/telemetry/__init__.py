"""Listeners that export windows: spans of OpenTelemetry and events of OpenLineage."""
