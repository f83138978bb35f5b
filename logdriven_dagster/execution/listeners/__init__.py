"""Listeners of windows: JSON lines, OpenTelemetry, OpenLineage, those of packages; lineage."""
