"""Spark integration: sessions, settings, interruptible actions and error messages."""
