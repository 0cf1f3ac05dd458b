"""fit_operands: operands of gemm that the cube core has no load or no product for are made of tiles it has.

Before:  gemm(A, B, C, transpose_A=True)                                  # int8: nothing transposes bytes into L0A
After:   Parallel(m, k): a[m, k] = A[k, m]; gemm(a, B, C)

Before:  gemm(A, B, C)                                                    # uint8: the cube core multiplies int8
After:   Parallel: a[0:32] = A & 127; Parallel: a[32:64] = (A >> 7) * 64; …                                # and b of B
         for i, j in (3, 3): gemm(a[min(i, 1) * 32 : +32], b[min(j, 1) * 32 : +32], C)

         gemm(A, B, C)                                                    # float8 where there is no product for it, or float16 and int8
After:   Parallel: a = cast(A); Parallel: b = cast(B); gemm(a, b, C)      # a dtype that holds both exactly

         gemm(A, B, C)                                                    # bytes, C uint32
After:   gemm(A, B, c, clear_accum=True); Parallel: C = C + cast(c)       # c int32, whose sums have the same bits

A byte is the first part and twice the second one, and sums of integers wrap: the products of the parts add up to the product.

Requires: Tile IR without views. Ensures: operands of gemm have one dtype, int8 where they were uint8, accumulators of integers are int32, and the
chip has a load for each.
"""

from __future__ import annotations

from ...ir import (
    AllocBuffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    PrimFunc,
    StmtMutator,
    TensorRegion,
    Var,
    attrs_of,
    const_int,
    decl_buffer,
    dtype_of,
    full_region,
    if_then,
    imm,
    itemsize,
    loop,
    parallel_nest,
    region,
    scope_of,
    tirx,
)
from ...isa import lookup
from ...isa.units import round_up
from ...tile import GEMM, is_op, tile_op, with_args
from ...tile.factors import BYTES, factors
from ...tileop.cube.gemm import SQUARE_SIDE


def _low(x):
    return tirx.bitwise_and(x, imm(127))


def _high(x):
    return tirx.shift_right(x, imm(7)) * imm(64)


