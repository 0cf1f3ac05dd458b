"""Random loops that stream tiles: many of them, one behind the other and inside of each other, on more blocks than cores and as if memories and
flags were scarce.

    python -m testing.fuzz.streams FIRST LAST [--source]     seeds that fail are printed with their program

Loops run 1 to 61 times, or as often as a parameter or an element says, and may be left early. Their bodies load, change, reduce, multiply and store
a few tiles in any order, through memory and as single elements, too. What the flags do is looked at in long traces (`long_traces`) before a
program runs. The meaning of a program is the NumPy text beside it.
"""

from __future__ import annotations

import random
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from unittest import mock

import numpy as np

from .command import run
from .dice import RowWriter, differs

SIZES = (8, 16, 24, 32, 64, 100, 256)
TRIPS, FEW_TRIPS = (1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 16, 25, 61), (1, 2, 3, 5)
GRIDS, GEMM_GRIDS = (1, 1, 2, 3, 45, 97), (1, 1, 2, 25)
UNKNOWN = (("m", 10), ("m + 2", 12), ("m // 2", 5), ("2 * m", 19), ("min(m, 4)", 5), ("bx % 5 + 1", 6))
"""Numbers of iterations nobody knows when a kernel is compiled, and what they are below."""
ROWS, STEERING = 7, 16
"""Blocks of rows in the operands; elements of the tensor of numbers below 10."""
MOST_ROWS = 3000
SCARCE = ("nothing", "ub", "ub", "memories", "packed", "flags", "flags and ub")
TOLERANCE = {"float32": 1e-3, "float16": 0.06, "int32": 0.0}


