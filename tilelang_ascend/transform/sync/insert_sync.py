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

from ...analysis.dependence.build_program import build_program
from ...analysis.dependence.program import Program
from ...isa import CORE_EVENTS
from .edges import EdgeChooser
from .ids import IdAssigner
from .place import place_sync
from .plan import SyncPlan


def insert_sync(func, chip):
    """`func` with synchronisation for `chip`."""
    return plan_and_insert_sync(func, chip)[0]


def plan_and_insert_sync(func, chip) -> tuple[object, SyncPlan]:
    """Like `insert_sync`; also the plan, whose `notes` say where a barrier for all pipes was unavoidable."""
    program, plan = plan_sync(func, chip)
    return place_sync(func, program, plan), plan


def plan_sync(func, chip):
    """(program, plan) of a function without flags. Flags between windows let pipes run ahead, but take ids: where these run out, the plan without
    them is looked at, too."""
    program = build_program(func, chip)
    cross_flags = int((func.attrs or {}).get("ascend.meeting_flag", chip.usable_cross_core_flags))  # those in front of that one
    plan, between_windows = _plan(program, chip, cross_flags, True)
    if plan.notes and between_windows:
        without, _ = _plan(program, chip, cross_flags, False)
        plan = min(plan, without, key=lambda p: (len(p.notes), p.stopped))
    return program, plan


def _plan(program: Program, chip, cross_flags: int, within_cores: bool) -> tuple[SyncPlan, bool]:
    """The plan, and whether it might be another one without flags between windows of one core."""
    chooser = EdgeChooser(program, CORE_EVENTS, within_cores)
    plan = chooser.choose()
    return IdAssigner(plan, chooser.traces, chip, chooser.credit, cross_flags).assign(), chooser.between_windows


__all__ = ["insert_sync", "plan_and_insert_sync", "plan_sync"]
