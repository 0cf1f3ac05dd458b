"""fold_clears: turn zero fills of accumulators into the `clear_accum` condition of the gemms that find them.

L0C cannot be filled; a Mmad can start from zero. The first accumulation after the fill does so:

Before:  fill(C@l0c, 0); for k in range(n): gemm(A, B, C, False)
After:   for k in range(n): gemm(A, B, C, k == 0)

Where the first gemm is not known statically, a scalar remembers it:

After:   C_fresh = 1; while …: gemm(A, B, C, C_fresh == 1); C_fresh = 0

and whoever reads the accumulator first makes up for accumulations that never came (a loop that ran zero times or was left early):

After:   if C_fresh == 1: zero_accumulator(C); C_fresh = 0
         copy(C, …)

`analysis/tiles/freshness.py` says which of these a statement needs, for each part of an accumulator that is worked on in parts. A gemm over parts
in different states computes the missing zeros first.

Requires: versioned Tile IR. Ensures: no fills of `local.l0c` buffers.
"""

from __future__ import annotations

from ...analysis.tiles.freshness import Freshness, State, regions_of
from ...errors import UnsupportedConstruct
from ...ir import (
    AllocBuffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    FloatImm,
    For,
    IfThenElse,
    PrimFunc,
    SeqStmt,
    Stmt,
    TensorRegion,
    While,
    const_int,
    decl_buffer,
    imm,
    region,
    scope_of,
    seq,
    statements,
    tirx,
)
from ...tile import FILL, is_op, tile_op
from ...tile.clears import gemm_args, with_clear


def filled_accumulator(s: Stmt):
    """The L0C buffer that `s` fills, or None. Only zero can be meant."""
    if not is_op(s, FILL):
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


