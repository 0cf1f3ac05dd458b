"""hoist_invariants: vector instructions that compute the same in every iteration move in front of the loop.

Before:  for k: create_vec_index(lane, 0, 2048); compare_scalar(mask, lane, N - k * 2048, …); …
After:   create_vec_index(lane, 0, 2048); for k: compare_scalar(mask, lane, N - k * 2048, …); …

Temporaries of expressions are made where they are needed: lane numbers, constants, broadcasts of what does not change. The instructions that
make one, often one after the other in its place, move together when they do not depend on the loop, and nothing reads the temporary of the
loop before the last of them or writes to it behind that. It then costs room in UB for as long as the loop runs: without room the caller plans
the function as it was.

Requires: Ascend IR for both cores together, without addresses. Ensures: values are unchanged; a loop that runs no iteration computes in
vain.
"""

from __future__ import annotations

from ...analysis.dependence.build_program import build_program
from ...analysis.dependence.program import QUEUES, Branch, Instr, Loop, Program, names_inside, users_of_buffers
from ...ir import Evaluate, For, PrimFunc, Stmt, StmtMutator, exprs, free_vars


def hoist_invariants(func: PrimFunc, chip) -> PrimFunc:
    """Apply to a function after lower_tile_ops; `func` itself when nothing moves."""
    targets = _Invariants(build_program(func, chip)).targets()
    return func.with_body(_Hoist(targets)(func.body)) if targets else func


class _Invariants:
    """Which instruction leaves which loops."""

    def __init__(self, program: Program):
        self.program = program
        self.users = users_of_buffers(program)
        self.variables: dict = {}
        self.left: dict = {}
        """instruction -> loops it leaves, innermost first"""

    def targets(self) -> list[tuple[Stmt, Stmt]]:
        """(instruction, loop in front of which it goes), in program order."""
        for instr in self.program.instrs:
            makers = self.makers(instr)
            if makers is None or makers[-1] is not instr:
                continue
            loops = self.loops_to_leave(makers)
            if loops:
                self.left.update((maker, loops) for maker in makers)
        return [(i.stmt, self.left[i][-1].stmt) for i in self.program.instrs if i in self.left]

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
        loop = _around(makers[0])
        while isinstance(loop, Loop) and isinstance(loop.stmt, For) and all(self.invariant(m, loop) for m in makers):
            out.append(loop)
            loop = _around(loop)
        return out

    def invariant(self, maker: Instr, loop: Loop) -> bool:
        """True if every iteration of `loop` finds the same operands, and the result belongs to the loop alone."""
        if any(v in self.variables_of(loop) for e in exprs(maker.stmt) for v in free_vars(e)):
            return False
        (made,) = {a.buffer for a in maker.accesses if a.write}
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


def _around(node):
    """What a node stands in; windows of a loop are no reason to stay there."""
    owner = node.parent.owner
    while isinstance(owner, Branch) and owner.window is not None:
        owner = owner.parent.owner
    return owner


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
