"""Ways to watch launches, for tools: who is called, and how long they take."""

from __future__ import annotations

import contextlib
import contextvars
from dataclasses import dataclass, field
from typing import Callable, Iterator, Sequence

from .arguments import Launch
from .artifact import Artifact

_listeners: list[Callable[[Artifact, Launch], None]] = []


@contextlib.contextmanager
def on_launch(callback: Callable[[Artifact, Launch], None]) -> Iterator[None]:
    """Call `callback` with the artifact and the checked arguments of every call and simulation meanwhile, before it runs."""
    _listeners.append(callback)
    try:
        yield
    finally:
        _listeners.remove(callback)


def notify(artifact: Artifact, launch: Launch) -> None:
    """Tell everyone who asked with `on_launch`."""
    for callback in list(_listeners):
        callback(artifact, launch)


Measure = Callable[[int, int], tuple[Sequence[float], str]]
"""Launches that do not count, launches that do -> microseconds of these, and their clock: ``device``, or ``simulated``, which one number tells."""


@dataclass
class LaunchTimes:
    """Microseconds of the calls in a `timing_launches` block: those the machine model gives, and those events on a board have measured.

    warm: simulated calls find in L2 what an earlier call with the same tensors left."""

    simulated: list[float] = field(default_factory=list)
    measured: list[float] = field(default_factory=list)
    warm: bool = True


_times: contextvars.ContextVar[LaunchTimes | None] = contextvars.ContextVar("launch_times", default=None)


@contextlib.contextmanager
def timing_launches(warm: bool = True) -> Iterator[LaunchTimes]:
    """Gives lists that receive the time of every plain call made in the `with` block."""
    times = LaunchTimes(warm=warm)
    token = _times.set(times)
    try:
        yield times
    finally:
        _times.reset(token)


def wanted_times() -> LaunchTimes | None:
    """Where an executor puts the time of the call it runs; None when nobody asks."""
    return _times.get()
