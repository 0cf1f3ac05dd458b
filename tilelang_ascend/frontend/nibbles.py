"""Dtypes of 4 bits: tensors of them are tensors of bytes, tiles of them hold the numbers in a dtype that has instructions.

Before:  X: Tensor((m, n), int4); x: shared (64, 32), int4; copy(X[r : r + 64, c : c + 32], x); Parallel: y[i, j] = cast(float16, x[i, j])
After:   X: Tensor((m, n // 2), uint8); x: shared (64, 32), int8; b: shared (64, 16), uint8; copy(X[r : r + 64, c // 2 : c // 2 + 16], b)
         Parallel: x[i, j] = <code j % 2 of b[i, j // 2]>; Parallel: y[i, j] = cast(float16, x[i, j])

Two codes share a byte, the one with the even index in the low half, so the last dimension of a tensor is even. Integers are held in int8,
float4_e2m1fn in float16. A value is wrapped or rounded (docs/numbers.md) where it is converted to 4 bits, so tiles hold nothing else. Loads may
start anywhere; stores are whole bytes, as two blocks may own the halves of one.

Requires: what the front end made. Ensures: no dtype of 4 bits; `tl.nibbles` has [index of a parameter, its dtype] of tensors that had one.
"""

from __future__ import annotations

from ..errors import InvalidArgument, UnsupportedConstruct
from ..ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    FloatImm,
    For,
    ForKind,
    IntImm,
    PrimFunc,
    StmtMutator,
    TensorLoad,
    TensorRegion,
    Var,
    attrs_of,
    const_int,
    decl_buffer,
    dtype_of,
    exprs,
    free_vars,
    full_region,
    if_then,
    imm,
    is_buffer_var,
    is_if_then_else,
    map_children,
    op_name,
    parallel_nest,
    region,
    scope_of,
    statements,
    stmts_of,
    substitute_expr,
    sym,
    tirx,
    walk_expr,
)
from ..runtime.dtypes import NIBBLES
from ..tile import COPY, FILL, GEMM, PRINT, REDUCE, VIEW, is_op, tile_op, tile_op_of, with_args
from ..tile.uses import loads_in, uses_of

HELD_IN = {"int4": "int8", "uint4": "int8", "float4_e2m1fn": "float16"}
"""What tiles and variables have instead."""
BYTE = "uint8"
_STAYS = ("Max", "Min", "Select", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "RShift")
_STAYS_AS_CALL = ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_right")
"""Operations whose result has 4 bits if their operands have."""
_CHOOSES = ("max", "min", "bitand", "bitor", "bitxor")
"""Reductions whose result is a number of the dtype of what they reduce."""
_LARGEST = 6.0
_SCALE = 2.0**14
"""A float4_e2m1fn relative to the float16 with the same sign, exponent and mantissa."""


# --- codes and values ------------------------------------------------------------------------------------------------


def _select(cond, a, b):
    return tirx.if_then_else(cond, a, b)


def value_of(byte, high, dtype: str):
    """The value, in `HELD_IN[dtype]`, of the code in the high half of a byte (where `high`) or in the low one."""
    if const_int(high) is None:
        code = _select(high, tirx.shift_right(byte, imm(4, BYTE)), tirx.bitwise_and(byte, imm(15, BYTE)))
    else:
        code = tirx.shift_right(byte, imm(4, BYTE)) if const_int(high) else tirx.bitwise_and(byte, imm(15, BYTE))
    if dtype == "uint4":
        return tirx.Cast("int8", code)
    signed = tirx.shift_right(tirx.shift_left(tirx.Cast("int16", code), imm(12, "int16")), imm(12, "int16"))
    if dtype == "int4":
        return tirx.Cast("int8", signed)
    size = tirx.shift_left(tirx.bitwise_and(signed, imm(7, "int16")), imm(9, "int16"))
    bits = tirx.bitwise_or(size, tirx.bitwise_and(signed, imm(-(2**15), "int16")))
    return tirx.reinterpret("float16", bits) * imm(_SCALE, "float16")


