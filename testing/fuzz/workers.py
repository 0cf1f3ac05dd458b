"""Worker processes that check seeds. A seed that crashes or hangs costs itself and a new process, nothing else."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import connection

SEEDS_OF_A_PROCESS = 200
"""Compiled host programs stay in memory until their process ends."""
FIRST_SECONDS = 60
"""What the first seed of a process may take longer: it imports the compiler."""


@dataclass(frozen=True)
class Result:
    """What became of a seed; `kind` is empty when it passed."""

    seed: int
    kind: str = ""
    text: str = ""
    refused: bool = False
    unknown: float = 0.0


def work(pipe) -> None:
    """Check seeds from `pipe` until None comes."""
    os.environ["TILELANG_DISABLE_CACHE"] = "1"
    from .generate import generate
    from .shrink import run

    while (job := pipe.recv()) is not None:
        seed, text = job
        try:
            outcome = run(generate(seed), text)
        except Exception as error:  # noqa: BLE001  a fault of the fuzzer itself
            pipe.send(Result(seed, f"fuzzer {type(error).__name__}", str(error)))
            continue
        failure = outcome.failure
        if failure is None:
            pipe.send(Result(seed, unknown=outcome.unknown))
        else:
            pipe.send(Result(seed, failure.kind, failure.text, failure.refused))


class Worker:
    """One process and the seed it is busy with."""

    def __init__(self):
        # Not forked: the native libraries of the parent hold threads.
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.seed: int | None = None
        self.done = 0
        self.since = 0.0

    def give(self, seed: int, text: bool) -> None:
        """Start a seed."""
        self.seed, self.since = seed, time.monotonic()
        self.pipe.send((seed, text))

    def end(self) -> None:
        """Stop the process, whatever it does."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def check_seeds(seeds, text_every: int = 0, jobs: int = 2, timeout: float = 60) -> Iterator[Result]:
    """Results of the seeds, in the order in which they become known.

    text_every: the emitted text of every so manieth seed runs too; 0: of none. timeout: seconds for one seed.
    """
    waiting = list(reversed(seeds))
    workers: list[Worker] = []
    try:
        while waiting or any(w.seed is not None for w in workers):
            while waiting and len(workers) < jobs:
                workers.append(Worker())
            for w in workers:
                if waiting and w.seed is None:
                    seed = waiting.pop()
                    w.give(seed, bool(text_every) and seed % text_every == 0)
            ready = connection.wait([w.pipe for w in workers if w.seed is not None], timeout=1)
            for w in list(workers):
                if w.pipe in ready:
                    try:
                        yield w.pipe.recv()
                        w.done += 1
                        w.seed = None
                        lost = w.done >= SEEDS_OF_A_PROCESS
                    except (EOFError, ConnectionError):
                        w.process.join()
                        yield Result(w.seed, "crash", f"the process ended with status {w.process.exitcode}")
                        lost = True
                elif w.seed is not None and time.monotonic() - w.since > timeout + (0 if w.done else FIRST_SECONDS):
                    yield Result(w.seed, "hang", f"no result after {timeout:.0f} s")
                    lost = True
                else:
                    lost = False
                if lost:
                    w.end()
                    workers.remove(w)
    finally:
        for w in workers:
            w.end()
