"""Random loops of attention: scores, masks, maxima, powers, sums and products, left out, doubled and in any form.

    python -m testing.fuzz.attention FIRST LAST [--source]     seeds that fail are printed with their program

Several steps of such a loop become one (`merge_steps`), the last of which may have fewer keys, and masks that change nothing are left out (`skip_masks`):
as often as a die says, on a chip with few cores. What a program means is what its Tile IR does before any pass.
"""

from __future__ import annotations

import random
import re
import sys
from contextlib import ExitStack, contextmanager
from unittest import mock

import numpy as np

from .command import run
from .dice import Operands
from .few_cores import outcome


class Generator(Operands):
    """State of one random program."""

    def __init__(self, seed: int):
        super().__init__()
        self.rng = np.random.default_rng(seed)
        self.bm, self.bn, self.d = int(self.pick((16, 16, 32))), int(self.pick((16, 16, 32))), int(self.pick((16, 32)))
        self.blocks, self.steps = int(self.pick((1, 2, 3, 4, 5, 6))), int(self.pick((3, 4, 5, 6, 7, 8, 9, 11, 13)))
        self.m, self.n = self.blocks * self.bm, self.steps * self.bn
        self.n -= int(self.rng.integers(0, self.bn)) if self.chance(0.3) else 0
        self.turned = self.chance(0.15)
        """Keys are the rows of scores."""

    @property
    def head(self) -> str:
        return f"for j, i in T.Parallel({self.bn}, {self.bm}):" if self.turned else f"for i, j in T.Parallel({self.bm}, {self.bn}):"

    @property
    def at(self) -> str:
        return "j, i" if self.turned else "i, j"

    def scores(self, *lines: str) -> list[str]:
        return [self.head, *(f"    {x}" for x in lines)]

    def mask(self, k: str) -> str:
        """A condition on a query and a key."""
        i, j = "bx * %d + i" % self.bm, f"({k}) * {self.bn} + j"
        self.tensor("L", (16,), "int32", "length")
        return self.pick((
            f"{i} >= {j}", f"{i} >= {j}", f"{i} + {self.n - self.m} >= {j}", f"{j} < {self.n}", f"{j} < L[bx]", f"{j} <= {i} and {j} + {2 * self.bn} > {i}",
            f"{j} >= {i}", f"{j} > {self.bn // 2}", f"{i} - {j} < {self.bn + 3}", f"L[bx] - {j} > 0", f"T.And({i} >= {j}, {j} < {self.n})",
            f"({i}) // 3 >= ({j}) // 3", f"{j} - {i} <= L[bx] - {self.m}",
        ))  # fmt: skip

    def program(self) -> str:
        bm, bn, d = self.bm, self.bn, self.d
        (
            self.tensor("Q", (self.m, d)),
            self.tensor("K", (self.n, d)),
            self.tensor("V", (self.n, d)),
            self.tensor("L", (16,), "int32", "length"),
        )
        same = self.chance(0.15)  # keys are values, too
        shape = (bn, bm) if self.turned else (bm, bn)
        k, extent, first = "k", *self.extent()
        lines = [
            f"q = T.alloc_shared(({bm}, {d}), 'float16')",
            f"x = T.alloc_shared(({bn}, {d}), 'float16')",
            f"v = T.alloc_shared(({bn}, {d}), 'float16')",
        ]
        lines += [f"s = T.alloc_fragment({shape}, 'float32')", f"p = T.alloc_{self.pick(('shared', 'fragment'))}({shape}, 'float16')"]
        lines += [f"o = T.alloc_fragment(({bm}, {d}), 'float32')"] + [
            f"{x} = T.alloc_fragment(({bm},), 'float32')" for x in ("m", "old", "r", "sum", "now")
        ]
        lines += [
            f"w = T.alloc_shared(({bn},), 'float32')",
            f"e = T.alloc_fragment(({bn},), 'float32')",
            f"T.copy(Q[bx * {bm}, 0], q)",
            "T.fill(o, 0)",
            "T.fill(sum, 0)",
        ]
        lowest = self.pick(("-T.infinity('float32')", "-1e30", "-4.0"))
        lines += [f"T.fill(m, {lowest})"]
        body = self.step(k, same)
        head = f"T.Pipelined({first}{extent}, num_stages={self.rng.integers(1, 4)})" if self.chance(0.85) else f"T.serial({first}{extent})"
        lines += [f"for k in {head}:", *(f"    {x}" for x in body)]
        lines += (
            [f"for i, j in T.Parallel({bm}, {d}):", f"    o[i, j] = o[i, j] / {self.pick(('(T.abs(sum[i]) + 1.0)', '2.0'))}"]
            if self.chance(0.7)
            else []
        )
        self.tensor("O", (self.m, d), "float32", "result"), self.tensor("M", (2 * self.m,), "float32", "result")
        if self.chance(0.3):  # Blocks that store nothing may be left out.
            there = self.pick(("i < L[bx + 2]", f"bx * {bm} + i < L[3]", "L[bx + 3] > 1"))
            lines += [f"for i, j in T.Parallel({bm}, {d}):", f"    if {there}:", f"        O[bx * {bm} + i, j] = o[i, j]"]
            for x, first in (("m", ""), ("sum", f"{self.m} + ")):
                lines += [f"for i in T.Parallel({bm}):", f"    if {there}:", f"        M[{first}bx * {bm} + i] = {x}[i]"]
        else:
            lines += [f"T.copy(o, O[bx * {bm}, 0])", f"T.copy(m, M[bx * {bm}])", f"T.copy(sum, M[{self.m} + bx * {bm}])"]
        params = ", ".join(f"{name}: T.Tensor({shape}, '{dtype}')" for name, (shape, dtype, _) in self.params.items())
        return f"@T.prim_func\ndef kernel({params}):\n    with T.Kernel({self.blocks}) as bx:\n" + "".join(f"        {x}\n" for x in lines)

    def extent(self) -> tuple[str, str]:
        """(the end of the loop, its begin and a comma)."""
        bm, bn = self.bm, self.bn
        end = self.pick((
            str(self.steps), str(self.steps), str(self.steps), f"T.ceildiv((bx + 1) * {bm}, {bn})", f"T.min(T.ceildiv((bx + 1) * {bm}, {bn}), {self.steps})",
            f"T.ceildiv(L[bx], {bn})", f"T.min(L[bx + 1], {self.steps})", f"{self.steps} - bx", "L[0]", f"T.max({self.steps} - bx * 2, 0)",
        ))  # fmt: skip
        first = self.pick(("", "", "", "", "1, ", "bx, ", f"T.max(bx * {bm} - {bn * 2}, 0) // {bn}, "))
        return end, first

    def step(self, k: str, same: bool) -> list[str]:
        bm, bn, d = self.bm, self.bn, self.d
        out = [f"T.copy(K[({k}) * {bn}, 0], x)"]
        product = "T.gemm(x, q, s, transpose_B=True{})" if self.turned else "T.gemm(q, x, s, transpose_B=True{})"
        low = self.pick(("-T.infinity('float32')", "-T.infinity('float32')", "-1e30", "-100.0", "0.0"))
        before = self.pick(("none", "clear", "clear", "mask", "mask"))
        if before == "mask":
            yes, no = self.pick((("0.0", low), ("0.0", low), (low, "0.0"), ("0", low), ("1.0", low)))
            out += self.scores(f"s[{self.at}] = T.if_then_else({self.mask(k)}, {yes}, {no})")
        out += ["T.clear(s)"] if before == "clear" else []
        out += [product.format(", clear_accum=True" if before == "none" else "")]
        late = []
        if self.chance(0.3):
            self.tensor("W", (self.n,), "float32")
            late += [f"T.copy(W[({k}) * {bn}], w)"]
        weighed = bool(late)
        out += late
        if self.chance(0.35):
            yes, no = self.pick(((f"s[{self.at}]", low), (f"s[{self.at}]", low), (low, f"s[{self.at}]")))
            out += self.scores(f"s[{self.at}] = T.if_then_else({self.mask(k)}, {yes}, {no})")
        for _ in range(int(self.rng.integers(0, 3))):
            value = self.pick((
                f"s[{self.at}] * 0.5", f"T.tanh(s[{self.at}])", f"s[{self.at}] + T.cast(({k}) * {bn} + j - i, 'float32') * 0.0625",
                f"T.max(s[{self.at}], 0.0)", f"T.if_then_else(s[{self.at}] > 1.0, s[{self.at}], s[{self.at}] * 0.25)", *([f"s[{self.at}] + w[j]", f"s[{self.at}] * w[j]"] if weighed else []),
            ))  # fmt: skip
            out += self.scores(f"s[{self.at}] = {value}")
        dim = 0 if self.turned else 1
        kind = self.pick(("softmax", "softmax", "softmax", "softmax", "plain", "linear", "running"))
        if kind in ("softmax", "running"):
            out += ["T.copy(m, old)"]
            out += [f"T.reduce_max(s, m, dim={dim}, clear=False)"] if self.chance(0.6) else [
                f"T.reduce_max(s, now, dim={dim}, clear=True)", f"for i in T.Parallel({bm}):", "    m[i] = T.max(m[i], now[i])"]  # fmt: skip
            if self.chance(0.4):
                out += [f"for i in T.Parallel({bm}):", "    m[i] = T.if_then_else(m[i] == -T.infinity('float32'), 0.0, m[i])"]
            power = self.pick(("T.exp", "T.exp2"))
            c = self.pick(("", " * 0.25"))
            out += [f"for i in T.Parallel({bm}):", f"    r[i] = {power}(old[i]{c} - m[i]{c})"]
            out += self.scores(f"s[{self.at}] = {power}(s[{self.at}]{c} - m[i]{c})")
        elif kind == "plain":
            out += self.scores(f"s[{self.at}] = T.exp(T.min(s[{self.at}], 2.0))")
        else:
            out += self.scores(f"s[{self.at}] = T.min(T.max(s[{self.at}], -1.0), 1.0) + 1.0")
        if weighed and self.chance(0.4):
            out += self.scores(f"s[{self.at}] = s[{self.at}] * w[j]")
        if self.chance(0.1):
            out += self.scores(f"s[{self.at}] = T.if_then_else({self.mask(k)}, s[{self.at}], 0.0)")
        if self.chance(0.8):
            r = self.pick(("sum", "abssum")) if self.chance(0.2) else "sum"
            out += [f"T.reduce_{r}(s, now, dim={dim})", f"for i in T.Parallel({bm}):"]
            out += ["    sum[i] = sum[i] * r[i] + now[i]" if kind in ("softmax", "running") else "    sum[i] = sum[i] + now[i]"]
        if kind in ("softmax", "running") and self.chance(0.9):
            out += [f"for i, j in T.Parallel({bm}, {d}):", "    o[i, j] *= r[i]"]
        if self.chance(0.1):
            self.tensor("E", (self.blocks, self.n), "float32", "result")
            out += [f"T.reduce_sum(s, e, dim={1 - dim})", f"T.copy(e, E[bx, ({k}) * {bn}])"] if self.n % bn == 0 else []
        if self.chance(0.1):
            shape = (self.n, self.m) if self.turned else (self.m, self.n)
            self.tensor("P", shape, "float32", "result")
            out += [f"T.copy(s, P[({k}) * {bn}, bx * {bm}])" if self.turned else f"T.copy(s, P[bx * {bm}, ({k}) * {bn}])"]
        out += ["T.copy(s, p)"] if self.chance(0.7) else self.scores(f"p[{self.at}] = s[{self.at}]")
        load = f"T.copy(V[({k}) * {bn}, 0], v)"
        if not same:
            out.insert(int(self.pick((0, len(out)))), load)
        values = "x" if same else "v"
        out += [f"T.gemm(p, {values}, o{', transpose_A=True' if self.turned else ''})"]
        if self.chance(0.2):
            self.tensor("B", (16, 64), "int32", "mask")
            chosen = self.pick((f"({k}) > 0", f"({k}) * {bn} < L[bx]", "L[bx] > 3", *[f"B[bx, {k}] > 0"] * 4))
            inside = [f"    {x}" for x in out]
            out = {
                "branch": [f"if {chosen}:", *inside],
                "jump": [f"if not ({chosen}):", "    continue", *out],
                "two": [f"if {chosen}:", f"    if B[bx, {k} + 1] != 2:", *(f"    {x}" for x in inside)],
                "both": [f"if B[bx, {k} + 1] != 2 and {chosen}:", *inside],
                "row": [
                    f"if {chosen}:",
                    f"    c = B[bx, B[bx, {k}] + 40] % {self.steps}",
                    *(x.replace(f"({k}) * {bn}", f"c * {bn}") for x in inside),
                ],
            }[self.pick(("branch", "branch", "branch", "jump", "two", "both", "row"))]
        return out

    def arrays(self, rng) -> dict[str, np.ndarray]:
        """Operands and results by name."""
        kinds = {
            "number": lambda shape: rng.integers(-2, 3, shape) / 2, "length": lambda shape: rng.integers(0, self.n + 1 if self.chance(0.5) else self.steps + 1, shape),
            "result": np.zeros, "mask": lambda shape: rng.integers(0, 4, shape),
        }  # fmt: skip
        return self.made(kinds)


