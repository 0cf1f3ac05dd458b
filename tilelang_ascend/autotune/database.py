"""Measurements of earlier tunings, on disk next to the compiled kernels."""

from __future__ import annotations

import json

from .. import cache, env
from .outcome import Outcome

_FILE = "measurement.json"


class Database:
    """One small entry per measured configuration; keys are `TracedProgram.key`.

    An interrupted tuning goes on where it stopped, and spaces that overlap share what they have in common. It is
    switched off with the kernel cache, or alone by `TILELANG_AUTO_TUNING_DISABLE_CACHE`.
    """

    def __init__(self):
        self._store = cache.measurements()
        self._enabled = cache.is_cache_enabled() and not env.AUTO_TUNING_DISABLE_CACHE.get()

    def load(self, key: str) -> Outcome | None:
        """What is known about a configuration."""
        files = self._store.read(key) if self._enabled else None
        if files is None:
            return None
        try:
            return Outcome.from_json(json.loads(files[_FILE]))
        except (KeyError, ValueError, TypeError):
            self._store.remove(key)
            return None

    def save(self, key: str, outcome: Outcome) -> None:
        """Remember an outcome, unless another try might end differently."""
        if self._enabled and outcome.status.repeatable:
            self._store.remove(key)
            self._store.write(key, {_FILE: json.dumps(outcome.to_json())})
