"""Notices and messages: who is told what, in which words, by which sender."""
