"""Timing of any callable: time on the NPU or simulated time of the kernels it launches, wall clock of anything else."""

from __future__ import annotations

import functools
import statistics
import time
from typing import Any, Callable, Sequence

from ..log import get_logger
from ..runtime.launches import timing_launches

_MODES: dict[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "max": max,
    "mean": statistics.fmean,
    "median": statistics.median,
}

BACKENDS = ("auto", "sim", "wall", "event", "cupti", "cudagraph", "msprof", "msprof_detail")
"""Ways of measuring that scripts name; all but ``wall`` mean the time on the device."""


MOST_CALLS = 10_000
"""Short kernels fit into the time a measurement is given more often than any figure needs."""


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    _n_warmup: int = 0,
    _n_repeat: int = 0,
    quantiles: Sequence[float] | None = None,
    fast_flush: bool = True,
    backend: str = "event",
    return_mode: str = "mean",
    warm: bool = True,
    **_ignored: Any,
) -> float | list[float]:
    """Time of one call of `fn` in milliseconds.

    When `fn` launches kernels on the simulator, it is their *simulated* time, which does not vary: one call tells it.
    When it launches them on an NPU, it is the time between two events around each, summed over the kernels of a call. Otherwise, and with the
    backend ``wall``, it is wall clock of this machine.

    Args:
        warmup, rep: milliseconds to spend warming up and measuring, by the clock of this machine; at least one call is measured.
        _n_warmup, _n_repeat: exact numbers of calls instead, when positive.
        quantiles: return these quantiles as a list instead of one number.
        backend: one of `BACKENDS`.
        return_mode: ``min``, ``max``, ``mean`` or ``median``.
        warm: simulated time only: L2 holds what an earlier call with the same tensors left in it, as where a board repeats a measurement;
            False: it starts empty.

    Raises:
        ValueError: unknown `backend` or `return_mode`.
    """
    check(backend, return_mode)
    if backend != "wall":
        with timing_launches(warm) as launched:
            fn()
        if launched.simulated:
            return simulated(sum(launched.simulated) / 1e3, quantiles)
    on_board = backend != "wall" and bool(launched.measured)
    if not on_board:
        say_wall_clock()
    timed = _measured if on_board else _timed
    # What a call takes here counts as well: transfers, and the way to a server, take far longer than a short kernel.
    n_warmup, n_repeat = counts(_timed(lambda: timed(fn)), warmup, rep, _n_warmup, _n_repeat)
    for _ in range(n_warmup):
        fn()
    return summary([timed(fn) for _ in range(n_repeat)], quantiles, return_mode)


def counts(once: float, warmup: float, rep: float, n_warmup: int, n_repeat: int) -> tuple[int, int]:
    """Calls that do not count and calls that do, when one takes `once` milliseconds; at most `MOST_CALLS` of each unless more are asked for."""
    once = max(once, 1e-6)
    return n_warmup or min(int(warmup / once), MOST_CALLS), n_repeat or min(max(1, int(rep / once)), MOST_CALLS)


def summary(times: Sequence[float], quantiles: Sequence[float] | None, return_mode: str) -> float | list[float]:
    """What `do_bench` returns of the times of all calls."""
    times = sorted(times)
    if quantiles is not None:
        return [times[min(len(times) - 1, round(q * (len(times) - 1)))] for q in quantiles]
    return _MODES[return_mode](times)


def check(backend: str, return_mode: str) -> None:
    """Refuse words that are none of ours.

    Raises:
        ValueError: unknown `backend` or `return_mode`.
    """
    for name, value, known in (("backend", backend, BACKENDS), ("return_mode", return_mode, _MODES)):
        if value not in known:
            raise ValueError(f"{name} is one of {', '.join(known)}, not {value!r}")


def simulated(latency: float, quantiles: Sequence[float] | None) -> float | list[float]:
    """A simulated time as a measurement returns it; the first one says what it is."""
    _say_simulated()
    return latency if quantiles is None else [latency] * len(quantiles)


@functools.cache
def _say_simulated() -> None:
    get_logger().info("do_bench gives the simulated time of kernels on their chip, in ms")


@functools.cache
def say_wall_clock() -> None:
    """Say once that what is no kernel is measured by this machine's clock."""
    get_logger().info("do_bench of a function without kernels, or with backend='wall', gives this machine's wall clock")


def _measured(fn: Callable[[], Any]) -> float:
    """Milliseconds the kernels of a call take on the board."""
    with timing_launches() as launched:
        fn()
    return sum(launched.measured) / 1e3


def _timed(fn: Callable[[], Any]) -> float:
    start = time.perf_counter()
    fn()
    return (time.perf_counter() - start) * 1e3
