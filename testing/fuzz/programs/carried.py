"""Values carried from iteration to iteration: through GM, tiles and variables, inside and outside of T.Parallel."""

from __future__ import annotations

from ..program import Stmt
from .writer import Writer, block, line

SIZES = (4, 5, 8, 12, 16, 17)


class Carried(Writer):
    """Scenes with recurrences."""

    def carrier(self, rows: int, steps: int, turned: bool, dtype: str):
        """Memory of rows x steps (turned: steps x rows) that carries, with how `(row, step)` is spelled, what fills it and what shows it."""
        kind = self.pick(("GM", "GM", "GM", "shared", "fragment"))
        shape = (steps, rows) if turned else (rows, steps)
        if kind == "GM":
            whole = (steps, self.blocks * rows) if turned else (self.blocks * rows, steps)
            name = self.tensor(whole, dtype, "out", 2, "C")
            own = f"bx * {rows} + "
            spell = (lambda r, k: f"{name}[{k}, {own}{r}]") if turned else (lambda r, k: f"{name}[{own}{r}, {k}]")
            return spell, [], [], kind
        name = self.new_tile(shape, dtype, kind)
        spell = (lambda r, k: f"{name}[{k}, {r}]") if turned else (lambda r, k: f"{name}[{r}, {k}]")
        x = self.tensor((self.blocks * shape[0], shape[1]), dtype, "in", 2)
        load = self.copy(self.region(x, (f"bx * {shape[0]}", "0"), shape), self.whole(name))
        return spell, [load], self.show(name), kind

    def source(self, rows: int, steps: int, dtype: str):
        """A matrix that is only read: how its element is spelled, and what loads it."""
        whole = (self.blocks * rows, steps)
        x = self.tensor(whole, dtype, "in", 2)
        if self.chance(0.6):
            return (lambda r, k: f"{x}[bx * {rows} + {r}, {k}]"), []
        t = self.new_tile((rows, steps), dtype)
        return (lambda r, k: f"{t}[{r}, {k}]"), [self.copy(self.region(x, (f"bx * {rows}", "0"), (rows, steps)), self.whole(t))]

    def recurrence_scene(self) -> list[Stmt]:
        """A T.Parallel over rows with a serial loop in it, which reads what earlier iterations wrote."""
        rows, steps = int(self.pick((8, 16, 16, 24, 32))), int(self.pick(SIZES))
        dtype = self.pick(("float32", "float32", "float32", "int32", "float16"))
        turned = self.chance(0.4)
        c, load_c, show_c, kind = self.carrier(rows, steps, turned, dtype)
        a, load_a = self.source(rows, steps, dtype)
        k = self.fresh("k")
        tag = "recurrence through GM" if kind == "GM" else "recurrence through a tile"
        form = self.pick(
            ("scan", "scan", "scan", "back", "sort", "solve", "while", "probe", "var", "two", "unroll", "mixed", "compact", "state")
        )
        body: list[Stmt] = []
        after: list[Stmt] = []
        op = self.pick(("{} + {}", "{} - {}", "{} * 0.5 + {}" if dtype == "float32" and steps < 13 else "{} + {}", "T.max({}, {})"))
        combine = lambda x, y: (op.format(x, y), op.format(x, y).replace("T.max", "larger"))  # noqa: E731

        def step(target, *parts):
            tile, ref = combine(*parts)
            return line(f"{target} = {tile}", f"{target} = {ref}")

        def cond(s: Stmt) -> Stmt:
            """A statement, perhaps under a condition on the data or the step."""
            if self.chance(0.7):
                return s
            return block(
                f"if {self.pick((a('i', k) + ' > 0', k + ' % 2 == 0', 'i > 3', c('i', k) + ' != 0'))}:",
                [s],
                kind="if",
                tags={"step under a condition"},
            )

        if form in ("scan", "unroll"):
            body.append(line(f"{c('i', '0')} = {a('i', '0')}"))
            if self.chance(0.5) or form == "unroll":
                head = f"T.unroll({steps - 1})" if form == "unroll" else f"T.serial({steps - 1})"
                inner = [cond(step(c("i", f"{k} + 1"), c("i", k), a("i", f"{k} + 1")))]
                body.append(block(f"for {k} in {head}:", inner, f"for {k} in range({steps - 1}):", tags={tag}))
            else:
                inner = [cond(step(c("i", k), c("i", f"{k} - 1"), a("i", k)))]
                if self.chance(0.2):
                    inner.append(
                        block(
                            f"if {c('i', k)} > 5:", [line(self.pick(("break", "continue")))], kind="if", tags={"early exit in T.Parallel"}
                        )
                    )
                body.append(
                    block(
                        f"for {k} in {self.pick(('T.serial', 'range'))}(1, {steps}):", inner, f"for {k} in range(1, {steps}):", tags={tag}
                    )
                )
        elif form == "back":
            inner = [cond(step(c("i", f"{steps - 2} - {k}"), c("i", f"{steps - 1} - {k}"), c("i", f"{steps - 2} - {k}")))]
            if self.chance(0.5):
                body.append(block(f"for {k} in T.serial({steps - 1}):", inner, f"for {k} in range({steps - 1}):", tags={tag, "backward"}))
            else:
                inner = [cond(step(c("i", k), c("i", f"{k} + 1"), c("i", k)))]
                head = f"for {k} in range({steps - 2}, -1, -1):"
                body.append(block(head, inner, tags={tag, "backward"}))
        elif form == "sort":
            p, t = self.fresh("p"), self.fresh("t")
            bound = self.pick((str(steps - 1), f"{steps - 1} - {p}"))
            swap = [line(f"{t} = {c('i', k)}"), line(f"{c('i', k)} = {c('i', k + ' + 1')}"), line(f"{c('i', k + ' + 1')} = {t}")]
            if self.chance(0.3):
                swap = [line(f"{c('i', k)}, {c('i', k + ' + 1')} = {c('i', k + ' + 1')}, {c('i', k)}")]
            inner = block(f"if {c('i', k)} > {c('i', k + ' + 1')}:", swap, kind="if", tags={"swap"})
            body.append(block(f"for {p} in T.serial({steps - 1}):", [block(f"for {k} in T.serial({bound}):", [inner], f"for {k} in range({bound}):", tags={tag})],
                              f"for {p} in range({steps - 1}):"))  # fmt: skip
        elif form == "solve":
            p = self.fresh("p")
            low = self.tensor((steps, steps), dtype, "in", 1)
            first = line(f"{c('i', p)} = {a('i', p)}")
            inner = line(f"{c('i', p)} = {c('i', p)} - {low}[{p}, {k}] * {c('i', k)}")
            triangle = block(f"for {k} in T.serial({p}):", [inner], f"for {k} in range({p}):", tags={tag, "triangular loop"})
            body.append(block(f"for {p} in T.serial({steps}):", [first, triangle], f"for {p} in range({steps}):"))
        elif form == "while":
            body += [line(f'{k} = T.alloc_var("int32")', f"{k} = 0"), line(f"{k} = 1"), line(f"{c('i', '0')} = {a('i', '0')}")]
            inner = [step(c("i", k), c("i", f"{k} - 1"), a("i", k)), line(f"{k} = {k} + 1")]
            more = self.pick(("", f" and {c('i', k + ' - 1')} < 4"))
            tile = f"T.And({k} < {steps}, {c('i', k + ' - 1')} < 4)" if more else f"{k} < {steps}"
            body.append(block(f"while {tile}:", inner, f"while going({k} < {steps}{more}):", tags={tag, "while in T.Parallel"}))
        elif form == "probe":
            inner = [block(f"if {c('i', k)} {self.pick(('== 0', '< 0', '> 1'))}:", [line(f"{c('i', k)} = {a('i', k)}"), line("break")], kind="if",
                           tags={"early exit in T.Parallel"})]  # fmt: skip
            body.append(block(f"for {k} in T.serial({steps}):", inner, f"for {k} in range({steps}):", tags={tag}))
            d = self.tensor((self.blocks * rows,), dtype, "out")
            body.append(line(f"{d}[bx * {rows} + i] = {c('i', '0')}"))
        elif form == "var":
            m = self.fresh("m")
            body += [line(f'{m} = T.alloc_var("{dtype}")', f"{m} = 0"), line(f"{m} = 0", f'{m} = num("{dtype}", 0)')]
            inner = [line(f"{m} = {m} + {a('i', k)}", f'{m} = num("{dtype}", {m} + {a("i", k)})'), cond(line(f"{c('i', k)} = {m}"))]
            if self.chance(0.3):
                inner.insert(1, block(f"if {m} < 0:", [line(f"{m} = 0", f'{m} = num("{dtype}", 0)')], kind="if"))
            body.append(
                block(f"for {k} in T.serial({steps}):", inner, f"for {k} in range({steps}):", tags={"variable carried in T.Parallel"})
            )
        elif form == "two":
            d = self.tensor((self.blocks * rows, steps), dtype, "out", 2, "D")
            at = lambda q: f"{d}[bx * {rows} + i, {q}]"  # noqa: E731
            inner = [step(c("i", f"{k} + 1"), c("i", k), at(k)), step(at(f"{k} + 1"), at(k), c("i", f"{k} + 1"))]
            body.append(
                block(f"for {k} in T.serial({steps - 1}):", inner, f"for {k} in range({steps - 1}):", tags={tag, "two recurrences"})
            )
        elif form == "mixed":
            body.append(line(f"{c('(i // 4) * 4 + i % 4', '0')} = {a('i', '0')} * 2"))
            d = self.tensor((self.blocks * rows,), dtype, "out")
            body.append(line(f"{d}[bx * {rows} + i] = {c('i', '0')} + 1", "", "element by two spellings"))
            if self.chance(0.5):
                body.append(line(f"{c('i', '0')} = {c('i', '0')} + {c('i', '1')}"))
        elif form == "compact":
            pos = self.fresh("p")
            body += [line(f'{pos} = T.alloc_var("int32")', f"{pos} = 0"), line(f"{pos} = 0")]
            inner = [
                block(
                    f"if {a('i', k)} > 0:",
                    [line(f"{c('i', pos)} = {a('i', k)}"), line(f"{pos} = {pos} + 1")],
                    kind="if",
                    tags={"variable as index of a store"},
                )
            ]
            body.append(block(f"for {k} in T.serial({steps}):", inner, f"for {k} in range({steps}):"))
        else:
            d = self.tensor((self.blocks * rows, steps), dtype, "in", 1)
            inner = [line(f"{c('i', k + ' + 1')} = {c('i', k)} * {d}[bx * {rows} + i, {k}] + {c('i', k + ' + 1')}")]
            body.append(block(f"for {k} in T.serial({steps - 1}):", inner, f"for {k} in range({steps - 1}):", tags={tag, "state passing"}))
        if self.chance(0.25):
            d = self.tensor((self.blocks * rows,), dtype, "out")
            body.append(line(f"{d}[bx * {rows} + i] = {c('i', str(steps - 1))}"))
        if self.chance(0.15):
            after = [self.parallel("i", (rows,), [line(f"{c('i', '0')} = {c('i', '0')} + {c('i', str(steps - 1))}")])]
        if self.chance(0.2):
            body = [
                block(
                    f"if {self.pick(('i < ' + str(rows - 3), 'i % 2 == 0', a('i', '0') + ' >= 0'))}:",
                    body,
                    kind="if",
                    tags={"recurrence under a condition"},
                )
            ]
        return [*load_c, *load_a, self.parallel("i", (rows,), body, f"recurrence: {form}"), *after, *show_c]

    def rows_scene(self) -> list[Stmt]:
        """A serial loop over rows or tiles of GM around T.Parallel: each turn reads what the last one wrote."""
        steps, width = self.number(2, 5), int(self.pick((16, 16, 20, 32)))
        dtype = self.pick(("float32", "float32", "int32", "float16"))
        k = self.fresh("k")
        c = self.tensor((self.blocks, steps + 1, width), dtype, "out", 2, "C")
        x = self.tensor((steps, width), dtype, "in", 2)
        form = self.pick(("nest", "nest", "tile", "tile slice", "copy", "fragment", "ping"))
        if form == "nest":
            inner = [
                self.parallel(
                    "i",
                    (width,),
                    [
                        line(
                            f"{c}[bx, {k} + 1, i] = {c}[bx, {k}, {self.pick(('i', 'i', f'{width - 1} - i', f'(i + 1) % {width}'))}] + {x}[{k}, i]"
                        )
                    ],
                )
            ]
            before, after = [], []
        elif form == "ping":
            t, u = self.new_tile((width,), dtype), self.new_tile((width,), dtype)
            before = [self.copy(self.region(c, ("bx", "0", "0"), (1, 1, width), False), self.whole(t))]
            inner = [
                self.parallel("i", (width,), [line(f"{u}[i] = {t}[{width - 1} - i] + {x}[{k}, i]")]),
                self.copy(self.whole(u), self.whole(t)),
            ]
            after = [self.copy(self.whole(t), self.region(c, ("bx", str(steps), "0"), (1, 1, width), False))]
        elif form == "fragment":
            t = self.new_tile((width,), dtype)
            before = [self.fill(self.whole(t), self.number(0, 2))]
            inner = [
                self.parallel("i", (width,), [line(f"{t}[i] = {t}[i] + {x}[{k}, i]")]),
                self.copy(self.whole(t), self.region(c, ("bx", f"{k} + 1", "0"), (1, 1, width), False)),
            ]
            after = []
        else:
            t = self.new_tile((width,), dtype)
            inner = [self.copy(self.region(c, ("bx", k, "0"), (1, 1, width), False), self.whole(t)),
                     self.parallel("i", (width,), [line(f"{t}[i] = {t}[i] + {x}[{k}, i]")]),
                     self.copy(self.whole(t), self.region(c, ("bx", f"{k} + 1", "0"), (1, 1, width), False))]  # fmt: skip
            before, after = [], []
            if form == "copy":
                inner = [
                    self.copy(
                        self.region(c, ("bx", k, "0"), (1, 1, width), False), self.region(c, ("bx", f"{k} + 1", "0"), (1, 1, width), False)
                    )
                ]
        if self.chance(0.25):
            guard = self.pick((f"{k} == 1", f"{k} >= {self.tensor((self.blocks,), 'int32', 'index', steps + 1, 'L')}[bx]", f"bx < {k}"))
            inner.insert(0, block(f"if {guard}:", [line(self.pick(("break", "continue")))], kind="if", tags={"early exit"}))
        head = self.pick(
            (f"T.serial({steps})", f"T.Pipelined({steps}, num_stages=2)" if form in ("fragment", "ping") else f"range({steps})")
        )
        return [*before, block(f"for {k} in {head}:", inner, f"for {k} in range({steps}):", tags={f"rows through GM: {form}"}), *after]
