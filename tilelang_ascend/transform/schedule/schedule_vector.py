"""schedule_vector: independent vector instructions stand together, so that fewer barriers part them.

Before:  muls(a, x, 2); adds(a, a, 1); exp(a, a); muls(b, x, 3); adds(b, b, 1)
After:   muls(a, x, 2); muls(b, x, 3); adds(a, a, 1); adds(b, b, 1); exp(a, a)

The fewest barriers a run of instructions can have are those of its longest chain of dependences (vector_runs.py).

In front of the loops of a kernel, instructions that need nothing but constants, as lane numbers do, go before the first one that may have to
wait for a transfer: they take no time while that is on its way.

Requires: Ascend IR for both cores together, with addresses, without flags. Ensures: dependent instructions keep their order.
"""

from __future__ import annotations

from ...analysis.dependence.build_program import build_program
from ...analysis.dependence.dependence import meet
from ...analysis.dependence.program import QUEUES, Instr, Program
from ...ir import (
    AllocBuffer,
    Bind,
    BufferStore,
    Evaluate,
    PrimFunc,
    Stmt,
    exprs,
    free_vars,
    scope_of,
    seq,
    statements,
    stmts_of,
)
from .vector_runs import Permute, moves, shared_tiles


def schedule_vector(func: PrimFunc, chip) -> PrimFunc:
    """Apply to a function with addresses; `func` itself when every run keeps its order."""
    if chip.orders("V") or not any(isinstance(s, AllocBuffer) and scope_of(s.buffer) == "shared.ub" for s in statements(func.body)):
        return func
    program = build_program(func, chip)
    body = _constants_first(func.body, program)
    if body is not None:
        func = func.with_body(body)
        program = build_program(func, chip)
    found = moves(program)
    return func.with_body(Permute(found)(func.body)) if found else func


def _constants_first(body: Stmt, program: Program) -> Stmt | None:
    """`body` with instructions of its outermost list that wait for nobody in front of the first vector instruction that may; None if there are
    none behind it."""
    shared = shared_tiles(program)
    inside: dict = {}
    for instr in program.instrs:
        inside.setdefault(_top(instr).position, []).append(instr)
    first, passed, early, names = None, [], [], set()
    for position, s in enumerate(stmts_of(body)):
        here = inside.get(position, [])
        if first is None and any(QUEUES[i.queue][1] == "V" and not _waits_for_nobody(i, [], shared, program) for i in here):
            first = position
        if first is None:
            continue
        named = any(free_vars(e) & names for e in exprs(s))
        if [i.stmt for i in here] == [s] and not named and _waits_for_nobody(here[0], passed, shared, program):
            early.append(position)
        else:
            passed += here
            # A variable may be assigned anywhere below, as in a loop.
            names |= {x.var if isinstance(x, Bind) else x.buffer for x in statements(s) if isinstance(x, (AllocBuffer, Bind, BufferStore))}
    if not early:
        return None
    items = stmts_of(body)
    late = [s for position, s in enumerate(items) if position >= first and position not in early]
    return seq(items[:first], [items[position] for position in early], late)


def _top(node):
    """The statement of the outermost list that is, or contains, a node."""
    while node.parent.owner is not None:
        node = node.parent.owner
    return node


def _waits_for_nobody(instr: Instr, before: list[Instr], shared: set, program: Program) -> bool:
    """True for a vector instruction on tiles of the vector unit alone that depends on nothing in `before`."""
    if QUEUES[instr.queue][1] != "V" or not isinstance(instr.stmt, Evaluate) or instr.parent.owner is not None:
        return False
    if any(a.space == "global" or a.buffer in shared for a in instr.accesses):
        return False
    return not any(meet(x, instr, program) for x in before)


__all__ = ["schedule_vector"]
