"""fold_clears: turn zero fills of accumulators into the `clear_accum` condition of the first gemm that follows.

L0C cannot be filled; a Mmad can start from zero. The first accumulation after the fill does so:

Before:  fill(C@l0c, 0); for k in range(n): gemm(A, B, C, False)
After:   for k in range(n): gemm(A, B, C, k == 0)

Where the first gemm is not known statically, a scalar remembers it:

After:   C_fresh = 1; while …: gemm(A, B, C, C_fresh == 1); C_fresh = 0

and whoever reads the accumulator first makes up for accumulations that never came (a loop that ran zero times):

After:   if C_fresh == 1: zero_accumulator(C); C_fresh = 0
         copy(C, …)

A fill whose block goes on without the accumulator (in a branch) computes zeros on the spot.

Requires: versioned Tile IR. Ensures: no fills of `local.l0c` buffers.
"""

from __future__ import annotations

from ..analysis.tile_uses import uses_of
from ..errors import UnsupportedConstruct
from ..ir import (
    AllocBuffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    FloatImm,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    StmtMutator,
    TensorLoad,
    const_int,
    decl_buffer,
    imm,
    op_name,
    scope_of,
    seq,
    stmts_of,
    sym,
    tile_op,
    tirx,
)
from .normalize_clears import gemm_args, with_clear


def filled_accumulator(s: Stmt):
    """The L0C buffer that `s` fills, or None. Only zero can be meant."""
    if not isinstance(s, Evaluate) or op_name(s) != "tl.fill":
        return None
    buffer, value = s.value.args[0].source, s.value.args[1]
    if scope_of(buffer) != "local.l0c":
        return None
    number = value.value if isinstance(value, FloatImm) else const_int(value)
    if number != 0:
        raise UnsupportedConstruct(
            f"accumulator '{buffer.name}' starts from {number if number is not None else value}; a gemm can only start from zero",
            at=s.span,
            hint="clear the accumulator and add the value element-wise after the gemm",
        )
    return buffer


class _Fold(StmtMutator):
    def __init__(self):
        self.flags: dict = {}
        self.allocs: list[Stmt] = []

    def visit_SeqStmt(self, block):
        stmts = [seq(self.visit(s)) for s in block.seq]
        out: list[Stmt] = []
        i = 0
        while i < len(stmts):
            buffer = filled_accumulator(stmts[i])
            if buffer is None:
                out.append(stmts[i])
            else:
                rest = stmts[i + 1:]
                user = next((j for j, s in enumerate(rest) if buffer in uses_of(s).all), None)
                if user is None:
                    out.append(stmts[i])
                else:
                    folded = fold_into(rest[user], buffer, [])
                    if folded is None:
                        out.append(self.raise_flag(buffer, stmts[i]))
                        test = _TestFlag(buffer, self.flags[buffer], stmts[i].value.args[0])
                        stmts[i + 1 + user:] = [test(s) for s in rest[user:]]
                    else:
                        stmts[i + 1 + user] = folded
            i += 1
        return out

    def raise_flag(self, buffer, fill: Stmt) -> Stmt:
        if buffer not in self.flags:
            self.flags[buffer] = decl_buffer((1,), "int32", f"{buffer.name}_fresh", scope="local.var")
            self.allocs.append(AllocBuffer(self.flags[buffer]))
        return BufferStore(self.flags[buffer], imm(1), [imm(0)], span=fill.span)


class _TestFlag(StmtMutator):
    """While the flag is up, plain accumulations into `buffer` start from zero, and readers find zeros in `region`."""

    def __init__(self, buffer, flag, region):
        self.buffer, self.flag, self.region = buffer, flag, region

    def visit_SeqStmt(self, block):
        out, guarded = [], False
        for s in block.seq:
            out.append(s if guarded else seq(self.visit(s)))
            guarded = self.is_guard(s)
        return out

    def visit_Evaluate(self, s: Evaluate):
        args = gemm_args(s)
        if args is not None and args[2].source.same_as(self.buffer):
            return s if const_int(args[3]) != 0 else [with_clear(s, self.up()), self.down(s)]
        if self.buffer not in uses_of(s).reads:
            return s
        zero = tile_op("zero_accumulator", self.region, span=s.span)
        return [IfThenElse(self.up(), seq(zero, self.down(s)), None, span=s.span), s]

    def is_guard(self, s: Stmt) -> bool:
        """Is `s` what an earlier run of this pass over the block put in front of a reader?"""
        load = s.condition.a if isinstance(s, IfThenElse) and isinstance(s.condition, tirx.EQ) else None
        return isinstance(load, TensorLoad) and load.source.same_as(self.flag)

    def up(self):
        return tirx.EQ(BufferLoad(self.flag, [imm(0)]), imm(1))

    def down(self, s: Stmt) -> Stmt:
        return BufferStore(self.flag, imm(0), [imm(0)], span=s.span)


class _Zero(StmtMutator):
    """Fills nobody in their own block follows: what comes behind the branch or loop around them finds zeros."""

    def visit_Evaluate(self, s: Evaluate):
        if filled_accumulator(s) is None:
            return s
        return tile_op("zero_accumulator", s.value.args[0], span=s.span)


def fold_into(s: Stmt, buffer, loops: list[For]):
    """`s` with its first accumulation into `buffer` starting from zero, or None if that is not one certain statement."""
    args = gemm_args(s)
    if args is not None:
        if not args[2].source.same_as(buffer) or const_int(args[3]) != 0:
            return None
        cond = imm(True, "bool")
        for i, loop in enumerate(loops):
            first = tirx.EQ(loop.loop_var, imm(0))
            cond = first if i == 0 else tirx.And(cond, first)
        return with_clear(s, cond)
    if isinstance(s, For):
        if not sym.Analyzer().can_prove(s.extent >= 1):
            return None
        body = stmts_of(s.body)
        for j, x in enumerate(body):
            if buffer in uses_of(x).all:
                folded = fold_into(x, buffer, [*loops, s])
                if folded is None or any(buffer in uses_of(y).all and not _accumulates(y, buffer) for y in body[j + 1:]):
                    return None
                body[j] = folded
                return For(s.loop_var, s.min, s.extent, s.kind, seq(body), annotations=dict(s.annotations), span=s.span)
    return None


def _accumulates(s: Stmt, buffer) -> bool:
    return buffer in uses_of(s).writes


def fold_clears(func: PrimFunc) -> PrimFunc:
    """Apply to a versioned Tile IR function."""
    fold = _Fold()
    body = _Zero()(fold(func.body))
    return func.with_body(seq(fold.allocs, body))


__all__ = ["fold_clears"]
