"""Importer of workflows that DolphinScheduler 2 or 3 has exported."""