@contextmanager
def random_models(seed: int):
    """Inside, loops of few steps may become loops of fewer, and blocks be joined however little they load, as a die says."""
    from tilelang_ascend.transform.nests import join_blocks, merge_steps

    rng = random.Random(seed)
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(merge_steps, "FEWEST_STEPS", rng.choice((1, 1, 2, 4))))
        stack.enter_context(
            mock.patch.object(merge_steps, "LONG_STEPS", rng.choice((((64, 2, 2),), ((48, 1, 1), (96, 2, 2)), merge_steps.LONG_STEPS)))
        )
        if rng.random() < 0.5:
            stack.enter_context(mock.patch.object(join_blocks, "GAIN", 1 << 30))
            stack.enter_context(mock.patch.object(join_blocks, "_waits_for_loads", lambda grid, chip: True))
        yield


@contextmanager
def single_steps(seed: int):
    """Inside, loops keep their steps."""
    from tilelang_ascend.transform.nests import merge_steps

    with random_models(seed), mock.patch.object(merge_steps, "FEWEST_STEPS", 1 << 30):
        yield


MAY_BE_A_NUMBER = re.compile(r"after merge_steps: .* is \S+, not nan")
"""A row whose first keys are all masked is NaN in single steps, and may have a value in longer ones (docs/numbers.md)."""


def check(seed: int, notes: list | None = None) -> str | None:
    """None if the program of a seed is compiled as it means, "refused: …" if it is refused, else what is wrong."""
    made = Generator(seed)
    text, arrays = made.program(), made.arrays(np.random.default_rng(seed))
    wrong = outcome(seed, f"<attention {seed}>", text, random_models, arrays, notes=notes)[1]
    if wrong is not None and MAY_BE_A_NUMBER.search(wrong):
        return outcome(seed, f"<attention {seed}>", text, single_steps, arrays, notes=notes)[1]
    return wrong


if __name__ == "__main__":
    sys.exit(run("attention", __doc__, check, lambda seed: Generator(seed).program()))
