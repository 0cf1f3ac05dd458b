"""Serial loops over elements whose iterations do not need each other are nests; others stay loops, and have the values of loops."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import For, ForKind, statements
from tilelang_ascend.transform import pipeline

F32 = "float32"
M, N = 24, 40


@T.macro
def work(form, a, b, c, X, P, n):
    """Work on tiles a, b (M, N) and c (N,), a tensor X (M, N) and places P (M,)."""
    if form == "elements":
        for i in T.serial(M):
            for j in T.serial(N):
                a[i, j] = T.max(a[i, j], 0.0) * b[i, j] + X[i, j]
    elif form == "branches and names":
        for i in T.serial(M):
            for j in T.unroll(N):
                v = a[i, j] * 2.0
                if v > b[i, j]:
                    a[i, j] = v
                else:
                    b[i, j] = v - X[i, (j + 1) % N]
    elif form == "columns inside":
        for i in T.Parallel(M):
            for j in T.serial(N):
                a[i, j] = b[i, j] - c[j]
    elif form == "numbered through":
        for i in T.serial(M * N):
            a[i // N, i % N] = b[i // N, i % N] + 1.0
    elif form == "turned":
        for i in T.serial(N):
            c[N - 1 - i] = X[P[0] % M, i] * 0.5
    elif form == "every other":
        for i in T.serial(N // 2):
            c[2 * i] = X[0, i]
            c[2 * i + 1] = X[1, i]
    elif form == "sums of rows":
        for i in T.serial(M):
            for j in T.serial(N):
                c[i] = c[i] + a[i, j]
    elif form == "from before":
        for i in T.serial(M):
            for j in T.serial(N - 1):
                a[i, j + 1] = a[i, j] * 0.5 + b[i, j]
    elif form == "rows from before":
        for i in T.serial(M - 1):
            for j in T.serial(N):
                a[i + 1, j] = a[i, j] * 0.5 + b[i, j]
    elif form == "next one":
        for i in T.serial(N - 1):
            c[i] = c[i + 1] + c[i] * 0.5
    elif form == "back to front":
        for i in T.serial(N // 2):
            c[i] = c[N - 1 - i] + 1.0
    elif form == "number and row":
        for i in T.serial(M):
            a[i, 0] = a[i // 4, i % 4] * 0.5 + 1.0
    elif form == "one of all":
        for i in T.serial(N):
            c[0] = c[0] * 0.5 + X[0, i]
    elif form == "places":
        for i in T.serial(M):
            c[P[i] % N] = c[P[i] % N] + X[i, 0]
    elif form == "places read":
        for i in T.serial(M):
            c[i] = X[P[i] % M, i]
    elif form == "two tiles":
        for i in T.serial(N):
            c[i] = a[0, i] + 1.0
            a[0, i] = c[i] * 2.0
    elif form == "tiles in turn":
        for i in T.serial(1, N):
            c[i] = a[0, i - 1] + 1.0
            a[0, i] = c[i] * 0.5
    elif form == "a variable":
        s = T.alloc_var(F32, init=1.0)
        for i in T.serial(N):
            s = s * 0.5 + a[0, i]
            c[i] = s
    elif form == "left early":
        for i in T.serial(N):
            if X[0, i] > 1.5:
                T.loop_break()
            c[i] = X[0, i]
    elif form == "as long as it says":
        for i in T.serial(M):
            for j in T.serial(n):
                a[i, j] = b[i, j]
    elif form == "triangle":
        for i in T.serial(M):
            for j in T.serial(i + 1):
                a[i, j] = b[i, j] - 1.0
    elif form == "row of rows":
        for i in T.serial(M):
            c[i] = X[i, 1]
            for j in T.serial(N):
                a[i, j] = b[i, j] * c[i]
    else:  # overlapping windows
        for i in T.serial(N // 2):
            for j in T.serial(3):
                c[i + j] = X[i, j] + c[i + j] * 0.5


def by_hand(form, a, b, c, X, P, n):
    """The same in NumPy, element by element where it matters."""
    f = np.float32
    if form == "elements":
        a[...] = np.maximum(a, 0) * b + X
    elif form == "branches and names":
        v = a * f(2)
        more = v > b
        b[...] = np.where(more, b, v - np.roll(X, -1, 1))
        a[...] = np.where(more, v, a)
    elif form == "columns inside":
        a[...] = b - c
    elif form == "numbered through":
        a[...] = b + 1
    elif form == "turned":
        c[...] = (X[P[0] % M] * f(0.5))[::-1]
    elif form == "every other":
        c[::2], c[1::2] = X[0, : N // 2], X[1, : N // 2]
    elif form == "sums of rows":
        for i in range(M):
            for j in range(N):
                c[i] += a[i, j]
    elif form == "from before":
        for j in range(N - 1):
            a[:, j + 1] = a[:, j] * f(0.5) + b[:, j]
    elif form == "rows from before":
        for i in range(M - 1):
            a[i + 1] = a[i] * f(0.5) + b[i]
    elif form == "next one":
        for i in range(N - 1):
            c[i] = c[i + 1] + c[i] * f(0.5)
    elif form == "back to front":
        for i in range(N // 2):
            c[i] = c[N - 1 - i] + 1
    elif form == "number and row":
        for i in range(M):
            a[i, 0] = a[i // 4, i % 4] * f(0.5) + 1
    elif form == "one of all":
        for i in range(N):
            c[0] = c[0] * f(0.5) + X[0, i]
    elif form == "places":
        for i in range(M):
            c[P[i] % N] += X[i, 0]
    elif form == "places read":
        for i in range(M):
            c[i] = X[P[i] % M, i]
    elif form == "two tiles":
        c[...] = a[0] + 1
        a[0] = c * 2
    elif form == "tiles in turn":
        for i in range(1, N):
            c[i] = a[0, i - 1] + 1
            a[0, i] = c[i] * f(0.5)
    elif form == "a variable":
        s = f(1)
        for i in range(N):
            s = s * f(0.5) + a[0, i]
            c[i] = s
    elif form == "left early":
        for i in range(N):
            if X[0, i] > 1.5:
                break
            c[i] = X[0, i]
    elif form == "as long as it says":
        a[:, :n] = b[:, :n]
    elif form == "triangle":
        for i in range(M):
            a[i, : i + 1] = b[i, : i + 1] - 1
    elif form == "row of rows":
        c[:M] = X[:, 1]
        a[...] = b * c[:M, None]
    else:
        for i in range(N // 2):
            for j in range(3):
                c[i + j] = X[i, j] + c[i + j] * f(0.5)


NESTS = {
    "elements": 2, "branches and names": 2, "columns inside": 2, "numbered through": 2, "turned": 1, "every other": 1, "sums of rows": 1,
    "from before": 1, "rows from before": 1, "places read": 1, "two tiles": 1, "row of rows": 1,
}  # fmt: skip
"""Form -> axes of the nest it becomes."""
LOOPS = [
    "number and row", "next one", "back to front", "one of all", "places", "tiles in turn", "a variable", "left early", "as long as it says", "triangle",
    "overlapping windows",
]  # fmt: skip


def kernel(form):
    @T.prim_func
    def main(
        X: T.Tensor((M, N), F32),
        P: T.Tensor((M,), "int32"),
        n: T.int32,
        A: T.Tensor((M, N), F32),
        B: T.Tensor((M, N), F32),
        C: T.Tensor((N,), F32),
    ):
        with T.Kernel(1):
            a, b, c = T.alloc_shared((M, N), F32), T.alloc_fragment((M, N), F32), T.alloc_shared((N,), F32)
            T.copy(A, a)
            T.copy(B, b)
            T.copy(C, c)
            work(form, a, b, c, X, P, n)
            T.copy(a, A)
            T.copy(b, B)
            T.copy(c, C)

    return main


def nests(func) -> list[int]:
    """Numbers of axes of the nests that stand where `vectorize_loops` leaves a function."""
    lowered = pipeline.lower(func, get_chip("a2"), keep_stages=True)
    (stage,) = [ir for name, ir in lowered.stages if name == "unflatten_nests"]
    return [int(s.annotations["tl.parallel"]) for s in statements(stage.body) if isinstance(s, For) and "tl.parallel" in s.annotations]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("form", [*NESTS, *LOOPS])
def test_loops_over_elements(form):
    func = kernel(form)
    assert nests(func) == ([NESTS[form]] if form in NESTS else [])
    rng = np.random.default_rng(len(form))
    arrays = {name: rng.integers(-4, 5, (M, N)).astype(np.float32) for name in "XAB"}
    arrays |= {"C": rng.integers(-4, 5, N).astype(np.float32), "P": rng.integers(0, 99, M).astype(np.int32)}
    want = {name: x.copy() for name, x in arrays.items()}
    by_hand(form, *(want[x] for x in "ABCXP"), 7)
    out = strict.run(tilelang.compile(func), arrays, {"n": 7}, text=form in ("elements", "places"))
    for name in "ABC":
        np.testing.assert_array_equal(out[name], want[name], name)


def test_loops_without_room_for_a_nest_stay():
    """A nest would keep a tile for what it works out first: loops need none."""

    @T.prim_func
    def main(X: T.Tensor((3, 14000), F32), Y: T.Tensor((14000,), F32)):
        with T.Kernel(1):
            a, b, c = (T.alloc_shared((14000,), F32) for _ in range(3))
            T.copy(X[0, 0], a)
            T.copy(X[1, 0], b)
            T.copy(X[2, 0], c)
            for i in T.serial(7000):
                v = a[i] * c[i + 1]
                a[i] = T.exp(b[i]) * v
                b[i] = v + a[i] * T.exp(c[i])
            for i in T.serial(1, 14000):
                a[i] = a[i - 1] * 0.25 + b[i]
            T.copy(a, Y)

    tilelang.compile(main)


def test_the_option():
    func = kernel("elements")
    assert any(s.kind == ForKind.SERIAL for s in statements(func.body) if isinstance(s, For))
    fast, slow = (tilelang.compile(func, pass_configs={"tl.vectorize_loops": x}).get_kernel_source() for x in (True, False))
    assert "SetValue" not in fast and "SetValue" in slow