class _Fold:
    """Rewrites the fills of one accumulator and the statements that find them. Run twice: the first run learns which flags are asked for,
    the second has the others raise and lower them."""

    def __init__(self, body: Stmt, buffer, blocks: int | None):
        self.buffer = buffer
        self.known = Freshness(body, buffer, blocks)
        self.flags: dict = {}
        self.asked: set = set()
        """(place of a fill or a writer, part) that has to set the flag of the part; (None, part): as the program does when it begins."""
        self.rewrite(body, ())
        self.body = self.rewrite(body, ())

    # -- flags --------------------------------------------------------------------------------------------------
    def flag(self, part: int):
        """The scalar that is 1 while `part` is fresh."""
        if part not in self.flags:
            name = f"{self.buffer.name}_fresh" + (f"_{part}" if len(self.known.parts.boxes) > 1 else "")
            self.flags[part] = decl_buffer((1,), "int32", name, scope="local.var")
        return self.flags[part]

    def ask(self, part: int, state: State):
        """ "The flag is up", and note who has to keep it."""
        self.asked |= {(place, part) for place in state.fills | state.writers}
        if state.untouched:
            self.asked.add((None, part))
        return tirx.EQ(BufferLoad(self.flag(part), [imm(0)]), imm(1))

    def set(self, place: tuple | None, part: int, value: int, span) -> Stmt | None:
        """The flag of `part` becomes `value`, if anybody asks."""
        return BufferStore(self.flag(part), imm(value), [imm(0)], span=span) if (place, part) in self.asked else None

    def declarations(self) -> list[Stmt]:
        """The flags, down where the program may ask before anything has set them."""
        return [x for part, flag in self.flags.items() for x in (AllocBuffer(flag), self.set(None, part, 0, None))]

    # -- statements ---------------------------------------------------------------------------------------------
    def rewrite(self, s: Stmt, path: tuple) -> Stmt:
        if isinstance(s, SeqStmt):
            return seq([self.rewrite(x, (*path, i)) for i, x in enumerate(s.seq)])
        if isinstance(s, IfThenElse):
            other = None if s.else_case is None else self.rewrite(s.else_case, (*path, 1))
            return IfThenElse(s.condition, self.rewrite(s.then_case, (*path, 0)), other, span=s.span)
        if isinstance(s, For):
            body = self.rewrite(s.body, (*path, 0))
            return For(s.loop_var, s.min, s.extent, s.kind, body, annotations=dict(s.annotations), span=s.span)
        if isinstance(s, While):
            return While(s.condition, self.rewrite(s.body, (*path, 0)), span=s.span)
        if not self.known.concerns(s):
            return s
        is_fill = filled_accumulator(s) is not None
        state = self.known.before.get(path)
        if state is None:
            return seq() if is_fill else s
        touched = self.known.touched(s)
        if is_fill:
            if touched is not None:
                return seq([self.set(path, part, 1, s.span) for part in touched])
            return seq(self.zeros(s, path, state, None), tile_op("zero_accumulator", s.value.args[0], span=s.span))
        args = gemm_args(s)
        if args is not None and args[2].source.same_as(self.buffer) and touched is not None and const_int(args[3]) == 1:
            return seq(s, [self.set(path, part, 0, s.span) for part in touched if not state[part].in_memory])
        if args is not None and args[2].source.same_as(self.buffer):
            return self.accumulate(s, path, state, touched)
        return seq(self.zeros(s, path, state, touched), s)

    def accumulate(self, s: Evaluate, path: tuple, state: tuple, touched: list[int] | None) -> Stmt:
        """A gemm that starts from zero where it finds the accumulator fresh."""
        first = None if touched is None else touched[0]
        if first is None or not all(state[first].agrees(state[i]) for i in touched):
            whole = range(len(state)) if touched is None else touched
            return seq(self.zeros(s, path, state, touched), s, [self.set(path, i, 0, s.span) for i in whole if state[i].in_memory])
        found, clear = state[first], gemm_args(s)[3]
        if found.in_memory:
            return seq(s, [self.set(path, i, 0, s.span) for i in touched if state[i].untouched])
        fresh = self.up(first, found)
        out = with_clear(s, fresh if const_int(clear) == 0 or const_int(fresh) == 1 else tirx.Or(fresh, clear))
        return seq(out, [self.set(path, i, 0, s.span) for i in touched])

    def up(self, part: int, state: State):
        """ "The part is fresh", a constant where that is certain."""
        if state.fresh:
            return imm(True, "bool")
        return state.cond if state.cond is not None else self.ask(part, state)

    def zeros(self, s: Stmt, path: tuple, state: tuple, touched: list[int] | None) -> Stmt:
        """Zeros in the parts that `s` needs and that may be fresh; `touched` None: all."""
        regions = regions_of(s, self.buffer)
        parts = range(len(state)) if touched is None else touched
        missing = [i for i in parts if not state[i].in_memory]
        if len(missing) == len(parts) and all(state[parts[0]].agrees(state[i]) for i in parts):
            whole = regions[0] if touched is not None else self.part_of(regions[0], [(0, n) for n in self.known.parts.shape])
            return self.zero(path, state, missing, whole, s.span)
        return seq([self.zero(path, state, [i], self.part_of(regions[0], self.known.parts.boxes[i]), s.span) for i in missing])

    def zero(self, path: tuple, state: tuple, parts: list[int], where: TensorRegion, span) -> Stmt:
        """`if the parts are fresh: zero_accumulator(where)`, and their flags down."""
        fresh = self.up(parts[0], state[parts[0]])
        out = tile_op("zero_accumulator", where, span=span)
        down = [self.set(path, i, 0, span) for i in parts]
        if const_int(fresh) == 1:
            return seq(out, down)
        if state[parts[0]].cond is not None:
            return seq(IfThenElse(fresh, out, None, span=span), down)
        down[0] = BufferStore(self.flag(parts[0]), imm(0), [imm(0)], span=span)
        return IfThenElse(fresh, seq(out, down), None, span=span)

    def part_of(self, like: TensorRegion, box) -> TensorRegion:
        """The part of the accumulator in `box`, of the version that `like` is of."""
        front = list(like.region)[:-2]
        return region(
            self.buffer, [*(r.min for r in front), *(lo for lo, _ in box)], [*(r.extent for r in front), *(hi - lo for lo, hi in box)]
        )


def fold_clears(func: PrimFunc) -> PrimFunc:
    """Apply to a versioned Tile IR function."""
    filled: list = []
    for s in statements(func.body):
        buffer = filled_accumulator(s)
        if buffer is not None and not any(buffer.same_as(b) for b in filled):
            filled.append(buffer)
    body, declared = func.body, []
    blocks = int(func.attrs["ascend.block_dim"]) if func.attrs and "ascend.block_dim" in func.attrs else None
    for buffer in filled:
        fold = _Fold(body, buffer, blocks)
        body = fold.body
        declared += fold.declarations()
    return func.with_body(seq(declared, body))


__all__ = ["fold_clears"]
