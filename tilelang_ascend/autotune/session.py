"""One tuning from start to end: trace, measure, rank, check the winner, show everything."""

from __future__ import annotations

import inspect
from typing import Any, Sequence

from ..log import get_logger
from .inputs import InputSupply
from .measure import Measurer
from .outcome import failure
from .program import Subject, TracedProgram, trace_program
from .report import Candidate, failed, progress, rank, show_config, show_table
from .settings import AutotuneResult, ProfileArgs
from .space import split
from .verify import Verifier, winner_kernel


def tune(
    subject: Subject,
    configs: Sequence[dict],
    signature: inspect.Signature,
    profile: ProfileArgs,
    given: Sequence[Any] | None,
) -> AutotuneResult:
    """Find the fastest correct configuration.

    Args:
        configs: the space, from `space.expand`.
        signature: of the function that is tuned.
        given: inputs to use, None to make them.

    Raises:
        report.TuningFailed: no configuration works.
    """
    supply = InputSupply(profile, given)
    candidates = [_trace(subject, signature, supply, i, config) for i, config in enumerate(configs)]
    with Measurer(profile.timeout) as measurer:
        fresh = _measure(subject.name, candidates, measurer)
        verifier = Verifier(measurer, profile)
        winner = _first_correct(candidates, verifier, subject)
    if winner is None:
        raise failed(subject.name, candidates)
    best, kernel = winner
    if fresh:
        show_table(subject.name, kernel.artifact.chip, candidates)
    get_logger().info(
        "%s: %s is the best of %d configurations, %.4f ms simulated%s",
        subject.name, show_config(best.config), len(candidates), best.result.latency,
        "" if fresh else " (measured earlier)",
    )  # fmt: skip
    kernel.config, kernel.latency, kernel.ref_latency = best.config, best.result.latency, verifier.ref_latency
    return AutotuneResult(kernel.latency, kernel.config, kernel.ref_latency, kernel.get_kernel_source(), best.program.func, kernel)


def _trace(subject: Subject, signature: inspect.Signature, supply: InputSupply, index: int, config: dict) -> Candidate:
    arguments, pass_configs = split(config, signature)
    try:
        return Candidate(index, config, trace_program(subject, arguments, pass_configs, supply))
    except Exception as error:  # whatever a user's function raises costs this configuration alone
        return Candidate(index, config, outcome=failure(error))


def _measure(name: str, candidates: Sequence[Candidate], measurer: Measurer) -> int:
    """Fill in all outcomes; returns how many programs had to be measured."""
    programs: dict[str, tuple[TracedProgram, list[Candidate]]] = {}
    for c in candidates:
        if c.program is not None:
            programs.setdefault(c.program.key, (c.program, []))[1].append(c)
    missing = []
    for program, same in programs.values():
        outcome = measurer.known(program)
        if outcome is None:
            missing.append(program)
        for c in same:
            c.outcome = outcome
    if not missing:
        return 0
    get_logger().info(
        "tuning %s: %d configurations, %d different programs, %d of them measured earlier",
        name, len(candidates), len(programs), len(programs) - len(missing),
    )  # fmt: skip
    best = float("inf")
    with progress(name, len(missing)) as bar:
        for program, outcome in measurer.time(missing):
            for c in programs[program.key][1]:
                c.outcome = outcome
            best = min(best, outcome.latency or best)
            bar.set_postfix_str(f"best {best:.4f} ms", refresh=False)
            bar.update(1)
    return len(missing)


def _first_correct(candidates: Sequence[Candidate], verifier: Verifier, subject: Subject):
    """The fastest candidate that passes the check, with its kernel; None when there is none."""
    for c in rank(candidates):
        if not c.result.ok:
            return None
        kernel = winner_kernel(c.program, subject.compile_args.execution_backend)
        checked = verifier.verify(c.program, c.result, kernel)
        for same in candidates:
            if same.program is not None and same.program.key == c.program.key:
                same.outcome = checked
        if checked.ok:
            return c, kernel
        get_logger().warning("%s is wrong: %s", show_config(c.config), checked.error)
    return None
