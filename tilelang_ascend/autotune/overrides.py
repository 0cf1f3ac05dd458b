"""What a tool sets for every tuning of a script, and what it hears of them (`tilelang-ascend tune`)."""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Iterator, Sequence

if TYPE_CHECKING:
    from .report import Candidate


@dataclass(frozen=True)
class Tuned:
    """One tuning that has ended.

    Attributes:
        kernel, chip: names.
        clock: what times are: ``simulated`` or ``measured``.
        candidates: all configurations; best: the winner, one of them.
    """

    kernel: str
    chip: str
    clock: str
    candidates: Sequence[Candidate]
    best: Candidate


@dataclass(frozen=True)
class Overrides:
    """What a tool wants.

    Attributes:
        execution_backend: where to measure, instead of where the kernels run; None leaves that.
        measurements: how many configurations to measure on a board; None leaves that, too.
        tuned: gets every tuning that has ended.
    """

    execution_backend: str | None = None
    measurements: int | None = None
    tuned: list[Tuned] | None = None


_overrides: ContextVar[Overrides] = ContextVar("autotune_overrides", default=Overrides())


def current() -> Overrides:
    """What holds now."""
    return _overrides.get()


@contextlib.contextmanager
def overriding(chosen: Overrides) -> Iterator[None]:
    """Let `chosen` hold in a `with` block."""
    token = _overrides.set(chosen)
    try:
        yield
    finally:
        _overrides.reset(token)


def tell(kernel: str, chip: str, clock: str, candidates: Sequence[Candidate], best: Candidate) -> None:
    """A tuning has ended."""
    listener = current().tuned
    if listener is not None:
        listener.append(Tuned(kernel, chip, clock, candidates, best))
