"""A step that has room for more keys than there are left: what is behind the last key must not be seen.

Nothing of a tensor is read or written behind it (`tl.copy` with an end), and what combines all keys of a tile finds there what changes nothing:
    reduce_max(s, m)      ->  if count < 512: Parallel: s[i, j] = if_then_else(j < count, s[i, j], -inf)
                              reduce_max(s, m)
    gemm(p, v, o)         ->  if count < 512: Parallel: p[i, j] = if_then_else(j < count, p[i, j], 0)
                              gemm(p, v, o)               # v: from a tensor, zero behind the end
Element-wise work, and products whose results have the keys, may do there what they like. What they leave is known in one case: where scores are
-inf, `exp(score - m)` is 0, with a maximum `m` of all scores. (With -inf or NaN for `m` it is NaN, but so it is for all keys that are there.)
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from ...analysis.index.coverage import whole_store
from ...analysis.tiles.piece_loads import PieceLoad
from ...analysis.tiles.split_axis import SplitPlan, copy_dims
from ...ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
    TensorLoad,
    Var,
    as_dtype,
    choice_of,
    const_int,
    dtype_of,
    exprs,
    free_vars,
    imm,
    is_choice,
    op_name,
    parallel_nest,
    seq,
    statements,
    stmts_of,
    tirx,
    walk_expr,
)
from ...tile import COPY, FILL, GEMM, REDUCE, is_op, with_args
from ...tile.clears import gemm_args
from ...tile.conditions import divides_at_run_time
from ...tile.reductions import start
from ...tile.uses import covers_whole, is_parallel, loads_in, on_chip, uses_of

_POWERS = ("tirx.exp", "tirx.exp2")


class _SeesAll(Exception):
    """Some statement would see what is behind the last key."""


def with_fewer_keys(body: list[Stmt], keys: SplitPlan, size: int, count, outside: dict) -> Stmt | None:
    """The statements of a step with room for `size` keys (`keys`: dimensions of its tiles, loops of its nests), of which only the first `count`
    (an expression of the type of loop variables) are there; None if that is not all it takes. outside: tensor -> what its outside reads as, if not 0."""
    try:
        return _Step(keys, size, count, outside).block(seq(body))
    except _SeesAll:
        return None


class _Step:
    """behind: tile -> the number that is known to be behind the last key, nothing if none is. maxima: tile -> tiles with keys, as they are now, of whose
    rows it holds the greatest number of the keys that are there, or one that is greater."""

    def __init__(self, keys: SplitPlan, size: int, count, outside: dict):
        self.keys, self.size, self.count, self.outside = keys, size, count, outside
        self.behind: dict = {}
        self.maxima: dict = {}

    def block(self, s: Stmt) -> Stmt:
        return seq([self.statement(x) for x in stmts_of(s)])

    def statement(self, s: Stmt) -> Stmt | list[Stmt]:
        if isinstance(s, SeqStmt):
            return self.block(s)
        if isinstance(s, (AllocBuffer, Bind)):
            return s
        if not self.mine(uses_of(s).all):
            self.keep_maxima(s)
            return s
        if isinstance(s, IfThenElse):
            return self.branches(s)
        if is_parallel(s):
            return self.nest(s)
        if (load := PieceLoad.of(s)) is not None:
            return self.pieces(load)
        for op, rule in ((COPY, self.copy), (FILL, self.fill), (GEMM, self.product), (REDUCE, self.reduction)):
            if is_op(s, op):
                return rule(s)
        raise _SeesAll

    def mine(self, buffers) -> list:
        """Those of some tiles that have the keys."""
        return [b for b in buffers if b in self.keys.dims]

    def branches(self, s: IfThenElse) -> Stmt:
        if any(self.mine([x.source]) for x in loads_in(s.condition)):
            raise _SeesAll
        before, arms, left = dict(self.behind), [], []
        for arm in (s.then_case, s.else_case):
            self.behind, self.maxima = dict(before), {}
            arms.append(None if arm is None else self.block(arm))
            left.append(self.behind)
        self.behind, self.maxima = {b: n for b, n in left[0].items() if left[1].get(b) == n}, {}
        return IfThenElse(s.condition, *arms, span=s.span)

    def nest(self, s: For) -> Stmt:
        counting = {x.loop_var for x in statements(s) if isinstance(x, For) and x.loop_var in self.keys.nest_vars}
        for x in statements(s):
            if isinstance(x, BufferStore) and any(map(loads_in, x.indices)):
                raise _SeesAll
            for e in exprs(x):
                walk_expr(e, lambda e: self.element(e, counting))
        store, left = whole_store(s), None
        if store is not None and self.mine([store.buffer]):
            left = self.left_by(store.value, list(store.indices)[self.keys.dims[store.buffer]])
        self.written(*uses_of(s).writes)
        if left is not None:
            self.behind[store.buffer] = left
        return s

    def written(self, *buffers) -> None:
        """Nothing is known any more of what has other values."""
        for b in buffers:
            self.behind.pop(b, None)
            self.maxima.pop(b, None)
        self.maxima = {b: found - set(buffers) for b, found in self.maxima.items()}

    def keep_maxima(self, s: Stmt) -> None:
        """Follows maxima through a statement that has nothing to do with keys."""
        found, store = None, whole_store(s)
        if store is not None:
            found = self.maximum(store.value, _places(store.indices))
        elif is_op(s, COPY) and all(map(covers_whole, s.value.args[:2])):
            found = self.maxima.get(s.value.args[0].source)
        writes = uses_of(s).writes
        self.written(*writes)
        if found and len(writes) == 1:
            self.maxima[next(iter(writes))] = set(found)

    def maximum(self, e, at: list) -> set:
        """The tiles of whose rows `at` (indices) an expression is the greatest number, or more; -inf may have become another one."""
        if isinstance(e, TensorLoad):
            return self.maxima.get(e.source, set()) if _places(e.indices) == at else set()
        if isinstance(e, tirx.Max):
            return self.maximum(e.a, at) | self.maximum(e.b, at)
        if is_choice(e):
            condition, *values = choice_of(e)
            kept = [v for v in values if not isinstance(v, tirx.FloatImm)]
            lowest = isinstance(condition, tirx.EQ) and any(
                isinstance(x, tirx.FloatImm) and x.value == -inf for x in (condition.a, condition.b)
            )
            return self.maximum(kept[0], at) if lowest and len(kept) == 1 else set()
        return set()

    def left_by(self, e, at) -> float | None:
        """The number that an element-wise expression is behind the last key, None if that is not known. `at`: the index that counts keys."""
        if isinstance(e, (tirx.IntImm, tirx.FloatImm)):
            return e.value
        if isinstance(e, TensorLoad) and self.mine([e.source]):
            return self.behind.get(e.source) if list(e.indices)[self.keys.dims[e.source]].same_as(at) else None
        if isinstance(e, tirx.Cast):
            found = self.left_by(e.value, at)
            return found if found == 0 or "float" in dtype_of(e) and "float" in dtype_of(e.value) and found == -inf else None
        if isinstance(e, Call) and op_name(e) in _POWERS:
            return 0 if self.below(e.args[-1], at) else None
        return None

    def below(self, e, at) -> bool:
        """True if an expression is a score of -inf less a maximum of scores, or both times a positive constant."""
        if isinstance(e, tirx.Mul) and _positive(e.b):
            return self.below(e.a, at)
        if not isinstance(e, tirx.Sub):
            return False
        score, greatest = (x.a if isinstance(x, tirx.Mul) and _positive(x.b) else x for x in (e.a, e.b))
        if not isinstance(score, TensorLoad) or self.left_by(score, at) != -inf:
            return False
        rows = [i for d, i in enumerate(score.indices) if d != self.keys.dims[score.source]]
        return isinstance(greatest, TensorLoad) and score.source in self.maximum(greatest, _places(rows))

    def element(self, e, counting: set) -> None:
        """Refuses what must not happen to elements that are not there: reads of tensors, and divisions that stop the program."""
        if divides_at_run_time(e):
            raise _SeesAll
        if isinstance(e, TensorLoad):
            counted = not on_chip(e.source) and any(counting & free_vars(i) for i in e.indices)
            if counted or any(map(loads_in, e.indices)):
                raise _SeesAll

    def copy(self, s: Evaluate) -> Stmt:
        src, dst = s.value.args
        outside = [r for r in (src, dst) if not on_chip(r.source)]
        known = self.behind.get(dst.source)
        self.written(dst.source)
        if self.mine([dst.source]):
            if outside and covers_whole(dst) and src.source not in self.outside:
                self.behind[dst.source] = 0
            elif self.behind.get(src.source) == 0 and (covers_whole(dst) or known == 0):
                self.behind[dst.source] = 0
        if not outside:
            return s
        tile = 1 if outside[0].source.same_as(src.source) else 0
        near, far = (src, dst)[tile], outside[0]
        if not self.mine([near.source]):
            return s
        d = next(p[1 - tile] for p in copy_dims(src, dst) if p[tile] == self.keys.dims[near.source])
        first = far.region[d].min
        return with_args(s, [src, dst, imm(d), first + as_dtype(self.count, dtype_of(first))])

    def pieces(self, load: PieceLoad) -> Stmt:
        if load.there is not None or self.keys.dims[load.tile] != load.dim:
            raise _SeesAll
        self.written(load.tile)
        if load.source.source not in self.outside:
            self.behind[load.tile] = 0
        first = as_dtype(load.var, dtype_of(self.count)) * load.size
        return replace(load, there=first < self.count).stmt()

    def fill(self, s: Evaluate) -> Stmt:
        r, value = s.value.args
        before = self.behind.get(r.source)
        self.written(r.source)
        if isinstance(value, (tirx.IntImm, tirx.FloatImm)) and (covers_whole(r) or before == value.value):
            self.behind[r.source] = value.value
        return s

    def product(self, s: Evaluate) -> list[Stmt]:
        out: list[Stmt] = []
        a, b, c = gemm_args(s)[:3]
        for r, turned, along in ((a, "transpose_A", 1), (b, "transpose_B", 0)):
            summed = len(r.region) - 2 + (along ^ int(s.value.attrs[turned]))
            if self.keys.dims.get(r.source) == summed:
                out += self.set_behind(r.source, imm(0, dtype_of(r.source)), s)
        self.written(c.source)
        return [*out, s]

    def reduction(self, s: Evaluate) -> list[Stmt]:
        (src, dst), kind = s.value.args[:2], str(s.value.attrs["kind"])
        out: list[Stmt] | None = None
        if self.keys.dims.get(src.source) == int(s.value.attrs["dim"]) % len(src.region):
            out = self.set_behind(src.source, start(kind, dtype_of(src.source)), s)
        found = self.maxima.get(dst.source, set()) if not int(s.value.attrs["clear"]) else set()
        self.written(dst.source)
        if out is not None and kind == "max" and covers_whole(src) and covers_whole(dst):
            self.maxima[dst.source] = found | {src.source}
        return [*(out or []), s]

    def set_behind(self, tile, value, s: Stmt) -> list[Stmt]:
        """Statements that make what is behind the last key of a tile `value`."""
        number = const_int(value) if "int" in dtype_of(value) else getattr(value, "value", None)
        if number is None:
            raise _SeesAll
        if self.behind.get(tile) == number:
            return []
        self.behind[tile] = number
        shape = [const_int(n) for n in tile.ty.shape]
        loops = [(Var("ij"[k] if len(shape) == 2 else f"i{k}", "int32"), imm(n)) for k, n in enumerate(shape)]
        index = [v for v, _ in loops]
        there = index[self.keys.dims[tile]]
        kept = BufferLoad(tile, index)
        chosen = tirx.if_then_else(as_dtype(there, dtype_of(self.count)) < self.count, kept, value)
        nest = parallel_nest(loops, BufferStore(tile, chosen, index, span=s.span), s.span)
        return [IfThenElse(self.count < imm(self.size, dtype_of(self.count)), nest, None, span=s.span)]


def _places(indices) -> list:
    """Indices, but for constants: dimensions of one element."""
    return [i for i in indices if const_int(i) is None]


def _positive(e) -> bool:
    return isinstance(e, tirx.FloatImm) and 0 < e.value < inf


__all__ = ["with_fewer_keys"]
