"""interleave_windows: vector instructions of two iterations of a loop stand together, so that fewer barriers part them.

Before:  for p in range(9): if p < 8: copy(x[p % 2], …); a(m, x[p % 2]); b(m, m)        # of iteration p
                            if p >= 1: c(y, x[(p + 1) % 2]); d(y, y); copy(…, y)         # of the one before
After:   for p in range(9): if p < 8: copy(x[p % 2], …)
                            if p >= 1: c(y, x[(p + 1) % 2])
                            if p < 8: a(m, x[p % 2])
                            if p >= 1: d(y, y); copy(…, y)
                            if p < 8: b(m, m)

`rotate_loops` writes late statements as a window of iterations behind the window of early ones. Instructions of both that need nobody's result come
first, then those that need theirs, and so on: a step of both sides waits behind one barrier, as `schedule_vector` has it for one list of
statements. In each step late ones come first, because early ones may have to wait for what is loaded; where they do not, those whose results take
longer do: the others go on meanwhile.

This comes before addresses are chosen: what lives side by side has to lie so.

Requires: Ascend IR for both cores together, without addresses. Ensures: dependent instructions keep their order.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...analysis.dependence.build_program import build_program
from ...analysis.dependence.dependence import meet
from ...analysis.dependence.program import QUEUES, Branch, Instr, Loop, Program
from ...ir import AllocBuffer, Bind, Evaluate, For, IfThenElse, PrimFunc, Stmt, StmtMutator, op_name, renew, seq, stmts_of
from ...isa import lookup
from ...tile.uses import loads_in
from .vector_runs import tiles_apart


def interleave_windows(func: PrimFunc, chip) -> PrimFunc:
    """Apply to a function after lower_tile_ops; `func` itself when no loop has two windows of vector work."""
    if chip.orders("V"):
        return func
    program = build_program(func, chip)
    loops = {loop.stmt: sides for loop in program.loops if (sides := _sides(loop)) is not None}
    if not loops:
        return func
    program = tiles_apart(program)
    return func.with_body(_Interleave({s: _order(sides, program, chip) for s, sides in loops.items()})(func.body))


@dataclass(frozen=True, eq=False)
class _Item:
    """A statement of a window that works: an instruction, or a loop or branch of vector instructions."""

    branch: Branch
    stmt: Stmt
    instrs: tuple

    @property
    def is_vector(self) -> bool:
        return all(QUEUES[i.queue][1] == "V" for i in self.instrs)


def _sides(loop: Loop) -> tuple[list[_Item], list[_Item]] | None:
    """What the two windows of a loop do, one behind the other, if it does nothing else and they need not stay whole."""
    nodes = loop.body.nodes
    if not isinstance(loop.stmt, For) or len(nodes) != 2 or not all(isinstance(n, Branch) and n.window is not None for n in nodes):
        return None
    if any(n.window.loop is not loop for n in nodes) or not all(
        _is_plain(s) or s in [n.stmt for n in nodes] for s in stmts_of(loop.stmt.body)
    ):
        return None
    early, late = map(_items, nodes)
    if not early or not late or not all(any(x.is_vector for x in side) for side in (early, late)):
        return None
    return early, late


def _is_plain(s: Stmt) -> bool:
    """True for declarations and names of what is the same wherever it is asked for."""
    return isinstance(s, AllocBuffer) or isinstance(s, Bind) and not loads_in(s.value)


def _items(branch: Branch) -> list[_Item]:
    """The work of a window; empty if some of it is more than an instruction or a loop or branch of vector instructions."""
    at = {n.position: n for n in branch.then.nodes}
    out = []
    for position, s in enumerate(stmts_of(branch.stmt.then_case)):
        instrs = _instrs(at[position]) if position in at else ()
        if instrs:
            out.append(_Item(branch, s, instrs))
        elif not _is_plain(s):
            return []
    return out if len(at) == len(branch.then.nodes) else []


def _instrs(node) -> tuple[Instr, ...]:
    """The instructions of one, or of a loop or branch of nothing but those of one queue, vector ones if it is a loop; empty for anything else."""
    if isinstance(node, Instr):
        # A scalar that is read from a tile is no operand of the instruction.
        plain = isinstance(node.stmt, Evaluate) and not any(map(loads_in, node.stmt.value.args[len(lookup(op_name(node.stmt)).operands) :]))
        return (node,) if plain else ()
    if isinstance(node, Loop) and isinstance(node.stmt, For):
        found = _of_list(node.body.nodes, node.stmt.body)
        return found if all(QUEUES[i.queue][1] == "V" for i in found) else ()
    if not isinstance(node, Branch) or loads_in(node.stmt.condition):
        return ()
    found = _of_list(node.then.nodes, node.stmt.then_case)
    other = _of_list(node.other.nodes, node.stmt.else_case) if node.other is not None else ()
    same = found and len({i.queue for i in (*found, *other)}) == 1
    return (*found, *other) if same and (other or node.other is None) else ()


def _of_list(nodes: list, body: Stmt) -> tuple[Instr, ...]:
    """The instructions of a list that does nothing else; empty if it does."""
    work = [s for s in stmts_of(body) if not _is_plain(s)]
    inner = [_instrs(n) for n in nodes]
    return tuple(i for found in inner for i in found) if len(nodes) == len(work) and all(inner) else ()


def _order(sides: tuple, program: Program, chip) -> list[tuple[int, _Item]]:
    """(step, item) of both sides, step by step."""
    items = [x for side in sides for x in side]
    steps: list[int] = []
    for j, b in enumerate(items):
        step = 0
        for a, known in zip(items, steps):
            waits = a.is_vector and b.is_vector or a.branch is not b.branch
            if known + waits > step and (_in_order(a, b) or any(meet(x, y, program) for x in a.instrs for y in b.instrs)):
                step = known + waits
        steps.append(step)
    early = sides[0][0].branch
    moved = {a.buffer for x in items if not x.is_vector for i in x.instrs for a in i.accesses}
    early_first = {n for n in steps if _ends_later([x for x, k in zip(items, steps) if k == n], early, moved, chip)}

    def place(j: int) -> tuple:
        return steps[j], (items[j].branch is early) != (steps[j] in early_first), j

    return [(steps[j], items[j]) for j in sorted(range(len(items)), key=place)]


def _ends_later(step: list[_Item], early: Branch, moved: set, chip) -> bool:
    """True if results of early items of a step take longer than those of late ones, and none of them may have to wait for a transfer."""
    if any(not x.is_vector or any(a.buffer in moved for i in x.instrs for a in i.accesses) for x in step if x.branch is early):
        return False
    vector = [x for x in step if x.is_vector]
    ahead, behind = ([i for x in vector if (x.branch is early) == side for i in x.instrs] for side in (True, False))
    latency = [max((chip.prices[lookup(i.name).cost_class].latency_cycles for i in instrs), default=0) for instrs in (ahead, behind)]
    return latency[0] > latency[1]


def _in_order(a: _Item, b: _Item) -> bool:
    """True for what waits in one queue of transfers."""
    return not a.is_vector and not b.is_vector and a.instrs[0].queue == b.instrs[0].queue


class _Interleave(StmtMutator):
    def __init__(self, orders: dict):
        self.orders = orders

    def visit_For(self, s: For):
        if s not in self.orders:
            return self.generic(s)
        plain = [x for x in stmts_of(s.body) if not isinstance(x, IfThenElse)]
        order = self.orders[s]
        shared = {step for step, item in order if any(n == step and x.branch is not item.branch for n, x in order)}
        groups: list[list[_Item]] = []
        known = None
        for step, item in order:
            # A barrier next to a step of both sides stands in no window.
            if not groups or item.branch is not groups[-1][-1].branch or known != step and {known, step} & shared:
                groups.append([])
            groups[-1].append(item)
            known = step
        branches = list(dict.fromkeys(g[0].branch for g in groups))
        inside = {b: [x for x in stmts_of(b.stmt.then_case) if _is_plain(x)] for b in branches}
        allocs = [x for b in branches for x in inside[b] if isinstance(x, AllocBuffer)]
        names = {b: [x for x in inside[b] if isinstance(x, Bind)] for b in branches}
        body = [self._window(g[0].branch.stmt, names[g[0].branch], [item.stmt for item in g]) for g in groups]
        return For(s.loop_var, s.min, s.extent, s.kind, seq(plain, allocs, body), annotations=dict(s.annotations), span=s.span)

    @staticmethod
    def _window(s: IfThenElse, names: list, work: list) -> Stmt:
        """Some statements of a window, with names of their own."""
        return IfThenElse(s.condition, renew(seq(names, work)), None, span=s.span)


__all__ = ["interleave_windows"]