class _Fit(StmtMutator):
    def __init__(self, chip):
        self.loads = {k: lookup(f"load_l0{side}_transpose").dtypes(chip.generation) for k, side in enumerate("ab")}
        """Dtypes of squares the chip transposes on the way into L0A and L0B; 16 bits are transposed fractal by fractal."""
        self.rows = lookup("mmad").signatures[chip.generation]
        self.products = {row[1] for row in self.rows}

    def turns(self, r: TensorRegion, k: int, k_is_row: bool, dtype: str) -> bool:
        dtype = "int8" if itemsize(dtype) == 1 else dtype
        return k_is_row and itemsize(dtype) != 2 and dtype not in self.loads[k]

    def visit_Evaluate(self, s: Evaluate):
        if not is_op(s, GEMM):
            return s
        a, b, c = (dtype_of(r.source) for r in s.value.args[:3])
        if c == "uint32" and {a, b} <= BYTES:
            return self.signed(s)
        attrs, regions = attrs_of(s), s.value.args[:3]
        flags, out = {"transpose_A": int(attrs["transpose_A"]), "transpose_B": int(attrs["transpose_B"])}, []
        args, clear, dtype = list(regions), s.value.args[3], self.dtype(a, b, c)
        loops = {}
        for k, (name, r) in enumerate(zip(flags, regions)):
            turn = self.turns(r, k, bool(flags[name]) == (k == 0), dtype)
            if dtype == "int8" != dtype_of(r.source):
                loops[k] = Var("part", "int32")
            if turn or dtype != dtype_of(r.source):
                args[k] = self.tile(r, turn, dtype, loops.get(k), s.span, out)
                flags[name] = 1 - flags[name] if turn else flags[name]
        if not out:
            return s
        if not loops:
            return [*out, tile_op("gemm", *args, clear, span=s.span, **flags)]
        zero = tile_op("fill", args[2], imm(0, dtype_of(args[2].source)), span=s.span)
        if const_int(clear) != 0:
            out.append(zero if const_int(clear) is not None else if_then(clear, zero, span=s.span))
        product = tile_op("gemm", *args, imm(False, "bool"), span=s.span, **flags)
        for part in reversed(loops.values()):
            product = loop(part, imm(3), product, span=s.span)
        return [*out, product]

    def signed(self, s: Evaluate) -> list:
        """A product in an accumulator of its own, of int32, which is added to the unsigned one."""
        a, b, c, clear = s.value.args
        sizes = [r.extent for r in c.region[-2:]]
        whole = decl_buffer(sizes, "int32", f"{c.source.name}_fit", scope=scope_of(c.source))
        product = with_args(s, [a, b, full_region(whole), imm(True, "bool")])
        loops = [Var("i", "int32"), Var("j", "int32")]
        at = [*(x.min for x in c.region[:-2]), *(x.min + i for x, i in zip(c.region[-2:], loops))]
        added = BufferLoad(c.source, at) + tirx.Cast("uint32", BufferLoad(whole, loops))
        nest = parallel_nest(list(zip(loops, sizes)), BufferStore(c.source, added, at, span=s.span), s.span)
        zero = tile_op("fill", c, imm(0, "uint32"), span=s.span)
        first = [] if const_int(clear) == 0 else [zero if const_int(clear) is not None else if_then(clear, zero, span=s.span)]
        product = self.visit_Evaluate(product)
        return [AllocBuffer(whole, span=s.span), *first, *(product if isinstance(product, list) else [product]), nest]

    def dtype(self, a: str, b: str, c: str) -> str:
        """The dtype the operands are given: their own if the cube core has products of it, else one that holds both."""
        if c == "int32" and {a, b} <= BYTES and "uint8" not in self.products:
            return "int8"
        accumulated = {row[1] for row in self.rows if row[0] == c}
        if a == b and (a in accumulated or a in self.products and "int" not in a):
            return a
        return next((x for x in factors(a, b) if x in self.products and "float" in c), a)

    @staticmethod
    def tile(r: TensorRegion, turn: bool, dtype: str, part, span, out: list) -> TensorRegion:
        """A tile of `dtype` with the numbers of a matrix, transposed or not, or (with `part`) with both of their parts, of which the variable chooses one;
        `out` gets the statements that fill it."""
        sizes = [const_int(x.extent) for x in r.region[-2:]]
        sizes = sizes[::-1] if turn else sizes
        pitch = round_up(sizes[0], SQUARE_SIDE[1])
        shape = [sizes[0] if part is None else 2 * pitch, sizes[1]]
        tile = decl_buffer(shape, dtype, f"{r.source.name}_fit", scope=scope_of(r.source))
        out.append(AllocBuffer(tile, span=span))
        for k, function in enumerate((_low, _high) if part is not None else (lambda x: x,)):
            loops = [Var("i", "int32"), Var("j", "int32")]
            at = loops[::-1] if turn else loops
            value = BufferLoad(r.source, [*(x.min for x in r.region[:-2]), *(x.min + i for x, i in zip(r.region[-2:], at))])
            if part is not None:
                value = tirx.Cast("int8", function(tirx.Cast("int32", value)))
            elif dtype != dtype_of(value):
                value = tirx.Cast(dtype, value)
            body = BufferStore(tile, value, [loops[0] + k * pitch, loops[1]], span=span)
            out.append(parallel_nest([(v, imm(n)) for v, n in zip(loops, sizes)], body, span))
        if part is None:
            return full_region(tile)
        return region(tile, [tirx.min(part, imm(1)) * pitch, imm(0)], sizes)


def fit_operands(func: PrimFunc, chip) -> PrimFunc:
    """Apply to a Tile IR function."""
    return func.with_body(_Fit(chip)(func.body))


__all__ = ["fit_operands"]
