"""The package's logger: short lines on standard error, level from `TILELANG_LOG_LEVEL` or `set_log_level`."""

from __future__ import annotations

import logging
import sys

from . import env

_NAME = "tilelang_ascend"


class _StderrHandler(logging.StreamHandler):
    """Writes to whatever `sys.stderr` is now (notebooks and test runners replace it)."""

    @property
    def stream(self):
        return sys.stderr

    @stream.setter
    def stream(self, value):
        pass


def get_logger() -> logging.Logger:
    """The package's logger, configured on first use."""
    logger = logging.getLogger(_NAME)
    if not logger.handlers:
        handler = _StderrHandler()
        handler.setFormatter(logging.Formatter("tilelang_ascend: %(message)s"))
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(env.LOG_LEVEL.get().upper())
    return logger


def set_log_level(level: int | str) -> None:
    """Print messages of `level` (a `logging` level or its name) and above.

    Raises:
        ValueError: `level` is no level of `logging`.
    """
    get_logger().setLevel(level.upper() if isinstance(level, str) else level)
