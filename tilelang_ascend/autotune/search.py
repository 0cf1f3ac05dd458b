"""Which programs to measure on the real thing, when it can measure only few: those the time model ranks first, corrected by what was measured.

Knows nothing of kernels, processes or files: programs are numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..errors import InvalidArgument

SHARE = 0.1
"""Part of the programs that is measured by default."""
LEAST = 16
"""Measurements by default, if there are so many programs."""
ENOUGH = 6
"""Measurements a correction is learnt from."""

_ROUNDS, _ROUNDS_OF_HISTORY = 60, 100
_TREES = {
    "max_depth": 3,
    "eta": 0.2,
    "subsample": 0.8,
    "colsample_bytree": 0.5,
    "seed": 0,
    "nthread": 1,
    "verbosity": 0,
}
"""Parameters of xgboost: shallow, because rows are few. One thread and one seed: the same measurements give the same proposals."""


@dataclass(frozen=True)
class Point:
    """One program.

    Attributes:
        predicted: milliseconds of the time-only model, above 0.
        features: `features.features_of` its run; every point has the same names.
    """

    predicted: float
    features: Mapping[str, float]


def budget(programs: int, asked: int | None) -> int:
    """How many of so many programs are measured: as many as asked for, by default a tenth but at least `LEAST`; never more than there are.

    Raises:
        errors.InvalidArgument: less than one is asked for.
    """
    if asked is not None and asked < 1:
        raise InvalidArgument(f"{asked} measurements find no best configuration", hint="ask for at least 1")
    return min(programs, asked if asked is not None else max(LEAST, math.ceil(SHARE * programs)))


class ModelSearch:
    """Proposes programs to measure and learns from the measurements.

    The model's ranking is right where its constants are. What they are wrong by shows alike in programs that do the same in the same
    proportions, so the correction is log(measured / predicted) as a function of the features: small boosted trees of xgboost, learnt from
    `history` first and, of what that leaves, from the measurements of this search. Of the correction by `history` only that part is used that
    agrees with the measurements so far, and none of it before there are `ENOUGH`: other kernels may be slow for reasons of their own.
    Without xgboost (extra ``tune``) the model alone ranks.

    Args:
        points: the programs.
        history: (point, measured milliseconds) of earlier searches on the same chip, of this kernel or of others.
    """

    def __init__(self, points: Sequence[Point], history: Sequence[tuple[Point, float]] = ()):
        self._points = list(points)
        self._history = [(point, measured) for point, measured in history if measured > 0]
        self._measured: dict[int, float | None] = {}
        self._xgboost = _xgboost()
        self._ranking: list[int] | None = None

    def propose(self, count: int) -> list[int]:
        """Up to `count` indices that are not measured yet, the most promising first; fewer, or none, when no more are left.

        The same ones until something is observed.
        """
        if self._ranking is None:
            left = [i for i in range(len(self._points)) if i not in self._measured]
            expected = self._expected()
            self._ranking = sorted(left, key=lambda i: (expected[i], i))
        return self._ranking[:count]

    def observe(self, index: int, measured: float | None) -> None:
        """Point `index` took so many milliseconds; None: it failed."""
        self._measured[index] = measured
        self._ranking = None

    def _expected(self) -> list[float]:
        """Logarithm of the time each point is expected to take, up to a constant."""
        predicted = self._model
        if self._xgboost is None:
            return predicted
        seen = {i: math.log(ms) - predicted[i] for i, ms in self._measured.items() if ms}
        known = self._from_history
        trust = _agreement([known[i] for i in seen], list(seen.values()))
        known = [trust * value for value in known]
        rest = [0.0] * len(predicted)
        if len(seen) >= ENOUGH:
            rest = self._learnt([self._rows[i] for i in seen], [error - known[i] for i, error in seen.items()], _ROUNDS)
        return [sum(parts) for parts in zip(predicted, known, rest)]

    @cached_property
    def _model(self) -> list[float]:
        """Logarithm of the time the model predicts."""
        return [math.log(point.predicted) for point in self._points]

    @cached_property
    def _names(self) -> list[str]:
        return sorted(self._points[0].features)

    @cached_property
    def _rows(self) -> list[list[float]]:
        return [self._row(point) for point in self._points]

    def _row(self, point: Point) -> list[float]:
        return [point.features.get(name, math.nan) for name in self._names]

    @cached_property
    def _from_history(self) -> list[float]:
        """What `history` says about each point: log(measured / predicted)."""
        if len(self._history) < ENOUGH or not self._points:
            return [0.0] * len(self._points)
        errors = [math.log(measured / point.predicted) for point, measured in self._history]
        return self._learnt([self._row(point) for point, _ in self._history], errors, _ROUNDS_OF_HISTORY)

    def _learnt(self, rows: list[list[float]], errors: list[float], rounds: int) -> list[float]:
        """The error of every point, from errors in other rows of features."""
        xgboost = self._xgboost
        mean = sum(errors) / len(errors)
        trees = xgboost.train({**_TREES, "base_score": mean}, xgboost.DMatrix(_matrix(rows), label=errors), rounds)
        return [float(value) for value in trees.predict(xgboost.DMatrix(_matrix(self._rows)))]


def _matrix(rows: list[list[float]]) -> Any:
    import numpy as np

    return np.array(rows, np.float32)


def _agreement(said: list[float], found: list[float]) -> float:
    """By what factor in [0, 1] differences in `said` come closest to those in `found`; 0 while there are too few to tell."""
    if len(said) < ENOUGH:
        return 0.0
    mean_said, mean_found = sum(said) / len(said), sum(found) / len(found)
    spread = sum((s - mean_said) ** 2 for s in said)
    together = sum((s - mean_said) * (f - mean_found) for s, f in zip(said, found))
    return min(1.0, max(0.0, together / spread)) if spread > 0 else 0.0


def _xgboost() -> Any:
    """The module, or None where it is not installed."""
    try:
        import xgboost
    except ImportError:
        return None
    return xgboost
