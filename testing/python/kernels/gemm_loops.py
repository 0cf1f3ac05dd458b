"""Loops around gemm, written systematically: how the loop runs, how it is left, what clears the accumulator, what reads it.

`Case` names one kernel; `build` makes it, `reference` is the same program in NumPy. An accumulator nobody has given a value is NaN.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, fields

import numpy as np

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

SIDE, STEPS, OUTER, BLOCKS = 32, 4, 2, 5
SENTINEL = 9

LOOPS = ("serial", "pipelined0", "pipelined1", "pipelined2", "pipelined3", "range", "while")
CLEARS = ("before", "outer", "branch", "never", "part")
CONDITIONS = ("never", "always", "k == 0", "k < 1", "k % 2 == 0", "first of all", "data")
FLOWS = ("all", "continue before", "continue after", "break before", "break after", "if", "if around", "count")
PARTS = ("one", "two", "rows", "row loop", "columns")
READS = ("once", "in the loop", "in the outer loop", "in place", "vector", "vector in the loop", "cube")
OPERANDS = ("gm", "vector", "dynamic")


@dataclass(frozen=True)
class Case:
    """One kernel. nested: the loop runs in another one."""

    loop: str = "serial"
    nested: bool = False
    clear: str = "before"
    condition: str = "never"
    flow: str = "all"
    parts: str = "one"
    read: str = "once"
    operand: str = "gm"

    def __str__(self):
        return ", ".join(f"{f.name}={getattr(self, f.name)}" for f in fields(self) if getattr(self, f.name) != f.default)

    @property
    def sensible(self) -> bool:
        """False for what says nothing new."""
        if self.clear == "outer" and not self.nested or self.read in ("in the outer loop", "in place") and not self.nested:
            return False
        if self.condition == "first of all" and not self.nested:
            return False
        if self.clear == "never" and self.condition == "never":
            return False
        if self.operand == "dynamic" and self.flow == "count":
            return False
        if self.clear == "part" and self.parts not in ("one", "rows"):
            return False
        if self.loop == "while" and (self.flow == "if around" or self.operand == "dynamic"):
            return False
        return True


def build(case: Case):
    """The kernel of a case: parameters A, B, M (what is done in a step, by block), L (number of steps, by block), C."""
    K = T.dynamic("K") if case.operand == "dynamic" else STEPS * SIDE
    iterate = {
        "serial": T.serial, "range": range, "while": None,
        **{f"pipelined{n}": lambda extent, n=n: T.Pipelined(extent, num_stages=n) for n in range(4)},
    }[case.loop]  # fmt: skip

    def clears(k, t, M, bx):
        return {
            "never": lambda: False, "always": lambda: True, "k == 0": lambda: k == 0, "k < 1": lambda: k < 1,
            "k % 2 == 0": lambda: k % 2 == 0, "first of all": lambda: T.And(k == 0, t == 0), "data": lambda: M[bx, 4 + k] > 0,
        }[case.condition]()  # fmt: skip

    @T.prim_func
    def main(
        A: T.Tensor((SIDE, K), "float16"), B: T.Tensor((K, SIDE), "float16"), M: T.Tensor((BLOCKS, 8), "int32"),
        L: T.Tensor((BLOCKS,), "int32"), C: T.Tensor((BLOCKS, 3, OUTER, STEPS, SIDE, SIDE), "float32"),
    ):  # fmt: skip
        with T.Kernel(BLOCKS) as bx:
            a = T.alloc_shared((SIDE, SIDE), "float16")
            b = T.alloc_shared((SIDE, SIDE), "float16")
            c = T.alloc_fragment((SIDE, SIDE), "float32")
            d = T.alloc_fragment((SIDE, SIDE), "float32")
            e = T.alloc_fragment((SIDE, SIDE), "float32")
            p = T.alloc_shared((SIDE, SIDE), "float16")
            n = T.alloc_var("int32")

            @T.macro
            def load(k):
                if case.operand == "vector":
                    T.copy(A[0, k * SIDE], p)
                    for i, j in T.Parallel(SIDE, SIDE):
                        a[i, j] = p[i, j] + 1
                else:
                    T.copy(A[0, k * SIDE], a)
                T.copy(B[k * SIDE, 0], b)

            @T.macro
            def multiply(k, t):
                if case.parts == "rows":
                    T.gemm(a[0:16, :], b, c[0:16, :], clear_accum=clears(k, t, M, bx))
                    T.gemm(a[16:32, :], b, c[16:32, :], clear_accum=clears(k, t, M, bx))
                elif case.parts == "row loop":
                    for h in T.serial(2):
                        T.gemm(a[h * 16 : h * 16 + 16, :], b, c[h * 16 : h * 16 + 16, :], clear_accum=clears(k, t, M, bx))
                elif case.parts == "columns":
                    T.gemm(a, b[:, 0:16], c[:, 0:16], clear_accum=clears(k, t, M, bx))
                    T.gemm(a, b[:, 16:32], c[:, 16:32])
                else:
                    T.gemm(a, b, c, clear_accum=clears(k, t, M, bx))
                    if case.parts == "two":
                        T.gemm(b, a, d)

            @T.macro
            def step(k, t):
                load(k)
                multiply(k, t)
                if case.read == "in the loop":
                    T.copy(c, C[bx, 0, t, k, 0, 0])
                elif case.read == "vector in the loop":
                    for i, j in T.Parallel(SIDE, SIDE):
                        e[i, j] = c[i, j] * 2
                    T.copy(e, C[bx, 0, t, k, 0, 0])

            if case.parts == "two":
                T.clear(d)
            if case.clear == "before":
                T.clear(c)
            elif case.clear == "branch":
                if M[bx, 3] > 0:
                    T.clear(c)
                else:
                    load(0)
                    T.gemm(a, b, c, clear_accum=True)
            elif case.clear == "part":
                load(1)
                T.gemm(a, b, c, clear_accum=True)
                T.fill(c[0:16, :], 0)
            for t in T.serial(OUTER) if case.nested else [0]:
                if case.clear == "outer":
                    T.clear(c)
                if case.loop == "while":
                    n = 0
                    while n < (L[bx] if case.flow == "count" else STEPS):
                        if case.flow == "continue before":
                            if M[bx, n] == 0:
                                n += 1
                                continue
                        if case.flow == "break before":
                            if M[bx, n] == 0:
                                break
                        if case.flow == "if":
                            if M[bx, n] != 0:
                                step(n, t)
                        else:
                            step(n, t)
                        if case.flow == "continue after":
                            if M[bx, n] == 0:
                                n += 1
                                continue
                        if case.flow == "break after":
                            if M[bx, n] == 0:
                                break
                        if case.flow == "continue after":
                            step(n, t)
                        n += 1
                elif case.flow == "if around":
                    if M[bx, t] != 0:
                        for k in iterate(STEPS):
                            step(k, t)
                else:
                    for k in iterate(L[bx] if case.flow == "count" else T.ceildiv(K, SIDE)):
                        if case.flow == "continue before":
                            if M[bx, k] == 0:
                                continue
                        if case.flow == "break before":
                            if M[bx, k] == 0:
                                break
                        if case.flow == "if":
                            if M[bx, k] != 0:
                                step(k, t)
                        else:
                            step(k, t)
                        if case.flow == "continue after":
                            if M[bx, k] == 0:
                                continue
                        if case.flow == "break after":
                            if M[bx, k] == 0:
                                break
                        if case.flow == "continue after":
                            step(k, t)
                if case.read == "in place":
                    for i, j in T.Parallel(SIDE, SIDE):
                        c[i, j] = c[i, j] * 2
                if case.read in ("in the outer loop", "in place"):
                    T.copy(c, C[bx, 0, t, 0, 0, 0])
            if case.read == "vector":
                for i, j in T.Parallel(SIDE, SIDE):
                    c[i, j] = c[i, j] * 2
                T.copy(c, C[bx, 1, 0, 0, 0, 0])
            elif case.read == "cube":
                T.copy(c, p)
                T.gemm(p, b, e, clear_accum=True)
                T.copy(e, C[bx, 1, 0, 0, 0, 0])
            else:
                T.copy(c, C[bx, 1, 0, 0, 0, 0])
            if case.parts == "two":
                T.copy(d, C[bx, 2, 0, 0, 0, 0])

    return tilelang.compile(main)


class Undefined(Exception):
    """The program adds to what nobody has written."""


def reference(case: Case, A, B, M, L, bx: int):
    """What block `bx` writes."""
    C = np.full((3, OUTER, STEPS, SIDE, SIDE), SENTINEL, np.float32)
    nothing = np.full((SIDE, SIDE), np.nan, np.float32)
    zeros = np.zeros((SIDE, SIDE), np.float32)
    v = {"c": nothing.copy(), "d": nothing.copy(), "a": nothing, "b": nothing}

    def load(k):
        v["a"] = A[:, k * SIDE : (k + 1) * SIDE].astype(np.float32) + (case.operand == "vector")
        v["b"] = B[k * SIDE : (k + 1) * SIDE].astype(np.float32)

    def step(k, t):
        load(k)
        clear = {
            "never": False, "always": True, "k == 0": k == 0, "k < 1": k < 1, "k % 2 == 0": k % 2 == 0,
            "first of all": k == 0 and t == 0, "data": M[bx, 4 + k] > 0,
        }[case.condition]  # fmt: skip
        before = v["c"].copy()
        if clear:
            before[:, : 16 if case.parts == "columns" else SIDE] = 0
        if np.isnan(before).any():
            raise Undefined
        v["c"] = before + v["a"] @ v["b"]
        if case.parts == "two":
            v["d"] = v["d"] + v["b"] @ v["a"]
        if case.read == "in the loop":
            C[0, t, k] = v["c"]
        elif case.read == "vector in the loop":
            C[0, t, k] = v["c"] * 2

    if case.parts == "two":
        v["d"] = zeros
    if case.clear == "before":
        v["c"] = zeros
    elif case.clear == "branch":
        if M[bx, 3] > 0:
            v["c"] = zeros
        else:
            load(0)
            v["c"] = v["a"] @ v["b"]
    elif case.clear == "part":
        load(1)
        v["c"] = v["a"] @ v["b"]
        v["c"][:16] = 0
    for t in range(OUTER if case.nested else 1):
        if case.clear == "outer":
            v["c"] = zeros
        if case.flow == "if around" and case.loop != "while":
            for k in range(STEPS if M[bx, t] else 0):
                step(k, t)
        else:
            for k in range(int(L[bx]) if case.flow == "count" else A.shape[1] // SIDE):
                on = bool(M[bx, k])
                if case.flow == "continue before" and not on:
                    continue
                if case.flow == "break before" and not on:
                    break
                if case.flow != "if" or on:
                    step(k, t)
                if case.flow == "continue after" and not on:
                    continue
                if case.flow == "break after" and not on:
                    break
                if case.flow == "continue after":
                    step(k, t)
        if case.read == "in place":
            v["c"] = v["c"] * 2
        if case.read in ("in the outer loop", "in place"):
            C[0, t, 0] = v["c"]
    if case.read == "vector":
        C[1, 0, 0] = v["c"] * 2
    elif case.read == "cube":
        C[1, 0, 0] = v["c"].astype(np.float16).astype(np.float32) @ v["b"]
    else:
        C[1, 0, 0] = v["c"]
    if case.parts == "two":
        C[2, 0, 0] = v["d"]
    return C


def inputs(case: Case, seed: int = 0):
    """(arrays, what C holds afterwards). Blocks that would read what nobody has written do something else."""
    rng = np.random.default_rng(seed)
    k = STEPS * SIDE if case.operand != "dynamic" else SIDE * int(rng.integers(0, STEPS + 1))
    # Small numbers: products of products stay exact.
    A = rng.integers(-1, 2, (SIDE, k)).astype(np.float16) * (rng.random((SIDE, k)) < 0.3).astype(np.float16)
    B = rng.integers(-1, 2, (k, SIDE)).astype(np.float16) * (rng.random((k, SIDE)) < 0.3).astype(np.float16)
    steps = [(0, 0, 0, 0), (1, 1, 1, 1), (0, 0, 1, 1), (1, 1, 0, 0), (0, 1, 0, 1), (1, 0, 1, 0), (0, 1, 1, 0), (0, 0, 0, 1), (1, 0, 0, 1)]
    choices = list(itertools.product(steps, [(1, 0, 0, 0), (1, 0, 1, 0), (0, 0, 1, 0), (0, 0, 0, 0)], [0, 1, 2, 4]))
    M, L, C = np.zeros((BLOCKS, 8), np.int32), np.zeros(BLOCKS, np.int32), []
    for bx in range(BLOCKS):
        for choice in rng.permutation(len(choices)):
            on, data, count = choices[choice]
            M[bx], L[bx] = (*on, *data), count
            try:
                found = reference(case, A, B, M, L, bx)
            except Undefined:
                continue
            if not np.isnan(found).any():
                C.append(found)
                break
        else:
            return None
    arrays = {"A": A, "B": B, "M": M, "L": L, "C": np.full((BLOCKS, 3, OUTER, STEPS, SIDE, SIDE), SENTINEL, np.float32)}
    return arrays, np.stack(C)


def cases(count: int, seed: int = 0) -> list[Case]:
    """`count` different sensible cases, drawn at random."""
    rng = np.random.default_rng(seed)
    pick = lambda options: options[int(rng.integers(len(options)))]  # noqa: E731
    found: dict = {}
    while len(found) < count:
        case = Case(
            pick(LOOPS), bool(rng.integers(2)), pick(CLEARS), pick(CONDITIONS), pick(FLOWS), pick(PARTS), pick(READS), pick(OPERANDS)
        )
        if case.sensible and inputs(case) is not None:
            found[case] = None
    return list(found)


__all__ = ["Case", "build", "cases", "inputs", "reference"]
