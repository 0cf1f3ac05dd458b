"""What the flags of a kernel leave unordered in traces longer than those they were chosen in.

`sync_covers` looks at traces of one turn of the versions, as the passes do: if these are too short, neither notices. Here loops run as often as
they do, up to `FULL` iterations, or several turns of all versions together, and unknown numbers of iterations are all numbers up to that.
"""

from __future__ import annotations

import itertools
import math

from tilelang_ascend.analysis.dependence import sync_check, trace
from tilelang_ascend.analysis.dependence.build_program import build_program
from tilelang_ascend.analysis.dependence.dependence import dependences
from tilelang_ascend.analysis.dependence.happens_before import Timeline
from tilelang_ascend.analysis.dependence.program import QUEUES

LENGTHS = ((3, 30), (2, 26), (2, 10), (1, 6), (1, 3))
"""(turns of all versions, most iterations that run as they are), the first of which gives no more than `MOST` instructions."""
MOST, MOST_SCENARIOS = 6000, 80


class _LongPlan(trace._TripPlan):
    def __init__(self, turns: int, full: int, *args):
        super().__init__(*args)
        self.full, self.modulus = full, math.lcm(1, *self.moduli.values())
        self.enough = max(turns * self.modulus, *self.largest.values(), *self.at_least.values(), 1) + 2 + sum(map(sum, self.ends.values()))

    def _base_trips(self) -> dict:
        def trips(n: int | None) -> int:
            if n is None:
                return self.enough
            return max(0, n if n <= self.full else trace._clamp(n, self.enough, self.modulus))

        return {loop: trips(loop.trip) for loop in self.program.loops}

    def _counts(self, extent, *_) -> list[int]:
        return list(range(self.enough))


def unordered(func, chip) -> list[str]:
    """What `sync_covers` would say of IR with flags, had it longer traces."""
    program = build_program(func, chip)
    deps = dependences(program)
    crossing = [d.version_count for d in deps if QUEUES[d.src.queue][0] != QUEUES[d.dst.queue][0]]
    credit = max([2, *crossing])
    ids = [n.ident for n in sync_check._sync_nodes(program.root) if n.ident is not None]
    for turns, full in LENGTHS:
        plan = _LongPlan(turns, full, program, deps, ids, credit if crossing else 1, None)
        scenarios = list(itertools.islice(plan.scenarios(), MOST_SCENARIOS))
        if sum(math.prod(max(1, trips[loop]) for loop in i.loops) for _, trips, _ in scenarios for i in program.instrs) <= MOST:
            break
    else:
        return []
    found: dict[str, None] = {}
    dependent = trace._Dependences(program, deps)
    for env, trips, exits in scenarios:
        unrolled = trace._Unroller(program, dependent, env, trips, exits).run()
        result = Timeline.of(unrolled, sync_check._bind(unrolled)).run(credit=credit)
        texts = [sync_check._describe(need).text for need in result.uncovered] + result.broken
        texts += [f"{sync_check._flag_name(key)} is set too early" for key in result.unsafe]
        texts += [f"{sync_check._flag_name(key)} is still set at the end" for key in result.leftover]
        found |= dict.fromkeys(texts)
    return list(found)
