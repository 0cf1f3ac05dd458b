"""Tiles that start in front of a tensor, and indices that are known not to: guards, growing scalars, persistent loops."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


@tilelang.jit
def shifted_matmul(M, N, K, shift_a, shift_b, shift_c, block=32, in_dtype="float16", out_dtype="float32"):
    """C = A @ B where all tiles are moved to the left; what lies in front of a tensor reads zero and is not stored."""

    @T.prim_func
    def main(A: T.Tensor((M, K), in_dtype), B: T.Tensor((K, N), in_dtype), C: T.Tensor((M, N), out_dtype)):
        with T.Kernel(T.ceildiv(N, block) + 1, T.ceildiv(M, block), threads=128) as (bx, by):
            a, b = T.alloc_shared((block, block), "float16"), T.alloc_shared((block, block), "float16")
            c = T.alloc_fragment((block, block), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block) + 1, num_stages=2):
                T.copy(A[by * block, k * block - shift_a], a)
                T.copy(B[k * block - shift_a, bx * block - shift_b], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * block, bx * block - shift_c])

    return main


def shifted_reference(a, b, shift_b, shift_c):
    """Columns of B move by shift_b to the right on load, those of C by shift_c to the left on store."""
    whole = a.astype(np.float32) @ b.astype(np.float32)
    out = np.zeros_like(whole)
    for n in range(whole.shape[1]):
        if 0 <= n + shift_c - shift_b < whole.shape[1]:
            out[:, n] = whole[:, n + shift_c - shift_b]
    return out


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shift_a, shift_b, shift_c", [(0, 0, 0), (5, 0, 0), (0, 7, 7), (16, 3, 3)])
def test_columns_in_front_of_the_first_one(shift_a, shift_b, shift_c):
    rng = np.random.default_rng(0)
    M, N, K = 40, 50, 45
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((M, K), (K, N)))
    out = strict.run(shifted_matmul(M, N, K, shift_a, shift_b, shift_c), {"A": a, "B": b, "C": np.zeros((M, N), np.float32)})
    np.testing.assert_allclose(out["C"], shifted_reference(a, b, shift_b, shift_c), **strict.tolerance("float32", K))


@pytest.mark.parametrize("in_dtype, out_dtype", [("float32", "float32"), ("float16", "int32")])
def test_conversions_the_cube_core_lacks(in_dtype, out_dtype):
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, s).astype(in_dtype) for s in ((40, 45), (45, 50)))
    kernel = shifted_matmul(40, 50, 45, 0, 0, 0, in_dtype=in_dtype, out_dtype=out_dtype)
    out = strict.run(kernel, {"A": a, "B": b, "C": np.zeros((40, 50), out_dtype)})
    np.testing.assert_array_equal(out["C"], (a.astype(np.float32) @ b.astype(np.float32)).astype(out_dtype))


@tilelang.jit
def copy_shifted(M, N, up, left, block=16):
    """B = A moved: tiles start in front of the first row and of the first column, on load and on store."""

    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block) + 2, T.ceildiv(M, block) + 2, threads=128) as (bx, by):
            tile = T.alloc_shared((block, block), "float32")
            T.copy(A[by * block - up, bx * block - left], tile)
            T.copy(tile, B[by * block - up, bx * block - left])

    return main


@pytest.mark.parametrize("up, left", [(3, 0), (0, 3), (5, 8), (20, 17)])
def test_tiles_in_front_of_the_tensor(up, left):
    a = np.arange(21 * 30, dtype=np.float32).reshape(21, 30)
    out = strict.run(copy_shifted(21, 30, up, left), {"A": a, "B": np.zeros_like(a)})
    np.testing.assert_array_equal(out["B"], a)


@tilelang.jit
def growing(K, first, step, block=32):
    """C = A @ B over K, in steps whose index is a scalar that only grows; it starts at `first`, which may lie in front of A."""

    @T.prim_func
    def main(A: T.Tensor((32, K), "float16"), B: T.Tensor((K, 32), "float16"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=128) as _:
            a, b = T.alloc_shared((32, block), "float16"), T.alloc_shared((block, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            at = T.alloc_var("int32", init=first)
            T.clear(c)
            while at < K:
                T.copy(A[0, at], a)
                T.copy(B[at, 0], b)
                T.gemm(a, b, c)
                at += T.min(step, K)
            T.copy(c, C)

    return main


def uses_vector_cores(kernel) -> bool:
    return "aiv" in {f.attrs["ascend.core"] for f in kernel.artifact.ascend_ir.functions.values()}


@pytest.mark.parametrize("first, mixed", [(0, False), (-7, True)])
def test_scalars_that_only_grow(first, mixed):
    """From 0 on the loads stay on the cube core; from -7 on the vector cores clip them."""
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((32, 75)).astype(np.float16), rng.standard_normal((75, 32)).astype(np.float16)
    kernel = growing(75, first, 32)
    out = strict.run(kernel, {"A": a, "B": b, "C": np.zeros((32, 32), np.float32)})
    np.testing.assert_allclose(out["C"], a.astype(np.float32) @ b.astype(np.float32), **strict.tolerance("float32", 75))
    assert uses_vector_cores(kernel) == mixed


@tilelang.jit
def persistent(cores, dims=None, block=32):
    """C = A @ B, tiles handed out by T.Persistent; shapes known at run time unless given."""
    M, N, K = dims or T.dynamic("M, N, K")

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(cores, threads=128) as core:
            a, b = T.alloc_shared((block, block), "float16"), T.alloc_shared((block, block), "float16")
            c = T.alloc_fragment((block, block), "float32")
            for bx, by in T.Persistent([T.ceildiv(M, block), T.ceildiv(N, block)], cores, core):
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(K, block), num_stages=2):
                    T.copy(A[bx * block, k * block], a)
                    T.copy(B[k * block, by * block], b)
                    T.gemm(a, b, c)
                T.copy(c, C[bx * block, by * block])

    return main


@pytest.mark.parametrize("dims", [(70, 90, 40), None])
def test_persistent_loops_stay_on_the_cube_core(dims):
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((70, 40)).astype(np.float16), rng.standard_normal((40, 90)).astype(np.float16)
    kernel = persistent(4, dims)
    sizes = {} if dims else {"M": 70, "N": 90, "K": 40}
    out = strict.run(kernel, {"A": a, "B": b, "C": np.zeros((70, 90), np.float32)}, sizes)
    np.testing.assert_allclose(out["C"], a.astype(np.float32) @ b.astype(np.float32), **strict.tolerance("float32", 40))
    assert not uses_vector_cores(kernel)


@tilelang.jit
def loaded_in_parts(M, K, rows, cols):
    """C = A @ A.T where the operands are loaded in parts that reach over the edges of A."""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=128) as _:
            a, b = T.alloc_shared((32, 32), "float16"), T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for i in range(0, 32, rows):
                for j in range(0, 32, cols):
                    T.copy(A[i : i + rows, j : j + cols], a[i : i + rows, j : j + cols])
                    T.copy(A[i : i + rows, j : j + cols], b[i : i + rows, j : j + cols])
            T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    return main


@pytest.mark.parametrize("rows, cols, mixed", [(16, 32, False), (32, 16, False), (8, 16, False), (16, 8, True)])
def test_tiles_loaded_in_parts(rows, cols, mixed):
    """Zeros for what lies outside go to the part that is loaded, not to its neighbours; parts of 8 columns go through UB."""
    a = np.random.default_rng(4).integers(-4, 5, (21, 27)).astype(np.float16)
    kernel = loaded_in_parts(21, 27, rows, cols)
    out = strict.run(kernel, {"A": a, "C": np.full((32, 32), 7, np.float32)})
    expected = np.zeros((32, 32), np.float32)
    expected[:21, :21] = a.astype(np.float32) @ a.astype(np.float32).T
    np.testing.assert_array_equal(out["C"], expected)
    assert uses_vector_cores(kernel) == mixed


@tilelang.jit
def from_column(K, promise):
    """C = A[:, start:start + 32] @ A[:, start:start + 32].T"""

    @T.prim_func
    def main(A: T.Tensor((32, K), "float16"), C: T.Tensor((32, 32), "float32"), start: T.int32):
        if promise == "outside":
            T.assume(start >= 0)
        with T.Kernel(1, threads=128) as _:
            a, c = T.alloc_shared((32, 32), "float16"), T.alloc_fragment((32, 32), "float32")
            if promise == "inside":
                T.assume(start >= 0 and start < K)
            T.copy(A[0, start], a)
            T.clear(c)
            T.gemm(a, a, c, transpose_B=True)
            T.copy(c, C)

    return main


@pytest.mark.parametrize("promise, start", [("none", -9), ("inside", 9), ("outside", 60)])
def test_promises(promise, start):
    """Columns that start where the caller says: without a promise the vector cores clip them."""
    a = np.random.default_rng(5).integers(-4, 5, (32, 75)).astype(np.float16)
    kernel = from_column(75, promise)
    out = strict.run(kernel, {"A": a, "C": np.zeros((32, 32), np.float32)}, {"start": start})
    inside = a[:, max(start, 0) : start + 32].astype(np.float32)
    np.testing.assert_array_equal(out["C"], inside @ inside.T)
    assert uses_vector_cores(kernel) == (promise == "none")


def test_tensors_narrower_than_their_tile():
    """Seed 2996 of the fuzzer: the branch of whole tiles, which no block takes, had a negative stride the C++ compiler refused."""

    @T.prim_func
    def kernel(X: T.Tensor((62, 6), "float32"), Y: T.Tensor((62, 6), "float32")):
        with T.Kernel(2, 2) as (bx, by):
            t = T.alloc_shared((32, 8), "float32")
            T.copy(X[by * 32, bx * 8], t)
            for i, j in T.Parallel(32, 8):
                t[i, j] = t[i, j] + 1.0
            T.copy(t, Y[by * 32, bx * 8])

    x = np.random.default_rng(0).standard_normal((62, 6)).astype(np.float32)
    compiled = tilelang.compile(kernel)
    np.testing.assert_array_equal(strict.run(compiled, {"X": x, "Y": np.zeros_like(x)})["Y"], x + np.float32(1))
    assert "else" not in compiled.artifact.kernel_source


def test_a_tile_wider_than_its_tensor_at_a_column_known_at_run_time():
    """No branch for a whole region: its rows would be negative distances apart."""

    @T.prim_func
    def main(X: T.Tensor((9, 2), "float16"), Y: T.Tensor((4, 16), "float16"), p: T.int32, q: T.int32):
        with T.Kernel(1):
            t = T.alloc_shared((4, 16), "float16")
            T.copy(X[p, q], t)
            T.copy(t, Y)

    x = np.arange(18, dtype=np.float16).reshape(9, 2) + 1
    want = np.zeros((4, 16), np.float16)
    want[:, 3:5] = x[2:6]
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.ones_like(want)}, {"p": 2, "q": -3}, text=False)
    np.testing.assert_array_equal(out["Y"], want)


@tilelang.jit
def chosen_rows(shift, store, width, cols, dtype="float32"):
    """Rows that data chooses, moved to the right by `shift`, or by a number known at run time: a load reads zero in front of them."""
    N = T.dynamic("N")

    @T.prim_func
    def main(X: T.Tensor((N, width), dtype), I: T.Tensor((N,), "int32"), o: T.int32, Y: T.Tensor((N, width), dtype)):
        with T.Kernel(T.ceildiv(N, 5)) as b:
            for i, j in T.Parallel(5, cols):
                place = j - (o if shift is None else shift)
                if store:
                    Y[I[b * 5 + i], place] = X[b * 5 + i, j]
                else:
                    Y[b * 5 + i, j] = X[I[b * 5 + i], place]

    return main


ROWS = [
    (1, False, 40, 40, "float32", [0]), (8, False, 40, 40, "uint8", [0]), (13, False, 40, 40, "float16", [0]), (50, False, 40, 40, "int32", [0]),
    (9, False, 40, 7, "float32", [0]), (-50, False, 40, 40, "float32", [0]), (None, False, 24, 32, "float32", [0, 3, -3, 30, -30]),
    (1, True, 40, 40, "float32", [0]), (-50, True, 40, 40, "float32", [0]), (None, True, 24, 32, "float16", [0, 3, -3]),
]  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shift, store, width, cols, dtype, offsets", ROWS)
def test_chosen_rows_that_begin_in_front(shift, store, width, cols, dtype, offsets):
    rng, n = np.random.default_rng(0), 15
    x, at = rng.integers(1, 9, (n, width)).astype(dtype), rng.permutation(n).astype(np.int32)
    kernel = chosen_rows(shift, store, width, cols, dtype)
    for o in offsets:
        wide, moved = np.zeros((n, 400), dtype), o if shift is None else shift
        wide[:, 200 : 200 + width] = x
        want = np.zeros((n, width), dtype)
        if store:
            some = wide[:, 200 : 200 + cols].copy()
            wide[:] = 0
            wide[at, 200 - moved : 200 - moved + some.shape[1]] = some
            want = wide[:, 200 : 200 + width]
        else:
            want[:, :cols] = wide[at, 200 - moved : 200 - moved + width][:, :cols]
        got = strict.run(kernel, {"X": x, "I": at, "Y": np.zeros((n, width), dtype)}, {"N": n, "o": o}, text=o == 3)["Y"]
        np.testing.assert_array_equal(got, want)


@tilelang.jit
def rows_from(first):
    """C = A with rows of another tensor from row `16 + shift` on, up to row 32, and others that follow: `shift` may be negative."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 32), "float16"), B: T.Tensor((64, 32), "float16"), E: T.Tensor((32, 32), "float16"), n: T.Tensor((1,), "int32"),
        C: T.Tensor((64, 32), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            a, e, c = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 32), "float16"), T.alloc_fragment((64, 32), "float32")
            T.copy(E, e)
            shift = T.max(T.min(n[0], 8), first)
            rows = T.max(16 - shift, 0)
            T.copy(A, a)
            T.copy(B[0:rows, :], a[16 + shift : 16 + shift + rows, :])
            T.copy(B[40:48, :], a[8:16, :])
            T.gemm(a, e, c, clear_accum=True)
            T.copy(c, C)

    return main


@pytest.mark.parametrize("shift", [-8, -3, 0, 8])
def test_rows_in_front_of_where_all_would_lie(shift):
    """What overwrites some of them waits for them."""
    a, b = (np.random.default_rng(shift + 8).integers(1, 9, (2, 64, 32))).astype(np.float16)
    for first in (-8, 0) if shift >= 0 else (-8,):
        want = a.copy()
        want[16 + shift : 32] = b[: 16 - shift]
        want[8:16] = b[40:48]
        given = {"A": a, "B": b, "E": np.eye(32, dtype=np.float16), "n": np.array([shift], np.int32), "C": np.zeros((64, 32), np.float32)}
        np.testing.assert_array_equal(strict.run(rows_from(first), given)["C"], want)
