"""One tuning from start to end: trace, predict, measure, rank, check the winner, show everything."""

from __future__ import annotations

import contextlib
import inspect
from dataclasses import dataclass, field, replace
from typing import Any, Sequence

from ..log import get_logger
from ..runtime.params import Signature
from ..version import __version__
from . import overrides
from .calls import Caller
from .inputs import InputSupply
from .measure import Workers
from .outcome import Outcome, Status, failure
from .places import Place, place_of
from .program import Subject, TracedProgram, trace_program
from .records import Memory, Record, now
from .report import Candidate, failed, progress, rank, show_config, show_table
from .search import ModelSearch, Point, budget
from .settings import AutotuneResult, ProfileArgs
from .space import split
from .verify import Verifier, winner_kernel

MODEL = "machine model"
"""Place of simulated times in the records."""

COMPARED = ", compared with ref_prog"
"""After a place: verdicts there. They are kept for people; the tuner compares again, as the reference may be another one."""

_ROUNDS = 4
"""Times the search learns from what has been measured before it proposes more."""


def tune(
    subject: Subject,
    configs: Sequence[dict],
    signature: inspect.Signature,
    profile: ProfileArgs,
    given: Sequence[Any] | None,
    derived: bool = False,
) -> AutotuneResult:
    """Find the fastest correct configuration.

    Args:
        configs: the space, from `space.expand` or `derive.derive`.
        signature: of the function that is tuned.
        given: inputs to use, None to make them.
        derived: the first configuration is the default one, and without `ref_prog` the winner has to compute what that one does.

    Raises:
        report.TuningFailed: no configuration works. errors.TargetError, rpc.RpcError: there is nothing to measure on.
    """
    with contextlib.ExitStack() as stack:
        caller = stack.enter_context(Caller(profile.timeout))
        supply = InputSupply(profile, given, caller.supply)
        candidates = [_trace(subject, signature, supply, i, config) for i, config in enumerate(configs)]
        tuning = _Tuning.of(subject, profile, candidates, stack)
        fresh = tuning.predict() + tuning.measure()
        baseline = candidates[0].program if derived else None
        verifier = Verifier(tuning.workers, tuning.place, caller, profile, baseline)
        winner = tuning.first_correct(verifier)
    if winner is None:
        raise failed(subject.name, candidates)
    best, kernel = winner
    clock = tuning.clock
    if fresh:
        show_table(subject.name, kernel.artifact.chip, candidates, clock)
    latency = best.result.latency
    get_logger().info(
        "%s: %s is the best of %d configurations, %.4f ms %s%s",
        subject.name, show_config(best.config), len(candidates), latency, clock, "" if fresh else " (measured earlier)",
    )  # fmt: skip
    kernel.config, kernel.latency, kernel.ref_latency = best.config, latency, verifier.ref_latency
    overrides.tell(subject.name, kernel.artifact.chip, clock, candidates, best)
    return AutotuneResult(latency, kernel.config, kernel.ref_latency, kernel.get_kernel_source(), best.program.func, kernel)


def _trace(subject: Subject, signature: inspect.Signature, supply: InputSupply, index: int, config: dict) -> Candidate:
    arguments, pass_configs = split(config, signature)
    try:
        return Candidate(index, config, trace_program(subject, arguments, pass_configs, supply))
    except Exception as error:  # whatever a user's function raises costs this configuration alone
        return Candidate(index, config, outcome=failure(error))


@dataclass
class _Measurement:
    """A program that may be measured, and what came of it. key: of its record."""

    key: str
    program: TracedProgram
    predicted: Outcome
    outcome: Outcome | None = None

    @property
    def point(self) -> Point:
        assert self.predicted.latency is not None, "programs that do not compile are not measured"
        return Point(self.predicted.latency, self.predicted.features)

    @property
    def result(self) -> Outcome:
        assert self.outcome is not None, "not measured yet"
        return self.outcome

    def take(self, found: Outcome) -> None:
        """Note what was measured, with what the time model has said."""
        p = self.predicted
        self.outcome = replace(found, bound=p.bound, predicted=p.latency, text=p.text, features=p.features)


