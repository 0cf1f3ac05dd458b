"""What a tuning shows: a progress bar, a table of all configurations, and the error when all of them fail."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Sequence

from ..errors import CompileError
from ..log import get_logger
from .outcome import Outcome, Status
from .space import tunables

_WIDTH_OF_FILES = 140
_MOST_ROWS = 40
"""Of a space of hundreds the best ones, and what kinds of failures there were."""


@dataclass
class Candidate:
    """One configuration of the space and what became of it; `program` is None when it could not even be traced."""

    index: int
    config: dict[str, Any]
    program: Any = None
    outcome: Outcome | None = None

    @property
    def result(self) -> Outcome:
        """The outcome, when everything has been measured."""
        assert self.outcome is not None, f"configuration {self.index} has not been measured"
        return self.outcome


class TuningFailed(CompileError):
    """No configuration compiles, runs and gives right results."""

    template = (
        "Auto-tuning failed: No configuration successfully compiled and passed benchmarking/validation. "
        "None of the {count} configurations of {name} works"
    )


def failed(name: str, candidates: Sequence[Candidate]) -> TuningFailed:
    """The error for a space without a survivor: every distinct reason with one configuration that has it."""
    reasons = {c.result.error: c for c in reversed(candidates) if c.result.error}
    notes = [f"{show_config(c.config)}: {c.result.error}" for c in sorted(reasons.values(), key=lambda c: c.index)]
    if len(reasons) == 1:
        notes = [next(iter(reasons.values())).result.details]
    return TuningFailed(name=name, count=len(candidates), notes=notes)


def rank(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Fastest first, then those that were only simulated, then the failed ones; the user's order decides between equals."""
    unmeasured = lambda c: c.result.status is Status.UNMEASURED
    return sorted(candidates, key=lambda c: (not c.result.ok, not unmeasured(c), c.result.latency or c.result.predicted or 0.0, c.index))


def progress(name: str, total: int):
    """A bar on terminals; call `.update(1)` for each configuration that is done."""
    from tqdm import tqdm

    return tqdm(total=total, desc=f"Tuning {name}", unit="config", disable=None, leave=False)


def show_table(name: str, chip: str, candidates: Sequence[Candidate], clock: str) -> None:
    """Print all configurations, best first, with latency or the first line of the error, unless logging is quiet."""
    if not get_logger().isEnabledFor(logging.INFO):
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        console = Console(stderr=True, highlight=False, width=_WIDTH_OF_FILES)
    console.print(_table(name, chip, candidates, clock))


def _table(name: str, chip: str, candidates: Sequence[Candidate], clock: str):
    from rich.table import Table
    from rich.text import Text

    names = tunables([c.config for c in candidates])
    table = Table(title=f"{name}: {len(candidates)} configurations, {clock} time on {chip}", title_justify="left")
    foreseen = any(c.result.predicted is not None for c in candidates)
    for column in ("#", *names, "ms", "of best", *(["ms simulated"] if foreseen else [])):
        table.add_column(column, justify="right")
    table.add_column("bound by / why it failed", justify="left", overflow="fold")
    ranking = rank(candidates)
    best = ranking[0].result.latency or 0.0
    chosen = _abridged(ranking)
    for place, c in enumerate(chosen):
        values = [str(c.config.get(n, "")) for n in names]
        if c.result.ok:
            latency = c.result.latency or 0.0
            shown = [f"{latency:.4f}", f"{latency / best:.2f}x", c.result.bound]
        else:
            shown = ["", "", ": ".join(filter(None, (c.result.status.value, c.result.error)))]
        if foreseen:
            shown.insert(2, f"{c.result.predicted:.4f}" if c.result.predicted is not None else "")
        cells = [Text(cell) for cell in (str(c.index), *values, *shown)]
        table.add_row(*cells, style="bold green" if place == 0 and c.result.ok else None if c.result.ok else "dim")
    if len(chosen) < len(ranking):
        table.caption = f"and {len(ranking) - len(chosen)} more"
    return table


def _abridged(ranking: Sequence[Candidate]) -> Sequence[Candidate]:
    """Of a large space the best, and one configuration for each reason to fail."""
    if len(ranking) <= _MOST_ROWS:
        return ranking
    failures = {c.result.error: c for c in reversed(ranking) if not c.result.ok and c.result.error}
    first = ranking[: max(1, _MOST_ROWS - len(failures))]
    return [*first, *(c for c in ranking[len(first) :] if failures.get(c.result.error) is c)][:_MOST_ROWS]


def show_config(config: dict[str, Any]) -> str:
    """A configuration in one line."""
    return "{" + ", ".join(f"{k}: {v}" for k, v in config.items()) + "}"
