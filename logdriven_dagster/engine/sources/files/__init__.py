"""File sources: listing files, and reading records without changing values silently."""
