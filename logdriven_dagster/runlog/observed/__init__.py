"""What is noted beside attempts: quality, lineage, notices, audits, and reports of them."""
