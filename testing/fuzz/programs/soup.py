"""Statements of all kinds on a few tiles, nested at random."""

from __future__ import annotations

from ..program import Stmt
from .writer import Writer, block, line


class Soup(Writer):
    """Scenes of random statements: copies that overlap, tiles that are written again, under loops and conditions."""

    def soup_scene(self) -> list[Stmt]:
        """Tiles with values, statements on them, all tiles shown in the end."""
        dtype = self.pick(("float32", "float32", "float32", "float16", "int32", "bfloat16", "int16"))
        rows, width = int(self.pick((8, 12, 16, 16))), int(self.pick((16, 16, 20, 32)))
        self.pool = [self.new_tile((rows, width), dtype) for _ in range(self.number(2, 3))]
        self.vectors = [self.new_tile((rows,), dtype) for _ in range(self.number(1, 2))]
        self.sources = [self.tensor((self.blocks * rows * 3, width), dtype, "in", 2)]
        self.outs = [self.tensor((self.blocks * rows, width), dtype, "out", 2)]
        self.sizes = (rows, width)
        self.dtype = dtype
        self.vars: list[str] = []
        out: list[Stmt] = []
        for t in self.pool:
            if self.chance(0.92):
                out.append(self.load(t))
        out += [self.fill(self.whole(v), self.number(0, 2)) for v in self.vectors]
        if self.chance(0.5):
            v = self.fresh("v")
            out += [line(f'{v} = T.alloc_var("int32")', f"{v} = 0", "alloc_var"), line(f"{v} = {self.pick(('0', '1', 'bx'))}")]
            self.vars.append(v)
        out += self.some(self.number(3, 7), 0)
        for t in self.pool:
            out += self.show(t)
        if self.chance(0.5):
            out += [s for v in self.vectors for s in self.show(v)]
        return out

    def load(self, t: str) -> Stmt:
        rows, width = self.sizes
        start = self.pick(("0", str(rows), *(f"{k} * {rows}" for k in self.loops), *(f"{v} * {self.pick((rows, 2))}" for v in self.vars)))
        return self.copy(self.region(self.sources[0], (self.at_block(rows * 3, start), "0"), (rows, width)), self.whole(t))

    def some(self, count: int, depth: int) -> list[Stmt]:
        return [s for _ in range(count) for s in self.one(depth)]

    def test(self) -> str:
        """A run-time condition."""
        t, v = self.pick(self.pool), self.pick(self.vectors)
        tests = [
            "bx == 0",
            f"{t}[0, {self.number(0, 3)}] > 0",
            f"{v}[{self.number(0, 3)}] > {v}[{self.number(4, 7)}]",
            f"{self.sources[0]}[bx, 0] > 0",
        ]
        tests += [f"{k} {self.pick(('== 0', '< 1', '> 0', '% 2 == 1'))}" for k in self.loops for _ in range(2)]
        tests += [f"{x} {self.pick(('> 1', '== 0', '< 2'))}" for x in self.vars]
        return self.pick(tests)

    def one(self, depth: int) -> list[Stmt]:
        """A statement."""
        rows, width = self.sizes
        kinds = (
            ["nest"] * 4
            + ["copy"] * 2
            + ["part", "part", "row", "load", "store", "fill", "reduce", "scan", "broadcast", "element", "inplace", "atomic"]
        )
        if self.vars:
            kinds += ["var", "var", "at var"]
        if depth < 2:
            kinds += ["if", "if", "for", "for", "while"]
        if self.loops:
            kinds += ["exit"]
        kind = self.pick(kinds)
        a, b, v = self.pick(self.pool), self.pick(self.pool), self.pick(self.vectors)
        const = self.number(1, 2)
        if kind == "nest":
            shift = self.pick(("i, j", "i, j", "i, j", f"{rows - 1} - i, j", f"i, {width - 1} - j", f"i, (j + 1) % {width}"))
            c = self.pick(self.pool)
            expr = self.pick((f"{b}[{shift}] + {const}", f"{b}[{shift}] - {c}[i, j]", f"{b}[{shift}] + {v}[i]", f"T.max({b}[{shift}], {c}[i, j])",
                              f"T.if_then_else({b}[{shift}] > {const}, {c}[i, j], {v}[i])", f"-{b}[{shift}]"))  # fmt: skip
            ref = expr.replace("T.max", "larger")
            if "if_then_else" in expr:
                ref = f"choice({b}[{shift}] > {const}, lambda: {c}[i, j], lambda: {v}[i])"
            store = line(f"{a}[i, j] = {expr}", f"{a}[i, j] = {ref}")
            if self.chance(0.25):
                store = block(
                    f"if {self.pick(('i < 5', 'j >= 3', f'{v}[i] > 0', f'{a}[i, j] > 0', 'i == j'))}:",
                    [store],
                    kind="if",
                    tags={"store under a condition"},
                )
            return [self.parallel("ij", (rows, width), [store])]
        if kind == "copy" and a != b:
            return [self.copy(self.whole(a), self.whole(b))]
        if kind == "part":
            n = self.pick((rows // 2, rows // 2, 4, rows - 1))
            at, to = self.number(0, rows - n), self.number(0, rows - n)
            if self.chance(0.3) and width % 16 == 0:
                n = self.pick((8, 16))
                at, to = self.number(0, (width - n) // 8) * 8, self.number(0, (width - n) // 8) * 8
                return [self.copy(self.region(a, ("0", str(at)), (rows, n), False), self.region(b, ("0", str(to)), (rows, n), False))]
            return [self.copy(self.region(a, (str(at), "0"), (n, width), False), self.region(b, (str(to), "0"), (n, width), False))]
        if kind == "row":
            start = self.pick((str(self.number(0, rows - 1)), *(self.loops), *(x for x in self.vars)))
            return [
                self.copy(
                    self.region(a, (start, "0"), (1, width), False),
                    self.region(b, (str(self.number(0, rows - 1)), "0"), (1, width), False),
                    "row of a tile",
                )
            ]
        if kind == "load":
            return [self.load(a)]
        if kind == "store":
            o = self.pick(self.outs)
            place = self.region(o, (f"bx * {rows}", "0"), (rows, width))
            if self.chance(0.4):
                return [self.copy(place, self.whole(a), "store and load of a tensor")]
            return [self.copy(self.whole(a), place, "store and load of a tensor")]
        if kind == "fill":
            if self.chance(0.5):
                n = self.number(1, rows - 1)
                return [self.fill(self.region(a, (str(self.number(0, rows - n)), "0"), (n, width), False), const)]
            return [self.fill(self.whole(self.pick((a, v))), self.pick((0, const)))]
        if kind == "reduce":
            which, clear = self.pick(("sum", "max", "min")), self.chance(0.7)
            return [
                line(
                    f"T.reduce_{which}({a}, {v}, dim=1{'' if clear else ', clear=False'})",
                    f'reduce("{which}", {a}, {v}, 1, {clear})',
                    "reduce in a soup",
                )
            ]
        if kind == "scan":
            which, dim = self.pick(("max", "max", "sum")), self.number(0, 1)
            target = f", {b}" if a != b else ""
            return [line(f"T.cum{which}({a}{target}, dim={dim})", f'scan("{which}", {a}, {b}, {dim}, False)')]
        if kind == "broadcast":
            return [self.parallel("ij", (rows, width), [line(f"{a}[i, j] = {v}[i]")])]
        if kind == "element":
            x = self.pick((f"{a}[{self.number(0, 3)}, {self.number(0, 7)}] = {b}[{self.number(0, 3)}, {self.number(0, 7)}] + 1", f"{v}[{self.number(0, 3)}] = {const}",
                           f"{v}[{self.number(0, 3)}] = {a}[{self.number(0, 3)}, 0]"))  # fmt: skip
            return [line(x, "", "element of a tile stored")]
        if kind == "inplace":
            return [self.parallel("i", (rows,), [line(f"{v}[i] = {v}[i] + {a}[i, {self.number(0, width - 1)}]")])]
        if kind == "atomic":
            return [
                self.parallel(
                    "ij",
                    (rows, width),
                    [line(f"T.atomic_add({v}[i], {a}[i, j])", f'atomic({v}, (i,), {a}[i, j], "add")', "atomic_add on tile element")],
                )
            ]
        if kind == "var":
            x = self.pick(self.vars)
            e = self.pick((f"{x} + 1", f"({x} + 1) % 3", "0", *self.loops))
            return [line(f"{x} = {e}", f'{x} = num("int32", {e})')]
        if kind == "at var":
            x = self.pick(self.vars)
            return [line(f"{v}[{x}] = {v}[{x}] + {const}", "", "variable as an index")] if self.chance(0.5) else [
                self.parallel("j", (width,), [line(f"{a}[{x}, j] = {b}[{self.number(0, rows - 1)}, j]", "", "variable as an index")])]  # fmt: skip
        if kind == "if":
            return [
                block(
                    f"if {self.test()}:",
                    self.some(self.number(1, 2), depth + 1),
                    orelse=self.some(1, depth + 1) if self.chance(0.3) else (),
                    kind="if",
                    tags={"condition in a soup"},
                )
            ]
        if kind == "for":
            k, n = self.fresh("k"), self.number(2, 3)
            head = self.pick((f"T.serial({n})", f"T.serial({n})", f"T.Pipelined({n}, num_stages=2)", f"range({n})"))
            ref = f"range({n})"
            if self.chance(0.2):
                lens = self.tensor((self.blocks,), "int32", "index", 3, "L")
                head, ref = f"T.serial({lens}[bx])", f"range({lens}[bx])"
            with self.inside(k):
                return [
                    block(f"for {k} in {head}:", self.some(self.number(1, 4), depth + 1), f"for {k} in {ref}:", tags={"loop in a soup"})
                ]
        if kind == "while":
            k = self.fresh("k")
            start = [line(f'{k} = T.alloc_var("int32")', f"{k} = 0"), line(f"{k} = 0")]
            loops, self.loops = self.loops, []
            body = self.some(self.number(1, 2), depth + 1)
            self.loops = loops
            test = f"{k} < {self.pick(('2', '3', 'bx'))}"
            return [*start, block(f"while {test}:", [*body, line(f"{k} = {k} + 1")], f"while going({test}):", tags={"while in a soup"})]
        if kind == "exit":
            jump = line(self.pick(("break", "continue")))
            if self.chance(0.5):
                return [block(f"if {self.test()}:", [jump], kind="if", tags={"early exit"})]
            work = self.some(self.number(1, 2), 2)
            other = self.some(1, 2) if self.chance(0.6) else ()
            return [block(f"if {self.test()}:", [*work, jump], orelse=other, kind="if", tags={"early exit", "work in front of a jump"})]
        return []
