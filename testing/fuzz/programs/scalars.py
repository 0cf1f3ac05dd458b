"""Names and scalars: variables as bounds, starts and indices, conditions on elements, tuples, lists and dicts of what changes later, macros."""

from __future__ import annotations

from ..program import Stmt
from .writer import Writer, block, line


class Scalars(Writer):
    """Scenes with scalars."""

    def shown(self, c: str, n: int, dtype: str) -> Stmt:
        """A tile of `n` elements stored for this block."""
        out = self.tensor((self.blocks, n), dtype, "out")
        return self.copy(self.whole(c), self.region(out, ("bx", "0"), (1, n), False))

    def variable(self, name: str, dtype: str, value: str) -> list[Stmt]:
        """T.alloc_var, and its first value."""
        if self.chance(0.3) and value.lstrip("-").isdigit():
            return [line(f'{name} = T.alloc_var("{dtype}", init={value})', f'{name} = num("{dtype}", {value})', "alloc_var")]
        return [line(f'{name} = T.alloc_var("{dtype}")', f"{name} = None", "alloc_var"), self.assign(name, dtype, value)]

    def assign(self, name: str, dtype: str, value: str) -> Stmt:
        """A variable changed."""
        return line(f"{name} = {value}", f'{name} = num("{dtype}", {value.replace("T.max", "larger").replace("T.min", "smaller")})')

    def late_scene(self) -> list[Stmt]:
        """What is kept in a name, a tuple, a list, a dict, a slice or a range keeps its value when its parts change."""
        c = self.new_tile((16,), "int32", "shared")
        lim = self.tensor((self.blocks,), self.pick(("int32", "int32", "int64")), "index", 6, "L")
        x = self.tensor((64,), "int32", "in", 9)
        n, v, k = self.fresh("n"), self.fresh("v"), self.fresh("k")
        out = [self.fill(self.whole(c)), *self.variable(n, "int32", "0"), *self.variable(v, "int32", f"{lim}[bx]")]
        form = self.pick(("range", "range", "slice", "tuple", "list", "dict", "elements", "start", "region", "name", "swap"))
        tag = f"late read: {form}"
        put = lambda i, e: line(f"{c}[{i}] = {e}")  # noqa: E731
        if form in ("range", "start"):
            low, high = self.pick(((v, f"{v} + 4"), (f"{v} // 2", v), ("0", v), (f"{v} - 1", f"{v} + 2"), (f"{lim}[bx]", f"{lim}[bx] + 3")))
            head = self.pick(("T.serial", "range"))
            body = [put(n, k), self.assign(n, "int32", f"{n} + 1"), self.assign(v, "int32", f"{v} {self.pick(('+ 2', '+ 1', '- 1'))}")]
            if form == "start":
                a, b = self.fresh("a"), self.fresh("b")
                out += [line(f"{a} = {low}"), line(f"{b} = {high}"), self.assign(v, "int32", f"{v} + 1")]
                low, high = a, b
            out += [block(f"for {k} in {head}({low}, {high}):", body, f"for {k} in range({low}, {high}):", tags={tag}), put(15, v)]
        elif form in ("slice", "region"):
            t = self.fresh("t")
            ref = f"part({x}, ({v},), (16,))"
            if form == "slice":
                out += [
                    line(f"{t} = {x}[{v}:{v} + 16]", f"{t} = {ref}", tag),
                    self.assign(v, "int32", f"{v} + 20"),
                    line(f"T.copy({t}, {c})", f"copy({t}, {c})"),
                ]
            else:
                s = self.new_tile((16,), "int32")
                out += [
                    line(f"T.copy({x}[{v}:{v} + 16], {s})", f"copy({ref}, {s})", tag),
                    self.assign(v, "int32", f"{v} + 20"),
                    self.copy(self.whole(s), self.whole(c)),
                ]
        elif form in ("tuple", "list", "dict", "name"):
            p = self.fresh("p")
            kept = self.pick((v, f"{lim}[bx] + 1", f"{x}[{v}]", f"{c}[2]"))
            more = {"tuple": f"({v}, {kept})", "list": f"[{v}, {kept}]", "dict": f'{{"a": {v}, "b": {kept}}}', "name": f"{v} + {kept}"}[
                form
            ]
            get = {"tuple": ("[0]", "[1]"), "list": ("[0]", "[1]"), "dict": ('["a"]', '["b"]'), "name": ("", "")}[form]
            out.append(line(f"{p} = {more}", "", tag))
            if self.chance(0.5):
                turns = self.number(1, 3)
                body = [self.assign(v, "int32", f"{v} + {self.pick((k, '5'))}"), put(2, v)]
                out.append(block(f"for {k} in T.serial({turns}):", body, f"for {k} in range({turns}):", tags={tag}))
            else:
                out += [self.assign(v, "int32", f"{v} + 7"), put(2, v)]
            out += [put(0, p + get[0]), put(1, p + get[1]), put(3, v)]
        elif form == "elements":
            p, q = self.fresh("p"), self.fresh("q")
            out += [self.copy(self.region(x, ("0",), (16,)), self.whole(c)), line(f"{p} = [{c}[{q}] for {q} in range(4)]", "", tag),
                    block(f"for {q} in range(4):", [put(q, f"{p}[3 - {q}]")])]  # fmt: skip
        else:
            w = self.fresh("w")
            out += [*self.variable(w, "int32", "1"),
                    block(f"for {k} in T.serial(4):", [line(f"{v}, {w} = {w}, {v} + {w}", f'{v}, {w} = num("int32", {w}), num("int32", {v} + {w})', tag), put(k, v)], f"for {k} in range(4):"),
                    put(9, w)]  # fmt: skip
        return [*out, self.shown(c, 16, "int32")]

    def element_scene(self) -> list[Stmt]:
        """Conditions, loops and stores on single elements of a tile."""
        dtype = self.pick(("float32", "float32", "int32", "float16"))
        n = self.pick((8, 16, 24))
        x = self.tensor((self.blocks, n), dtype, "in", 4)
        s = self.new_tile((n,), dtype, self.pick(("shared", "shared", "fragment")))
        out = [self.copy(self.region(x, ("bx", "0"), (1, n), False), self.whole(s))]
        for _ in range(self.number(1, 4)):
            out += self.element_step(s, n, dtype)
        return [*out, self.shown(s, n, dtype)]

    def element_test(self, s: str, n: int, v: str = "") -> str:
        """A condition on elements; the same in both languages."""
        i, j = self.number(0, 3), self.number(4, 7)
        return self.pick(
            (
                f"{s}[{i}] > 0",
                f"{s}[{i}] > {s}[{j}]",
                f"{s}[{i}] == {s}[{j}]",
                f"{s}[bx] < 1",
                f"{s}[{n - 1}] != 0",
                *([f"{v} > {s}[{j}]"] if v else []),
            )
        )

    def element_step(self, s: str, n: int, dtype: str, deep: bool = False) -> list[Stmt]:
        i, j, v, k = self.number(0, 3), self.number(4, 7), self.fresh("v"), self.fresh("k")
        kinds = ["if", "if", "nest", "store", "swap", "reverse"]
        if not deep:
            kinds += ["while", "sort", "var", "reduce", "for", "count"]
        kind = self.pick(kinds)
        nest = self.parallel("i", (n,), [line(f"{s}[i] = {s}[i] {self.pick(('+ 1', '- 1', '* 2'))}")])
        one = line(f"{s}[{j}] = {self.pick(('3', s + '[' + str(i) + ']', s + '[' + str(i) + '] + 1'))}")
        if kind == "if":
            body = [self.pick((nest, one))] if deep else self.element_step(s, n, dtype, True)
            orelse = [self.pick((nest, one, self.fill(self.whole(s))))] if self.chance(0.3) else ()
            return [block(f"if {self.element_test(s, n)}:", body, orelse=orelse, kind="if", tags={"condition on elements"})]
        if kind == "nest":
            return [nest]
        if kind == "store":
            return [one]
        if kind == "swap":
            return [line(f"{s}[{i}], {s}[{j}] = {s}[{j}], {s}[{i}]", "", "swap of elements")]
        if kind == "reverse":
            d = self.new_tile((n,), dtype)
            return [self.parallel("i", (n,), [line(f"{d}[i] = {s}[{n - 1} - i]")]), self.copy(self.whole(d), self.whole(s))]
        if kind == "while":
            step = self.pick((f"{s}[{i}] = {s}[{i}] - 1", f"{s}[{i}] -= 2"))
            body = [line(step), *([nest] if self.chance(0.3) else [])]
            test = f"{s}[{i}] > {self.pick(('0', '1', f'{s}[{j}]'))}"
            return [block(f"while {test}:", body, f"while going({test}):", tags={"while on an element"})]
        if kind == "sort":
            swap = line(f"{s}[{k}], {s}[{k} + 1] = {s}[{k} + 1], {s}[{k}]") if self.chance(0.5) else line(f"{s}[{k}] = {s}[{k} + 1]")
            return [
                block(
                    f"for {k} in T.serial({n - 1}):",
                    [block(f"if {s}[{k}] > {s}[{k} + 1]:", [swap], kind="if", tags={"condition on elements"})],
                    f"for {k} in range({n - 1}):",
                )
            ]
        if kind == "var":
            after = self.pick((self.parallel("i", (n,), [line(f"{s}[i] = {s}[i] + {v}")]), line(f"{s}[{j}] = {v} + {s}[{i}]"),
                               block(f"if {self.element_test(s, n, v)}:", [one], kind="if")))  # fmt: skip
            first = [line(f"{v} = {s}[{i}]")] if self.chance(0.4) else self.variable(v, dtype, f"{s}[{i}]")
            return [*first, *([nest] if self.chance(0.5) else []), after]
        if kind == "reduce":
            m = self.new_tile((1,), dtype, "fragment")
            which = self.pick(("max", "min"))
            return [line(f"T.reduce_{which}({s}, {m}, dim=0)", f'reduce("{which}", {s}, {m}, 0)'),
                    block(f"if {m}[0] > 1:", [nest], kind="if", tags={"condition on a reduction"})]  # fmt: skip
        if kind == "count":
            return [*self.variable(v, "int32", "0"),
                    block(f"for {k} in T.serial({n}):", [block(f"if {s}[{k}] > 0:", [self.assign(v, "int32", f"{v} + 1")], kind="if")], f"for {k} in range({n}):"),
                    block(f"if {v} > 3:", [nest], kind="if", tags={"condition on a count"})]  # fmt: skip
        q = self.pick(
            (
                f"{s}[{k}] = {s}[{k}] + {s}[{k} - 1]",
                f"{s}[{k}] = {s}[{n - 1} - {k}]",
                f"{s}[{k}] += {k}" if dtype == "int32" else f"{s}[{k}] += 1",
            )
        )
        return [block(f"for {k} in T.serial(1, {n}):", [line(q)], f"for {k} in range(1, {n}):", tags={"serial loop over elements"})]

    def walk_scene(self) -> list[Stmt]:
        """Copies whose regions start at a variable that changes."""
        n, steps = int(self.pick((8, 16, 20))), self.number(2, 4)
        dtype = self.pick(("float32", "float32", "float16", "int32"))
        a = self.tensor((self.blocks * steps * n + n,), dtype, "in", 4)
        c = self.tensor((self.blocks, steps, n), dtype, "out")
        s, f = self.new_tile((n,), dtype, "shared"), self.new_tile((n,), dtype)
        v, k = self.fresh("v"), self.fresh("k")
        at = self.at_block(steps * n)
        load = self.copy(self.region(a, (v,), (n,), self.chance(0.4)), self.whole(s))
        move = self.assign(v, "int32", f"{v} + {n}")
        mid = [self.copy(self.whole(s), self.whole(f))] if self.chance(0.7) else [self.parallel("i", (n,), [line(f"{f}[i] = {s}[i]")])]
        use = self.parallel("i", (n,), [line(f"{f}[i] = {f}[i] {self.pick(('* 2', '+ 1', '- 1'))}")])
        store = self.copy(self.whole(f), self.region(c, ("bx", k, "0"), (1, 1, n), False))
        body = [load, move, *mid, use, store]
        if self.chance(0.5):
            body = [load, *mid, *self.pick(([use, move], [move, use])), store]
        if self.chance(0.25):
            body.insert(
                self.number(1, len(body) - 1),
                block(
                    f"if {self.pick((f'{k} == 1', f'{v} > {n}', f'{s}[0] > 0'))}:",
                    [self.pick((move, line("continue"), line("break")))],
                    kind="if",
                ),
            )
        if self.chance(0.3):
            body.append(self.copy(self.whole(s), self.region(c, ("bx", k, "0"), (1, 1, n), False)))
        w = (
            []
            if self.chance(0.7)
            else [self.parallel("i", (n,), [line(f"{s}[i] = {s}[i] + {v}" if dtype == "int32" else f"{s}[i] = {s}[i] + 1")])]
        )
        body += w
        return [
            *self.variable(v, "int32", at),
            block(
                f"for {k} in {self.pick(('T.serial', 'T.serial', 'range'))}({steps}):",
                body,
                f"for {k} in range({steps}):",
                tags={"region from a variable"},
            ),
        ]

    def macro_scene(self) -> list[Stmt]:
        """Macros: on tiles, with Python numbers, calling each other and themselves."""
        n = int(self.pick((8, 16, 32)))
        dtype = self.pick(("float32", "int32", "float16"))
        x = self.tensor((self.blocks, n), dtype, "in", 3)
        s = self.new_tile((n,), dtype, "shared")
        f = self.fresh("g")
        load = self.copy(self.region(x, ("bx", "0"), (1, n), False), self.whole(s))
        form = self.pick(("tree", "plain", "value", "nested"))
        show = self.shown(s, n, dtype)
        if form == "tree":
            nest = block("for i in T.Parallel(n // 2):", [line("s[i] = s[i] + s[i + n // 2]")], "for i in parallel(n // 2):")
            self.prelude.append(
                block(f"def {f}(s, n):", [block("if n > 1:", [nest, line(f"{f}(s, n // 2)")], kind="if")], tags={"recursive macro"})
            )
            call = [line(f"{f}({s}, {n})", "", "recursive macro")]
        elif form == "plain":
            nest = block(f"for i in T.Parallel({n}):", [line("s[i] = s[i] + a")], f"for i in parallel({n}):")
            self.prelude.append(block(f"def {f}(s, a):", [nest]))
            call = [line(f"{f}({s}, {self.pick(('1', '2', 'bx', s + '[0]') if dtype == 'int32' else ('1', '2', s + '[0]'))})", "", "macro")]
            k = self.fresh("k")
            if self.chance(0.5):
                call = [block(f"for {k} in T.serial(2):", call, f"for {k} in range(2):")]
        elif form == "value":
            self.prelude.append(block(f"def {f}(a, b):", [line("return a * 2 + b")]))
            call = [self.parallel("i", (n,), [line(f"{s}[i] = {f}({s}[i], {x}[bx, {n - 1} - i])", "", "macro with a value")])]
        else:
            g = self.fresh("g")
            nest = block(f"for i in T.Parallel({n}):", [line("s[i] = s[i] * 2 + d")], f"for i in parallel({n}):")
            self.prelude.append(block(f"def {f}(s, d):", [nest]))
            self.prelude.append(block(f"def {g}(s, c):", [block("for r in T.serial(2):", [line(f"{f}(s, c)")], "for r in range(2):")]))
            call = [line(f"{g}({s}, {self.pick(('1', '3'))})", "", "macro")]
        return [load, *call, show]
