"""What the windows of a table are ranges of, a module for each `incremental_type`; `fresh`."""
