"""The daily report: its data, its page, its drawings."""
