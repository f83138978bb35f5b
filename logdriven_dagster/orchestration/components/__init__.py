"""Projects and tables as components, which `dg` scaffolds, checks, lists and documents."""
