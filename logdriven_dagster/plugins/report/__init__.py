"""The daily report: attempts of a period as CSV, JSON and an HTML page with drawings."""
