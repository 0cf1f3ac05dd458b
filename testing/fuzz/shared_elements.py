"""Random kernels whose `T.Parallel` nests store to one element several times, beside loads, stores, reductions, scans and products.

    python -m testing.fuzz.shared_elements FIRST LAST [--source]     seeds that fail are printed with their program

A nest over rows and columns gathers maxima, minima, sums, bits, counts or flags in tiles that have an element for each row, each column, each
bin or one for all; other statements of the nest, and others behind it, read what was gathered. The meaning of a program is what the interpreter
of its Python text says for several orders of iterations; of a program that means different things in different orders only what is the same in
all of them is compared ("order"). Memories are scarce for some seeds.
"""

from __future__ import annotations

import re
import sys
from contextlib import nullcontext

import numpy as np

from .check import located_refusal, packed_memory, trace
from .command import run
from .dice import Dice

DTYPES = ("float32", "float32", "float32", "float16", "int32", "int32", "int16", "bfloat16", "int8", "uint8", "uint32", "int64", "uint16")
ORDERS = (0, 1, 2)
INDENT = "    "


class Generator(Dice):
    """State of one random program."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.dtype = self.pick(DTYPES)
        self.product = self.chance(0.15)
        self.rows, self.columns = int(self.pick((1, 2, 3, 4, 5, 8, 16))), int(self.pick((1, 2, 3, 8, 16, 17, 32, 64)))
        if self.product:
            self.dtype, self.rows, self.columns = "float32", 16, 16
        self.blocks, self.steps = self.number(1, 3), self.number(1, 4)
        self.bins = int(self.pick((4, 8, 16)))
        n, m = self.rows, self.columns
        self.tiles: dict[str, tuple] = {
            "x": (n, m),
            "y": (n, m),
            "r": (n,),
            "s": (n,),
            "c": (m,),
            "q": (1,),
            "h": (self.bins,),
            "z": (n, 1),
        }
        self.dtypes = {name: self.dtype for name in self.tiles}
        if self.chance(0.2):
            self.dtypes["y"] = (
                self.pick(("float32", "int32")) if self.dtype in ("float16", "bfloat16", "int8", "uint8", "int16") else self.dtype
            )
        self.where = {name: self.pick(("shared", "fragment")) for name in self.tiles}
        self.views: dict[str, str] = {}
        self.outputs: dict[str, str] = {}
        self.reducing = False
        self.passing: dict[str, str] = {}
        """Declarations of tiles of one place."""
        self.pool = {"r", self.pick("rrscqzh"), self.pick("rscqzh"), *"GC"}
        self.names, self.variable = 0, self.chance(0.3)
        self.in_tensors = self.chance(0.3)
        self.reducer = self.pick(("sum", "max", "min")) if self.chance(0.15) and self.dtype not in ("bfloat16", "int64") else ""
        if self.chance(0.25):
            self.views["rv"] = f"rv = T.reshape(r, ({n}, 1))"
        if self.chance(0.2):
            self.views["xv"] = f"xv = T.reshape(x, ({n * m},))"
        if self.chance(0.1):
            self.views["hv"] = f"hv = T.reshape(h, (2, {self.bins // 2}))"

    # -- choices --------------------------------------------------------------------------------------------------------

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    @property
    def unsigned(self) -> bool:
        return self.dtype.startswith("u")

    # -- elements of a nest ----------------------------------------------------------------------------------------------

    def shared(self, i: str, j: str) -> str:
        """An element that several iterations of a nest over i and j have in common."""
        kinds = [f"r[{i}]", f"r[{i}]", f"s[{i}]", f"c[{j}]", "q[0]", f"z[{i}, 0]", f"h[{self.bin(i, j)}]", f"r[{self.rows - 1} - {i}]"]
        if "rv" in self.views:
            kinds += [f"rv[{i}, 0]"] * 2
        if "hv" in self.views:
            kinds += [f"hv[{i} % 2, {j} % {self.bins // 2}]"]
        if self.in_tensors:
            kinds += [f"G[bx * {self.rows} + {i}]", f"C[bx * {self.columns} + {j}]"]
        kinds = [k for k in kinds if k[0] in self.pool or k[:2] in self.pool]
        if self.chance(0.1):
            kinds += [f"y[{i}, 0]", f"y[0, {j}]", f"x[{i}, 0]"]
        return self.pick(kinds)

    def bin(self, i: str, j: str) -> str:
        return self.pick(
            (f"({i} + {j}) % {self.bins}", f"{j} % {self.bins}", f"{i} % {self.bins}", f"T.cast(P[{i}, {j}], 'int32')", f"P[{i}, {j}]")
        )

    def own(self, i: str, j: str) -> str:
        """The element of an iteration."""
        return self.pick(
            [f"x[{i}, {j}]"] * 4 + [f"y[{i}, {j}]"] * 2 + ([f"xv[{i} * {self.columns} + {j}]"] * 3 if "xv" in self.views else [])
        )

    def value(self, i: str, j: str, depth: int = 0) -> str:
        x = self.own(i, j)
        kinds = ["own", "own", "more", "max", "twice", "number", "choice"]
        if depth == 0:
            kinds += ["shared"]
        match self.pick(kinds):
            case "own":
                return x
            case "more":
                return f"({x} + {self.number(1, 2)})"
            case "max":
                return f"T.max({x}, {self.number(0, 2)})"
            case "twice":
                return f"({x} + {self.own(i, j)})"
            case "number":
                return f"T.cast({self.pick((i, j))} % 5, '{self.dtype}')"
            case "choice":
                return f"T.if_then_else({self.condition(i, j)}, {x}, {self.pick(('0', '1', self.own(i, j)))})"
            case _:
                return self.shared(i, j)

    def condition(self, i: str, j: str) -> str:
        return self.pick((f"{self.own(i, j)} > {self.number(0, 3)}", f"{j} < {self.number(1, self.columns)}", f"{i} > 0", f"{j} <= {i}", f"({i} + {j}) % 2 == 0",
                          f"{j} < L[bx]", f"P[{i}, {j}] > 1", f"{self.shared(i, j)} > {self.number(0, 2)}"))  # fmt: skip

    def cast(self, value: str) -> str:
        return (
            f"T.cast({value}, '{self.dtype}')"
            if self.dtype in ("int8", "uint8", "int16", "uint16", "bfloat16", "float16") or self.dtypes["y"] != self.dtype
            else value
        )

    def updated(self, target: str, value: str) -> list[str]:
        """Statements that make `target` what it was, combined with a value."""
        kind = self.pick(("max", "max", "min", "+", "+", "if max", "choice", "flag", "same", "last", "-", "bits"))
        if target[0] in "GC" and self.chance(0.3):
            return [f"T.atomic_{self.pick(('add', 'max'))}({target}, {self.cast(value)})"] if self.dtype in ("float32", "int32") else []
        if kind in ("max", "min"):
            a, b = (target, value) if self.chance(0.7) else (value, target)
            return [f"{target} = {self.cast(f'T.{kind}({a}, {b})')}"]
        if kind == "+":
            return [
                self.pick(
                    (
                        f"{target} += {self.cast(value)}",
                        f"{target} = {self.cast(f'{target} + {value}')}",
                        f"{target} = {self.cast(f'{value} + {target}')}",
                    )
                )
            ]
        if kind == "-":
            return [f"{target} = {self.cast(f'{target} - {value}')}"]
        if kind == "if max":
            new = self.fresh("t")
            return [f"{new} = {self.cast(value)}", f"if {new} {self.pick('<>')} {target}:", f"{INDENT}{target} = {new}"]
        if kind == "choice":
            new = self.fresh("t")
            return [f"{new} = {self.cast(value)}", f"{target} = T.if_then_else({new} > {target}, {new}, {target})"]
        if kind == "flag":
            return [f"if {value} > {self.number(0, 3)}:", f"{INDENT}{target} = {self.number(0, 3)}"]
        if kind == "bits" and "int" in self.dtype and self.dtypes["y"] == self.dtype:
            return [f"{target} = {target} {self.pick('|&^')} {self.cast(value)}"]
        return [f"{target} = {self.cast(value)}"]

    def statement(self, i: str, j: str, depth: int) -> list[str]:
        kind = self.pick(("shared", "shared", "shared", "own", "own", "scratch", "name", "if", "if", "variable", "serial", "out", "else"))
        if kind == "own":
            target = self.own(i, j)
            value = f"T.min(T.max({self.value(i, j)} {self.pick(('+', '-'))} {self.value(i, j)}, {0 if self.unsigned else -6}), 6)"
            return [f"{target} = T.cast({value}, '{self.dtypes['y'] if target[0] == 'y' else self.dtype}')"]
        if kind == "scratch":
            target = self.shared(i, j)
            return [
                f"{target} = {self.cast(self.value(i, j))}",
                f"y[{i}, {j}] = T.cast({target} + {self.number(0, 1)}, '{self.dtypes['y']}')",
            ]
        if kind == "name":
            new = self.fresh("t")
            return [
                f"{new} = {self.cast(self.value(i, j))}",
                *self.updated(self.shared(i, j), new),
                *([f"y[{i}, {j}] = T.cast({new}, '{self.dtypes['y']}')"] if self.chance(0.5) else []),
            ]
        if kind in ("if", "else") and depth < 2:
            found = [f"if {self.condition(i, j)}:", *self.indented(self.statement(i, j, depth + 1))]
            if self.chance(0.3):
                found += [f"{INDENT}{s}" for s in self.statement(i, j, depth + 1)]
            return found if kind == "if" else [*found, "else:", *self.indented(self.statement(i, j, depth + 1))]
        if kind == "variable" and self.variable:
            return self.updated("v", self.value(i, j))
        if kind == "serial" and depth < 2:
            k = self.fresh("k")
            bound = self.pick((str(self.number(1, 3)), "L[bx]" if self.chance(0.5) else "2"))
            other = self.pick((j, f"({j} + {k}) % {self.columns}"))
            return [f"for {k} in T.serial({bound}):", *self.indented(self.updated(self.shared(i, other), self.value(i, other)))]
        if kind == "out" and self.in_tensors:
            return [f"Y[bx * {self.rows} + {i}, {j}] = {self.cast(self.value(i, j))}"]
        if self.reducing and self.chance(0.5):
            return [f"T.reducer_update(w[{i}], {self.cast(self.value(i, j).replace('w', 'x'))})"]
        return self.updated(self.shared(i, j), self.value(i, j))

    def indented(self, lines: list[str]) -> list[str]:
        return [f"{INDENT}{s}" for s in (lines or ["pass"])]

    # -- statements of a kernel ------------------------------------------------------------------------------------------

    def nest(self) -> list[str]:
        """A `T.Parallel` nest."""
        n, m = str(self.rows), str(self.columns)
        if self.chance(0.1):
            m = self.pick((f"T.min(L[bx], {m})", str(self.number(1, self.columns))))
        if self.chance(0.08):
            n = f"T.min(L[bx], {n})"
        form = self.pick(("ij", "ij", "ij", "ij", "ji", "serial", "serial columns", "rows", "flat", "parallel"))
        body = [s for _ in range(self.pick((1, 1, 1, 2, 2, 3))) for s in self.statement("i", "j", 0)] or self.updated("r[i]", "x[i, j]")
        if form == "ij":
            return [f"for i, j in T.Parallel({n}, {m}):", *self.indented(body)]
        if form == "ji":
            return [f"for j, i in T.Parallel({m}, {n}):", *self.indented(body)]
        if form == "serial":
            return [f"for i in T.Parallel({n}):", *self.indented([f"for j in T.serial({m}):", *self.indented(body)])]
        if form == "serial columns":
            return [f"for j in T.Parallel({m}):", *self.indented([f"for i in T.serial({n}):", *self.indented(body)])]
        if form == "flat":
            f = "f"
            return [
                f"for {f} in T.Parallel({self.rows * self.columns}):",
                *self.indented([f"i = {f} // {self.columns}", f"j = {f} % {self.columns}", *body]),
            ]
        if form == "parallel":
            return [f"for i in T.serial({n}):", *self.indented([f"for j in T.Parallel({m}):", *self.indented(body)])]
        rows = [s for _ in range(self.number(1, 2)) for s in self.row_statement()]
        return [f"for i in T.Parallel({n}):", *self.indented(rows)]

    def row_statement(self) -> list[str]:
        """One of a nest over rows only."""
        t = self.pick(("r", "s"))
        return self.pick((
            [f"{t}[i] = {self.cast(f'T.max(r[i], s[i]) + {self.number(0, 1)}')}"],
            [f"{t}[i] = {self.cast(f'T.min({t}[i], 6)')}"],
            [f"{t}[i] = {self.cast('x[i, 0]')}"],
            [f"q[0] = {self.cast('q[0] + r[i]')}"],
            [f"q[0] = {self.cast('T.max(q[0], r[i])')}"],
            [f"h[P[i, 0]] = {self.cast('h[P[i, 0]] + ' + self.pick(('1', 'r[i]')))}"],
            [f"z[i, 0] = {self.cast('z[i, 0] + r[i]')}"],
        ))  # fmt: skip

    def load(self) -> list[str]:
        n = self.rows
        step = "k" if self.loop else "0"
        t = self.pick(("x", "x", "r", *(p for p in sorted(self.pool) if p in self.tiles and p != "q")))
        if t == "x":
            return [f"T.copy(X[(bx * {self.steps} + {step}) * {n}, 0], x)"]
        if t in ("r", "s"):
            return [f"T.copy(R[(bx * {self.steps} + {step}) * {n}], {t})"]
        if t == "z":
            return [f"T.copy(Z[bx * {n}, 0], z)"]
        if t == "h":
            return [f"T.copy(H[bx * {self.bins}], h)"]
        return [f"T.copy(C[bx * {self.columns}], c)"]

    def store(self, t: str = "") -> list[str]:
        """A tile stored to a tensor that has room for every step."""
        t = t or self.pick(("x", "x", "y", "r", "r", *(p for p in sorted(self.pool) if p in self.tiles)))
        shape = self.tiles[t]
        name = self.fresh("O")
        self.outputs[name] = (
            f"T.Tensor(({self.blocks * (self.steps if self.loop else 1) * shape[0]}, {', '.join(map(str, shape[1:]))}), '{self.dtypes[t]}')"
        )
        place = f"(bx * {self.steps} + k) * {shape[0]}" if self.loop else f"bx * {shape[0]}"
        return [f"T.copy({t}, {name}[{', '.join([place, *('0' for _ in shape[1:])])}])"]

    def tile_op(self) -> list[str]:
        t = self.pick(("r", "s"))
        kind = self.pick(("reduce", "reduce", "fill", "copy", "columns", "scan"))
        if kind == "reduce" and self.dtypes["y"] == self.dtype and self.dtype not in ("uint8", "uint16", "uint32", "int8", "int64"):
            return [f"T.reduce_{self.pick(('max', 'min', 'sum'))}({self.pick(('x', 'y'))}, {t}, dim=1, clear={self.pick((True, False))})"]
        if kind == "columns" and self.dtype in ("float32", "float16", "int32"):
            return [f"T.reduce_{self.pick(('max', 'sum'))}(x, c, dim=0, clear={self.pick((True, False))})"]
        if kind == "scan" and self.dtype in ("float32", "int32") and self.dtypes["y"] == self.dtype:
            return ["T.cumsum(x, y, dim=1)"]
        if kind == "copy":
            return [self.pick(("T.copy(r, s)", "T.copy(s, r)", "T.copy(x, y)", "T.copy(y, x)"))]
        low = self.pick((0, 0, 1) if self.unsigned else (0, 0, 1, -3))
        return [f"T.fill({self.pick([t for t in sorted(self.pool) if t in self.tiles])}, {low})"]

    def passing_through(self) -> list[str]:
        """A tile that an iteration loads, changes and stores, and nobody else knows."""
        t, n = self.fresh("p"), self.rows
        self.passing[t] = f"{t} = T.alloc_{self.pick(('shared', 'fragment'))}(({n},), '{self.dtype}')"
        self.tiles[t], self.dtypes[t] = (n,), self.dtype
        load, store = f"T.copy(R[(bx * {self.steps} + k) * {n}], {t})", self.store(t)
        del self.tiles[t]
        nest = [f"for i, j in T.Parallel({n}, {self.columns}):", *self.indented(self.updated(f"{t}[i]", self.value("i", "j", 1)))]
        return [load, *nest, *store]

    def products(self) -> list[str]:
        if not self.product:
            return self.nest()
        into = self.pick(("x", "x", "y"))
        return [f"T.gemm(A_s, B_s, acc, clear_accum={self.pick((True, True, False))})", *([f"T.copy(acc, {into})"] if self.chance(0.6) else [
            "for i, j in T.Parallel(16, 16):", f"{INDENT}{self.pick(('r[i] = T.max(r[i], acc[i, j])', 'c[j] = c[j] + acc[i, j]', 'acc[i, j] = T.min(acc[i, j], 4)', 's[i] = s[i] + acc[i, j]'))}",
        ])]  # fmt: skip

    def part(self, count: int) -> list[str]:
        """Statements, nests most of them."""
        out = []
        for _ in range(count):
            match self.pick(("nest",) * 5 + ("tile",) * 2 + ("load", "load", "store", "store", "product", "branch", "load change store")):
                case "nest":
                    out += self.nest()
                case "tile":
                    out += self.tile_op()
                case "load":
                    out += self.load()
                case "store":
                    out += self.store()
                case "product":
                    out += self.products()
                case "branch":
                    out += [f"if {self.pick(('L[bx] > 2', 'bx > 0', 'q[0] > 1', 'r[0] > 0'))}:", *self.indented(self.nest())]
                case _:
                    if self.loop and self.chance(0.6):
                        out += self.passing_through()
                        continue
                    t = self.pick(("r", "s", "x", "x", "z", "c"))
                    n, step = self.rows, "k" if self.loop else "0"
                    load = {"x": f"T.copy(X[(bx * {self.steps} + {step}) * {n}, 0], x)", "z": f"T.copy(Z[bx * {n}, 0], z)",
                            "c": f"T.copy(C[bx * {self.columns}], c)"}.get(t, f"T.copy(R[(bx * {self.steps} + {step}) * {n}], {t})")  # fmt: skip
                    out += [load, *self.nest(), *self.store(t)]
        return out

    def text(self) -> str:
        """The program."""
        n, m, self.loop = self.rows, self.columns, False
        low = {t: 0 if self.unsigned or self.chance(0.7) else self.pick((-5, 1)) for t in self.tiles}
        head = self.part(self.number(0, 1))
        self.loop = self.chance(0.8)
        self.reducing = bool(self.reducer)
        body = self.part(self.number(1, 3))
        self.reducing = False
        if self.loop:
            loop = self.pick(
                (
                    f"T.serial({self.steps})",
                    f"range({self.steps})",
                    f"T.Pipelined({self.steps}, num_stages=2)",
                    f"T.Pipelined({self.steps}, num_stages=3)",
                )
            )
            if self.chance(0.15):
                loop = f"T.serial(T.min(L[bx], {self.steps}))"
            body = [f"for k in {loop}:", *self.indented(body)]
        self.loop = False
        if self.reducer:
            end = ["T.copy(w, r)"] if self.chance(0.5) else [f"for i in T.Parallel({n}):", f"{INDENT}s[i] = w[i]"]
            body = ["T.reducer_init(w)", *body, "T.finalize_reducer(w)", *end]
        lines = [*head, *body, *self.part(self.number(0, 1))]
        used = self.mentioned(lines)
        views = [line for name, line in self.views.items() if name in used]
        used |= self.mentioned(views)
        tiles = [t for t in self.tiles if t in used]
        start = [f"T.fill({t}, {low[t]})" for t in tiles if t != "x"]
        start += [f"T.copy(X[bx * {self.steps * n}, 0], x)"] if "x" in tiles else []
        if "acc" in used:
            start += ["T.copy(A[0, 0], A_s)", "T.copy(A[16, 0], B_s)", "T.fill(acc, 0)"]
        if "v" in used:
            start += ["v = 0"]
        lines = [*start, *lines, *(s for t in tiles for s in self.store(t)), *(["V[bx] = v"] if "v" in used else [])]
        used = self.mentioned(lines)
        params = {
            "X": f"({self.blocks * self.steps * n}, {m}), '{self.dtype}'", "R": f"({self.blocks * self.steps * n},), '{self.dtype}'",
            "Z": f"({self.blocks * n}, 1), '{self.dtype}'", "H": f"({self.blocks * self.bins},), '{self.dtype}'",
            "C": f"({self.blocks * m},), '{self.dtype}'", "G": f"({self.blocks * n},), '{self.dtype}'", "P": f"({n}, {m}), 'int32'",
            "L": f"({self.blocks},), 'int32'", "Y": f"({self.blocks * n}, {m}), '{self.dtype}'", "V": f"({self.blocks},), '{self.dtype}'",
            "A": "(32, 16), 'float16'",
        }  # fmt: skip
        declared = [f"{name}: T.Tensor({text})" for name, text in params.items() if name in used]
        declared += [f"{name}: {text}" for name, text in self.outputs.items() if name in used]
        alloc = [f"{t} = T.alloc_{self.where[t]}({self.tiles[t]}, '{self.dtypes[t]}')" for t in tiles] + views + list(self.passing.values())
        alloc += [f"v = T.alloc_var('{self.dtype}')"] if "v" in used else []
        alloc += [f"w = T.alloc_reducer(({n},), '{self.dtype}', '{self.reducer}')"] if "w" in used else []
        if "acc" in used:
            alloc += [
                "A_s = T.alloc_shared((16, 16), 'float16')",
                "B_s = T.alloc_shared((16, 16), 'float16')",
                "acc = T.alloc_fragment((16, 16), 'float32')",
            ]
        return "\n".join([
            "@T.prim_func", f"def kernel({', '.join(declared)}):", f"    with T.Kernel({self.blocks}, threads=128) as bx:",
            *(f"        {x}" for x in (*alloc, *lines)),
        ]) + "\n"  # fmt: skip

    @staticmethod
    def mentioned(lines: list[str]) -> set[str]:
        """Names in lines."""
        return {name for line in lines for name in re.findall(r"[A-Za-z_]\w*", line)}

    def inputs(self, func) -> dict:
        """Arrays by name."""
        from .numbers import numpy_dtype

        out = {}
        for p in func.params:
            shape, dtype = tuple(int(n) for n in p.ty.shape), str(p.ty.dtype)
            if p.name == "P":
                v = self.rng.integers(0, 4, shape)
            elif p.name == "L":
                v = self.rng.integers(0, 6, shape)
            elif p.name == "A":
                v = self.rng.integers(-1, 2, shape)
            else:
                v = self.rng.integers(0 if dtype.startswith("u") else -4, 5, shape)
            out[str(p.name)] = v.astype(numpy_dtype(dtype))
        return out


def meanings(func, arrays: dict, orders) -> tuple[dict, dict]:
    """(results, which of their elements are the same) of a program for several orders of iterations."""
    from tilelang_ascend import interpret

    first, same = {}, {}
    for order in orders:
        mine = {name: a.copy() for name, a in arrays.items()}
        interpret.run(func, *mine.values(), seed=order)
        first = first or mine
        for name, a in mine.items():
            same[name] = same.get(name, True) & (bits_of(a) == bits_of(first[name]))
    return first, same


def bits_of(a: np.ndarray) -> np.ndarray:
    """The bits of numbers, without the sign of zero."""
    a = np.where(a == 0, a.dtype.type(0), a)
    return a.view(f"u{a.dtype.itemsize}")


def scarce(seed: int, made: Generator):
    """Memories for a seed: as they are, packed, nests in parts, or UB hardly larger than the tiles."""
    from .streams import scarce as hardly_enough

    kind = seed % 4
    if kind == 1:
        return packed_memory(None if seed % 8 == 1 else 256)
    if kind == 3:
        nbytes = sum(int(np.prod([*shape[:-1], max(shape[-1], 32)])) * 4 for shape in made.tiles.values())
        return hardly_enough(seed, nbytes // (1 if seed % 8 == 3 else 2))
    return nullcontext()


def check(seed: int, text: bool | None = None) -> str | None:
    """None if the program of a seed is compiled as it means; "refused: …" if it is refused, "nothing" if it has no meaning, else what is wrong."""
    import tilelang_ascend as tilelang
    from tilelang_ascend import interpret

    sys.path[:0] = [p for p in ("testing/python/kernels",) if p not in sys.path]
    import strict

    made = Generator(seed)
    source = made.text()
    chip, text = made.pick(("a2", "a2", "a3", "a5", "a5")), made.chance(0.1) if text is None else text
    try:
        func = trace(source, f"<shared elements {seed}>")
        arrays = made.inputs(func)
        try:
            want, same = meanings(func, arrays, ORDERS)
        except interpret.InterpretError as error:
            return f"nothing: {error}"
        definite = all(s.all() for s in same.values())
        with scarce(seed, made):
            kernel = tilelang.compile(func, target=chip)
            if definite:
                found = strict.run(kernel, arrays, {}, text=text, values=False)
            else:
                found, result = strict.launch(kernel.artifact, strict.entries_of(kernel.artifact), arrays, {})
                if result.hazards:
                    return "\n".join(h.text() for h in result.hazards[:3])
    except tilelang.errors.TilelangAscendError as error:
        return f"refused: {error.message if located_refusal(error) else repr(error)}"
    except Exception as error:  # noqa: BLE001  any error is a finding
        if isinstance(error, AssertionError) and not all(s.all() for s in meanings(func, arrays, range(40))[1].values()):
            return "order"
        return f"{chip} {type(error).__name__}: {str(error)[:1500]}"
    for name in want:
        bad = same[name] & (bits_of(found[name]) != bits_of(want[name]))
        if bad.any():
            _, same = meanings(func, arrays, range(40))
            bad &= same[name]
            if (
                not all(s.all() for s in same.values())
                and strict.value_difference(func, strict.assert_passes_agree(kernel.artifact, arrays, {}), found) is None
            ):
                return "order"  # the one of Tile IR
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            return f"{chip} value: {name}{list(at)} is {found[name][at]}, not {want[name][at]} ({bad.sum()} of {bad.size} elements differ)"
    return None if definite else "order"


if __name__ == "__main__":
    sys.exit(run("shared_elements", __doc__, check, lambda seed: Generator(seed).text(), others=("nothing", "order")))
