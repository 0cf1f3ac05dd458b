"""hoist_invariants: vector instructions that compute the same in every iteration move in front of the loop.

Before:  for k: create_vec_index(lane, 0, 2048); compare_scalar(mask, lane, N - k * 2048, …); …
After:   create_vec_index(lane, 0, 2048); for k: compare_scalar(mask, lane, N - k * 2048, …); …

Temporaries of expressions are made where they are needed: lane numbers, constants, broadcasts of what does not change. An instruction
moves when it does not depend on the loop and its destination is a temporary of the loop that nothing else writes. It then costs room in
UB for as long as the loop runs: without room the caller plans the function as it was.

Requires: Ascend IR for both cores together, without addresses. Ensures: values are unchanged; a loop that runs no iteration computes in
vain.
"""

from __future__ import annotations

from ...analysis.dependence.build_program import build_program
from ...analysis.dependence.program import QUEUES, Instr, Loop, Program
from ...ir import Bind, BufferStore, Evaluate, For, PrimFunc, Stmt, StmtMutator, exprs, free_vars, statements


def hoist_invariants(func: PrimFunc, chip) -> PrimFunc:
    """Apply to a function after lower_tile_ops; `func` itself when nothing moves."""
    targets = _Invariants(build_program(func, chip)).targets()
    return func.with_body(_Hoist(targets)(func.body)) if targets else func


class _Invariants:
    """Which instruction leaves which loops."""

    def __init__(self, program: Program):
        self.program = program
        self.users: dict = {}
        for instr in program.instrs:
            for a in instr.accesses:
                self.users.setdefault(a.buffer, []).append(instr)
        self.variables: dict = {}
        self.left: dict = {}
        """instruction -> loops it leaves, innermost first"""

    def targets(self) -> list[tuple[Stmt, Stmt]]:
        """(instruction, loop in front of which it goes), in program order."""
        for instr in self.program.instrs:
            if not isinstance(instr.stmt, Evaluate) or QUEUES[instr.queue][1] != "V":
                continue
            loops = self.loops_to_leave(instr)
            if loops:
                self.left[instr] = loops
        return [(instr.stmt, loops[-1].stmt) for instr, loops in self.left.items()]

    def loops_to_leave(self, instr: Instr) -> list[Loop]:
        out: list[Loop] = []
        loop = instr.parent.owner
        while isinstance(loop, Loop) and isinstance(loop.stmt, For) and self.invariant(instr, loop):
            out.append(loop)
            loop = loop.parent.owner
        return out

    def invariant(self, instr: Instr, loop: Loop) -> bool:
        """True if every iteration of `loop` finds the same operands, and the result belongs to the loop alone."""
        if any(v in self.variables_of(loop) for e in exprs(instr.stmt) for v in free_vars(e)):
            return False
        for a in instr.accesses:
            if a.space == "global":
                return False
            users = self.users[a.buffer]
            if a.write:
                only_here = users[0] is instr and all(loop in u.loops for u in users)
                if not only_here or any(_writes(u, a.buffer) for u in users if u is not instr) or _reads(instr, a.buffer):
                    return False
            elif any(_writes(u, a.buffer) and loop in u.loops and loop not in self.left.get(u, ()) for u in users):
                return False
        return True

    def variables_of(self, loop: Loop) -> set:
        """Variables that change inside a loop."""
        if loop not in self.variables:
            inner = statements(loop.stmt)
            found = {s.loop_var for s in inner if isinstance(s, For)} | {s.var for s in inner if isinstance(s, Bind)}
            self.variables[loop] = found | {s.buffer for s in inner if isinstance(s, BufferStore)}
        return self.variables[loop]


def _writes(instr: Instr, buffer) -> bool:
    return any(a.write and a.buffer.same_as(buffer) for a in instr.accesses)


def _reads(instr: Instr, buffer) -> bool:
    return any(a.read and a.buffer.same_as(buffer) for a in instr.accesses)


class _Hoist(StmtMutator):
    def __init__(self, targets: list[tuple[Stmt, Stmt]]):
        self.targets = targets

    def visit_For(self, s: For):
        here = [instr for instr, loop in self.targets if loop.same_as(s)]
        return [*here, self.generic(s)]

    def visit_Evaluate(self, s: Evaluate):
        return None if any(s.same_as(instr) for instr, _ in self.targets) else s


__all__ = ["hoist_invariants"]