@dataclass
class _Tuning:
    """The programs of a space; configurations that are one program share what becomes of it."""

    subject: Subject
    profile: ProfileArgs
    same: dict[str, list[Candidate]]
    workers: Workers
    memory: Memory
    place: Place | None
    equal: dict[str, list[str]] = field(default_factory=dict)
    """Key of the record at the place -> keys of the programs that emit the same."""
    jobs: list[_Measurement] = field(default_factory=list)
    search: ModelSearch | None = None

    @staticmethod
    def of(subject: Subject, profile: ProfileArgs, candidates: Sequence[Candidate], stack: contextlib.ExitStack) -> _Tuning:
        same: dict[str, list[Candidate]] = {}
        for c in candidates:
            if c.program is not None:
                same.setdefault(c.program.key, []).append(c)
        workers, memory = stack.enter_context(Workers(profile.timeout)), Memory()
        stack.callback(memory.close)
        place = None
        if same:
            chip = next(iter(same.values()))[0].program.chip
            place = place_of(overrides.current().execution_backend or subject.compile_args.execution_backend, profile, chip)
        if place is not None:
            stack.callback(place.close)
        return _Tuning(subject, profile, same, workers, memory, place)

    @property
    def clock(self) -> str:
        """What latencies are."""
        return "simulated" if self.place is None else self.place.clock

    def predict(self) -> int:
        """Compile all programs and ask the time model; returns how many it had not seen."""
        missing = []
        for key, same in self.same.items():
            outcome = self.memory.load(key, MODEL)
            if outcome is None:
                missing.append(same[0].program)
            else:
                self._set(key, outcome)
        if not missing:
            return 0
        get_logger().info(
            "tuning %s: %d configurations, %d different programs, %d of them measured earlier",
            self.subject.name, sum(map(len, self.same.values())), len(self.same), len(self.same) - len(missing),
        )  # fmt: skip
        best = float("inf")
        with progress(self.subject.name, len(missing)) as bar:
            for program, outcome, _ in self.workers.run("time", missing):
                self._keep(program, MODEL, program.key, outcome)
                best = min(best, outcome.latency or best)
                bar.set_postfix_str(f"best {best:.4f} ms simulated", refresh=False)
                bar.update(1)
        return len(missing)

    def measure(self) -> int:
        """Measure the best programs where they will run, if that is not the machine model; returns how many were measured now.

        Programs that are not measured drop out, whatever the time model says about them.
        """
        if self.place is None:
            return 0
        for key, same in self.same.items():
            if same[0].result.ok:
                self.equal.setdefault(self._place_key(key, same[0].result), []).append(key)
        for place_key, keys in self.equal.items():
            first = self.same[keys[0]][0]
            self.jobs.append(_Measurement(place_key, first.program, first.result, self.memory.load(place_key, self.place.name)))
        if not self.jobs:
            return 0
        self.search = ModelSearch([job.point for job in self.jobs], self._history(self.place))
        known = [i for i, job in enumerate(self.jobs) if job.outcome is not None]
        for i, job in enumerate(self.jobs):
            self._publish(job)
            if job.outcome is not None:
                self.search.observe(i, job.outcome.latency)
        asked = budget(len(self.jobs), overrides.current().measurements or self.profile.measurements)
        return self._search(max(0, asked - len(known)))

    def measure_more(self) -> int:
        """As `measure`, of the next best ones, when all that were measured have failed."""
        return self._search(max(1, -(-len(self.jobs) // (_ROUNDS * 10)))) if self.jobs else 0

    def _search(self, left: int) -> int:
        """Measure so many in rounds, of which each one learns from those before; returns how many there were to measure."""
        place, search = self.place, self.search
        assert place is not None and search is not None, "somewhere to measure"
        count, best = 0, float("inf")
        indices = {job.program.key: i for i, job in enumerate(self.jobs)}
        batch = max(place.width, -(-left // _ROUNDS))
        with progress(f"{self.subject.name} on {place.name}", left) as bar:
            while count < left and (chosen := search.propose(min(batch, left - count))):
                for program, found in place.time([(self.jobs[i].program, self.jobs[i].predicted) for i in chosen]):
                    job = self.jobs[indices[program.key]]
                    job.take(found)
                    self._publish(job)
                    self._save(program, place.name, job.key, job.result)
                    search.observe(indices[program.key], found.latency)
                    best = min(best, found.latency or best)
                    bar.set_postfix_str(f"best {best:.4f} ms {place.clock}", refresh=False)
                    bar.update(1)
                count += len(chosen)
        return count

    def _publish(self, job: _Measurement) -> None:
        """Tell all configurations that are this program where it is measured."""
        for key in self.equal[job.key]:
            self._set(key, job.outcome or Outcome(Status.UNMEASURED, predicted=job.predicted.latency))

    def first_correct(self, verifier: Verifier):
        """The fastest candidate that passes the check, with its kernel; None when there is none."""
        while True:
            ranking = rank([same[0] for same in self.same.values()])
            if not ranking or not ranking[0].result.ok:
                if self.measure_more():
                    continue
                return None
            c = ranking[0]
            kernel = winner_kernel(c.program, self.subject.compile_args.execution_backend)
            outcome, verdict = verifier.verify(c.program, c.result, kernel)
            place, key = MODEL, c.program.key
            if self.place is not None:
                place, key = self.place.name, self._place_key(c.program.key, c.result)
            if outcome != c.result:
                self._save(c.program, place, key, outcome)
            if verdict != outcome:
                self._save(c.program, f"{place}{COMPARED}", key, verdict)
            self._set(c.program.key, verdict)
            if verdict.ok:
                return c, kernel
            get_logger().warning("%s is wrong: %s", show_config(c.config), verdict.error)

    def _history(self, place: Place) -> list[tuple[Point, float]]:
        """What is known of other programs at this place."""
        chips = {same[0].program.chip for same in self.same.values()}
        rows = (r for chip in chips for r in self.memory.history(chip, place.name) if r.key not in self.equal)
        found = [r.outcome for r in rows if r.outcome.ok and r.outcome.predicted and r.outcome.features]
        return [(Point(o.predicted or 0.0, o.features), o.latency or 0.0) for o in found]

    def _place_key(self, key: str, outcome: Outcome) -> str:
        """Key of the record of a program at the place."""
        return self.same[key][0].program.key_of_text(outcome.text)

    def _keep(self, program: TracedProgram, place: str, key: str, outcome: Outcome) -> None:
        self._set(program.key, outcome)
        self._save(program, place, key, outcome)

    def _set(self, key: str, outcome: Outcome) -> None:
        for c in self.same[key]:
            c.outcome = outcome

    def _save(self, program: TracedProgram, place: str, key: str, outcome: Outcome) -> None:
        cann = self.place.cann if self.place is not None and place == self.place.name else ""
        config = show_config(self.same[program.key][0].config)
        shape = shape_text(program.signature)
        self.memory.save(Record(key, place, self.subject.name, program.chip, cann, __version__, shape, config, outcome, now()))


def shape_text(signature: Signature) -> str:
    """Parameters in one line: ``A 64x128 float16, n int32``."""
    return ", ".join(" ".join(filter(None, (p.name, "x".join(map(str, p.shape or ())), p.dtype))) for p in signature.parameters)
