"""Tile ops on every kind of operand: whole tensors, slices, heads, shared, fragments, parts of tiles, views, other dtypes."""

from __future__ import annotations

from ..program import Stmt
from .writer import Operand, Writer, line

DTYPES = ("float32", "float32", "float16", "bfloat16", "int32", "int16", "int8", "uint8", "int64", "float8_e4m3fn", "float8_e5m2", "bool")
COMPUTED = ("float32", "float32", "float16", "bfloat16", "int32", "int16", "int8", "uint8")
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")


class TileOps(Writer):
    """Scenes with tile ops."""

    def operand(self, shape, dtype: str, written: bool, before: list[Stmt], after: list[Stmt], size: int = 2) -> Operand:
        """An operand of a shape; what fills it first and shows it later goes to `before` and `after`.

        Values are of size up to `size`.
        """
        kind = self.pick(("GM", "GM slice", "shared", "shared", "fragment", "fragment", "tile slice", "view", "row"))
        shape = tuple(shape)
        if kind == "GM" and self.blocks > 1:
            kind = "GM slice"
        if kind == "row" and shape == (1,):
            kind = "shared"
        if kind in ("GM", "GM slice"):
            more = 0 if kind == "GM" else self.pick((0, 0, 8, 5))
            whole = (self.blocks * shape[0], *shape[1:-1], shape[-1] + more) if len(shape) > 1 else (self.blocks * shape[0] + more,)
            name = self.tensor(shape if kind == "GM" else whole, dtype, "out" if written else "in", size)
            if kind == "GM":
                return self.whole(name)
            last = str(self.pick((0, more)))
            origin = (
                [f"bx * {shape[0]}", *("0" for _ in shape[1:-1]), last]
                if len(shape) > 1
                else [f"bx * {shape[0]}" if more == 0 or last == "0" else f"bx * {shape[0]} + {last}"]
            )
            return self.region(name, origin, shape, head=False)
        if kind == "row" and len(shape) == 1:
            big, at = (3, *shape), (str(self.number(0, 2)), "0")
            extents = (1, *shape)
        elif kind == "tile slice":
            by = self.pick((4, 8, 16))
            big = (shape[0] + by, *shape[1:]) if len(shape) > 1 and self.chance(0.5) else (*shape[:-1], shape[-1] + by)
            at = tuple(str(self.pick((0, b - n))) for b, n in zip(big, shape))
            extents = shape
        else:
            big, at, extents = shape, None, shape
        name = self.new_tile(big, dtype, kind if kind in ("shared", "fragment") else "shared" if kind == "view" else "")
        x = self.tensor(big, dtype, "in", size)
        before.append(self.copy(self.whole(x), self.whole(name)))
        if written:
            out = self.tensor((self.blocks * big[0], *big[1:]), dtype, "out", 2)
            after.append(self.copy(self.whole(name), self.region(out, [f"bx * {big[0]}", *("0" for _ in big[1:])], big)))
        if kind == "view":
            flat = 1
            for n in shape:
                flat *= n
            base = (flat,) if len(shape) > 1 else (2, flat // 2)
            if flat % 2 and len(shape) == 1:
                return self.whole(name)
            t, v = self.tiles[name], self.fresh("v")
            self.tiles[name] = type(t)(name, base, dtype, "shared")
            self.params[x] = type(self.params[x])(x, base, dtype, "in", size)
            before[-1] = self.copy(self.whole(x), self.whole(name))
            if written:
                out = self.tensor((self.blocks * base[0], *base[1:]), dtype, "out", 2)
                after[-1] = self.copy(self.whole(name), self.region(out, [f"bx * {base[0]}", *("0" for _ in base[1:])], base))
            spelled = f"T.reshape({name}, {shape})" if self.chance(0.6) else f"T.view({name}, {shape})"
            before.append(line(f"{v} = {spelled}", f"{v} = view({name}, {shape})", "reshaped operand"))
            return Operand(v, v, shape, dtype, "view", name)
        if at is None:
            return self.whole(name)
        return self.region(name, at, extents, head=False)

    def matrix_scene(self) -> list[Stmt]:
        """One or two tile ops with operands of all kinds."""
        out: list[Stmt] = []
        for _ in range(self.number(1, 2)):
            before: list[Stmt] = []
            after: list[Stmt] = []
            op = self.pick(
                ("fill", "copy", "copy", "reduce", "reduce", "reduce keep", "reduce keep", "scan", "transpose", "sort", "atomic")
            )
            ops = getattr(self, "op_" + op.replace(" ", "_"))(before, after)
            out += [*before, *ops, *after]
        return out

    def shape(self, rank: int = 0):
        """A small shape."""
        rank = rank or self.pick((1, 2, 2))
        return tuple(int(self.pick((4, 8, 12, 16, 17, 24) if d < rank - 1 else (8, 16, 20, 24, 32))) for d in range(rank))

    def op_fill(self, before, after):
        dst = self.operand(self.shape(), self.pick(DTYPES), True, before, after)
        return [self.fill(dst, self.pick((0, 0, 1, 2)) if dst.dtype != "bool" else self.pick((0, 1)))]

    def op_copy(self, before, after):
        shape = self.shape()
        a = self.pick(DTYPES)
        b = a if self.chance(0.6) else self.pick(DTYPES)
        return [self.copy(self.operand(shape, a, False, before, after), self.operand(shape, b, True, before, after))]

    def op_reduce(self, before, after, clear=True):
        shape = self.shape(self.pick((1, 2, 2, 3)))
        dim = int(self.rng.integers(len(shape)))
        dtype = self.pick((*COMPUTED, *FLOAT8, *FLOAT8))
        src = self.operand(shape, dtype, False, before, after)
        rest = tuple(n for d, n in enumerate(shape) if d != dim) or (1,)
        if len(shape) > 1 and self.chance(0.2):
            rest = tuple(1 if d == dim else n for d, n in enumerate(shape))
        wide = "float32" if "float" in dtype else "int32"
        to = dtype if self.chance(0.5 if clear else 0.2) and "8_" not in dtype else wide
        dst = self.operand(rest, to, True, before, after, 100_000 if to != dtype and not clear and self.chance(0.7) else 2)
        if len(dst.shape) != len(rest):
            rest = dst.shape
        kind = self.pick(("sum", "sum", "max", "min", "absmax", "abssum") if clear else ("sum", "max", "min", "max", "absmax"))
        if kind.startswith("abs") and dtype.startswith("uint"):
            kind = kind[3:]
        more = "" if clear else ", clear=False"
        given = dim if self.chance(0.7) else dim - len(shape)
        if len(src.shape) != len(shape):
            given, dim = -1, len(src.shape) - 1
        tags = [f"reduce {dtype}", f"reduce from {src.kind}", f"reduce to {dst.kind}", *([] if clear else ["clear=False"]),
                *(["reduce into a wider dtype"] if dst.dtype != dtype else [])]  # fmt: skip
        return [
            line(
                f"T.reduce_{kind}({src.tile}, {dst.tile}, dim={given}{more})",
                f'reduce("{kind}", {src.ref}, {dst.ref}, {dim}, {clear})',
                *tags,
            )
        ]

    def op_reduce_keep(self, before, after):
        return self.op_reduce(before, after, clear=False)

    def op_scan(self, before, after):
        shape = self.shape()
        dim, reverse = int(self.rng.integers(len(shape))), self.chance(0.3)
        dtype = self.pick(COMPUTED)
        kind = self.pick(("sum", "sum", "max"))
        src = self.operand(shape, dtype, False, before, after)
        if self.chance(0.2):
            src = dst = self.operand(shape, dtype, True, before, after)
        else:
            dst = self.operand(shape, dtype, True, before, after)
        if len(src.shape) != len(shape) or len(dst.shape) != len(shape):
            return [self.copy(src, dst)] if src != dst else []
        target = f", {dst.tile}" if dst != src else ""
        return [line(f"T.cum{kind}({src.tile}{target}, dim={dim}, reverse={reverse})", f'scan("{kind}", {src.ref}, {dst.ref}, {dim}, {reverse})',
                     f"cum{kind} from {src.kind}", f"cum{kind} to {dst.kind}")]  # fmt: skip

    def op_transpose(self, before, after):
        shape = self.shape(2)
        dtype = self.pick(("float32", "float16", "int32", "bfloat16", "int8"))
        src, dst = self.operand(shape, dtype, False, before, after), self.operand(shape[::-1], dtype, True, before, after)
        return [
            line(
                f"T.transpose({src.tile}, {dst.tile})",
                f"transpose({src.ref}, {dst.ref})",
                f"transpose from {src.kind}",
                f"transpose to {dst.kind}",
            )
        ]

    def op_sort(self, before, after):
        shape = self.shape()
        dtype = self.pick(("float32", "float16", "int32"))
        src, dst = self.operand(shape, dtype, False, before, after), self.operand(shape, dtype, True, before, after)
        if len(src.shape) != len(shape) or len(dst.shape) != len(shape):
            return [self.copy(src, dst)]
        down = self.chance(0.5)
        return [line(f"T.sort({src.tile}, {dst.tile}, dim={len(shape) - 1}, descending={down})", f"sort({src.ref}, {dst.ref}, {len(shape) - 1}, {down})",
                     f"sort from {src.kind}", f"sort to {dst.kind}")]  # fmt: skip

    def op_atomic(self, before, after):
        shape = self.shape()
        dtype = self.pick(("float32", "float32", "int32", "float16"))
        src = self.operand(shape, dtype, False, before, after)
        dst = self.operand(shape, dtype, True, before, after)
        while dst.base in self.tiles and self.chance(0.9):
            after.clear()
            dst = self.operand(shape, dtype, True, before, after)
        kind = self.pick(("add", "add", "max", "min"))
        return [
            line(
                f"T.atomic_{kind}({dst.tile}, {src.tile})",
                f'atomic_tile({dst.ref}, {src.ref}, "{kind}")',
                f"atomic_{kind} of a tile",
                f"atomic from {src.kind}",
                f"atomic to {dst.kind}",
            )
        ]

    def bits_scene(self) -> list[Stmt]:
        """A tile seen as another dtype."""
        a, b = self.pick((("float32", "int32"), ("float16", "int16"), ("int8", "uint8"), ("uint8", "float8_e4m3fn"), ("int16", "uint16"), ("float32", "uint32"),
                          ("int32", "int16"), ("int8", "int32")))  # fmt: skip
        rows, n = self.pick((4, 8)), self.pick((16, 32))
        wide = lambda d: 1 if "8" in d else 2 if d.endswith("16") else 4  # noqa: E731
        m = n * wide(a) // wide(b)
        x, s, v = self.tensor((self.blocks * rows, n), a, "in", 3), self.new_tile((rows, n), a, "shared"), self.fresh("v")
        out = [self.copy(self.region(x, (f"bx * {rows}", "0"), (rows, n)), self.whole(s)),
               line(f'{v} = T.view({s}, ({rows}, {m}), "{b}")', f'{v} = view({s}, ({rows}, {m}), "{b}")', "view as another dtype")]  # fmt: skip
        o = self.tensor((self.blocks * rows, m), b, "out")
        form = self.pick(("copy", "nest", "store", "change"))
        place = self.region(o, (f"bx * {rows}", "0"), (rows, m))
        if form == "copy":
            return [*out, line(f"T.copy({v}, {place.tile})", f"copy({v}, {place.ref})")]
        if form == "nest":
            return [*out, self.parallel("ij", (rows, m), [line(f"{o}[bx * {rows} + i, j] = {v}[i, j]")])]
        if form == "store":
            y = self.tensor((rows, m), b, "in", 3)
            p = self.tensor((self.blocks * rows, n), a, "out")
            return [
                *out,
                self.parallel("ij", (rows, m), [line(f"{v}[i, j] = {y}[i, j]")]),
                self.copy(self.whole(s), self.region(p, (f"bx * {rows}", "0"), (rows, n))),
            ]
        change = "+ 1" if not b.startswith("float") else "* 2"
        p = self.tensor((self.blocks * rows, n), a, "out")
        return [
            *out,
            self.parallel("ij", (rows, m), [line(f"{v}[i, j] = {v}[i, j] {change}")]),
            self.copy(self.whole(s), self.region(p, (f"bx * {rows}", "0"), (rows, n))),
        ]
