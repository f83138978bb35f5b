"""Spark itself: sessions, their settings, the work that they run, and their errors."""