class Generator(RowWriter):
    """State of one random program: lines of it, and of what it means."""

    def __init__(self, seed: int):
        super().__init__()
        self.rng = np.random.default_rng(seed)
        self.gemm = self.chance(0.3)
        self.dtype = "float32" if self.gemm else self.pick(("float32", "float32", "int32", "float16"))
        self.n = 16 if self.gemm else int(self.pick(SIZES))
        self.rows = 16 if self.gemm else int(self.pick((0, 0, 0, 2, 4, 5, 8)))
        self.blocks = int(self.pick(GEMM_GRIDS if self.gemm else GRIDS))
        self.tiles = [f"t{k}" for k in range(self.rng.integers(2, 6))]
        self.small = ["h0", "h1"] if self.gemm else []
        self.results: dict[str, int] = {"W": 4 * self.blocks}
        """Tensor that is written -> blocks of rows."""
        self.elements: dict[str, int] = {}
        self.loops: list[tuple[str, int]] = []

    # -- text -----------------------------------------------------------------------------------------------------

    def place(self, tensor: str, block: str) -> tuple[str, str]:
        """A block of rows in TileLang and in NumPy."""
        height = self.rows or 1
        rows = f"{tensor}[({block}) * {height}:({block}) * {height} + {height}, :]"
        return (f"{tensor}[({block}) * {height}, 0]", rows) if self.rows else (f"{tensor}[{block}, 0:{self.n}]", f"{tensor}[{block}, :]")

    def source(self) -> tuple[str, str]:
        """Some block of an operand."""
        terms = [self.pick(("bx", "bx * 3", "0")), *(v + self.pick(("", " * 2", " + 1")) for v, _ in self.loops if self.chance(0.8))]
        computed = [f"({self.computed()})"] if self.gemm and self.chance(0.1) else []
        tensor = self.pick(("X", "Z"))
        kernel, numpy = (
            self.place(tensor, f"({' + '.join(terms + more)}) % {ROWS}") for more in ([f"T.cast({x}, 'int32')" for x in computed], computed)
        )
        return kernel[0], numpy[1]

    def computed(self) -> str:
        """A condition on an element that vector work, or a product, has computed: no number there is near the bound."""
        return f"{self.pick(self.tiles)}[{self.rng.integers(16)}, {self.rng.integers(16)}] > {self.pick((-1.0123, 0.3123, 2.0123))}"

    def own(self) -> tuple[str, int]:
        """(the number of this iteration of this block, how many there are)."""
        text, total = "bx", self.blocks
        for v, most in self.loops:
            text, total = f"({text}) * {most} + {v}", total * most
        return text, total

    def bounded(self, tile: str, value: tuple[str, str]) -> None:
        """`tile` = value; floats stay small."""
        kernel, numpy = value
        if self.dtype != "int32":
            kernel, numpy = f"T.min(T.max({kernel}, -8.0), 8.0)", f"np.clip({numpy}, F(-8), F(8))"
        if self.chance(0.12):
            column, half = self.at[-1], self.n // 2
            self.say(
                self.nest(f"if {column} < {half}:", f"    {tile}[{self.at}] = {kernel}"),
                f"{tile}[...] = np.where(np.arange({self.n}) < {half}, {numpy}, {tile})",
            )
        else:
            self.say(self.nest(f"{tile}[{self.at}] = {kernel}"), f"{tile}[...] = {numpy}")

    # -- statements -----------------------------------------------------------------------------------------------

    def value(self, first: str) -> tuple[str, str]:
        tiles = [first, self.pick(self.tiles), self.pick(self.tiles)]
        (a, b, c), (x, y, z) = ([f"{t}[{self.at}]" for t in tiles], tiles)
        if self.dtype == "int32":
            k = self.pick((2, 3, -1))
            return self.pick(
                (
                    (f"{a} * {k} + {b}", f"{x} * {k} + {y}"),
                    (f"T.max({a}, {b}) - {c}", f"np.maximum({x}, {y}) - {z}"),
                    (f"{a} ^ {b}", f"{x} ^ {y}"),
                )
            )
        k = self.pick(("0.5", "2.0", "-1.0", "0.25", "1.5"))
        return self.pick((
            (f"{a} * {k} + {b}", f"{x} * F({k}) + {y}"), (f"T.max({a}, {b}) - {c}", f"np.maximum({x}, {y}) - {z}"), (f"{a} * {k}", f"{x} * F({k})"),
            (f"{a} + {b} * {c}", f"{x} + {y} * {z}"), (f"T.if_then_else({a} > {b}, {c}, {a} * {k})", f"np.where({x} > {y}, {z}, {x} * F({k}))"),
            (f"{a} + s", f"{x} + s"),
        ))  # fmt: skip

    def load(self) -> None:
        (kernel, numpy), t = self.source(), self.pick(self.tiles)
        self.say(f"T.copy({kernel}, {t})", f"{t}[...] = {numpy}")

    def change(self) -> None:
        t = self.pick(self.tiles)
        self.bounded(t, self.value(t if self.chance(0.5) else self.pick(self.tiles)))

    def fill(self) -> None:
        t, k = self.pick(self.tiles), self.pick((0, 1, 3))
        self.say(f"T.fill({t}, {k})", f"{t}[...] = {k}")

    def move(self) -> None:
        t, u = self.pick(self.tiles), self.pick(self.tiles)
        self.say(f"T.copy({t}, {u})" if t != u else f"T.fill({t}, 2)", f"{u}[...] = {t}" if t != u else f"{t}[...] = 2")

    def store(self, t: str = "") -> None:
        block, total = self.own()
        if total > MOST_ROWS:
            return self.fill()
        name, t = self.fresh("Y"), t or self.pick(self.tiles)
        self.results[name] = total
        kernel, numpy = self.place(name, block)
        self.say(f"T.copy({t}, {kernel})", f"{numpy} = {t}")

    def round_trip(self) -> None:
        (kernel, numpy), t = self.source(), self.pick(self.tiles)
        self.say(f"T.copy({kernel}, {t})", f"{t}[...] = {numpy}")
        self.bounded(t, self.value(t))
        self.store(t)

    def through_memory(self) -> None:
        """What this block has stored, or will load."""
        kernel, numpy = self.place("W", f"bx * 4 + ({self.pick(['0', *(v for v, _ in self.loops)])} + {self.rng.integers(4)}) % 4")
        t = self.pick(self.tiles)
        self.say(*((f"T.copy({t}, {kernel})", f"{numpy} = {t}") if self.chance(0.5) else (f"T.copy({kernel}, {t})", f"{t}[...] = {numpy}")))

    def reduce(self) -> None:
        if not self.rows or self.dtype == "int32":
            return self.change()
        t, u, kind = self.pick(self.tiles), self.pick(self.tiles), self.pick(("max", "sum"))
        self.say(f"T.reduce_{kind}({t}, r, dim=1)", f"r[...] = {t}.astype(float).{kind}(1)")
        self.bounded(u, (f"{u}[i, j] + r[i] * 0.25", f"{u} + r[:, None] * F(0.25)"))

    def product(self) -> None:
        if not self.gemm:
            return self.round_trip()
        a, b, c, kind = self.pick(self.small), self.pick(self.small), self.pick(self.tiles), self.pick(("", "clear_accum", "transpose_B"))
        right, old = (f"{b}.T" if kind == "transpose_B" else b), ("" if kind == "clear_accum" else f"{c} + ")
        self.say(f"T.gemm({a}, {b}, {c}{f', {kind}=True' if kind else ''})", f"{c}[...] = {old}{a}.astype(float) @ {right}.astype(float)")
        if self.chance(0.7):
            self.bounded(c, (f"{c}[i, j] * 0.25", f"{c} * F(0.25)"))

    def operand(self) -> None:
        if not self.gemm:
            return self.load()
        h, t = self.pick(self.small), self.pick(self.tiles)
        if self.chance(0.6):
            kernel, numpy = self.source()
            self.say(
                f"T.copy({kernel.replace('X', 'H', 1).replace('Z', 'H', 1)}, {h})",
                f"{h}[...] = {numpy.replace('X', 'H', 1).replace('Z', 'H', 1)}",
            )
        else:
            self.say(self.nest(f"{h}[i, j] = {t}[i, j] * 0.125"), f"{h}[...] = {t} * F(0.125)")

    def variable(self) -> None:
        if self.dtype == "int32":
            return self.change()
        v = self.pick(["bx", *(v for v, _ in self.loops)])
        self.say(f"s = s * 0.5 + T.cast({v} % 3, '{self.dtype}')", f"s = F(s * F(0.5)) + F({v} % 3)")

    def element(self) -> None:
        """One element to memory, and back."""
        place, total = self.own()
        if total > MOST_ROWS or self.gemm:
            return self.fill()
        name, t, u = self.fresh("E"), self.pick(self.tiles), self.pick(self.tiles)
        self.elements[name] = total
        index = ", ".join(str(int(self.rng.integers(n))) for n in (self.rows, self.n) if n)
        self.say(f"{name}[{place}] = {t}[{index}]", f"{name}[{place}] = {t}[{index}]")
        if self.chance(0.4):
            self.say([f"if {name}[{place}] > 1:", f"    T.fill({u}, 2)"], [f"if {name}[{place}] > 1:", f"    {u}[...] = 2"])

    def direct(self) -> None:
        """A nest on tensors."""
        block, total = self.own()
        if total > MOST_ROWS:
            return self.fill()
        name, t, height = self.fresh("Y"), self.pick(self.tiles), self.rows or 1
        self.results[name] = total
        (_, to), (_, of) = self.place(name, block), self.source()
        inside = of[of.index("[") + 1 : of.index(":" if self.rows else ",")]
        here, there = (f"({block}) * {height} + i, j", f"{inside} + i, j") if self.rows else (f"{block}, i", f"{inside}, i")
        self.say(self.nest(f"{name}[{here}] = {of[0]}[{there}] + {t}[{self.at}]"), f"{to} = {of} + {t}")

    # -- control flow ---------------------------------------------------------------------------------------------

    def condition(self) -> str:
        v = self.pick(["bx", *(v for v, _ in self.loops)])
        if self.gemm and self.chance(0.4):
            return self.computed()
        return self.pick((f"{v} % 3 == 1", f"S[{v} % {STEERING}] > 4", f"{v} > 2", f"m > {v}", f"S[{v} % {STEERING}] == m"))

    def statements(self, count: int) -> None:
        for _ in range(count):
            if len(self.loops) < 2 and self.chance(0.13):
                self.loop()
                continue
            one = self.pick((
                self.load, self.load, self.change, self.change, self.change, self.move, self.fill, self.store, self.store, self.round_trip,
                self.round_trip, self.round_trip, self.through_memory, self.reduce, self.product, self.operand, self.variable, self.element, self.direct,
            ))  # fmt: skip
            if self.chance(0.08):
                head = f"if {self.condition()}:"
                self.say(head, head)
                self.depth += 1
                one()
                self.depth -= 1
            else:
                one()

    def loop(self) -> None:
        v, inside = self.fresh("k"), int(np.prod([most for _, most in self.loops]))
        trips = int(self.pick(FEW_TRIPS if inside > 9 else TRIPS))
        trips = min(trips, 13) if self.blocks > 40 else trips
        steered = f"S[{self.pick(['bx', *(w for w, _ in self.loops)])} % {STEERING}]"
        extent, most = self.pick(((str(trips), trips), (str(trips), trips), (steered, 10), self.pick(UNKNOWN)))
        if inside * most > 700:
            extent, most = "3", 3
        spelled = extent.replace("min", "T.min")
        head = f"T.Pipelined({spelled}, num_stages={self.rng.integers(1, 7)})" if self.chance(0.55) else f"T.serial({spelled})"
        self.say(f"for {v} in {head}:", f"for {v} in range({extent}):")
        self.loops.append((v, most))
        self.depth += 1
        left = self.pick((("T.loop_break()", "break"), ("continue", "continue"))) if self.chance(0.07) else None
        self.statements(int(self.rng.integers(1, 6)))
        if left:
            head = f"if {self.condition()}:"
            self.say([head, f"    {left[0]}"], [head, f"    {left[1]}"])
        self.statements(int(self.rng.integers(1, 5)))
        self.depth -= 1
        self.loops.pop()

    # -- the program ----------------------------------------------------------------------------------------------

    def program(self) -> tuple[str, str]:
        """(the kernel, the function of arrays by name that it means)."""
        for t in self.tiles:
            kernel, numpy = self.place("X", f"bx % {ROWS}")
            self.say(f"T.copy({kernel}, {t})", f"{t}[...] = {numpy}")
        for h in self.small:
            self.say(f"T.copy(H[0, 0], {h})", f"{h}[...] = H[:16, :]")
        for _ in range(self.rng.integers(1, 4)):
            self.loop()
            self.statements(int(self.chance(0.4)))
        for t in self.tiles:
            self.store(t)
        shape = f"({self.rows}, {self.n})" if self.rows else f"({self.n},)"
        lines = [f"{t} = T.alloc_{self.pick(('shared', 'fragment'))}({shape}, '{self.dtype}')" for t in self.tiles]
        lines += [f"{h} = T.alloc_shared((16, 16), 'float16')" for h in self.small] + [f"s = T.alloc_var('{self.dtype}')", "s = 1"]
        lines += [f"r = T.alloc_fragment(({self.rows},), '{self.dtype}')", "T.fill(r, 0)"] if self.rows else []
        params = [f"{name}: T.Tensor({a.shape}, '{a.dtype}')" for name, a in self.arrays(np.random.default_rng(0)).items()]
        head = f"@T.prim_func\ndef kernel(m: T.int32, {', '.join(params)}):\n    with T.Kernel({self.blocks}) as bx:\n"
        text = head + "".join(f"        {line}\n" for line in lines + self.text)
        made = [f"{t} = np.zeros({shape}, F)" for t in self.tiles] + [f"{h} = np.zeros((16, 16), np.float16)" for h in self.small]
        made += ["s = F(1)", f"r = np.zeros({self.rows}, F)"]
        head = f"def reference(m, {', '.join(self.arrays(np.random.default_rng(0)))}):\n    F = np.{self.dtype}\n    for bx in range({self.blocks}):\n"
        return text, head + "".join(f"        {line}\n" for line in made + self.meaning)

    def arrays(self, rng) -> dict[str, np.ndarray]:
        """Operands and results by name."""
        height = self.rows or 1
        number = lambda dtype: (rng.integers(-16, 17, (ROWS * height, self.n)) / (1 if dtype == "int32" else 4)).astype(dtype)  # noqa: E731
        out = {"X": number(self.dtype), "Z": number(self.dtype), "S": rng.integers(0, 10, STEERING).astype(np.int32)}
        out |= {"H": number("float16")} if self.gemm else {}
        out |= {name: np.zeros((blocks * height, self.n), self.dtype) for name, blocks in self.results.items()}
        return out | {name: np.zeros(n, self.dtype) for name, n in self.elements.items()}


