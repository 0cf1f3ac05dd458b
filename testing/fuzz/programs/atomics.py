"""Atomics on tiles and tensors, mixed with plain accesses; indices that are data."""

from __future__ import annotations

from ..program import Stmt
from .writer import Writer, block, line


class Atomics(Writer):
    """Scenes with atomics and gathers."""

    def atomic(self, target: str, index: str, value: str, kind: str, *tags: str) -> Stmt:
        """T.atomic_<kind> of an element."""
        where = "tile" if target in self.tiles else "GM"
        return line(
            f"T.atomic_{kind}({target}[{index}], {value})",
            f'atomic({target}, ({index},), {value}, "{kind}")',
            f"atomic_{kind} on {where} element",
            *tags,
        )

    def indices(self, size: int, limit: int, role: str = "index"):
        """Data that are indices: how element `e` is spelled, and what loads them."""
        dtype = self.pick(("int32", "int32", "int64"))
        shape = (size,) if role == "permutation" else (self.blocks, size)
        x = self.tensor(shape, dtype, role, limit)
        lead = "" if role == "permutation" else "bx, "
        tags = {f"{dtype} index"}
        self.tags |= tags
        if self.chance(0.5):
            return lambda e: f"{x}[{lead}{e}]", []
        t = self.new_tile((size,), dtype)
        src = self.whole(x) if role == "permutation" else self.region(x, ("bx", "0"), (1, size), False)
        return lambda e: f"{t}[{e}]", [self.copy(src, self.whole(t))]

    def histogram_scene(self) -> list[Stmt]:
        """Elements updated at places that are data or quotients of the loop variable."""
        size, bins = int(self.pick((16, 32, 40))), int(self.pick((4, 8, 16)))
        dtype = self.pick(("float32", "float32", "int32", "float16", "int64"))
        on_tile = self.chance(0.6)
        load: list[Stmt] = []
        if on_tile:
            h = self.new_tile((bins,), dtype)
            load.append(self.fill(self.whole(h), self.number(0, 5)))
        else:
            h = self.tensor((bins,), dtype, "out", 3, "H")
            if self.blocks == 1 and self.chance(0.3):
                load.append(self.fill(self.whole(h)))
        kind = self.pick(("add", "add", "add", "max", "min"))
        at, more = self.indices(size, bins)
        load += more
        x = self.tensor((self.blocks, size), dtype, "in", 3)
        value = f"{x}[bx, i]"
        if self.chance(0.5):
            t = self.new_tile((size,), dtype)
            load.append(self.copy(self.region(x, ("bx", "0"), (1, size), False), self.whole(t)))
            value = f"{t}[i]"
        if self.chance(0.3):
            value = "1"
        form = self.pick(("data", "data", "div", "mod", "let", "guard", "distinct", "return"))
        update = {
            "data": at("i"),
            "guard": at("i"),
            "div": f"i // {size // bins or 1}",
            "mod": f"i % {bins}",
            "let": "b",
            "distinct": "i",
            "return": at("i"),
        }[form]
        n = bins if form == "distinct" else size
        if form == "distinct":
            value = value if value == "1" or n <= size else "1"
        if form == "div" and (size - 1) // (size // bins or 1) >= bins:
            n = bins * (size // bins or 1)
        body = [self.atomic(h, update, value, kind, f"atomic at {form}")]
        if form == "let":
            b = self.fresh("b")
            body = [line(f"{b} = {at('i')}"), self.atomic(h, b, value, kind, "atomic at let")]
        elif form == "guard":
            body = [
                block(f"if {self.pick((at('i') + ' < 3', 'i % 3 == 0', value + ' > 0' if value != '1' else 'i > 2'))}:", body, kind="if")
            ]
        if self.chance(0.65):
            loop = self.parallel("i", (n,), body, "histogram")
        else:
            loop = block(f"for i in T.serial({n}):", body, f"for i in range({n}):", tags={"histogram", "atomic in a serial loop"})
        if self.chance(0.2):
            loop = block("for r in T.serial(2):", [loop], "for r in range(2):")
        show: list[Stmt] = []
        if on_tile:
            out = self.tensor((self.blocks, bins), dtype, "out")
            show = [self.copy(self.whole(h), self.region(out, ("bx", "0"), (1, bins), False))]
            if self.chance(0.3):
                g = self.tensor((bins,), dtype, "out")
                op = self.region(g, ("0",), (bins,), True)
                show.append(line(f"T.atomic_add({op.tile}, {h})", f'atomic_tile({op.ref}, {h}, "add")', "atomic_add of a tile"))
        return [*load, loop, *show]

    def mixed_scene(self) -> list[Stmt]:
        """Atomics and plain accesses of one element in an iteration, or of one tensor in a block."""
        size = int(self.pick((16, 16, 24)))
        dtype = self.pick(("float32", "float32", "int32"))
        c = self.tensor((self.blocks * size,), dtype, "out", 3, "C")
        d = self.tensor((self.blocks * size,), dtype, "out", 3, "D")
        x = self.tensor((self.blocks * size,), dtype, "in", 3)
        i = f"bx * {size} + i"
        kind = self.pick(("add", "add", "max"))
        on = c
        load, show = [], []
        if self.chance(0.3):
            on = self.new_tile((size,), dtype)
            load = [self.copy(self.region(c, (f"bx * {size}",), (size,)), self.whole(on))]
            show = [self.copy(self.whole(on), self.region(c, (f"bx * {size}",), (size,)))]
        e = "i" if on != c else i
        steps = [
            self.atomic(on, e, f"{x}[{i}]", kind), line(f"{d}[{i}] = {on}[{e}]"), line(f"{on}[{e}] = {on}[{e}] * 2"), line(f"{on}[{e}] = {x}[{i}]"),
            self.atomic(on, e, "1", "add"), line(f"{on}[{e}] += 1"), self.atomic(d, i, f"{on}[{e}]", "add"),
            block(f"if {on}[{e}] > 0:", [self.atomic(on, e, f"{x}[{i}]", kind)], kind="if"),
        ]  # fmt: skip
        body = [self.atomic(on, e, f"{x}[{i}]", kind, "atomic and plain accesses")]
        for _ in range(self.number(1, 3)):
            body.insert(self.number(0, len(body)), self.pick(steps))
        if self.chance(0.3):
            k = self.fresh("k")
            body = [block(f"for {k} in T.serial(2):", body, f"for {k} in range(2):")]
        if self.chance(0.8):
            nest = [self.parallel("i", (size,), body)]
        else:
            nest = [block(f"for i in T.serial({size}):", body, f"for i in range({size}):")]
        if self.chance(0.4):
            op = self.region(c, (f"bx * {size}",), (size,), self.chance(0.5))
            t = self.new_tile((size,), dtype)
            more = [
                self.copy(op, self.whole(t)),
                line(f"T.atomic_add({op.tile}, {t})", f'atomic_tile({op.ref}, {t}, "add")', "atomic_add of a tile"),
            ]
            if self.chance(0.5):
                more.append(self.parallel("i", (size,), [line(f"{c}[{i}] = {c}[{i}] + 1")]))
            nest += more
            if show:
                nest = [*nest[:1], *show, *more]
                show = []
        return [*load, *nest, *show]

    def view_atomic_scene(self) -> list[Stmt]:
        """Atomics whose operands are seen with another shape."""
        r, n = self.pick(((2, 16), (4, 32), (4, 16)))
        dtype = "float32"
        x = self.tensor((r, n), dtype, "in", 3)
        s, v = self.new_tile((r, n), dtype, "shared"), self.fresh("v")
        c = self.tensor((n,), dtype, "out", 3, "C")
        half = n // 2
        body = self.atomic(c, f"j * {half} + l", f"{v}[i, j, l]", self.pick(("add", "max")), "atomic of a view")
        return [self.copy(self.whole(x), self.whole(s)), line(f"{v} = T.reshape({s}, ({r}, 2, {half}))", f"{v} = view({s}, ({r}, 2, {half}))"),
                self.parallel("ijl", (r, 2, half), [body])]  # fmt: skip

    def gather_scene(self) -> list[Stmt]:
        """Rows and elements at places that are data, copies from and to them, loop bounds and slices that are data."""
        n, width = int(self.pick((4, 6, 8))), int(self.pick((8, 16, 20)))
        dtype = self.pick(("float32", "float16", "int32", "bfloat16", "int8"))
        at, load = self.indices(n, n, self.pick(("index", "permutation")))
        src = self.tensor((n, width), dtype, "in", 2)
        dst = self.tensor((self.blocks * n, width), dtype, "out", 2)
        form = self.pick(("elements", "rows", "scatter", "row copies", "segment", "lens"))
        if form == "elements":
            body = [self.parallel("ij", (n, width), [line(f"{dst}[bx * {n} + i, j] = {src}[{at('i')}, j]")])]
        elif form == "rows":
            t, r = self.new_tile((width,), dtype), self.fresh("r")
            body = [block(f"for {r} in T.serial({n}):", [
                self.copy(self.region(src, (at(r), "0"), (1, width), False), self.whole(t)),
                self.copy(self.whole(t), self.region(dst, (f"bx * {n} + {r}", "0"), (1, width), False)),
            ], f"for {r} in range({n}):")]  # fmt: skip
        elif form == "scatter":
            body = [self.parallel("ij", (n, width), [line(f"{dst}[bx * {n} + {at('i')}, j] = {src}[i, j]")])]
        elif form == "row copies":
            t, r = self.new_tile((n, width), dtype), self.fresh("r")
            body = [block(f"for {r} in {self.pick(('T.serial', 'range'))}({n}):",
                          [self.copy(self.region(src, (at(r), "0"), (1, width), False), self.region(t, (r, "0"), (1, width), False))], f"for {r} in range({n}):"),
                    self.copy(self.whole(t), self.region(dst, (f"bx * {n}", "0"), (n, width)))]  # fmt: skip
        elif form == "segment":
            acc = self.tensor((n, width), "float32", "out", 2)
            body = [
                self.parallel("ij", (n, width), [self.atomic(acc, f"{at('i')}, j", f"{src}[i, j]" if dtype == "float32" else "1", "add")])
            ]
        else:
            lens = self.tensor((self.blocks,), self.pick(("int32", "int64")), "index", n + 1, "L")
            r = self.fresh("r")
            body = [block(f"for {r} in T.serial({lens}[bx]):", [self.parallel("j", (width,), [line(f"{dst}[bx * {n} + {r}, j] = {src}[{at(r)}, j] + 1")])],
                          f"for {r} in range({lens}[bx]):")]  # fmt: skip
        return [*load, *body]
