"""insert_sync: add the flags and barriers that order every dependence, and no others.

Before:  for k in range(8): copy_gm_to_ub(x[k % 2], …); add(y, x[k % 2], …)
After:   set_flag<V_MTE2>(0); set_flag<V_MTE2>(1)
         for k in range(8):
             wait_flag<V_MTE2>(k % 2); copy_gm_to_ub(x[k % 2], …); set_flag<MTE2_V>(k % 2)
             wait_flag<MTE2_V>(k % 2); add(y, x[k % 2], …); set_flag<V_MTE2>(k % 2)
         wait_flag<V_MTE2>(0); wait_flag<V_MTE2>(1)

Requires: Ascend IR for both cores together, without flags; addresses are used where they are known.
Ensures: `sync_covers` finds nothing; every id is legal. Before ids are assigned, no flag or barrier can be left out without
the simulation of the pass missing it; sharing ids when they run out may leave more than the fewest.
"""

from __future__ import annotations

import math

from ...analysis.dependence.build_program import build_program
from ...isa import CORE_EVENTS
from .edges import EdgeChooser
from .executions import Executions
from .ids import IdAssigner, TurnsInTheWay, refusing
from .place import place_sync
from .plan import SyncPlan


def insert_sync(func, chip):
    """`func` with synchronisation for `chip`."""
    return plan_and_insert_sync(func, chip)[0]


def plan_and_insert_sync(func, chip, most_traces: int | None = None) -> tuple[object, SyncPlan]:
    """Like `insert_sync`; also the plan, whose `notes` say where a barrier for all pipes was unavoidable.

    Raises: TooManyTraces if more than `most_traces` executions had to be looked at.
    """
    program, plan = plan_sync(func, chip, most_traces)
    return place_sync(func, program, plan), plan


def plan_sync(func, chip, most_traces: int | None = None):
    """(program, plan) of a function without flags. Flags between windows let pipes run ahead, but take ids: where these run out, the plan without
    them is looked at, too."""
    program = build_program(func, chip)
    executions = Executions(program, most_traces)
    cross_flags = int((func.attrs or {}).get("ascend.meeting_flag", chip.usable_cross_core_flags))  # those in front of that one
    plan, between_windows = _plan(executions, chip, cross_flags, True)
    if plan.notes and between_windows:
        plan = min(plan, _plan(executions, chip, cross_flags, False, plan.scarcity)[0], key=lambda p: p.scarcity)
    return program, plan


def _plan(executions: Executions, chip, cross_flags: int, within_cores: bool, best: tuple = (math.inf,)) -> tuple[SyncPlan, bool]:
    """The plan, and whether it might be another one without flags between windows of one core. A plan that is not better than `best` is not tried.
    Where ids run out, one whose statements use no flags in turn is looked at, too."""
    found = [_plan_of(executions, chip, cross_flags, within_cores, True, best)]
    if found[0] is None or any(found[0][0].scarcity) and any(e.twin is not None for e in found[0][0].edges):
        found.append(_plan_of(executions, chip, cross_flags, within_cores, False, best))
    return min((x for x in found if x is not None), key=lambda x: x[0].scarcity)


def _plan_of(
    executions: Executions, chip, cross_flags: int, within_cores: bool, in_turn: bool, best: tuple
) -> tuple[SyncPlan, bool] | None:
    """The same with flags that are used in turn, or without; None if these stand in the way.

    It is made for the longest trace, tried in all, and made anew for those that refuse it, too. What one trace needs cannot be left out
    for the sake of others.
    """
    seen = [max(executions.traces, key=lambda trace: len(trace.events))]
    while True:
        chooser = EdgeChooser(executions, CORE_EVENTS, within_cores, seen, in_turn)
        try:
            plan = IdAssigner(chooser.choose(), seen, chip, executions.credit, cross_flags).assign()
        except TurnsInTheWay:
            return None
        if plan.scarcity >= best:
            return plan, chooser.between_windows
        refused = refusing(plan, [trace for trace in executions.traces if trace not in seen], executions.credit)
        if not refused:
            return plan, chooser.between_windows
        seen = [trace for trace in executions.traces if trace in seen or trace in refused]


__all__ = ["insert_sync", "plan_and_insert_sync", "plan_sync"]
