"""Tile IR with dtypes of 4 bits as Tile IR on bytes: what the package describes, statement by statement."""

from __future__ import annotations

from ...errors import UnsupportedConstruct
from ...ir import (
    AllocBuffer,
    Bind,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    FloatImm,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtMutator,
    TensorLoad,
    TensorRegion,
    Var,
    as_dtype,
    children,
    const_int,
    decl_buffer,
    dtype_of,
    free_vars,
    full_region,
    if_then,
    imm,
    is_buffer_var,
    is_if_then_else,
    loop,
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
)
from ...runtime.dtypes import NIBBLES
from ...tile import COPY, FILL, GEMM, VIEW, is_op, tile_op, tile_op_of, with_args
from ...tile.uses import IN_ORDER, loads_in, uses_of
from .codes import BYTE, HELD_IN, byte_of, code_of, held, number_of, value_of
from .views import PACKED, storages
from .wide import in_gm

PART = 1024
"""Numbers that are copied at a time where nothing says how many there are."""
_STAYS = ("Max", "Min", "Select", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "RShift")
_STAYS_AS_CALL = ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_right", "fabs", "floor", "ceil", "trunc", "nearbyint")
"""Operations whose result has 4 bits if their operands have."""


class Unpack(StmtMutator):
    """Rewrites the body of `func`. `shared`: tensors of which single halves of bytes are stored."""

    def __init__(self, func: PrimFunc, span):
        self.new: dict = {}
        """Tiles and variables of 4 bits -> what they become."""
        self.packed: dict = {}
        """Tensors, and tiles of which two numbers are a byte -> their bytes."""
        self.shared: dict = {}
        self.views = {view: storage for view, storage in storages(func.body).items() if in_gm(view)}
        """Other names of tensors, and what they name; a workspace without other names, which nobody else sees, has a number in each element."""
        self.in_memory = {*self.views, *self.views.values()}
        self.analyzer = sym.Analyzer()
        self.span = span
        self.loops: dict = {}
        """Variables of the nest around -> their extents."""
        self.in_order: str | None = None
        """Why the iterations of the nest around run one after the other."""
        self.staged: dict = {}
        """Stores of the nest around to elements of a tensor -> (a tile, indices there)."""
        self.part: int | None = None
        """The most numbers a region of run-time size has, in the loops of `in_parts`."""
        self.halves = {n: Var(f"{n.name}_half", dtype_of(n)) * imm(2, dtype_of(n)) for n in _even_sizes(func.params)}
        """Sizes of run time that a call tells by counting bytes -> twice another size."""
        self.outside = {func.params[int(k)]: v for k, v in (func.attrs.get("tl.safe_values", []) if func.attrs else [])}
        self.params = [self.parameter(p) for p in func.params]

    def refuse(self, what: str, hint: str):
        return UnsupportedConstruct(what=what, at=self.span, hint=hint)

    def parameter(self, p):
        dtype = dtype_of(p)
        if dtype not in NIBBLES:
            return p
        if not is_buffer_var(p):
            self.new[p] = Var(p.name, HELD_IN[dtype])
            return self.new[p]
        if not _of_bytes(p.ty.strides):
            if not _apart(p.ty.shape, p.ty.strides):
                raise self.refuse(
                    f"a tensor of {dtype} that cannot be a tensor of bytes, as a call passes it: {p.name} has the strides "
                    f"{', '.join(map(str, p.ty.strides))}, by which numbers of one row may share a byte with those of another,",
                    "declare it with an even or a run-time stride for each row, or as uint8 and unpack it with shifts",
                )
            return self.in_bytes(p, ())
        return self.in_bytes(p, p.ty.strides)

    def in_bytes(self, buffer, strides) -> Var:
        """The bytes of a tensor, or of a packed tile."""
        *rest, last = buffer.ty.shape
        dtype = dtype_of(last)
        more = 0 if self.odd_row(buffer) is None else 1
        if const_int(last) is None:
            half = tirx.FloorDiv(last + imm(1, dtype) if more else last, imm(2, dtype))
        else:
            half = (const_int(last) + 1) // 2
        if len(strides):
            *outer, step = [n if (known := const_int(n)) is None else known for n in strides]
            strides = [n // 2 if isinstance(n, int) else tirx.FloorDiv(n, imm(2, dtype_of(n))) for n in outer] + [step]
        self.packed[buffer] = decl_buffer([*rest, half], BYTE, buffer.name, strides=strides or None, scope=scope_of(buffer))
        return self.packed[buffer]

    def attrs(self, func: PrimFunc) -> dict:
        """Attributes of the function of bytes."""
        attrs = dict(func.attrs)
        small = [(k, p) for k, p in enumerate(func.params) if dtype_of(p) in NIBBLES]
        attrs["tl.nibbles"] = [[k, dtype_of(p), self.padding(p)] for k, p in small]
        if "tl.safe_values" in attrs:
            attrs["tl.safe_values"] = [[k, _safe_byte(dtype_of(func.params[int(k)]), v)] for k, v in attrs["tl.safe_values"]]
        return attrs

    def odd_row(self, buffer):
        """The length of the rows of a tensor if it is, or may be, odd: half of their last byte is padding then. None for scalars, and where the
        tensor has other names, as it has in calls with rows of an even length only."""
        if not is_buffer_var(buffer):
            return None
        last = buffer.ty.shape[-1]
        known = const_int(last)
        if known is not None:
            return known if known % 2 else None
        return None if self.tensor(buffer) in self.in_memory or self.even(last) else last

    def padding(self, p) -> int:
        """1 for a parameter whose rows may end with half a byte of padding, 2 if they must not though their length is one of run time, or else 0."""
        if self.odd_row(p) is not None:
            return 1
        return 2 if is_buffer_var(p) and not self.even(p.ty.shape[-1]) else 0

    def even(self, e) -> bool | None:
        """Whether an index is even, if that is known."""
        e = substitute_expr(e, self.halves)
        rest = const_int(self.analyzer.simplify(tirx.floormod(e, imm(2, dtype_of(e)))))
        return None if rest is None else rest == 0

    def half(self, e):
        return self.analyzer.simplify(tirx.floordiv(e, imm(2, dtype_of(e))))

    # --- expressions

    def expr(self, e):
        """An expression without 4 bits: those of such a dtype are in the dtype that holds it."""
        if isinstance(e, TensorRegion):
            return region(self.new.get(e.source, e.source), *self.box(e))
        if isinstance(e, TensorLoad):
            return self.load(e)
        if isinstance(e, Var):
            return self.new.get(e, e)
        if isinstance(e, tirx.Cast):
            value, dtype = self.expr(e.value), dtype_of(e)
            if dtype in NIBBLES:
                return value if dtype_of(e.value) == dtype else held(value, dtype)
            return as_dtype(value, dtype)
        dtype = str(getattr(e.ty, "dtype", ""))
        if dtype not in NIBBLES:
            return map_children(e, self.expr)
        if op_name(e) == "tirx.reinterpret":
            return number_of(code_of(self.expr(e.args[0]), dtype_of(e.args[0])), dtype)
        if isinstance(e, (IntImm, FloatImm)):
            return imm(e.value, HELD_IN[dtype])
        if type(e).__name__ in _STAYS:
            return map_children(e, self.expr)
        name = (op_name(e) or "").rpartition(".")[2]
        if is_if_then_else(e) or name in _STAYS_AS_CALL:
            return Call(e.op, [self.expr(a) for a in e.args], attrs=e.attrs, span=e.span, ret_ty=HELD_IN[dtype])
        raise self.refuse(f"{name or type(e).__name__} of {dtype}", "convert it first: T.cast(x, 'float16') or T.cast(x, 'int32')")

    def box(self, r: TensorRegion) -> tuple[list, list]:
        """Minimums and extents of a region."""
        return [self.expr(x.min) for x in r.region], [self.expr(x.extent) for x in r.region]

    def load(self, e: TensorLoad):
        indices = [self.expr(i) for i in e.indices]
        if e.source not in self.packed:
            return BufferLoad(self.new.get(e.source, e.source), indices)
        return self.inside_row(e.source, indices[-1], self.unpacked(self.packed[e.source], indices, dtype_of(e.source)))

    def unpacked(self, data, indices: list, dtype: str):
        """Number `indices` of codes in the bytes `data`."""
        *rest, last = indices
        even, byte = self.even(last), BufferLoad(data, [*rest, self.half(last)])
        return value_of(byte, self.odd(last) if even is None else imm(not even, "bool"), dtype)

    @staticmethod
    def odd(e):
        """The condition that an index is odd."""
        return tirx.NE(tirx.floormod(e, imm(2, dtype_of(e))), imm(0, dtype_of(e)))

    def inside_row(self, buffer, column, value):
        """The value of an element of a tensor: padding at the end of a row is outside."""
        length = self.odd_row(buffer)
        if length is None or self.analyzer.can_prove(self.before(column, length)):
            return value
        outside = self.outside.get(buffer, 0)
        beyond = imm(getattr(outside, "value", outside), HELD_IN[dtype_of(buffer)])
        return tirx.if_then_else(self.before(column, length), value, beyond)

    @staticmethod
    def before(column, length):
        """The condition that a column is one of a row."""
        wide = "int64" if "int64" in (dtype_of(column), str(getattr(getattr(length, "ty", None), "dtype", ""))) else dtype_of(column)
        return as_dtype(column, wide) < (imm(length, wide) if isinstance(length, int) else as_dtype(length, wide))

    # --- statements

    def visit(self, stmt):
        outer = self.span
        self.span = stmt.span or outer
        try:
            return super().visit(stmt)
        finally:
            self.span = outer

    def visit_AllocBuffer(self, s: AllocBuffer):
        dtype = dtype_of(s.buffer)
        if dtype not in NIBBLES:
            return s
        notes = dict(s.annotations)
        if s.buffer in self.in_memory or notes.pop(PACKED, None):
            return AllocBuffer(self.in_bytes(s.buffer, s.buffer.ty.strides), annotations=notes, span=s.span)
        self.new[s.buffer] = decl_buffer(list(s.buffer.ty.shape), HELD_IN[dtype], s.buffer.name, scope=scope_of(s.buffer))
        return AllocBuffer(self.new[s.buffer], annotations=notes, span=s.span)

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
        self.loops, self.in_order = {x.loop_var: x.extent for x in nest}, s.annotations.get(IN_ORDER)
        before, after = self.stage_all(body) if self.in_order is None else ([], [])
        out = self.generic(s)
        if self.in_order is not None:
            notes = {**out.annotations, IN_ORDER: self.in_order}
            out = For(out.loop_var, out.min, out.extent, out.kind, out.body, annotations=notes, span=out.span)
        self.loops, self.staged, self.in_order = {}, {}, None
        return [*before, out, *after]

    def stage_all(self, body) -> tuple[list, list]:
        """Statements before and after the nest around `body` that give what it stores to tensors a tile, tensor by tensor."""
        before, after, names, uses, plain = [], [], _names(body), uses_of(body), []
        read: set = set()
        for x in reversed(stmts_of(body)):
            if self.stores_numbers(x) and self.tensor(x.buffer) not in read:
                plain.append(x)
            read |= set(map(self.tensor, uses_of(x).reads))
        stores = [x for x in statements(body) if self.stores_numbers(x)]
        guards = {x: conditions for x, conditions in _guarded_stores(body) if x in stores and self.tensor(x.buffer) not in read}
        conditional = list(guards)
        boxes = {x: self.box_of_store(x, names, uses.writes) for x in [*plain, *conditional]}
        for buffer in dict.fromkeys(x.buffer for x in [*plain, *conditional]):
            mine = [x for x in stores if x.buffer.same_as(buffer)]
            others = [b for b in uses.writes if not b.same_as(buffer) and self.tensor(b).same_as(self.tensor(buffer))]
            if others or any(boxes.get(x) is None for x in mine):
                continue
            if not any(x in conditional for x in mine):
                for x in reversed(mine):
                    self.stage([x], boxes, None, before, after)
            elif all(_same_box(boxes[x], boxes[mine[0]]) for x in mine[1:]):
                self.stage(mine, boxes, self.anywhere([guards.get(x, []) for x in mine], names), before, after)
        return before, after

    def stores_numbers(self, s: Stmt) -> bool:
        """True for a store to a tensor of 4 bits."""
        return isinstance(s, BufferStore) and s.buffer in self.packed and in_gm(s.buffer)

    def tensor(self, buffer):
        """What a buffer is a name of."""
        return self.views.get(buffer, buffer)

    def anywhere(self, guards: list, names: dict):
        """The condition, of what is known in front of the nest, without which none of some stores happens in any iteration. `guards`: conditions of
        each of them."""
        out = imm(False, "bool")
        for conditions in guards:
            here = imm(True, "bool")
            for c in (substitute_expr(c, names) for c in conditions):
                if not free_vars(c) & self.loops.keys() and not loads_in(c):
                    here = tirx.And(here, c)
            out = tirx.Or(out, here)
        return self.analyzer.simplify(self.expr(out))

    def box_of_store(self, s: BufferStore, names: dict, written: set) -> tuple | None:
        """(minimums, sizes) of what iterations of a nest store to a tensor, each one element of a box; None if they do not. `names`: values of
        the names of the nest; `written`: what it stores to."""
        mins, extents, left = [], [], dict(self.loops)
        for e in (substitute_expr(e, names) for e in s.indices):
            var = next((v for v in left if v in free_vars(e)), None)
            start = self.analyzer.simplify(substitute_expr(e, {v: imm(0, dtype_of(v)) for v in self.loops}))
            moved = e if var is None else e - tirx.Cast(dtype_of(e), var)
            loaded = {self.tensor(x.source) for x in loads_in(start)}
            if const_int(self.analyzer.simplify(moved - start)) != 0 or loaded & set(map(self.tensor, written)):
                return None
            mins.append(start)
            extents.append(1 if var is None else const_int(left.pop(var)))
        return None if left or None in extents else (mins, extents, [substitute_expr(e, names) for e in s.indices])

    def stage(self, stores: list, boxes: dict, guard, before: list, after: list) -> None:
        """A tile for what iterations of a nest store to a box of a tensor. `guard`: where they may store to parts of it only, so that what is there is
        read, what has to hold for any store; other blocks leave the box alone."""
        first = stores[0]
        (mins, sizes, _), dtype = boxes[first], dtype_of(first.buffer)
        tile = decl_buffer(sizes, HELD_IN[dtype], f"{first.buffer.name}_values", scope="shared")
        before.append(AllocBuffer(tile, span=first.span))
        place = region(first.buffer, [self.expr(e) for e in mins], sizes)
        copy = tile_op("copy", full_region(tile), place, span=first.span)
        stored = self.values(copy, full_region(tile), dtype, place)
        if guard is not None:
            self.shared.setdefault(first.buffer, first.span)
            load = self.flat(self.unpack(copy, place, full_region(tile)))
            if const_int(guard) != 1:
                load, stored = ([if_then(guard, tirx.stmt_seq(*x), span=first.span)] for x in (load, stored))
            before += load
        for s in stores:
            indices = zip(boxes[s][2], mins, sizes)
            self.staged[s] = (tile, [self.expr(e - start) if n != 1 else imm(0) for e, start, n in indices])
        after[:0] = stored

    def visit_BufferStore(self, s: BufferStore):
        known, value = self.named(s.value)
        if s in self.staged:
            tile, at = self.staged[s]
            return [*known, BufferStore(tile, value, [self.analyzer.simplify(e) for e in at], span=s.span)]
        at = [self.expr(i) for i in s.indices]
        if s.buffer in self.packed:
            return [*known, *self.half_store(s, value, at)]
        return [*known, BufferStore(self.new.get(s.buffer, s.buffer), value, at, span=s.span)]

    def half_store(self, s: BufferStore, value, indices: list) -> list:
        """A store to one half of a byte."""
        if in_gm(s.buffer):
            self.shared.setdefault(s.buffer, s.span)
        if self.loops:
            self.in_order = f"two numbers of `{s.buffer.name}` share a byte"
        *rest, last = indices
        code, at, even = Var("code", "int32"), [*rest, self.half(last)], self.even(last)
        old = tirx.Cast("int32", BufferLoad(self.packed[s.buffer], at))
        if even is None:
            shift = tirx.Cast("int32", tirx.floormod(last, imm(2, dtype_of(last)))) * imm(4)
        else:
            shift = imm(0 if even else 4)
        byte = tirx.bitwise_or(tirx.bitwise_and(old, tirx.shift_right(imm(240), shift)), tirx.shift_left(code, shift))
        out = [
            Bind(code, tirx.Cast("int32", code_of(value, dtype_of(s.buffer))), span=s.span),
            BufferStore(self.packed[s.buffer], tirx.Cast(BYTE, byte), at, span=s.span),
        ]
        return [if_then(self.before(last, self.odd_row(s.buffer)), tirx.stmt_seq(*out), span=s.span)] if self.shares_rows(s.buffer) else out

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
        if not any(r.source in self.new or r.source in self.packed for r in regions):
            return self.generic(s)
        if is_op(s, VIEW):
            return tile_op(
                "view", *(full_region(self.packed.get(r.source, self.new.get(r.source, r.source))) for r in regions), span=s.span
            )
        if is_op(s, COPY):
            return self.copy(s, *(region(r.source, *self.box(r)) for r in regions))
        if is_op(s, FILL) and regions[0].source in self.packed:
            return self.fill(s, region(regions[0].source, *self.box(regions[0])))
        return self.product(s, regions) if is_op(s, GEMM) else self.generic(s)

    def fill(self, s: Evaluate, dst: TensorRegion) -> list:
        """One number in a part of a tensor."""
        dtype = dtype_of(dst.source)
        known, value = self.named(s.value.args[1])
        if self.whole(dst):
            return [*known, tile_op("fill", self.bytes(dst), byte_of(value, value, dtype), span=s.span)]
        if None in self.most(dst, dst):
            return self.in_parts([dst], lambda dst: self.fill(s, dst), s.span)
        tile = self.tile(dst, HELD_IN[dtype], f"{dst.source.name}_values", known, dst)
        return [*known, tile_op("fill", tile, value, span=s.span), *self.values(s, tile, dtype, dst)]

    def product(self, s: Evaluate, regions: list) -> list:
        """Beside bfloat16 a factor becomes bfloat16, which holds its numbers, too: what tells so is the dtype it has not any more."""
        args, out = [self.expr(a) for a in s.value.args], []
        for k, other in ((0, 1), (1, 0)):
            if dtype_of(regions[k].source) == "float4_e2m1fn" and dtype_of(regions[other].source) == "bfloat16":
                tile = self.tile(args[k], "bfloat16", f"{regions[k].source.name}_bfloat16", out, args[k])
                out.append(tile_op("copy", args[k], tile, span=s.span))
                args[k] = tile
        return [*out, with_args(s, args)]

    # --- copies

    def copy(self, s: Evaluate, src: TensorRegion, dst: TensorRegion):
        """A copy from or to 4 bits, or both."""
        a, b = dtype_of(src.source), dtype_of(dst.source)
        from_bytes, to_bytes = src.source in self.packed, dst.source in self.packed
        if from_bytes and to_bytes and a == b and self.whole(src) and self.whole(dst):
            return tile_op("copy", self.bytes(src), self.bytes(dst), span=s.span)
        if None in self.most(src, dst):
            return self.in_parts([src, dst], lambda src, dst: self.copy(s, src, dst), s.span)
        out: list = []
        if from_bytes:
            if in_gm(dst.source) or to_bytes:
                tile = self.tile(src, HELD_IN[a], f"{src.source.name}_values", out, dst)
                return [*out, self.unpack(s, src, tile), *self.values(s, tile, a, dst)]
            return self.unpack(s, src, dst)
        return self.values(s, self.expr(src), a, dst)

    def values(self, s: Evaluate, src: TensorRegion, a: str, dst: TensorRegion) -> list:
        """A copy of a region whose elements are numbers of the dtype `a`, in 4 bits held in another one."""
        b, out = dtype_of(dst.source), []
        to_bytes = dst.source in self.packed
        if not to_bytes and (b not in NIBBLES or a == b):
            return [tile_op("copy", src, region(self.new.get(dst.source, dst.source), *self.box(dst)), span=s.span)]
        if in_gm(src.source):
            tile = self.tile(src, dtype_of(src.source), f"{src.source.name}_values", out, dst)
            out.append(tile_op("copy", src, tile, span=s.span))
            src = tile
        convert = (lambda x: x) if a == b else (lambda x: held(x, b))
        if to_bytes:
            return [*out, *self.pack(s, src, dst, convert)]
        loops, at, place = self.walk(src, dst)
        body = BufferStore(self.new[dst.source], convert(BufferLoad(src.source, at)), place, span=s.span)
        return [*out, parallel_nest(loops, body, s.span)]

    def whole(self, r: TensorRegion) -> bool:
        """True for regions of whole bytes."""
        last, length = r.region[-1], self.odd_row(r.source)
        if not (self.even(last.min) and self.even(last.extent)):
            return self.whole_row(r)
        end = last.min + as_dtype(last.extent, dtype_of(last.min))
        return not self.shares_rows(r.source) or self.analyzer.can_prove(self.before(end, length))

    def shares_rows(self, buffer) -> bool:
        """Whether half of the last byte of a row is a number of a larger tensor, or may be."""
        return self.odd_row(buffer) is not None and len(buffer.ty.strides) > 0

    def whole_row(self, r: TensorRegion) -> bool:
        """True for regions of whole rows, padding included where it is no part of a larger tensor."""
        last = r.region[-1]
        return not self.shares_rows(r.source) and const_int(last.min) == 0 and self.is_length(r, last.extent)

    def is_length(self, r: TensorRegion, e) -> bool:
        """Whether `e` is the length of the rows of a tensor."""
        return self.analyzer.can_prove_equal(e, r.source.ty.shape[-1])

    def bytes(self, r: TensorRegion) -> TensorRegion:
        """The bytes of a region of whole bytes."""
        mins, extents, data = [x.min for x in r.region], [x.extent for x in r.region], self.packed[r.source]
        size = data.ty.shape[-1] if self.whole_row(r) else self.half(extents[-1])
        return region(data, [*mins[:-1], self.half(mins[-1])], [*extents[:-1], size])

    def tile(self, r: TensorRegion, dtype: str, name: str, out: list, other: TensorRegion, last: tuple | None = None) -> TensorRegion:
        """A tile for the elements of a region that is copied from or to another one, as much of it as they fill. `last`: how many there are in a
        row of it, and how many there can be."""
        sizes = self.most(r, other)
        extents = [x.extent for x in r.region]
        if last is not None:
            extents[-1], sizes[-1] = last
        kept = [d for d, x in enumerate(r.region[:-1]) if const_int(x.extent) != 1] + [len(sizes) - 1]
        tile = decl_buffer([sizes[d] for d in kept], dtype, name, scope="shared")
        out.append(AllocBuffer(tile, span=self.span))
        return region(tile, [0] * len(kept), [extents[d] for d in kept])

    def in_parts(self, regions: list, whole, span) -> Stmt:
        """A loop over parts of regions of which nothing says how large they are, `PART` numbers or one row at a time; `whole` of each part."""
        wide = [[d for d, x in enumerate(r.region) if const_int(x.extent) != 1] for r in regions]
        self.check_alike(wide)
        sizes, loops, boxes = self.most(regions[0], regions[-1]), [], [[[x.min, x.extent] for x in r.region] for r in regions]
        for k, d in enumerate(wide[0]):
            if sizes[d] is not None:
                continue
            extent, several = regions[0].region[d].extent, k == len(wide[0]) - 1
            dtype = dtype_of(extent)
            var, part = Var("part", dtype), imm(PART, dtype)
            for box, dims in zip(boxes, wide):
                start = box[dims[k]][0]
                first = var * part if several else var
                box[dims[k]] = [start + tirx.Cast(dtype_of(start), first), tirx.min(part, extent - first) if several else imm(1)]
            loops.append((var, tirx.floordiv(extent + part - imm(1, dtype), part) if several else extent))
        self.part = PART
        body = tirx.stmt_seq(*self.flat(whole(*(region(r.source, *zip(*box)) for r, box in zip(regions, boxes)))))
        self.part = None
        for var, extent in reversed(loops):
            body = loop(var, extent, body, span=span)
        return body

    @staticmethod
    def flat(out) -> list:
        """Statements as a list."""
        return out if isinstance(out, list) else [out]

    def check_alike(self, wide: list) -> None:
        if len({len(w) for w in wide}) > 1:
            raise self.refuse("T.copy between tiles of different shapes", "give both sides the same number of dimensions")

    def most(self, r: TensorRegion, other: TensorRegion) -> list[int | None]:
        """The sizes of a region, or what they are at most if they are known at run time only; None if nothing says."""
        sizes = [const_int(x.extent) for x in r.region]
        wide = [d for d, n in enumerate(sizes) if n != 1]
        others = [d for d, x in enumerate(other.region) if const_int(x.extent) != 1]
        for box, dims in ((other, others), (r, wide)):
            for d, place in zip(wide, dims) if len(wide) == len(dims) else ():
                known = const_int(box.region[place].extent)
                sizes[d] = sizes[d] or (const_int(box.source.ty.shape[place]) if known is None else known)
        return [self.part if n is None else n for n in sizes]

    def walk(self, *regions: TensorRegion) -> tuple:
        """(loops, indices of each region) of a nest over regions of the same sizes but for ones."""
        wide = [[d for d, x in enumerate(r.region) if const_int(x.extent) != 1] for r in regions]
        self.check_alike(wide)
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
        first = src.region[-1].min
        if not in_gm(src.source):
            return self.from_tile(s, src, dst)
        even = self.even(first)
        if even is None:
            ways = [tirx.stmt_seq(*self.from_byte(s, src, dst, skipped)) for skipped in (1, 0)]
            return if_then(self.odd(first), *ways, span=s.span)
        return self.from_byte(s, src, dst, 0 if even else 1)

    def in_dtype(self, value, a: str, dst: TensorRegion):
        """A number of the dtype `a` as what a tile holds."""
        b = dtype_of(dst.source)
        if b in NIBBLES:
            return value if b == a else held(value, b)
        return value if b == dtype_of(value) else tirx.Cast(b, value)

    def from_tile(self, s: Evaluate, src: TensorRegion, dst: TensorRegion):
        """Numbers of a packed tile into a region of a tile."""
        a = dtype_of(src.source)
        loops, at, place = self.walk(src, dst)
        value = self.in_dtype(self.unpacked(self.packed[src.source], at, a), a, dst)
        return parallel_nest(loops, BufferStore(self.new.get(dst.source, dst.source), value, place, span=s.span), s.span)

    def from_byte(self, s: Evaluate, src: TensorRegion, dst: TensorRegion, skipped: int) -> list:
        """Numbers of a tensor into a region of a tile, `skipped` codes behind the start of a byte."""
        dtype, last, out = dtype_of(src.source), src.region[-1], []
        tile = self.byte_tile(src, dst, skipped, out)
        out.append(tile_op("copy", self.around(src, skipped), tile, span=s.span))
        loops, at, place = self.walk(src, dst)
        column = at[-1]
        at = [var for var, n in loops if const_int(n) != 1] + ([imm(0)] if const_int(last.extent) == 1 else [])
        at[-1] = at[-1] + imm(skipped) if skipped else at[-1]
        value = self.inside_row(src.source, column, self.unpacked(tile.source, at, dtype))
        target = self.new.get(dst.source, dst.source)
        out.append(parallel_nest(loops, BufferStore(target, self.in_dtype(value, dtype, dst), place, span=s.span), s.span))
        return out

    def byte_tile(self, r: TensorRegion, other: TensorRegion, skipped: int, out: list) -> TensorRegion:
        """A tile for the bytes `around` a region."""
        last = (self.around(r, skipped).region[-1].extent, (self.most(r, other)[-1] + skipped + 1) // 2)
        return self.tile(r, BYTE, f"{r.source.name}_bytes", out, other, last)

    def around(self, r: TensorRegion, skipped: int) -> TensorRegion:
        """The bytes numbers of a region are in, the first of them `skipped` codes behind the start of a byte."""
        mins, extents = [x.min for x in r.region], [x.extent for x in r.region]
        size = self.half(extents[-1] + imm(skipped + 1, dtype_of(extents[-1])))
        return region(self.packed[r.source], [*mins[:-1], self.half(mins[-1])], [*extents[:-1], size])

    def pack(self, s: Evaluate, src: TensorRegion, dst: TensorRegion, convert) -> list:
        """Elements of a tile into a tensor, or into a packed tile."""
        first = dst.region[-1].min
        even = self.even(first)
        if self.whole(dst) and self.even(dst.region[-1].extent):
            return self.pack_whole(s, src, dst, convert)
        if even is None:
            ways = [tirx.stmt_seq(*self.pack_part(s, src, dst, convert, skipped)) for skipped in (1, 0)]
            return [if_then(self.odd(first), *ways, span=s.span)]
        return self.pack_part(s, src, dst, convert, 0 if even else 1)

    def pack_whole(self, s: Evaluate, src: TensorRegion, dst: TensorRegion, convert) -> list:
        """Elements of a tile into whole bytes."""
        out: list = []
        wide = [d for d, x in enumerate(src.region) if const_int(x.extent) != 1]
        loops, at, place = self.walk(src, dst)
        column, extent = loops[-1]
        start, pair = src.region[wide[-1]].min, []
        for k in range(2):
            index = list(at)
            index[wide[-1]] = start + column * imm(2) + imm(k) if const_int(start) != 0 else column * imm(2) + imm(k)
            pair.append(convert(BufferLoad(src.source, index)))
        loops[-1] = (column, self.half(extent))
        value = byte_of(*pair, dtype_of(dst.source))
        if not in_gm(dst.source):
            return [parallel_nest(loops, BufferStore(self.packed[dst.source], value, place, span=s.span), s.span)]
        bytes_ = self.bytes(dst)
        tile = self.tile(dst, BYTE, f"{dst.source.name}_bytes", out, src, (bytes_.region[-1].extent, self.most(dst, src)[-1] // 2))
        body = BufferStore(tile.source, value, [var for var, _ in loops], span=s.span)
        return [*out, parallel_nest(loops, body, s.span), tile_op("copy", tile, bytes_, span=s.span)]

    def pack_part(self, s: Evaluate, src: TensorRegion, dst: TensorRegion, convert, skipped: int) -> list:
        """Elements of a tile into bytes of a tensor whose ends may belong to others, which are read first; `skipped` codes of the first one stay."""
        dtype, out = dtype_of(dst.source), []
        last, length = dst.region[-1], self.odd_row(dst.source)
        to_the_end = length is not None and not self.shares_rows(dst.source) and self.is_length(dst, last.min + last.extent)
        if skipped or not to_the_end:
            self.shared.setdefault(dst.source, s.span)
        tile = self.byte_tile(dst, src, skipped, out)
        numbers = [const_int(n) for n in tile.source.ty.shape]
        numbers[-1] *= 2
        all_ = decl_buffer(numbers, HELD_IN[dtype], f"{dst.source.name}_numbers", scope="shared")
        out += [AllocBuffer(all_, span=s.span), tile_op("copy", self.around(dst, skipped), tile, span=s.span)]
        bytes_ = [(Var(f"i{d}", "int32"), x.extent) for d, x in enumerate(tile.region)]
        at = [v for v, _ in bytes_]
        codes = [
            (v, n if d < len(at) - 1 else n * imm(2))
            for d, (v, n) in enumerate((Var(f"i{d}", "int32"), n) for d, (_, n) in enumerate(bytes_))
        ]
        body = BufferStore(all_, self.unpacked(tile.source, [v for v, _ in codes], dtype), [v for v, _ in codes], span=s.span)
        out.append(parallel_nest(codes, body, s.span))
        inner = region(all_, [0] * (len(at) - 1) + [skipped], [x.extent for x in self.tile_box(dst)])
        loops, from_, to, place = self.walk(src, inner, dst)
        value = convert(BufferLoad(src.source, from_))
        if self.shares_rows(dst.source):
            value = tirx.if_then_else(self.before(place[-1], length), value, BufferLoad(all_, to))
        out.append(parallel_nest(loops, BufferStore(all_, value, to, span=s.span), s.span))
        pair = [BufferLoad(all_, [*at[:-1], at[-1] * imm(2) + imm(k)]) for k in range(2)]
        out.append(parallel_nest(bytes_, BufferStore(tile.source, byte_of(*pair, dtype), at, span=s.span), s.span))
        return [*out, tile_op("copy", tile, self.around(dst, skipped), span=s.span)]

    @staticmethod
    def tile_box(r: TensorRegion) -> list:
        """The dimensions of a region that a tile for it has."""
        return [x for x in r.region[:-1] if const_int(x.extent) != 1] + [r.region[-1]]


def _even_sizes(params) -> set:
    """Variables that are the length of rows of 4-bit tensors, and nothing else a call knows: such tensors have an even number of them."""
    lengths, others = set(), {p for p in params if not is_buffer_var(p)}
    for p in params:
        if is_buffer_var(p):
            *outer, last = p.ty.shape
            (lengths if dtype_of(p) in NIBBLES else others).update([last] if isinstance(last, Var) else ())
            others.update(d for d in [*outer, *p.ty.strides] if isinstance(d, Var))
    return lengths - others


def _of_bytes(strides) -> bool:
    """Whether a tensor of bytes may have the strides of one of numbers of 4 bits. Those known at run time are read off such tensors."""
    *outer, step = [const_int(n) for n in strides] or [1]
    return step in (1, None) and all(n is None or n % 2 == 0 for n in outer)


def _apart(shape, strides) -> bool:
    """Whether rows, planes and so on follow each other in memory; where they do what a call passes tells each number, and the compiler may choose."""
    reach: int | None = 0
    for n, step in zip(map(const_int, reversed(shape)), map(const_int, reversed(strides))):
        if step is None or reach is None or step <= reach:
            return False
        reach = None if n is None else reach + (n - 1) * step
    return True


def _same_box(a: tuple, b: tuple) -> bool:
    analyzer = sym.Analyzer()
    return a[1] == b[1] and all(map(analyzer.can_prove_equal, a[0], b[0]))


def _names(body) -> dict:
    """Values of the names of a nest that are bound in no loop of it."""
    found: dict = {}

    def see(s) -> None:
        if isinstance(s, Bind):
            found[s.var] = substitute_expr(s.value, found)
        for x in stmts_of(s) if isinstance(s, SeqStmt) else children(s) if isinstance(s, IfThenElse) else ():
            see(x)

    see(body)
    return found


def _guarded_stores(body) -> list:
    """(store, conditions that hold there) of stores of a nest under conditions, and in no loop."""
    found: list = []

    def see(s, guarded: bool, conditions: list) -> None:
        if isinstance(s, BufferStore) and guarded:
            found.append((s, conditions))
        elif isinstance(s, IfThenElse):
            see(s.then_case, True, [*conditions, *_conjuncts(s.condition)])
            if s.else_case is not None:
                see(s.else_case, True, conditions)
        elif isinstance(s, SeqStmt):
            for x in stmts_of(s):
                see(x, guarded, conditions)

    see(body, False, [])
    return found


def _conjuncts(e) -> list:
    return [*_conjuncts(e.a), *_conjuncts(e.b)] if isinstance(e, tirx.And) else [e]


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


__all__ = ["Unpack"]
