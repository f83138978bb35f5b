"""Targets of plain files: data folders, and a pointer file for each window."""
