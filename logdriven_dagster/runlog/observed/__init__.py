"""Observations recorded with attempts: quality, lineage, notices, audits, and reports of them."""
