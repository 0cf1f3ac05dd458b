"""hoist_invariants: vector instructions that compute the same in every iteration move in front of the loop.

Before:  for k: create_vec_index(lane, 0, 2048); compare_scalar(mask, lane, N - k * 2048, …); …
After:   create_vec_index(lane, 0, 2048); for k: compare_scalar(mask, lane, N - k * 2048, …); …

Temporaries of expressions are made where they are needed: lane numbers, constants, broadcasts of what does not change. The instructions that
make one, often one after the other in its place, move together when they do not depend on the loop, and nothing reads the temporary of the
loop before the last of them or writes to it behind that. It then costs room in UB for as long as the loop runs: without room the caller plans
the function as it was. Small ones also leave branches of loops with windows (`rotate_loops`), in whose iterations everything waits for what is done in a row.

Requires: Ascend IR for both cores together, without addresses. Ensures: values are unchanged; a loop that runs no iteration computes in
vain.
"""

from __future__ import annotations

import math

from ...analysis.dependence.build_program import build_program
from ...analysis.dependence.program import QUEUES, Branch, Instr, Loop, Program, names_inside, path_to_root, users_of_buffers
from ...ir import Evaluate, For, PrimFunc, Stmt, StmtMutator, const_int, dtype_of, exprs, free_vars, itemsize, structural_equal, substitute
from ...ir.visit import drop_allocs


def hoist_invariants(func: PrimFunc, chip) -> PrimFunc:
    """Apply to a function after lower_tile_ops; `func` itself when nothing moves."""
    found = _Invariants(build_program(func, chip))
    targets = found.targets()
    return func.with_body(substitute(drop_allocs(_Hoist(targets)(func.body), set(found.alike)), found.alike)) if targets else func


SMALL_BYTES = 4096
"""Of what is made in a branch: a thousand lane numbers."""


class _Invariants:
    """Which instruction leaves which loops."""

    def __init__(self, program: Program):
        self.program = program
        self.users = users_of_buffers(program)
        self.variables: dict = {}
        self.left: dict = {}
        """instruction -> loops it leaves, innermost first"""
        self.made: dict = {}
        """(loop that instructions leave last, type and shape of what they make, names) -> (buffer, its instructions), of what moves."""
        self.moving: set = set()
        """Buffers of `made`."""
        self.alike: dict = {}
        """buffer -> another one that is made in the same way in front of the same loop, and stands in its place"""

    def targets(self) -> list[tuple[Stmt, Stmt | None]]:
        """(instruction, loop in front of which it goes), in program order; no loop if what it makes is made by others."""
        for instr in self.program.instrs:
            makers = self.makers(instr)
            if makers is None or makers[-1] is not instr:
                continue
            loops = self.loops_to_leave(makers)
            if loops:
                self.left.update((maker, loops) for maker in makers)
                self.note(makers, loops[-1])
        return [(i.stmt, None if _made_by(i) in self.alike else self.left[i][-1].stmt) for i in self.program.instrs if i in self.left]

    def note(self, makers: list[Instr], loop: Loop) -> None:
        """What instructions that move make is made once, if others do the same."""
        made = _made_by(makers[0])
        known = dict(self.alike)
        same = self.made.setdefault((loop, dtype_of(made), tuple(map(const_int, made.ty.shape)), tuple(m.name for m in makers)), [])
        for buffer, others in same:
            known[made] = buffer
            if structural_equal(buffer.ty, made.ty) and all(
                structural_equal(substitute(m.stmt, known), substitute(o.stmt, self.alike)) for m, o in zip(makers, others)
            ):
                self.alike[made] = buffer
                return
        same.append((made, makers))
        self.moving.add(made)

    def makers(self, instr: Instr) -> list[Instr] | None:
        """The instructions that write to the destination of `instr`: vector instructions of one block, in front of all that only read
        it. None if they are not, or go on from what they did before."""
        written = {a.buffer for a in instr.accesses if a.write}
        if len(written) != 1:
            return None
        (buffer,) = written
        users = list(dict.fromkeys(self.users[buffer]))
        makers = [u for u in users if u.writes(buffer)]
        alike = all(
            isinstance(m.stmt, Evaluate)
            and QUEUES[m.queue][1] == "V"
            and m.parent is instr.parent
            and len({a.buffer for a in m.accesses if a.write}) == 1
            for m in makers
        )
        return makers if alike and users[: len(makers)] == makers and not _reads(makers[0], buffer) else None

    def loops_to_leave(self, makers: list[Instr]) -> list[Loop]:
        out: list[Loop] = []
        small = self.is_small(makers)
        loop = _around(makers[0], small)
        while isinstance(loop, Loop) and isinstance(loop.stmt, For) and all(self.invariant(m, loop) for m in makers):
            out.append(loop)
            loop = _around(loop, small)
        return out

    def is_small(self, makers: list[Instr]) -> bool:
        """True for little that is made of nothing else than what moves, too: in front of a branch, others may have no value yet."""
        made = _made_by(makers[0])
        if any(
            a.read and a.buffer not in self.moving and a.buffer not in self.alike and not a.buffer.same_as(made)
            for m in makers
            for a in m.accesses
        ):
            return False
        return math.prod(map(const_int, made.ty.shape)) * itemsize(dtype_of(made)) <= SMALL_BYTES

    def invariant(self, maker: Instr, loop: Loop) -> bool:
        """True if every iteration of `loop` finds the same operands, and the result belongs to the loop alone."""
        if any(v in self.variables_of(loop) for e in exprs(maker.stmt) for v in free_vars(e)):
            return False
        made = _made_by(maker)
        for a in maker.accesses:
            if a.space == "global":
                return False
            users = self.users[a.buffer]
            if a.buffer.same_as(made):
                if not all(loop in u.loops for u in users):
                    return False
            elif any(u.writes(a.buffer) and loop in u.loops and loop not in self.left.get(u, ()) for u in users):
                return False
        return True

    def variables_of(self, loop: Loop) -> set:
        """Variables that change inside a loop."""
        if loop not in self.variables:
            self.variables[loop] = names_inside(loop.stmt)
        return self.variables[loop]


def _around(node, small: bool):
    """What a node stands in. Windows of a loop are no reason to stay there, nor are, of what is `small`, branches in one."""
    leaves = small and any(isinstance(b.owner, Branch) and b.owner.window is not None for b in path_to_root(node.parent))
    owner = node.parent.owner
    while isinstance(owner, Branch) and (leaves or owner.window is not None):
        owner = owner.parent.owner
    return owner


def _made_by(maker: Instr):
    (made,) = {a.buffer for a in maker.accesses if a.write}
    return made


def _reads(instr: Instr, buffer) -> bool:
    return any(a.read and a.buffer.same_as(buffer) for a in instr.accesses)


class _Hoist(StmtMutator):
    """targets: (instruction, loop in front of which it goes, None if it goes altogether)."""

    def __init__(self, targets: list[tuple[Stmt, Stmt | None]]):
        self.gone = {instr for instr, _ in targets}
        self.in_front: dict = {}
        for instr, loop in targets:
            self.in_front.setdefault(loop, []).append(instr)

    def visit_For(self, s: For):
        return [*self.in_front.get(s, ()), self.generic(s)]

    def visit_Evaluate(self, s: Evaluate):
        return None if s in self.gone else s


__all__ = ["hoist_invariants"]
