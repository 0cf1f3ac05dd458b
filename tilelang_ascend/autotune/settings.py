"""What a user can set about a tuning, and what he gets back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Sequence


@dataclass(frozen=True)
class CompileArgs:
    """How every configuration is compiled.

    Attributes:
        out_idx: parameters a call allocates and returns.
        target, execution_backend: as for `tilelang.jit`.
        options: normalised compiler options (`jit.pass_config.normalize_pass_configs`).
    """

    out_idx: int | list[int] | None = None
    target: Any = None
    execution_backend: str | None = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ProfileArgs:
    """How configurations are measured and checked.

    Attributes:
        timeout: seconds one configuration may take to compile and to be simulated, to be measured, and to be checked; also `ref_prog`.
        warmup, rep: milliseconds of calls on a board that do not count, and that do; simulated times need one run.
        measurements: configurations measured on a board, None for a tenth of the space (`search.budget`).
        supply_type: how inputs are filled that nobody supplies.
        supply_prog: gets the parameters a caller passes, returns their values.
        ref_prog: reference; gets the inputs, returns the expected outputs.
        rtol, atol, max_mismatched_ratio: tolerances of the comparison with `ref_prog`.
        manual_check_prog: compares (outputs of the kernel, outputs of the reference) instead; raises AssertionError.
        skip_check: take the fastest configuration without running it for its values.
    """

    timeout: float = 100
    warmup: float = 25
    rep: float = 100
    measurements: int | None = None
    supply_type: Any = None
    supply_prog: Callable[[Sequence[Any]], Sequence[Any]] | None = None
    ref_prog: Callable | None = None
    rtol: float = 1e-2
    atol: float = 1e-2
    max_mismatched_ratio: float = 0.01
    manual_check_prog: Callable[[list, list], None] | None = None
    skip_check: bool = False


@dataclass(frozen=True)
class AutotuneResult:
    """The outcome of a tuning.

    Attributes:
        latency: time of one call in milliseconds: simulated, or measured where the kernel runs on a board.
        config: the winning configuration, None when tuning was skipped.
        ref_latency: wall clock of one call of `ref_prog` on this machine in milliseconds; None without `ref_prog`.
        libcode: emitted Ascend C of the winner.
        func: the winner's traced kernel (Tile IR).
        kernel: the winner, ready to be called.
    """

    latency: float | None = None
    config: dict[str, Any] | None = None
    ref_latency: float | None = None
    libcode: str | None = None
    func: Any = None
    kernel: Any = None
