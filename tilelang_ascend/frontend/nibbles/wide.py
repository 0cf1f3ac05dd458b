"""widen_tile_ops: tile ops that compute numbers of 4 bits do so in int32 or float32, on tiles.

Before:  cumsum(x, y)                                        # tiles of int4
After:   w: int32; copy(x, w); cumsum(w, w); copy(w, y)      # the copy back wraps, or rounds

Operands in tensors are copied to tiles. Atomic updates are plain ones: bytes of two numbers have one block each (`owners`).
"""

from __future__ import annotations

from ...ir import (
    AllocBuffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    PrimFunc,
    StmtMutator,
    TensorRegion,
    Var,
    as_dtype,
    attrs_of,
    const_int,
    decl_buffer,
    dtype_of,
    imm,
    parallel_nest,
    region,
    scope_of,
    tirx,
)
from ...runtime.dtypes import NIBBLES
from ...tile import COPY, FILL, GEMM, PRINT, REDUCE, VIEW, is_op, tile_op, tile_op_of, with_args
from ...tile.atomics import AtomicElements, updated
from ...tile.uses import IN_ORDER, is_atomic

_CHOOSES = ("max", "min", "bitand", "bitor", "bitxor")
"""Reductions whose result is a number of the dtype of what they reduce."""


def in_gm(buffer) -> bool:
    """True for tensors and workspaces."""
    return scope_of(buffer) in ("global", "")


def wide_dtype(dtype: str) -> str:
    """What numbers of a dtype of 4 bits are computed in."""
    return "float32" if dtype.startswith("float") else "int32"


class _Widen(StmtMutator):
    def __init__(self):
        self.in_nest, self.in_order = False, None
        self.updated: dict = {}
        """Tensors with atomic updates, and where."""

    def visit_For(self, s: For):
        if s.kind != ForKind.PARALLEL or self.in_nest:
            return self.generic(s)
        self.in_nest, self.in_order = True, None
        out = self.generic(s)
        self.in_nest = False
        if self.in_order is None:
            return out
        notes = {**out.annotations, IN_ORDER: self.in_order}
        return For(out.loop_var, out.min, out.extent, out.kind, out.body, annotations=notes, span=out.span)

    def visit_Evaluate(self, s: Evaluate):
        small = [a for a in s.value.args if isinstance(a, TensorRegion) and dtype_of(a.source) in NIBBLES] if tile_op_of(s) else []
        if not small or is_op(s, COPY, VIEW, FILL):
            return s
        if is_atomic(s):
            return self.atomic(s)
        return self.on_tiles(s)

    def tile(self, r: TensorRegion, dtype: str, out: list):
        """A tile for a region."""
        sizes = [const_int(x.extent) for x in r.region]
        if None in sizes:
            sizes = [const_int(n) if size is None else size for size, n in zip(sizes, r.source.ty.shape)]
        assert None not in sizes, "tile ops on regions of run-time size are on tiles"
        tile = decl_buffer(sizes, dtype, f"{r.source.name}_wide", scope="shared")
        out.append(AllocBuffer(tile))
        extents = [x.extent for x in r.region]
        return region(tile, [0] * len(extents), extents)

    def on_tiles(self, s: Evaluate) -> list:
        """An op between tiles of dtypes it is defined for."""
        record, args, before, after = tile_op_of(s), list(s.value.args), [], []
        floats = any(dtype_of(a.source).startswith(("float", "bfloat")) for a in args if isinstance(a, TensorRegion))
        wide = "float32" if floats else "int32"
        for k, arg in enumerate(args):
            if not isinstance(arg, TensorRegion) or dtype_of(arg.source) not in NIBBLES:
                continue
            dtype = dtype_of(arg.source)
            as_it_is = self.holds(s, k)
            if as_it_is and not in_gm(arg.source):
                continue
            args[k] = self.tile(arg, dtype if as_it_is else wide, before)
            if k in record.reads and not (k == 1 and attrs_of(s).get("clear")):
                before.append(tile_op("copy", arg, args[k], span=s.span))
            if k in record.writes:
                after.append(tile_op("copy", args[k], arg, span=s.span))
        return [*before, with_args(s, args), *after]

    @staticmethod
    def holds(s: Evaluate, k: int) -> bool:
        """Whether an op may have the numbers of operand `k` in the dtype that holds them."""
        if is_op(s, PRINT):
            return True
        regions = [a for a in s.value.args if isinstance(a, TensorRegion)]
        narrow_result = dtype_of(regions[-1].source) in NIBBLES
        if is_op(s, GEMM):
            return k < 2
        if not is_op(s, REDUCE):
            return False
        if not narrow_result:
            return k == 0
        attrs = attrs_of(s)
        same = dtype_of(regions[0].source) == dtype_of(regions[1].source)
        return same and attrs["kind"] in _CHOOSES and (const_int(regions[0].region[int(attrs["dim"])].extent) or 0) > 0

    # --- atomic updates

    def atomic(self, s: Evaluate):
        target, value = s.value.args
        dtype = dtype_of(target.source)
        if dtype not in NIBBLES:
            out: list = []
            tile = self.tile(value, dtype, out)
            return [*out, tile_op("copy", value, tile, span=s.span), with_args(s, (target, tile))]
        if in_gm(target.source):
            self.updated.setdefault(target.source, s.span)
        if isinstance(value, TensorRegion) and not self.in_nest:
            return self.tiles(s, target, value)
        if isinstance(value, TensorRegion) or any(const_int(x.extent) != 1 for x in target.region):
            return self.visit(AtomicElements()(s))
        if self.in_nest:
            self.in_order = f"it updates `{target.source.name}`, whose numbers of {dtype} have no atomic updates"
        at = [x.min for x in target.region]
        return BufferStore(target.source, self.combined(s, BufferLoad(target.source, at), value), at, span=s.span)

    @staticmethod
    def combined(s: Evaluate, old, value):
        """What an update makes of a number, in its dtype."""
        dtype = dtype_of(old)
        wide = wide_dtype(dtype)
        return tirx.Cast(dtype, updated(s, tirx.Cast(wide, old), tirx.Cast(wide, as_dtype(value, dtype))))

    def tiles(self, s: Evaluate, target: TensorRegion, value: TensorRegion) -> list:
        """An update of a part of a tensor by a tile."""
        dtype, out = dtype_of(target.source), []
        amount, old = self.tile(target, dtype, out), self.tile(target, dtype, out)
        out += [tile_op("copy", value, amount, span=s.span), tile_op("copy", target, old, span=s.span)]
        loops = [(Var(f"i{d}", "int32"), x.extent) for d, x in enumerate(target.region) if const_int(x.extent) != 1]
        steps = iter(v for v, _ in loops)
        at = [imm(0) if const_int(x.extent) == 1 else next(steps) for x in target.region]
        new = self.combined(s, BufferLoad(old.source, at), BufferLoad(amount.source, at))
        body = BufferStore(old.source, new, at, span=s.span)
        nest = parallel_nest(loops or [(Var("i0", "int32"), imm(1))], body, s.span)
        return [*out, nest, tile_op("copy", old, target, span=s.span)]


def widen_tile_ops(func: PrimFunc) -> tuple[PrimFunc, dict]:
    """Apply to a function with dtypes of 4 bits. Also gives the tensors that several blocks may update, and where they do."""
    widen = _Widen()
    body = widen(func.body)
    return func.with_body(body), widen.updated


__all__ = ["in_gm", "widen_tile_ops"]