def code_of(value, dtype: str):
    """The code of a value of `HELD_IN[dtype]` that 4 bits hold, an int16 from 0 to 15."""
    if dtype != "float4_e2m1fn":
        return tirx.bitwise_and(tirx.Cast("int16", value), imm(15, "int16"))
    bits = tirx.reinterpret("int16", value * imm(1 / _SCALE, "float16"))
    size = tirx.bitwise_and(tirx.shift_right(bits, imm(9, "int16")), imm(7, "int16"))
    return tirx.bitwise_or(size, tirx.bitwise_and(tirx.shift_right(bits, imm(12, "int16")), imm(8, "int16")))


def byte_of(even, odd, dtype: str):
    """The byte of two values."""
    word = tirx.bitwise_or(code_of(even, dtype), tirx.shift_left(code_of(odd, dtype), imm(4, "int16")))
    return tirx.Cast(BYTE, word)


def held(value, dtype: str):
    """A number of any other dtype converted to 4 bits, in `HELD_IN[dtype]`."""
    source = dtype_of(value)
    if dtype == "float4_e2m1fn":
        return _nearest(value if source == "float32" else tirx.Cast("float32", value))
    if "float" in source:
        low, high = (0, 15) if dtype == "uint4" else (-8, 7)
        return tirx.max(tirx.min(tirx.Cast("int8", value), imm(high, "int8")), imm(low, "int8"))
    word = "int16" if source in ("int8", "uint8", "int16", "bool") else "int32"
    low_bits = tirx.bitwise_and(value if source == word else tirx.Cast(word, value), imm(15, word))
    if dtype == "int4":
        low_bits = tirx.bitwise_xor(low_bits, imm(8, word)) - imm(8, word)
    return tirx.Cast("int8", low_bits)


def _nearest(x):
    """The float4_e2m1fn next to a float32, halves to even codes; what is too large, and NaN, is the largest one."""
    one = lambda number: imm(number, "float32")  # noqa: E731
    x = _select(tirx.EQ(x, x), x, one(_LARGEST))
    size = tirx.min(tirx.abs(x), one(_LARGEST))
    small, middle, large = tirx.nearbyint(size * one(2)) * one(0.5), tirx.nearbyint(size), tirx.nearbyint(size * one(0.5)) * one(2)
    size = _select(size < one(2), small, _select(size < one(4), middle, large))
    sign = tirx.bitwise_and(tirx.reinterpret("int32", x), imm(-(2**31)))
    return tirx.Cast("float16", tirx.reinterpret("float32", tirx.bitwise_or(tirx.reinterpret("int32", size), sign)))


# --- the function ----------------------------------------------------------------------------------------------------


def _in_gm(buffer) -> bool:
    return scope_of(buffer) in ("global", "")


