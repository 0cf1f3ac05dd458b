"""The signal that a nest has no vector form."""

from __future__ import annotations


class Unsupported(Exception):
    """A body that has no vector form. `reason` says why, `hint` what would help; the caller falls back to scalar loops."""

    def __init__(self, reason: str, hint: str = ""):
        super().__init__(reason)
        self.reason, self.hint = reason, hint
