"""Hints on fields of YAML files, logged once per process."""

import logging
from functools import cache

_logger = logging.getLogger(__name__)


@cache
def log_hint(event: str, text: str) -> None:
    """Log a hint, once per process: runs and ticks read the files again."""
    _logger.warning("%s: %s", event, text)
