"""What became of one configuration."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Mapping

from ..errors import OutOfMemory, TilelangAscendError


class Status(str, Enum):
    """`OK`: it has a latency. `UNMEASURED`: the time model did not find it worth a measurement. Everything else is a way to fail; the value
    is what a user reads."""

    OK = "ok"
    DOES_NOT_FIT = "does not fit"
    ERROR = "error"
    WRONG = "wrong"
    CRASHED = "crashed"
    TIMED_OUT = "timed out"
    UNMEASURED = "not measured"

    @property
    def repeatable(self) -> bool:
        """False for failures that may be the fault of the moment: they are tried again next time."""
        return self not in (Status.CRASHED, Status.TIMED_OUT, Status.UNMEASURED)


@dataclass(frozen=True)
class Outcome:
    """Result of compiling and measuring one configuration.

    Attributes:
        latency: milliseconds where it was measured, None when it failed.
        bound: the busiest pipe in the time model.
        error: why it failed, in one line; details: the whole message.
        checked: it has run for its values with all checks on, and none found anything.
        predicted: simulated milliseconds, of one that was measured on a board.
        text: digest of what was emitted for it.
        features: what the time model says about it (`features.features_of`).
    """

    status: Status
    latency: float | None = None
    bound: str = ""
    error: str = ""
    details: str = ""
    checked: bool = False
    predicted: float | None = None
    text: str = ""
    features: Mapping[str, float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.status is Status.OK

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` reverses it."""
        return {**asdict(self), "status": self.status.value}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Outcome":
        """Inverse of `to_json`.

        Raises:
            ValueError, TypeError, KeyError: it is none.
        """
        outcome = Outcome(**{**data, "status": Status(data["status"])})
        if outcome.ok != isinstance(outcome.latency, float):
            raise ValueError(f"an outcome that is {outcome.status.value} with the latency {outcome.latency!r}")
        return outcome


def failure(error: BaseException) -> Outcome:
    """The outcome of a configuration that raised `error`."""
    status = Status.DOES_NOT_FIT if isinstance(error, OutOfMemory) else Status.ERROR
    return Outcome(status, error=headline(error), details=str(error) or type(error).__name__)


def headline(error: BaseException) -> str:
    """One line: file and line of the user's code where known, then what is wrong."""
    text = (error.message if isinstance(error, TilelangAscendError) else str(error)).strip()
    line = text.splitlines()[0] if text else ""
    if not isinstance(error, TilelangAscendError):
        return f"{type(error).__name__}: {line}" if line else type(error).__name__
    if error.location is None:
        return line
    return f"{Path(error.location.file).name}:{error.location.line}: {line}"
