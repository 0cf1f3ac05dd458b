"""Wall-clock timing of any callable."""

from __future__ import annotations

import statistics
import time
from typing import Any, Callable, Sequence

_MODES: dict[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "max": max,
    "mean": statistics.fmean,
    "median": statistics.median,
}


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    _n_warmup: int = 0,
    _n_repeat: int = 0,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    **_ignored: Any,
) -> float | list[float]:
    """Run `fn` repeatedly and return the time of one call in milliseconds of wall clock on this machine.

    Args:
        warmup, rep: milliseconds to spend warming up and measuring.
        _n_warmup, _n_repeat: exact numbers of calls instead, when positive.
        quantiles: return these quantiles as a list instead of one number.
        return_mode: ``min``, ``max``, ``mean`` or ``median``.
    """
    if return_mode not in _MODES:
        raise ValueError(f"return_mode is one of {', '.join(_MODES)}, not {return_mode!r}")
    once = max(_timed(fn), 1e-6)
    for _ in range(_n_warmup or int(warmup / once)):
        fn()
    times = sorted(_timed(fn) for _ in range(_n_repeat or max(1, int(rep / once))))
    if quantiles is not None:
        return [times[min(len(times) - 1, round(q * (len(times) - 1)))] for q in quantiles]
    return _MODES[return_mode](times)


def _timed(fn: Callable[[], Any]) -> float:
    start = time.perf_counter()
    fn()
    return (time.perf_counter() - start) * 1e3
