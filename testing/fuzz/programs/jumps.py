"""Rows of tensors that are stored, loaded and made by products around `break` and `continue`."""

from __future__ import annotations

from ..program import Stmt
from .writer import Writer, block, line

ROWS = 3
"""Rows, or matrices, of the tensor for each block."""


class Jumps(Writer):
    """Scenes in which a flag that is missing behind a jump leaves two accesses to a tensor, or to a tile, without an order."""

    def jump_scene(self) -> list[Stmt]:
        """A loop that may leave its iterations, and everything its statements touch used again behind it."""
        self.height = 16 if self.chance(0.4) else 1
        self.row_width = 16 if self.height > 1 else int(self.pick((16, 32, 64)))
        self.most_steps = self.number(2, 6)
        shape = (self.height, self.row_width)
        self.rows_of = self.tensor((self.blocks * ROWS * self.height, self.row_width), "float32", "out", 2)
        self.pool = [self.new_tile(shape, "float32") for _ in range(self.number(2, 3))]
        self.leave_at = self.tensor((self.blocks * self.most_steps,), "int32", "mask")
        self.product_steps = self.product_operands() if self.height > 1 else []
        start = [
            self.load_row(t, self.number(0, ROWS - 1)) if self.chance(0.7) else self.fill(self.whole(t), self.number(0, 2))
            for t in self.pool
        ]
        loop = self.loop_with_jump(0)
        if self.chance(0.25):
            n = self.number(2, 3)
            loop = [
                block(f"for o in T.serial({n}):", [*loop, *self.around("o", 1)], f"for o in range({n}):", tags={"jump in a loop in a loop"})
            ]
        behind = [self.load_row(self.pick(self.pool), self.number(0, ROWS - 1)) for _ in range(self.number(0, 2))]
        return [
            *self.product_steps[:2],
            *start,
            *loop,
            *behind,
            *self.around("0", self.number(0, 2)),
            *(s for t in self.pool for s in self.show(t)),
        ]

    def product_operands(self) -> list[Stmt]:
        """Loads of the operands of a product, and the product."""
        a, b = (self.new_tile((16, 16), "float16", "shared") for _ in range(2))
        loads = [self.copy(self.whole(self.tensor((16, 16), "float16", "in", 1)), self.whole(t)) for t in (a, b)]
        self.product_sums = self.new_tile((16, 16), "float32", "fragment")
        text = f"T.gemm({a}, {b}, {self.product_sums}, clear_accum=True)"
        return [*loads, line(text, f"gemm({a}, {b}, {self.product_sums}, False, False, True)", "product beside a jump")]

    def loop_with_jump(self, depth: int) -> list[Stmt]:
        """A loop with a jump somewhere."""
        k, n = self.fresh("k"), self.most_steps if not depth else self.number(2, 3)
        head = self.pick((f"T.serial({n})", f"T.serial({n})", f"range({n})", f"T.Pipelined({n}, num_stages=2)"))
        ref = f"range({n})"
        if self.chance(0.15):
            count = self.tensor((self.blocks,), "int32", "index", n + 1, "L")
            head, ref = f"T.serial({count}[bx])", f"range({count}[bx])"
        body = [*self.around(k, self.number(0, 2)), *self.branch_with_jump(k, depth), *self.around(k, self.number(0, 2))]
        if self.chance(0.25):
            body += [*self.branch_with_jump(k, depth), *self.around(k, self.number(0, 1))]
        if not depth and self.chance(0.2):
            body += self.loop_with_jump(1)
        return [block(f"for {k} in {head}:", body, f"for {k} in {ref}:", tags={"rows around a jump"})]

    def branch_with_jump(self, k: str, depth: int) -> list[Stmt]:
        """A branch with a jump, in another one or beside work."""
        jump = self.pick(("break", "continue"))
        arm, other = [*self.around(k, self.number(0, 2)), line(jump, "", f"{jump} behind a store")], self.around(k, self.number(0, 2))
        if not other or self.chance(0.5):
            found = block(f"if {self.leaves(k, depth)}:", arm, kind="if")
        elif self.chance(0.5):
            found = block(f"if {self.leaves(k, depth)}:", arm, orelse=other, kind="if", tags={"else beside a jump"})
        else:
            found = block(f"if {self.leaves(k, depth)}:", other, orelse=arm, kind="if", tags={"else beside a jump"})
        if self.chance(0.35):
            test = self.pick((f"{k} % 4 == 1", f"{k} % 4 == 0", f"{k} > 0", self.leaves(k, depth)))
            inside = [*self.around(k, self.number(0, 1)), found, *self.around(k, int(self.pick((0, 0, 1))))]
            found = block(f"if {test}:", inside, kind="if", tags={"jump in a branch in a branch"})
        return [found]

    def leaves(self, k: str, depth: int) -> str:
        flag = f"{self.leave_at}[{self.at_block(self.most_steps, k)}] {self.pick(('> 0', '> 0', '== 0'))}"
        return self.pick(
            (flag, flag, flag, f"{self.pick(self.pool)}[0, {self.number(0, 3)}] > {self.number(0, 3)}", f"{k} == {self.number(0, 2)}")
        )

    def place_of_row(self, row) -> list[str]:
        return [self.at_block(ROWS * self.height, str(row) if self.height == 1 else f"({row}) * {self.height}"), "0"]

    def row_at(self, k: str):
        return self.pick(("0", "1", f"{k} % 2", f"({k} + 1) % 2", f"{k} % {ROWS}"))

    def load_row(self, tile: str, row) -> Stmt:
        return self.copy(self.region(self.rows_of, self.place_of_row(row), (self.height, self.row_width)), self.whole(tile))

    def around(self, k: str, count: int) -> list[Stmt]:
        return [s for _ in range(count) for s in self.access(k)]

    def access(self, k: str) -> list[Stmt]:
        """A store, a load, work on tiles, or a product."""
        kind = self.pick(("store", "store", "load", "load", "work", *(["product"] * 2 if self.product_steps else ())))
        a, b, shape = self.pick(self.pool), self.pick(self.pool), (self.height, self.row_width)
        place = self.region(self.rows_of, self.place_of_row(self.row_at(k)), shape)
        if kind == "store":
            return [self.copy(self.whole(a), place)]
        if kind == "load":
            return [self.load_row(a, self.row_at(k))]
        if kind == "product":
            return [self.product_steps[2], self.copy(self.whole(self.product_sums), place if self.chance(0.6) else self.whole(a))]
        value = self.pick((f"{a}[i, j] + {self.number(1, 2)}", f"T.max({a}[i, j], {b}[i, j])", f"{b}[i, j] - {self.number(0, 1)}"))
        return [self.parallel("ij", shape, [line(f"{a}[i, j] = {value}", f"{a}[i, j] = {value}".replace("T.max", "larger"))])]