class _Unpack(StmtMutator):
    def __init__(self, func: PrimFunc):
        self.new: dict = {}
        """Tensors, tiles and variables of 4 bits -> what they become."""
        self.analyzer = sym.Analyzer()
        self.span = func.span
        self.loops: dict = {}
        """Variables of the nest around -> their extents."""
        self.staged: dict = {}
        """Stores of the nest around to elements of a tensor -> (a tile, indices there)."""
        self.params = [self.parameter(p) for p in func.params]

    def refuse(self, what: str, hint: str):
        return UnsupportedConstruct(what=what, at=self.span, hint=hint)

    def parameter(self, p):
        dtype = dtype_of(p)
        if dtype not in NIBBLES:
            return p
        if not is_buffer_var(p):
            raise self.refuse(f"a scalar parameter of {dtype} ({p.name})", "declare it as T.int32 and convert it: T.cast(x, 'int4')")
        if len(p.ty.strides):
            raise self.refuse(
                f"a tensor of {dtype} with strides ({p.name})", "declare it contiguous, or as uint8 and unpack it with shifts"
            )
        *rest, last = p.ty.shape
        if const_int(last) is not None and const_int(last) % 2:
            raise InvalidArgument(
                f"the last dimension of {p.name} is {const_int(last)}: two numbers of {dtype} share a byte",
                at=self.span,
                hint="make it even; a number of padding may end each row",
            )
        half = tirx.FloorDiv(last, imm(2, dtype_of(last))) if const_int(last) is None else const_int(last) // 2
        self.new[p] = decl_buffer([*rest, half], BYTE, p.name, scope="global")
        return self.new[p]

    def even(self, e) -> bool | None:
        """Whether an index is even, if that is known."""
        rest = const_int(self.analyzer.simplify(tirx.floormod(e, imm(2, dtype_of(e)))))
        return None if rest is None else rest == 0

    def half(self, e):
        return self.analyzer.simplify(tirx.floordiv(e, imm(2, dtype_of(e))))

    # --- expressions

    def expr(self, e):
        """An expression without 4 bits: those of such a dtype are in the dtype that holds it."""
        if isinstance(e, TensorRegion):
            return region(self.new.get(e.source, e.source), [self.expr(r.min) for r in e.region], [self.expr(r.extent) for r in e.region])
        if isinstance(e, TensorLoad):
            return self.load(e)
        if isinstance(e, Var):
            return self.new.get(e, e)
        if isinstance(e, tirx.Cast):
            value, dtype = self.expr(e.value), dtype_of(e)
            if dtype in NIBBLES:
                return value if dtype_of(e.value) == dtype else held(value, dtype)
            return value if dtype_of(value) == dtype else tirx.Cast(dtype, value)
        dtype = str(getattr(e.ty, "dtype", ""))
        assert op_name(e) != "tirx.reinterpret" or not NIBBLES & {dtype, dtype_of(e.args[0])}, "codes have no bits of their own"
        if dtype not in NIBBLES:
            return map_children(e, self.expr)
        if isinstance(e, (IntImm, FloatImm)):
            return imm(e.value, HELD_IN[dtype])
        if type(e).__name__ in _STAYS:
            return map_children(e, self.expr)
        name = (op_name(e) or "").removeprefix("tirx.")
        if is_if_then_else(e) or name in _STAYS_AS_CALL:
            return Call(e.op, [self.expr(a) for a in e.args], attrs=e.attrs, span=e.span, ret_ty=HELD_IN[dtype])
        raise self.refuse(f"{name or type(e).__name__} of {dtype}", "convert it first: T.cast(x, 'float16') or T.cast(x, 'int32')")

    def load(self, e: TensorLoad):
        indices = [self.expr(i) for i in e.indices]
        if e.source not in self.new:
            return BufferLoad(e.source, indices)
        if not _in_gm(e.source):
            return BufferLoad(self.new[e.source], indices)
        return self.unpacked(self.new[e.source], indices, dtype_of(e.source))

    def unpacked(self, data, indices: list, dtype: str):
        """Number `indices` of codes in the bytes `data`."""
        *rest, last = indices
        even, byte = self.even(last), BufferLoad(data, [*rest, self.half(last)])
        high = imm(not even, "bool") if even is not None else tirx.NE(tirx.floormod(last, imm(2, dtype_of(last))), imm(0, dtype_of(last)))
        return value_of(byte, high, dtype)

    # --- statements

    def visit(self, stmt):
        outer = self.span
        self.span = stmt.span or outer
        try:
            return super().visit(stmt)
        finally:
            self.span = outer

    def visit_AllocBuffer(self, s: AllocBuffer):
        dtype, scope = dtype_of(s.buffer), scope_of(s.buffer)
        if dtype not in NIBBLES:
            return s
        if scope in ("global", ""):
            raise self.refuse(f"a workspace of {dtype}", "allocate int8 for integers, float16 for floats")
        if "tl.reducer" in s.annotations:
            raise self.refuse(f"a reducer of {dtype}", "reduce in int32 or float32, then convert")
        self.new[s.buffer] = decl_buffer(list(s.buffer.ty.shape), HELD_IN[dtype], s.buffer.name, scope=scope)
        return AllocBuffer(self.new[s.buffer], annotations=dict(s.annotations), span=s.span)

    def visit_Bind(self, s: Bind):
        value = self.expr(s.value)
        if dtype_of(s.var) not in NIBBLES:
            return s if value.same_as(s.value) else Bind(s.var, value, span=s.span)
        self.new[s.var] = Var(s.var.name, dtype_of(value))
        return Bind(self.new[s.var], value, span=s.span)

    def visit_For(self, s):
        if s.kind != ForKind.PARALLEL or self.loops:
            return self.generic(s)
        nest, body = [s], s.body
        while isinstance(body, For) and body.kind == ForKind.PARALLEL:
            nest, body = [*nest, body], body.body
        self.loops = {x.loop_var: x.extent for x in nest}
        before, after, read = [], [], set()
        names, written = {}, uses_of(body).writes
        for x in stmts_of(body):
            if isinstance(x, Bind):
                names[x.var] = substitute_expr(x.value, names)
        for x in reversed(stmts_of(body)):
            if isinstance(x, BufferStore) and x.buffer in self.new and _in_gm(x.buffer) and x.buffer not in read:
                self.stage(x, names, written, before, after)
            read |= uses_of(x).reads
        out = self.generic(s)
        self.loops, self.staged = {}, {}
        return [*before, out, *after]

    def stage(self, s: BufferStore, names: dict, written: set, before: list, after: list) -> None:
        """A tile for what iterations of a nest store to a tensor, each one element of a box, and the copy of that behind the nest. Nothing, if
        they do not, and the store is refused. `names`: values of the names of the nest; `written`: what it stores to."""
        mins, extents, left = [], [], dict(self.loops)
        indices = [substitute_expr(e, names) for e in s.indices]
        for e in indices:
            var = next((v for v in left if v in free_vars(e)), None)
            start = self.analyzer.simplify(substitute_expr(e, {v: imm(0, dtype_of(v)) for v in self.loops}))
            moved = e if var is None else e - tirx.Cast(dtype_of(e), var)
            if const_int(self.analyzer.simplify(moved - start)) != 0 or any(x.source in written for x in loads_in(start)):
                return
            mins.append(start)
            extents.append(imm(1) if var is None else left.pop(var))
        sizes = [const_int(n) for n in extents]
        if left or None in sizes:
            return
        dtype = dtype_of(s.buffer)
        tile = decl_buffer(sizes, HELD_IN[dtype], f"{s.buffer.name}_values", scope="shared")
        before.append(AllocBuffer(tile, span=s.span))
        self.staged[s] = (tile, [self.expr(e - start) if const_int(n) != 1 else imm(0) for e, start, n in zip(indices, mins, extents)])
        copy = tile_op("copy", full_region(tile), region(s.buffer, [self.expr(e) for e in mins], extents), span=s.span)
        after[:0] = self.values(copy, full_region(tile), dtype, copy.value.args[1])

    def visit_BufferStore(self, s: BufferStore):
        known, value = self.named(s.value)
        if s in self.staged:
            tile, at = self.staged[s]
            return [*known, BufferStore(tile, value, [self.analyzer.simplify(e) for e in at], span=s.span)]
        if s.buffer in self.new and _in_gm(s.buffer):
            raise self.refuse(
                f"a store to single elements of {s.buffer.name}, two of which share a byte",
                "store to a tile of T.alloc_shared and T.copy that to the tensor; a whole nest of T.Parallel that stores to "
                "neighbouring elements, unconditionally, may do so itself",
            )
        return [*known, BufferStore(self.new.get(s.buffer, s.buffer), value, [self.expr(i) for i in s.indices], span=s.span)]

    def named(self, e) -> tuple:
        """(statements, the value of `e`): what is rounded is mentioned often, so it gets a name."""
        if not isinstance(e, tirx.Cast) or dtype_of(e) != "float4_e2m1fn" or dtype_of(e.value) == dtype_of(e):
            return [], self.expr(e)
        wide = self.expr(e.value)
        number = Var("number", "float32")
        bind = Bind(number, wide if dtype_of(wide) == "float32" else tirx.Cast("float32", wide), span=self.span)
        return [bind], held(number, "float4_e2m1fn")

    def visit_Evaluate(self, s: Evaluate):
        regions = [a for a in s.value.args if isinstance(a, TensorRegion)] if tile_op_of(s) is not None else []
        small = [r for r in regions if r.source in self.new]
        if not small:
            return self.generic(s)
        if is_op(s, COPY):
            return self.copy(s, *(region(r.source, *zip(*((self.expr(x.min), self.expr(x.extent)) for x in r.region))) for r in regions))
        name = op_name(s).removeprefix("tl.")
        if any(_in_gm(r.source) for r in small):
            raise self.refuse(f"T.{name} on {small[0].source.name}, a tensor of {dtype_of(small[0].source)}", "T.copy it to a tile first")
        reads_only = regions[-1].source not in self.new
        if is_op(s, GEMM) and reads_only:
            return self.product(s, regions)
        if is_op(s, FILL, PRINT, VIEW) or (is_op(s, REDUCE) and reads_only) or self.chooses(s, regions):
            return self.generic(s)
        raise self.refuse(
            f"T.{name} {'of' if reads_only else 'into'} {small[-1].source.name}, a tile of {dtype_of(small[-1].source)}",
            "work on a tile of int8, int32, float16 or float32, and T.copy between both",
        )

    def product(self, s: Evaluate, regions: list) -> list:
        """Beside bfloat16 a factor becomes bfloat16, which holds its numbers, too: what tells so is the dtype it has not any more."""
        args, out = [self.expr(a) for a in s.value.args], []
        for k, other in ((0, 1), (1, 0)):
            if dtype_of(regions[k].source) == "float4_e2m1fn" and dtype_of(regions[other].source) == "bfloat16":
                tile = self.tile(args[k], "bfloat16", f"{regions[k].source.name}_bfloat16", out)
                out.append(tile_op("copy", args[k], full_region(tile), span=s.span))
                args[k] = full_region(tile)
        return [*out, with_args(s, args)]

    @staticmethod
    def chooses(s: Evaluate, regions: list) -> bool:
        """A reduction to one of the numbers of a row that is not empty."""
        if not is_op(s, REDUCE) or dtype_of(regions[0].source) != dtype_of(regions[1].source):
            return False
        attrs = attrs_of(s)
        return attrs["kind"] in _CHOOSES and (const_int(regions[0].region[int(attrs["dim"])].extent) or 0) > 0

    # --- copies

    def copy(self, s: Evaluate, src: TensorRegion, dst: TensorRegion):
        """A copy from or to 4 bits, or both."""
        from_gm, to_gm = (r.source in self.new and _in_gm(r.source) for r in (src, dst))
        a, b = dtype_of(src.source), dtype_of(dst.source)
        if from_gm and to_gm and a == b and self.whole(src) and self.whole(dst):
            return tile_op("copy", self.bytes(src), self.bytes(dst), span=s.span)
        out: list = []
        if from_gm:
            if _in_gm(dst.source):
                tile = self.tile(src, HELD_IN[a], f"{src.source.name}_values", out)
                return [*out, self.unpack(s, src, full_region(tile)), *self.values(s, full_region(tile), a, dst)]
            return self.unpack(s, src, dst)
        return self.values(s, self.expr(src), a, dst)

    def values(self, s: Evaluate, src: TensorRegion, a: str, dst: TensorRegion) -> list:
        """A copy of a region whose elements are numbers of the dtype `a`, in 4 bits held in another one."""
        b, out = dtype_of(dst.source), []
        to_gm = dst.source in self.new and _in_gm(dst.source)
        if not to_gm and (b not in NIBBLES or a == b):
            return [with_args(s, (src, self.expr(dst)))]
        if _in_gm(src.source):
            tile = self.tile(src, dtype_of(src.source), f"{src.source.name}_values", out)
            out.append(tile_op("copy", src, full_region(tile), span=s.span))
            src = full_region(tile)
        convert = (lambda x: x) if a == b else (lambda x: held(x, b))
        if to_gm:
            return [*out, *self.pack(s, src, dst, convert)]
        loops, at, place = self.walk(src, dst)
        body = BufferStore(self.new[dst.source], convert(BufferLoad(src.source, at)), place, span=s.span)
        return [*out, parallel_nest(loops, body, s.span)]

    def whole(self, r: TensorRegion) -> bool:
        """True for regions of whole bytes."""
        last = r.region[-1]
        return bool(self.even(last.min)) and bool(self.even(last.extent))

    def bytes(self, r: TensorRegion) -> TensorRegion:
        """The bytes of a region of whole bytes."""
        mins, extents = [x.min for x in r.region], [x.extent for x in r.region]
        return region(self.new[r.source], [*mins[:-1], self.half(mins[-1])], [*extents[:-1], self.half(extents[-1])])

    def tile(self, r: TensorRegion, dtype: str, name: str, out: list, last: int | None = None):
        """A tile for the elements of a region, `last` of them in a row if that is given."""
        sizes = [const_int(x.extent) for x in r.region]
        if None in sizes:
            raise self.refuse(
                f"T.copy of a part of {r.source.name} whose size is known at run time only", "copy a tile of constant size: X[i, j]"
            )
        sizes = [n for n in sizes[:-1] if n != 1] + [sizes[-1] if last is None else last]
        tile = decl_buffer(sizes, dtype, name, scope="shared")
        out.append(AllocBuffer(tile, span=self.span))
        return tile

    def walk(self, *regions: TensorRegion) -> tuple:
        """(loops, indices of each region) of a nest over regions of the same sizes but for ones."""
        wide = [[d for d, x in enumerate(r.region) if const_int(x.extent) != 1] for r in regions]
        if len({len(w) for w in wide}) > 1:
            raise self.refuse("T.copy between tiles of different shapes", "give both sides the same number of dimensions")
        loops = [(Var(f"i{n}", "int32"), regions[0].region[d].extent) for n, d in enumerate(wide[0])] or [(Var("i0", "int32"), imm(1))]
        places = []
        for r, dims in zip(regions, wide):
            at = [x.min for x in r.region]
            for (var, _), d in zip(loops, dims):
                at[d] = var if const_int(at[d]) == 0 else at[d] + tirx.Cast(dtype_of(at[d]), var)
            places.append(at)
        return loops, *places

    def unpack(self, s: Evaluate, src: TensorRegion, dst: TensorRegion):
        """Numbers of a tensor into a region of a tile of any dtype. Where the first one may be the second half of a byte, both ways."""
        last = src.region[-1]
        even = self.even(last.min)
        if even is None:
            odd = tirx.NE(tirx.floormod(last.min, imm(2, dtype_of(last.min))), imm(0, dtype_of(last.min)))
            return if_then(odd, tirx.stmt_seq(*self.from_byte(s, src, dst, 1)), tirx.stmt_seq(*self.from_byte(s, src, dst, 0)), span=s.span)
        return self.from_byte(s, src, dst, 0 if even else 1)

    def from_byte(self, s: Evaluate, src: TensorRegion, dst: TensorRegion, skipped: int) -> list:
        """The same, `skipped` codes behind the start of a byte."""
        dtype, last, out = dtype_of(src.source), src.region[-1], []
        count = const_int(last.extent)
        size = None if count is None else (count + skipped + 1) // 2
        tile = self.tile(src, BYTE, f"{src.source.name}_bytes", out, size)
        mins, extents = [x.min for x in src.region], [x.extent for x in src.region]
        first = region(self.new[src.source], [*mins[:-1], self.half(mins[-1])], [*extents[:-1], imm(size)])
        out.append(tile_op("copy", first, full_region(tile), span=s.span))
        loops, at, place = self.walk(src, dst)
        at = [var for var, _ in loops if const_int(_) != 1][: len(tile.ty.shape)]
        column = at.pop() if count != 1 else imm(0)
        value = self.unpacked(tile, [*at, column + imm(skipped) if skipped else column], dtype)
        target, b = self.new.get(dst.source, dst.source), dtype_of(dst.source)
        if b in NIBBLES:
            value = value if b == dtype else held(value, b)
        elif b != dtype_of(value):
            value = tirx.Cast(b, value)
        out.append(parallel_nest(loops, BufferStore(target, value, place, span=s.span), s.span))
        return out

    def pack(self, s: Evaluate, src: TensorRegion, dst: TensorRegion, convert) -> list:
        """Elements of a tile into whole bytes of a tensor."""
        dtype, out = dtype_of(dst.source), []
        if not self.whole(dst):
            raise self.refuse(
                f"T.copy to {dst.source.name} that does not start and end with a whole byte of two {dtype}",
                "start at an even index of the last dimension and store an even number of columns",
            )
        size = const_int(dst.region[-1].extent)
        tile = self.tile(dst, BYTE, f"{dst.source.name}_bytes", out, None if size is None else size // 2)
        loops, at, _ = self.walk(src, dst)
        (column, extent), wide = loops[-1], [d for d, x in enumerate(src.region) if const_int(x.extent) != 1]
        start = src.region[wide[-1]].min
        pair = []
        for k in range(2):
            index = list(at)
            index[wide[-1]] = start + column * imm(2) + imm(k) if const_int(start) != 0 else column * imm(2) + imm(k)
            pair.append(convert(BufferLoad(src.source, index)))
        loops[-1] = (column, self.half(extent))
        body = BufferStore(tile, byte_of(*pair, dtype), [var for var, _ in loops], span=s.span)
        return [*out, parallel_nest(loops, body, s.span), tile_op("copy", full_region(tile), self.bytes(dst), span=s.span)]


def _mentions(func: PrimFunc) -> bool:
    """Whether anything in a function has 4 bits."""
    if any(dtype_of(p) in NIBBLES for p in func.params):
        return True
    found: list = []
    for s in statements(func.body):
        if isinstance(s, AllocBuffer) and dtype_of(s.buffer) in NIBBLES:
            return True
        for e in exprs(s):
            walk_expr(e, lambda x: found.append(x) if str(getattr(x.ty, "dtype", "")) in NIBBLES else None)
    return bool(found)


def unpack_nibbles(func: PrimFunc) -> PrimFunc:
    """Apply to what the front end made of a function; functions without dtypes of 4 bits stay as they are."""
    if not _mentions(func):
        return func
    unpack = _Unpack(func)
    body = unpack(func.body)
    attrs = dict(func.attrs)
    attrs["tl.nibbles"] = [[k, dtype_of(p)] for k, p in enumerate(func.params) if dtype_of(p) in NIBBLES]
    if "tl.safe_values" in attrs:
        attrs["tl.safe_values"] = [[k, _safe_byte(dtype_of(func.params[int(k)]), v)] for k, v in attrs["tl.safe_values"]]
    return PrimFunc(unpack.params, body, span=func.span).with_attr(attrs)


def _safe_byte(dtype: str, value):
    """What the outside of a tensor reads as, as a byte of two of them."""
    if dtype not in NIBBLES:
        return value
    number = float(getattr(value, "value", value))
    if dtype == "float4_e2m1fn":
        sizes = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
        code = sizes.index(abs(number)) + (8 if str(number).startswith("-") else 0)
    else:
        code = int(number) & 15
    return 17 * code


__all__ = ["HELD_IN", "unpack_nibbles"]