@contextmanager
def scarce(seed: int, nbytes: int):
    """Inside, some memories are hardly larger than the `nbytes` that tiles take, or flags are few."""
    from tilelang_ascend.arch.spec import ChipSpec
    from tilelang_ascend.isa.base import Space

    from .check import packed_memory

    rng, usual, kind = random.Random(seed), ChipSpec.capacity_bytes, random.Random(seed).choice(SCARCE)
    sizes = {
        Space.UB: max(2048, int(nbytes * rng.uniform(1.5, 5)) // 32 * 32),
        Space.L1: rng.choice((8192, 16384)),
        Space.L0C: rng.choice((2048, 8192)),
    }
    small = {"ub": (Space.UB,), "flags and ub": (Space.UB,), "memories": tuple(sizes)}.get(kind, ())
    with ExitStack() as stack:
        capacity = lambda chip, space: min(usual(chip, space), sizes[space] if space in small else 1 << 40)  # noqa: E731
        stack.enter_context(mock.patch.object(ChipSpec, "capacity_bytes", capacity))
        if kind == "packed":
            stack.enter_context(packed_memory())
        if "flags" in kind:
            stack.enter_context(mock.patch.object(ChipSpec, "usable_event_ids", rng.choice((2, 3, 4)), create=True))
        yield


def check(seed: int) -> str | None:
    """None if the program of a seed is compiled as it means, "refused: …" if it is refused, else what is wrong."""
    import tilelang_ascend as tilelang
    from tilelang_ascend.transform import pipeline

    from .check import located_refusal, trace
    from .long_traces import unordered

    sys.path[:0] = [p for p in ("testing/python/kernels",) if p not in sys.path]
    import strict

    made, rng, late = Generator(seed), random.Random(seed), []
    text, meaning = made.program()
    func, insert = trace(text, f"<streams {seed}>"), pipeline.plan_and_insert_sync

    def looked_at(ir, chip, most_traces):
        synced, plan = insert(ir, chip, most_traces)
        late.extend(unordered(synced, chip))
        return synced, plan

    try:
        nbytes = 4 * (len(made.tiles) + 4) * max(32, made.n) * (made.rows or 1)
        with scarce(seed, nbytes), mock.patch.object(pipeline, "plan_and_insert_sync", looked_at):
            compiled = tilelang.compile(func, target=rng.choice(("a2", "a2", "a3", "a5")))
        if late:
            return f"in a long trace: {late[:3]}"
        m, arrays = rng.randint(0, 9), made.arrays(np.random.default_rng(seed))
        options = replace(strict.STRICT, time=False, count_writes=False, record_stream=False)
        found, result = strict.launch(compiled.artifact, strict.entries_of(compiled.artifact), arrays, {"m": m}, options)
    except tilelang.errors.TilelangAscendError as error:
        return f"refused: {error.message if located_refusal(error) else repr(error)}"
    except Exception as error:  # noqa: BLE001  any error is a finding
        return f"{type(error).__name__}: {str(error)[:1500]}"
    if result.hazards:
        return "\n".join(h.text() for h in result.hazards[:3])
    return differs(meaning, found, arrays, {"m": m}, TOLERANCE[made.dtype])


if __name__ == "__main__":
    sys.exit(run("streams", __doc__, check, lambda seed: Generator(seed).program()[0], lambda seed: "\n".join(Generator(seed).program())))
