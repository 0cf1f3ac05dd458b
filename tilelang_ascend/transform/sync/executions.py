"""What may happen when a program runs, as far as synchronisation has to know."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...analysis.dependence.dependence import Dependence, dependences
from ...analysis.dependence.program import QUEUES, Program
from ...analysis.dependence.trace import GAP, Trace, traces


@dataclass(eq=False)
class Executions:
    """Dependences of `program`, and traces that stand for all ways to execute it.

    most: of these traces; None: however many there are. credit: how many sets a flag between the cores may be ahead of its waits. solved: atoms
    that have a value in all traces.

    Raises: TooManyTraces.
    """

    program: Program
    most: int | None = None
    deps: list[Dependence] = field(init=False)
    credit: int = field(init=False)
    traces: list[Trace] = field(init=False)
    solved: set = field(init=False)

    def __post_init__(self):
        self.deps = dependences(self.program)
        crossing = [d for d in self.deps if is_cross(d.src.queue, d.dst.queue)]
        self.credit = max([2, *(d.version_count for d in crossing)])
        often = {loop for d in crossing for i in (d.src, d.dst) for loop in i.loops}
        self.traces = traces(self.program, self.deps, at_least=self.credit, often=often, most=self.most)
        self.solved = set.intersection(*(_values_outside_of_loops(trace) for trace in self.traces))


def is_cross(a: int, b: int) -> bool:
    """True if two queues belong to different cores."""
    return QUEUES[a][0] != QUEUES[b][0]


def _values_outside_of_loops(trace: Trace) -> set:
    """Atoms that have a value all through a trace."""
    return set(next((event[3] for event in trace.events if event[0] == GAP), ()))


__all__ = ["Executions", "is_cross"]
