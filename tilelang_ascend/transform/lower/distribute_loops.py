"""distribute_loops: short vector instructions at the end of what an iteration computes are done for all iterations behind their loop.

Before:  for p in range(8): …; block_reduce_sum(b, x, …); block_reduce_sum(c, b, …); block_reduce_sum(s[p * 8], c, …)
After:   for p in range(8): …; block_reduce_sum(b, x, …); block_reduce_sum(c[p], b, …)
         for p in range(8): block_reduce_sum(s[p * 8], c[p], …)

An instruction that depends on the one before waits until that is through: in a chain of short ones, such as the last steps of a reduction, there is
little else. Behind the loop the same step of all iterations is one run of instructions that wait for each other once. What passes from an
iteration to there has a copy for each: only small temporaries do, which nothing else uses and no iteration finds from one before.

Late statements of a loop (`rotate_loops`) run in a window of its iterations; behind the loop there is no window.

Requires: Ascend IR for both cores together, without addresses. Ensures: values are unchanged. It takes room in UB: without room the caller plans the
function as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...analysis.dependence.build_program import build_program
from ...analysis.dependence.core_use import record_of
from ...analysis.dependence.liveness import LiveBuffer, live_buffers
from ...analysis.dependence.program import QUEUES, Branch, Instr, Loop, Program, names_inside, users_of_buffers
from ...analysis.index.affine import affine
from ...ir import (
    AllocBuffer,
    BufferLoad,
    Call,
    Evaluate,
    FloatImm,
    For,
    ForKind,
    IntImm,
    PrimFunc,
    Stmt,
    StmtMutator,
    TensorLoad,
    Var,
    const_int,
    decl_buffer,
    dtype_of,
    exprs,
    free_vars,
    imm,
    itemsize,
    map_children,
    operand_parts,
    scope_of,
    substitute,
    substitute_expr,
    sym,
)
from ...isa.units import BLOCK_BYTES, MAX_REPEAT, round_up

MOST_BYTES = 4096
"""Of all copies of one temporary together."""


def distribute_loops(func: PrimFunc, chip) -> PrimFunc:
    """Apply to a function after lower_tile_ops; `func` itself when nothing moves."""
    if chip.orders("V"):
        return func
    program = build_program(func, chip)
    tails = _Tails(program)
    found = {loop.stmt: tail for loop in program.loops if (tail := tails.of(loop))}
    if not found:
        return func
    return func.with_body(_Distribute(found)(func.body))


@dataclass(frozen=True)
class _Tail:
    """What a loop leaves for later: statements, the bytes of temporaries that get a copy for each iteration, how many iterations the loop has, which may be
    what a name stands for, and how many of them at either end do without."""

    stmts: list
    copies: dict
    trips: int
    first: int = 0
    last: int = 0

    def number(self, loop: For):
        """The iteration, counted from the first one that has such statements."""
        low = const_int(loop.min)
        begin = loop.min + imm(self.first, dtype_of(loop.loop_var)) if low is None else imm(low + self.first, dtype_of(loop.loop_var))
        return loop.loop_var if const_int(begin) == 0 else loop.loop_var - begin

    @property
    def iterations(self) -> int:
        return self.trips - self.first - self.last


class _Tails:
    """What loops may leave for later."""

    def __init__(self, program: Program):
        self.program, self.users = program, users_of_buffers(program)
        self.live = {b.buffer: b for b in live_buffers(program)}

    def of(self, loop: Loop) -> _Tail | None:
        """What goes behind a loop; None if nothing can, or no iteration is shorter without."""
        if not isinstance(loop.stmt, For) or loop.stmt.kind != ForKind.SERIAL or (loop.trip or 0) < 2 or loop.has_jump:
            return None
        nodes = [n for node in loop.body.nodes for n in _in_window(node, loop)]
        if not any(map(_is_short, nodes)):
            return None
        inside, changing = {i for i in self.program.instrs if loop in i.loops}, names_inside(loop.stmt.body)
        tail: list[Instr] = []
        copies: set = set()
        for node in reversed(nodes):
            elsewhere = tail and node.parent is not tail[0].parent
            if elsewhere or not _is_short(node) or any(v in changing for e in exprs(node.stmt) for v in free_vars(e)):
                continue
            more = self.copies_for(node, tail, inside, loop)
            if more is not None:
                tail.insert(0, node)
                copies |= more
        if not tail or not _is_last(tail, nodes):
            return None
        found = _Tail([i.stmt for i in tail], {b: self.bytes_of(b) for b in copies}, loop.trip, *_ends(tail[0], loop))
        return found if found.iterations > 1 else None

    def copies_for(self, instr: Instr, tail: list[Instr], inside: set, loop: Loop) -> set | None:
        """Temporaries that need copies if `instr` goes behind the loop in front of `tail`; None if it cannot go there."""
        copies: set = set()
        for a in instr.accesses:
            users = [i for i in self.users[a.buffer] if i in inside and i is not instr]
            others = [i for i in users if i not in tail]
            if a.space != "shared.ub":
                return None
            if a.write and others or any(i.writes(a.buffer) and i.order > instr.order for i in others):
                return None
            meets = any(a.write or i.writes(a.buffer) for i in users)
            if meets and not self.may_have_copies(a.buffer, loop, instr, min(i.order for i in inside)):
                return None
            copies |= {a.buffer} if meets else set()
        return copies

    def may_have_copies(self, buffer, loop: Loop, instr: Instr, first: int) -> bool:
        """True for a small temporary of one iteration, of which `first` is the first instruction, that stands in one list with `instr`."""
        live: LiveBuffer = self.live[buffer]
        copies = loop.trip - sum(_ends(instr, loop))
        if live.versions != 1 or self.bytes_of(buffer) * copies > MOST_BYTES or any(i.parent is not instr.parent for i in live.users):
            return False
        return live.tight[0][0] > first

    def bytes_of(self, buffer) -> int:
        """How much of a temporary is used."""
        accesses = [a for i in self.users[buffer] for a in i.accesses if a.buffer is buffer]
        if any(a.start.terms or a.size is None for a in accesses):
            return self.live[buffer].version_bytes
        return round_up(max(a.start.const + a.size for a in accesses), BLOCK_BYTES)


def _is_short(node) -> bool:
    """True for a vector instruction that works on no more than fits a small temporary."""
    if not isinstance(node, Instr) or not isinstance(node.stmt, Evaluate) or QUEUES[node.queue][1] != "V":
        return False
    return all(a.size is not None and a.size <= MOST_BYTES for a in node.accesses)


def _in_window(node, loop: Loop) -> list:
    """What a window of a loop contains; other nodes as they are."""
    window = node.window if isinstance(node, Branch) and node.other is None else None
    return node.then.nodes if window is not None and window.loop is loop else [node]


def _ends(instr: Instr, loop: Loop) -> tuple[int, int]:
    """First and last iterations of a loop without `instr`, which stands in its body or a window of it."""
    window = None if instr.parent is loop.body else instr.parent.owner.window
    return (0, 0) if window is None else (window.first, window.last)


def _is_last(tail: list[Instr], nodes: list) -> bool:
    """True if an iteration, of `nodes`, is shorter without `tail`: what of it has to wait longest waits longer than the rest."""
    depth: dict = {}
    touched: dict = {}
    written: dict = {}  # identity of a buffer -> depth of the deepest node that does so
    for node in nodes:
        instrs = _vector_instrs(node)
        if not instrs:
            continue
        accesses = [a for i in instrs for a in i.accesses]
        before = [(touched if a.write else written).get(id(a.buffer), 0) for a in accesses]
        depth[node] = deep = 1 + max(before, default=0)
        for a in accesses:
            for known in (touched, written) if a.write else (touched,):
                known[id(a.buffer)] = max(known.get(id(a.buffer), 0), deep)
    left = [depth[n] for n in nodes if n in depth and n not in tail]
    return bool(left) and max(depth[i] for i in tail) > max(left)


def _vector_instrs(node) -> list[Instr]:
    if isinstance(node, Loop):
        return [i for n in node.body.nodes for i in _vector_instrs(n)]
    return [node] if isinstance(node, Instr) and QUEUES[node.queue][1] == "V" else []


class _Distribute(StmtMutator):
    """`tails`: loop -> what it leaves for later."""

    def __init__(self, tails: dict[For, _Tail]):
        self.tails, self.number, self.new = tails, {}, {}
        self.late = {s for tail in tails.values() for s in tail.stmts}
        for loop, tail in tails.items():
            for b, nbytes in tail.copies.items():
                each = nbytes // itemsize(dtype_of(b))
                self.number[b] = tail.number(loop) * imm(each)
                self.new[b] = decl_buffer([1, each * tail.iterations], dtype_of(b), b.name, scope=scope_of(b))

    def visit_AllocBuffer(self, s: AllocBuffer):
        return AllocBuffer(self.new[s.buffer], annotations=dict(s.annotations), span=s.span) if s.buffer in self.new else s

    def visit_For(self, s: For):
        if s not in self.tails:
            return self.generic(s)
        tail = self.tails[s]
        # Loops start at 0.
        runs = For(s.loop_var, s.min, imm(tail.iterations, dtype_of(s.extent)), s.kind, s.body, span=s.span)
        behind = [_of_all(runs, _later(self.generic(x), s.loop_var, tail.first)) for x in tail.stmts]
        return [self.generic(s), *behind]

    def visit_Evaluate(self, s: Evaluate):
        return None if s in self.late else self.generic(s)

    def expr(self, e):
        if isinstance(e, TensorLoad) and e.source in self.new:
            return BufferLoad(self.new[e.source], [e.indices[0], self.number[e.source] + self.expr(e.indices[1])])
        return map_children(e, self.expr)


def _later(s: Evaluate, var: Var, iterations: int) -> Evaluate:
    """What an instruction does so many iterations later."""
    if not iterations:
        return s
    call, value = s.value, var + imm(iterations, dtype_of(var))
    return Evaluate(Call(call.op, [_at(a, var, value) for a in call.args], attrs=call.attrs, ret_ty=call.ty), span=s.span)


def _of_all(loop: For, s: Evaluate) -> Stmt:
    """What an instruction does in all iterations of a loop: with as many repeats if each goes on where the one before ended, else in a loop."""
    call = s.value
    record = record_of(call)
    longer = _longer(record, call, loop)
    if longer is not None:
        return Evaluate(longer, span=s.span)
    var = Var(loop.loop_var.name, dtype_of(loop.loop_var))
    return For(var, loop.min, loop.extent, loop.kind, substitute(s, {loop.loop_var: var}), span=s.span)


def _longer(record, call, loop: For):
    """A call with the repeats of all iterations of `loop`; None if that is another instruction."""
    operands, args = list(call.args[: len(record.operands)]), list(call.args[len(record.operands) :])
    at = next((i for i, a in enumerate(record.args) if a.name == "repeat"), None)
    if at is None:
        return None
    repeat, trips = const_int(args[at]), const_int(loop.extent)
    if repeat is None or repeat * trips > MAX_REPEAT or any(loop.loop_var in free_vars(a) for a in args):
        return None
    parts = [operand_parts(a) for a in operands]
    values = [getattr(a, "value", None) if isinstance(a, (IntImm, FloatImm)) else None for a in args]

    def ends(n: int) -> list:
        bound = record.bind([dtype for _, dtype in parts], [n if i == at else v for i, v in enumerate(values)])
        return [high for _, _, _, high in record.footprint(bound)]

    one, two = ends(repeat), ends(repeat + 1)
    for (load, _), end, more in zip(parts, one, two, strict=True):
        forms = [affine(i, [loop.loop_var]) for i in load.indices]
        if None in (end, more, *forms) or forms[0].coeffs:
            return None
        if forms[1].coeffs.get(loop.loop_var, 0) * itemsize(dtype_of(load.source)) != (more - end) * repeat:
            return None
    args[at] = imm(repeat * trips, dtype_of(args[at]))
    first = [_at(a, loop.loop_var, loop.min) for a in operands]
    return Call(call.op, [*first, *args], attrs=call.attrs, ret_ty=call.ty)


def _at(operand, var: Var, value):
    """An operand, or another argument, where a loop variable is `value`."""
    if isinstance(operand, Var) and operand.same_as(var):
        return value
    if not isinstance(operand, TensorLoad):
        return map_children(operand, lambda e: _at(e, var, value))
    simplify = sym.Analyzer().simplify
    return BufferLoad(operand.source, [simplify(substitute_expr(i, {var: value})) for i in operand.indices])


__all__ = ["distribute_loops"]
