"""Loops around T.gemm: what runs, what is cleared, and who reads the accumulators."""

from __future__ import annotations

from dataclasses import dataclass

from ..program import Stmt
from .writer import Writer, block, line


@dataclass
class Loop:
    """A loop head: text, that of the reference, its variable, statements before it and at the end of its body."""

    tile: str
    ref: str
    var: str
    before: tuple[Stmt, ...] = ()
    step: tuple[Stmt, ...] = ()
    tags: frozenset = frozenset()


class Products(Writer):
    """Scenes with gemm."""

    def k_loop(self, steps: int, kinds=()) -> Loop:
        """A loop over at most `steps` steps."""
        k, counts = self.fresh("k"), self.counts(steps)
        kind = self.pick(kinds or ("serial", "serial", "pipelined", "pipelined", "range", "serial n", "serial n", "pipelined n", "bx", "from", "while",
                                   "down", "unroll", "list", "scaled"))  # fmt: skip
        stages = self.pick((0, 1, 2, 3))
        n = f"{counts}[bx]"
        heads = {
            "serial": (f"T.serial({steps})", f"range({steps})"),
            "pipelined": (f"T.Pipelined({steps}, num_stages={stages})", f"range({steps})"),
            "range": (f"range({steps})", f"range({steps})"),
            "serial n": (f"T.serial({n})", f"range({n})"),
            "pipelined n": (f"T.Pipelined({n}, num_stages={stages})", f"range({n})"),
            "bx": ("T.serial(T.min(bx, " + str(steps) + "))", f"range(min(bx, {steps}))"),
            "from": (f"T.serial({n}, {steps})", f"range({n}, {steps})"),
            "down": (f"range({steps} - 1, -1, -1)", f"range({steps} - 1, -1, -1)"),
            "unroll": (f"T.unroll({steps})", f"range({steps})"),
            "list": (f"[{', '.join(map(str, range(steps)))}]",) * 2,
            "scaled": (f"T.Pipelined(T.ceildiv({n}, 2), num_stages={stages})", f"range(-(-int({n}) // 2))"),
        }
        if kind == "while":
            start = line(f'{k} = T.alloc_var("int32")', f"{k} = 0")
            bound = self.pick((n, str(steps)))
            return Loop(f"while {k} < {bound}:", f"while going({k} < {bound}):", k, (start, line(f"{k} = 0")), (line(f"{k} = {k} + 1"),),
                        frozenset({"gemm loop: while"}))  # fmt: skip
        tile, ref = heads[kind]
        tags = {f"gemm loop: {kind}"}
        return Loop(f"for {k} in {tile}:", f"for {k} in {ref}:", k, tags=frozenset(tags))

    def counts(self, most: int) -> str:
        """A tensor of one small count for each block."""
        known = [p.name for p in self.params.values() if p.role == "index" and p.limit == most + 1 and p.shape == (self.blocks,)]
        return self.pick(known) if known and self.chance(0.6) else self.tensor((self.blocks,), self.int_dtype(), "index", most + 1, "L")

    def int_dtype(self) -> str:
        """Of an index tensor."""
        return "int64" if self.chance(0.15) else "int32"

    def condition(self, k: str = "", steps: int = 4) -> str:
        """A run-time condition; the same text in both languages."""
        kinds = ["count", "bx"]
        if k:
            kinds += ["first", "mask", "k", "even", "count k", "both", "last"]
        kind = self.pick(kinds)
        if kind == "mask":
            m = self.tensor((self.blocks, steps), "int32", "mask")
            return f"{m}[bx, {k}] {self.pick(('== 0', '!= 0', '> 0'))}"
        if kind == "both":
            return f"{self.counts(steps)}[bx] > {k}" if self.chance(0.5) else f"bx == {k}"
        return {
            "count": f"{self.counts(steps)}[bx] > {self.number(0, 2)}", "bx": self.pick(("bx == 0", "bx > 0", "bx % 2 == 1")),
            "first": f"{k} == 0", "k": f"{k} {self.pick(('<', '>='))} {self.number(1, 2)}", "even": f"{k} % 2 == {self.number(0, 1)}",
            "count k": f"{k} {self.pick(('<', '>=', '=='))} {self.counts(steps)}[bx]", "last": f"{k} == {steps - 1}",
        }[kind]  # fmt: skip

    def clear_accum(self, k: str, steps: int) -> tuple[str, str]:
        """(text, that of the reference) of a clear_accum argument."""
        c = self.condition(k, steps)
        if self.chance(0.3):
            c = f"{k} == 0" if self.chance(0.6) else f"{k} < 1"
        if self.chance(0.15):
            d = self.condition(k, steps)
            both = self.pick(("And", "Or"))
            return f"T.{both}({c}, {d})", f"({c}) {both.lower()} ({d})"
        return c, c

    def gemm(self, a: str, b: str, c: str, clear=None, ta=False, tb=False, *tags: str) -> Stmt:
        """T.gemm of operands given as text."""
        more, ref = "", ""
        if ta:
            more, ref = more + ", transpose_A=True", ref + ", transpose_a=True"
        if tb:
            more, ref = more + ", transpose_B=True", ref + ", transpose_b=True"
        if clear:
            more, ref = f"{more}, clear_accum={clear[0]}", f"{ref}, clear={clear[1]}"
        a, b, c = ((x, x) if isinstance(x, str) else (x.tile, x.ref) for x in (a, b, c))
        return line(f"T.gemm({a[0]}, {b[0]}, {c[0]}{more})", f"gemm({a[1]}, {b[1]}, {c[1]}{ref})", "gemm", *tags)

    def k_body(self, loop: Loop, steps: int, c: list[str], shape) -> list[Stmt]:
        """Loads and gemms of one step, some of it under conditions."""
        m, n, kt = shape
        dtype = self.pick(("float16", "float16", "bfloat16"))
        k = loop.var
        ta, tb = self.chance(0.1), self.chance(0.15)
        a = self.new_tile((kt, m) if ta else (m, kt), dtype, "shared")
        b = self.new_tile((n, kt) if tb else (kt, n), dtype, "shared")
        big = self.tensor((steps * kt, m) if ta else (m, steps * kt), dtype, "in", 2)
        other = self.tensor((n, steps * kt) if tb else (steps * kt, n), dtype, "in", 2)
        at_a = [f"{k} * {kt}", "0"] if ta else ["0", f"{k} * {kt}"]
        at_b = ["0", f"{k} * {kt}"] if tb else [f"{k} * {kt}", "0"]
        loads = [self.copy(self.region(big, at_a, self.tiles[a].shape), self.whole(a)),
                 self.copy(self.region(other, at_b, self.tiles[b].shape), self.whole(b))]  # fmt: skip
        out, tags = [], []
        clear = None
        if self.chance(0.45):
            clear = self.clear_accum(k, steps)
            tags.append("clear_accum of a condition")
        gemms = []
        for acc in c:
            if self.chance(0.15) and m >= 32 and not ta:
                rows = m // 2
                for r in (0, rows) if self.chance(0.7) else (self.pick((0, rows)),):
                    gemms.append(self.gemm(self.region(a, (r, 0), (rows, kt), False), b, self.region(acc, (r, 0), (rows, n), False), clear, ta, tb,
                                           "rows of an accumulator", *tags))  # fmt: skip
            elif self.chance(0.1) and n >= 32 and not tb:
                for r in (0, n // 2):
                    gemms.append(self.gemm(a, self.region(b, (0, r), (kt, n // 2), False), self.region(acc, (0, r), (m, n // 2), False), clear, ta, tb,
                                           "columns of an accumulator", *tags))  # fmt: skip
            else:
                gemms.append(self.gemm(a, b, acc, clear, ta, tb, *tags))
        inner = [*loads, *gemms]
        if self.chance(0.06):  # a load in front of the loop
            inner = inner[1:]
            self.hoisted = [self.copy(self.region(big, ["0", "0"], self.tiles[a].shape), self.whole(a))]
        kind = self.pick(("plain", "plain", "plain", "continue", "break", "if", "if gemm", "else", "break after", "clear inside"))
        test = self.condition(k, steps)
        if kind == "continue":
            out.append(block(f"if {test}:", [*loop.step, line("continue")], kind="if", tags={"continue before a gemm"}))
        elif kind == "break":
            out.append(block(f"if {test}:", [line("break")], kind="if", tags={"break before a gemm"}))
        if kind == "if":
            out.append(block(f"if {test}:", inner, kind="if", tags={"gemm under a condition"}))
        elif kind == "if gemm":
            out += [*loads, block(f"if {test}:", gemms, kind="if", tags={"gemm under a condition"})]
        elif kind == "else":
            out += [
                *loads,
                block(
                    f"if {test}:",
                    gemms,
                    orelse=[self.gemm(a, b, c[0], ("True", "True"), ta, tb)],
                    kind="if",
                    tags={"gemm under a condition"},
                ),
            ]
        elif kind == "clear inside":
            out += [block(f"if {test}:", [self.fill(self.whole(c[0]))], kind="if", tags={"clear in a loop"}), *inner]
        else:
            out += inner
        if kind == "break after":
            out.append(block(f"if {test}:", [line("break")], kind="if", tags={"break after a gemm"}))
        return [*out, *loop.step]

    def accumulate(self, c: list[str], shape) -> list[Stmt]:
        """One loop of gemms into the accumulators `c`."""
        steps = int(self.pick((1, 2, 2, 3, 4, 4, 8)))
        if self.chance(0.12):
            u, v = self.fresh("u"), self.fresh("v")
            loop = Loop("", "", f"({u} * 2 + {v})")
            self.hoisted = []
            body = self.k_body(loop, 4, c, shape)
            if self.chance(0.5):
                inner = block(f"for {v} in T.serial(2):", body, f"for {v} in range(2):")
                return [block(f"for {u} in T.serial(2):", [inner], f"for {u} in range(2):")]
            return [block(f"for {u} in T.serial(2):", [block(f"for {v} in T.Pipelined(2, num_stages=2):", body, f"for {v} in range(2):")],
                          f"for {u} in range(2):")]  # fmt: skip
        loop = self.k_loop(steps)
        self.hoisted: list[Stmt] = []
        body = self.k_body(loop, steps, c, shape)
        return [*self.hoisted, *loop.before, block(loop.tile, body, loop.ref, tags=loop.tags)]

    def begin(self, c: str) -> list[Stmt]:
        """What an accumulator starts with."""
        t = self.tiles[c]
        kind = self.pick((*("clear",) * 12, *("nothing",) * 3, *("branch",) * 3, *("part",) * 3, "fill", "load"))
        if kind == "clear":
            return [self.fill(self.whole(c))]
        if kind == "fill":
            return [self.fill(self.whole(c), self.number(1, 3))]
        if kind == "load":
            x = self.tensor((self.blocks * t.shape[0], t.shape[1]), self.pick((t.dtype, "float16")), "in")
            return [self.copy(self.region(x, (f"bx * {t.shape[0]}", "0"), t.shape), self.whole(c), "accumulator from a tensor")]
        if kind == "part" and t.shape[0] >= 32:
            rows = t.shape[0] // 2
            return [self.fill(self.region(c, (r, 0), (rows, t.shape[1]), False)) for r in (0, rows)]
        if kind == "branch":
            return [block(f"if {self.condition()}:", [self.fill(self.whole(c))], orelse=[self.fill(self.whole(c))] if self.chance(0.4) else (),
                          kind="if", tags={"clear in a branch"})]  # fmt: skip
        return []

    def change(self, c: str) -> list[Stmt]:
        """Vector code on an accumulator between or after its products."""
        t = self.tiles[c]
        kind = self.pick(("nest", "part", "half", "max"))
        if kind == "nest":
            return [self.parallel("ij", t.shape, [line(f"{c}[i, j] = {c}[i, j] {self.pick(('+ 1', '* 2', '- j', '+ i'))}".replace("- j", "- 2").replace("+ i", "+ 3"))],
                                  "accumulator changed by a nest")]  # fmt: skip
        if kind == "part" and t.shape[0] >= 32:
            r = self.pick((0, t.shape[0] // 2))
            return [self.fill(self.region(c, (r, 0), (t.shape[0] // 2, t.shape[1]), False), self.pick((0, 0, 2)))]
        if kind == "half":
            return [self.parallel("ij", t.shape, [block(f"if {self.pick(('i < 8', 'j >= 8', f'{c}[i, j] > 0', 'j <= i'))}:", [line(f"{c}[i, j] = {self.pick(('0', '1', f'-{c}[i, j]'))}")], kind="if")],
                                  "accumulator changed by a nest")]  # fmt: skip
        return [
            self.parallel(
                "ij",
                t.shape,
                [line(f"{c}[i, j] = T.max({c}[i, j], 0)", f"{c}[i, j] = larger({c}[i, j], 0)")],
                "accumulator changed by a nest",
            )
        ]

    def result(self, c: str, count: list[int], index: str = "") -> list[Stmt]:
        """Who reads an accumulator; `index` is a loop variable below count."""
        t = self.tiles[c]
        m, n = t.shape
        kind = self.pick(("copy", "copy", "copy", "nest", "shared", "chain", "reduce", "atomic", "twice", "power",
                          "bias", "scatter", "column"))  # fmt: skip
        lead = (count[0],) if index else ()
        at = ([index] if index else []) + [f"bx * {m}", "0"]
        out = self.tensor((*lead, self.blocks * m, n), self.pick(("float32", "float32", "float16")), "out")
        extents = (*((1,) if index else ()), m, n)
        direct = self.copy(self.whole(c), self.region(out, at, extents), "accumulator copied to GM")
        if kind == "copy":
            return [direct]
        if kind == "nest":
            place = ", ".join([*at[:-2], f"bx * {m} + i", "j"])
            return [
                self.parallel(
                    "ij", (m, n), [line(f"{out}[{place}] = {c}[i, j] {self.pick(('', '+ 1', '* 2'))}")], "accumulator read by a nest"
                )
            ]
        if kind == "bias":
            v = self.tensor((n,), "float32", "in", 2)
            u = self.new_tile((n,), "float32")
            op = self.pick((f"{c}[i, j] + {u}[j]", f"{c}[i, j] * {u}[j]"))
            return [
                self.copy(self.whole(v), self.whole(u)),
                self.parallel("ij", (m, n), [line(f"{c}[i, j] = {op}")], "accumulator changed by a nest"),
                direct,
            ]
        if kind == "column":
            v = self.tensor((self.blocks * m,), "float32", "in", 2)
            return [
                self.parallel("ij", (m, n), [line(f"{c}[i, j] = {c}[i, j] + {v}[bx * {m} + i]")], "accumulator and a column of GM"),
                direct,
            ]
        if kind == "scatter" and self.params[out].shape != (*lead, self.blocks * m, n):
            return [direct]  # An index that is data has to be one: what leaves the tensor is reported, not clipped.
        if kind == "scatter":
            p = self.tensor((m,), self.int_dtype(), "permutation")
            at_row = f"{p}[i]"
            load = []
            if self.chance(0.6):
                u = self.new_tile((m,), self.params[p].dtype)
                load, at_row = [self.copy(self.whole(p), self.whole(u))], f"{u}[i]"
            place = ", ".join([*at[:-2], f"bx * {m} + {at_row}", "j"])
            return [*load, self.parallel("ij", (m, n), [line(f"{out}[{place}] = {c}[i, j]")], "accumulator scattered")]
        if kind == "reduce":
            r, o = self.new_tile((m,), "float32", "fragment"), self.tensor((*lead, self.blocks * m), "float32", "out")
            which = self.pick(("sum", "max", "min"))
            return [line(f"T.reduce_{which}({c}, {r}, dim=1)", f'reduce("{which}", {c}, {r}, 1)', "accumulator reduced"),
                    self.copy(self.whole(r), self.region(o, at[:-1], extents[:-1])), *([direct] if self.chance(0.4) else [])]  # fmt: skip
        if kind == "atomic":
            o = self.tensor((m, n), "float32", "out")
            op = self.region(o, ("0", "0"), (m, n), True)
            return [line(f"T.atomic_add({op.tile}, {c})", f'atomic_tile({op.ref}, {c}, "add")', "accumulator added to GM")]
        s = self.new_tile((m, n), self.pick(("float16", "float16", "float32", "bfloat16")), "shared")
        stored = self.copy(self.whole(c), self.whole(s), "accumulator copied to a tile")
        show = self.copy(self.whole(s), self.region(out, at, extents))
        if kind == "shared":
            return [stored, show]
        if kind == "twice":
            return [
                direct,
                *self.change(c),
                self.copy(self.whole(c), self.region(self.tensor((*lead, self.blocks * m, n), "float32", "out"), at, extents)),
            ]
        # A product of the result with another operand.
        half = "float16"
        self.tiles[s] = type(self.tiles[s])(s, (m, n), half, "shared")
        x = self.tensor((n, n), half, "in", 1)
        b = self.new_tile((n, n), half, "shared")
        load = self.copy(self.whole(x), self.whole(b))
        if kind == "chain":
            d = self.new_tile((m, n), "float32", "fragment")
            chain = [
                stored,
                load,
                *([self.fill(self.whole(d))] if self.chance(0.5) else []),
                self.gemm(s, b, d, None if self.chance(0.5) else ("True", "True"), False, False, "gemm of an accumulator"),
            ]
            return [
                *chain,
                *([show] if self.chance(0.4) else []),
                self.copy(self.whole(d), self.region(self.tensor((*lead, self.blocks * m, n), "float32", "out"), at, extents)),
            ]
        k = self.fresh("k")
        powers = [self.gemm(s, b, c, ("True", "True"), False, False, "matrix power"), stored]
        loop = powers
        if self.chance(0.5):
            turns = self.number(1, 2)
            loop = [block(f"for {k} in T.serial({turns}):", powers, f"for {k} in range({turns}):")]
        return [load, stored, *loop, *self.pick(([show], [direct], [show, direct]))]

    def product_scene(self) -> list[Stmt]:
        """Accumulators: how they begin, loops of gemms, who reads them; all of it perhaps in an outer loop or a branch."""
        m, n, kt = self.pick((16, 16, 32, 64)), self.pick((16, 16, 32)), self.pick((16, 16, 32))
        c = [self.new_tile((m, n), "float32", "fragment") for _ in range(2 if self.chance(0.2) else 1)]
        used = c if self.chance(0.7) else c[:1]
        begin = [s for x in c for s in self.begin(x)]
        turns = []
        shape = (m, n, kt)
        turns += self.accumulate(used, shape)
        if self.chance(0.2):
            if self.chance(0.5):
                turns += self.change(self.pick(c))
            if self.chance(0.5):
                turns += self.accumulate(c, shape)
        form = self.pick(("plain", "plain", "plain", "outer", "outer clear outside", "if", "else", "branch"))
        if form.startswith("outer"):
            t = self.fresh("t")
            count = self.number(2, 3)
            inside = form == "outer"
            kept = self.chance(0.5)
            result = [s for x in c for s in self.result(x, [count], t if kept else "")]
            body = [*(begin if inside else []), *turns, *(result if kept else [])]
            outer = block(f"for {t} in T.serial({count}):", body, f"for {t} in range({count}):", tags={"gemm loop in a loop"})
            return [*([] if inside else begin), outer, *([] if kept else result)]
        result = [s for x in c for s in self.result(x, [1])]
        if form == "if":
            return [*begin, block(f"if {self.condition()}:", turns, kind="if", tags={"gemm loop under a condition"}), *result]
        if form == "else":
            other = self.accumulate(c, shape)
            return [*begin, block(f"if {self.condition()}:", turns, orelse=other, kind="if", tags={"gemm loop under a condition"}), *result]
        if form == "branch":
            first = [s for x in c for s in self.begin(x)]
            other = [*first, *self.accumulate(c, shape)]
            return [block(f"if {self.condition()}:", [*begin, *turns], orelse=other, kind="if", tags={"clear in a branch"}), *result]
        return [*begin, *turns, *result]

    def stream_scene(self) -> list[Stmt]:
        """Work split over blocks at any step: a while loop over tiles, in it a gemm loop of a computed length (stream-K)."""
        tiles, steps, kt = self.number(1, 3), self.number(1, 4), 16
        a = self.tensor((tiles * 16, steps * kt), "float16", "in", 2)
        b = self.tensor((steps * kt, 16), "float16", "in", 2)
        out = self.tensor((tiles * 16, 16), "float32", "out")
        x, y = self.new_tile((16, kt), "float16", "shared"), self.new_tile((kt, 16), "float16", "shared")
        c = self.new_tile((16, 16), "float32", "fragment")
        start, last, end, t, k = (self.fresh(n) for n in ("u", "w", "e", "t", "k"))
        total = tiles * steps
        share = -(-total // self.blocks)
        if self.chance(0.5):  # a variable, or a tile of one element
            declare = [line(f'{n} = T.alloc_var("int32")', f"{n} = 0") for n in (start, last, end)]
            get = lambda n: n  # noqa: E731
            put = lambda n, e: line(f"{n} = {e}", f'{n} = num("int32", {e.replace("T.min", "smaller")})')  # noqa: E731
        else:
            declare = [
                line(f'{n} = T.alloc_{self.pick(("local", "fragment"))}((1,), "int32")', f'{n} = tile((1,), "int32")')
                for n in (start, last, end)
            ]
            get = lambda n: f"{n}[0]"  # noqa: E731
            put = lambda n, e: line(f"{n}[0] = {e}", f"{n}[0] = {e.replace('T.min', 'smaller')}")  # noqa: E731
        s, w, e = get(start), get(last), get(end)
        at = f"({k} + {s} % {steps}) * {kt}"
        load = [
            self.copy(self.region(a, (f"{t} * 16", at), (16, kt), True), self.whole(x)),
            self.copy(self.region(b, (at, "0"), (kt, 16), True), self.whole(y)),
        ]
        loop = self.pick((f"T.Pipelined({e} - {s}, num_stages={self.pick((0, 2))})", f"T.serial({e} - {s})"))
        store = self.parallel(
            "ij",
            (16, 16),
            [line(f"T.atomic_add({out}[{t} * 16 + i, j], {c}[i, j])", f'atomic({out}, ({t} * 16 + i, j), {c}[i, j], "add")')],
        )
        whole = self.copy(self.whole(c), self.region(out, (f"{t} * 16", "0"), (16, 16), True))
        if self.chance(0.3):
            place = self.region(out, (f"{t} * 16", "0"), (16, 16), True)
            store = line(f"T.atomic_add({place.tile}, {c})", f'atomic_tile({place.ref}, {c}, "add")')
        if self.chance(0.3) and self.blocks == 1:
            store = block(f"if {e} % {steps} == 0:", [whole], orelse=[store], kind="if")
        body = [put(end, f"T.min({s} + {steps} - {s} % {steps}, {w})"), line(f"{t} = {s} // {steps}"), self.fill(self.whole(c)),
                block(f"for {k} in {loop}:", [*load, self.gemm(x, y, c)], f"for {k} in range({e} - {s}):"), store, put(start, e)]  # fmt: skip
        return [*declare, put(start, f"T.min(bx * {share}, {total})"), put(last, f"T.min((bx + 1) * {share}, {total})"),
                block(f"while {s} < {w}:", body, f"while going({s} < {w}):", tags={"stream-K"})]  # fmt: skip

    def online_scene(self) -> list[Stmt]:
        """Scores, their running maximum and the products of what they give, as attention does (with whole numbers)."""
        m, n, d, steps = 16, self.pick((16, 32)), 16, self.number(1, 3)
        q, kk, vv = (self.tensor(s, "float16", "in", 1) for s in ((self.blocks * m, d), (steps * n, d), (steps * n, d)))
        qs, ks, vs = (self.new_tile(s, "float16", "shared") for s in ((m, d), (n, d), (n, d)))
        s, o = self.new_tile((m, n), "float32", "fragment"), self.new_tile((m, d), "float32", "fragment")
        p = self.new_tile((m, n), "float16", self.pick(("shared", "fragment")))
        top, before = self.new_tile((m,), "float32", "fragment"), self.new_tile((m,), "float32", "fragment")
        total = self.new_tile((m,), "float32", "fragment")
        k = self.fresh("k")
        causal = self.chance(0.05)
        if causal:
            scores = [self.parallel("ij", (m, n), [line(f"{s}[i, j] = T.if_then_else(bx * {m} + i >= {k} * {n} + j, 0, -100)",
                                                        f"{s}[i, j] = 0 if bx * {m} + i >= {k} * {n} + j else -100")]), self.gemm(qs, ks, s, None, False, True)]  # fmt: skip
        else:
            scores = (
                [self.gemm(qs, ks, s, ("True", "True"), False, True)]
                if self.chance(0.5)
                else [self.fill(self.whole(s)), self.gemm(qs, ks, s, None, False, True)]
            )
        rescaled = self.chance(0.1)
        c = o if rescaled else self.new_tile((m, d), "float32", "fragment")
        scale = f"{o}[i, j] * {self.pick(('2', f'T.if_then_else({before}[i] > 20, 1, 2)'))}" if self.chance(0.6) else f"{o}[i, j]"
        body = [
            self.copy(self.region(kk, (f"{k} * {n}", "0"), (n, d)), self.whole(ks)), *scores, self.copy(self.whole(top), self.whole(before)),
            line(f"T.reduce_max({s}, {top}, dim=1, clear=False)", f'reduce("max", {s}, {top}, 1, False)', "running maximum"),
            self.parallel("i", (m,), [line(f"{top}[i] = T.max({top}[i], {before}[i])", f"{top}[i] = larger({top}[i], {before}[i])")]),
            self.parallel("ij", (m, n), [line(f"{s}[i, j] = T.if_then_else({s}[i, j] >= {top}[i], 2, 1)", f"{s}[i, j] = 2 if {s}[i, j] >= {top}[i] else 1")]),
            line(f"T.reduce_sum({s}, {before}, dim=1)", f'reduce("sum", {s}, {before}, 1)'),
            self.parallel("i", (m,), [line(f"{total}[i] = {total}[i] {self.pick(('', '* 2'))} + {before}[i]")]),
            self.copy(self.whole(s), self.whole(p)),
            *([self.parallel("ij", (m, d), [line(f"{o}[i, j] = {scale}")])] if rescaled else []),
            self.copy(self.region(vv, (f"{k} * {n}", "0"), (n, d)), self.whole(vs)), self.gemm(p, vs, c, None if rescaled else ("True", "True")),
            *([] if rescaled else [self.parallel("ij", (m, d), [line(f"{o}[i, j] = {scale} + {c}[i, j]")])]),
        ]  # fmt: skip
        body = [Stmt(x.tile, x.numpy, x.exprs, tuple(Stmt(y.tile, tuple(z.replace(f"T.if_then_else({before}[i] > 20, 1, 2)", f"(1 if {before}[i] > 20 else 2)") for z in y.numpy),
                kind=y.kind, tags=y.tags) for y in x.body), kind=x.kind, tags=x.tags) if x.body else x for x in body]  # fmt: skip
        if self.chance(0.3):
            body.insert(
                0, block(f"if {self.condition(k, steps)}:", [line(self.pick(("continue", "break")))], kind="if", tags={"early exit"})
            )
        head, ref = self.pick(((f"T.Pipelined({steps}, num_stages=2)", f"range({steps})"), (f"T.serial({steps})", f"range({steps})"),
                               (f"T.serial(T.min(bx + 1, {steps}))", f"range(min(bx + 1, {steps}))")))  # fmt: skip
        start = self.pick(("-100", "-T.infinity('float32')"))
        begin = [
            line(f"T.fill({top}, {start})", f"fill({top}, {start.replace('T.infinity(', 'float(').replace('float32', 'inf')})"),
            self.fill(self.whole(o)),
            self.fill(self.whole(total)),
        ]
        out = self.tensor((self.blocks * m, d), self.pick(("float32", "float16")), "out")
        end = [self.parallel("ij", (m, d), [line(f"{o}[i, j] = {o}[i, j] + {total}[i]")])] if self.chance(0.5) else self.show(total)
        return [self.copy(self.region(q, (f"bx * {m}", "0"), (m, d)), self.whole(qs)), *begin,
                block(f"for {k} in {head}:", body, f"for {k} in {ref}:", tags={"running maximum"}), *end, self.copy(self.whole(o), self.region(out, (f"bx * {m}", "0"), (m, d)))]  # fmt: skip
