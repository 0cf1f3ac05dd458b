"""Products of a part of an accumulator, and parts of one that become zero."""

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

KINDS = ("rows", "row loop", "first rows", "rows anew", "row loop anew", "columns", "columns backwards", "clear rows", "clear columns",
         "clear columns in a loop")  # fmt: skip
DTYPES = [("float16", "float32"), ("int8", "int32"), ("float32", "float32"), ("bfloat16", "float32")]
SHAPES = [(64, 48, 32, 32, 16), (32, 32, 160, 16, 16), (32, 16, 32, 16, 16), (64, 64, 64, 16, 32), (40, 40, 48, 16, 16)]
"""M, N, K, rows and columns of a part."""


def build(kind, shape, dtype, accum, tb):
    M, N, K, rows, cols = shape
    b_shape = (N, K) if tb else (K, N)

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((M, N), accum)):
        with T.Kernel(1) as _:
            a, b = T.alloc_shared((M, K), dtype), T.alloc_shared(b_shape, dtype)
            c = T.alloc_fragment((M, N), accum)
            T.copy(A, a)
            T.copy(B, b)
            if kind in ("rows", "row loop", "rows anew", "row loop anew"):
                if kind in ("rows", "row loop"):
                    T.clear(c)
                for i in T.serial(M // rows) if "loop" in kind else list(range(M // rows)):
                    part = slice(i * rows, (i + 1) * rows)
                    T.gemm(a[part, :], b, c[part, :], transpose_B=tb, clear_accum="anew" in kind)
            elif kind == "first rows":
                T.clear(c)
                T.gemm(a[0:rows, :], b, c[0:rows, :], transpose_B=tb)
            elif kind in ("columns", "columns backwards"):
                T.clear(c)
                for i in list(range(N // cols))[:: 1 if kind == "columns" else -1]:
                    part = slice(i * cols, (i + 1) * cols)
                    T.gemm(a, b[part, :] if tb else b[:, part], c[:, part], transpose_B=tb)
            else:
                T.gemm(a, b, c, transpose_B=tb, clear_accum=True)
                if kind == "clear rows":
                    T.fill(c[0:rows, :], 0)
                elif kind == "clear columns":
                    T.clear(c[:, 0:cols])
                else:
                    for i in T.serial(N // cols - 1):
                        T.fill(c[:, i * cols : i * cols + cols], 0)
                T.gemm(a, b, c, transpose_B=tb)
            T.copy(c, C)

    return tilelang.compile(main)


def expected(kind, shape, A, B, tb):
    M, N, _, rows, cols = shape
    p = A.astype(np.float64) @ (B.T if tb else B).astype(np.float64)
    if kind == "first rows":
        p[rows:] = 0
    elif kind == "clear rows":
        p[rows:] *= 2
    elif kind == "clear columns":
        p[:, cols:] *= 2
    elif kind == "clear columns in a loop":
        p[:, (N // cols - 1) * cols :] *= 2
    return p


def exists(kind, shape, dtype, tb):
    """False where parts do not cover the tile, and where columns of B do not start at its squares."""
    M, N, _, rows, cols = shape
    if "row" in kind and kind not in ("first rows", "clear rows") and M % rows or "columns" in kind and "clear" not in kind and N % cols:
        return False
    return not (dtype == "int8" and not tb and kind.startswith("columns") and cols % 32 and N > cols)


def check(kind, shape, dtype, accum, tb, chip, text=False):
    M, N, K, _, _ = shape
    rng = np.random.default_rng(0)
    storage = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    A, B = (rng.integers(-3, 4, s).astype(storage) for s in ((M, K), (N, K) if tb else (K, N)))
    kernel = build(kind, shape, dtype, accum, tb).retarget(chip)
    out = strict.run(kernel, {"A": A, "B": B, "C": np.full((M, N), 9, accum)}, text=text)
    np.testing.assert_array_equal(out["C"], expected(kind, shape, A, B, tb))


ALL = [
    (kind, shape, *dtypes, tb, chip)
    for shape in SHAPES for dtypes in DTYPES for tb in (False, True) for chip in ("a2", "a5") for kind in KINDS
    if exists(kind, shape, dtypes[0], tb)
]  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", ALL[::47], ids=str)
def test_parts(case):
    check(*case, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_all_parts(shape):
    for case in ALL:
        if case[1] == shape:
            check(*case)


@pytest.mark.parametrize("first, rows, columns", [(8, 8, 32), (0, 17, 48), (5, 20, 20)])
def test_parts_that_begin_or_end_between_pieces(first, rows, columns):
    """Behind a product for all of the tile, and added up in a loop over its planes."""

    @T.prim_func
    def main(A: T.Tensor((2, 32, 32), "float16"), B: T.Tensor((32, 48), "float16"), C: T.Tensor((2, 32, 48), "float32")):
        with T.Kernel(1):
            a, b = T.alloc_shared((2, 32, 32), "float16"), T.alloc_shared((32, 48), "float16")
            c = T.alloc_fragment((2, 32, 48), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a[1, :, :], b, c[1, :, :])
            for p in T.serial(2):
                T.gemm(a[p, 0:rows, :], b[:, 0:columns], c[p, first : first + rows, 48 - columns : 48])
            T.copy(c, C)

    rng = np.random.default_rng(first)
    a, b = rng.integers(-3, 4, (2, 32, 32)).astype(np.float16), rng.integers(-3, 4, (32, 48)).astype(np.float16)
    want = np.zeros((2, 32, 48), np.float32)
    want[1] = a[1].astype(np.float32) @ b.astype(np.float32)
    want[:, first : first + rows, 48 - columns :] += a[:, :rows].astype(np.float32) @ b[:, :columns].astype(np.float32)
    out = strict.run(tilelang.compile(main), {"A": a, "B": b, "C": np.zeros_like(want)}, text=False)
    np.testing.assert_array_equal(out["C"], want)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_any_part_of_an_accumulator_that_may_still_be_zero_by_agreement_is_read(steps):
    @T.prim_func
    def kernel(A: T.Tensor((40, 32), "float16"), n: T.int32, C: T.Tensor((40, 40), "float32")):
        with T.Kernel(1):
            a, c = T.alloc_shared((40, 32), "float16"), T.alloc_fragment((40, 40), "float32")
            T.copy(A, a)
            T.clear(c)
            for _ in T.serial(n):
                T.gemm(a, a, c, transpose_B=True)
            T.copy(c[3:7, :], C[3:7, :])
            T.copy(c[:, 16:37], C[:, 16:37])
            T.copy(c[33:40, 0:16], C[33:40, 0:16])

    a = np.random.default_rng(0).integers(-3, 4, (40, 32)).astype(np.float16)
    want, product = np.full((40, 40), 7, np.float32), steps * (a.astype(np.float32) @ a.T.astype(np.float32))
    for part in ((slice(3, 7), slice(None)), (slice(None), slice(16, 37)), (slice(33, 40), slice(0, 16))):
        want[part] = product[part]
    got = strict.run(tilelang.compile(kernel), {"A": a, "C": np.full((40, 40), 7, np.float32)}, {"n": steps}, text=False)
    np.testing.assert_array_equal(got["C"], want)


def test_a_product_over_parts_in_different_states_is_not_fresh_behind_a_branch():
    """Seed 161147 of the fuzzer: where the other way asks for the flag of a part, nobody had put it down on this one."""

    @T.prim_func
    def main(
        N: T.Tensor((16,), "int32"), A: T.Tensor((32, 16), "float16"), B: T.Tensor((16, 16), "float16"), C: T.Tensor((64, 16), "float32")
    ):
        with T.Kernel(2) as bx:
            a, b = T.alloc_shared((32, 16), "float16"), T.alloc_shared((16, 16), "float16")
            c = T.alloc_fragment((32, 16), "float32")
            T.copy(A, a)
            T.copy(B, b)
            if N[bx] > 0:
                for _ in T.serial(N[bx]):
                    T.gemm(a, b, c, clear_accum=True)
                T.fill(c[16:32, 0:16], 0)
                T.gemm(a, b, c)
            else:
                T.fill(c, 0)
                for k in T.serial(T.min(bx, 2)):
                    if k == 0:
                        continue
                    T.gemm(a, b, c)
            T.copy(c, C[bx * 32, 0])

    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (32, 16)).astype(np.float16), rng.integers(-3, 4, (16, 16)).astype(np.float16)
    product = a.astype(np.float32) @ b.astype(np.float32)
    for n in ([2, 0], [0, 1]):
        arrays = {"N": np.array(n + [0] * 14, np.int32), "A": a, "B": b, "C": np.full((64, 16), 7, np.float32)}
        expected = [product * np.where(np.arange(32) < 16, 2, 1)[:, None] if k else 0 * product for k in n]
        np.testing.assert_array_equal(strict.run(tilelang.compile(main), arrays)["C"], np.concatenate(expected))


@pytest.mark.parametrize("order", ["before", "loop", "branch"])
def test_a_part_is_cleared_of_what_vector_statements_made(order):
    """Nothing moves the rest to the cube core, where a later product begins anew."""

    @T.prim_func
    def main(
        S: T.Tensor((4,), "int32"), A: T.Tensor((32, 16), "float16"), B: T.Tensor((16, 32), "float16"), C: T.Tensor((4, 32, 32), "float32")
    ):
        with T.Kernel(4) as bx:
            a, b = T.alloc_shared((32, 16), "float16"), T.alloc_shared((16, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(A, a)
            T.copy(B, b)
            if order == "before":
                T.fill(c, 7)
                T.clear(c[0:16, :])
                T.copy(c, C[bx, :, :])
                if S[bx] > 1:
                    T.clear(c)
                    T.gemm(a, b, c)
                    T.copy(c, C[bx, :, :])
            elif order == "loop":
                for _ in T.serial(S[bx]):
                    T.clear(c)
                    T.gemm(a, b, c)
                    for i, j in T.Parallel(32, 32):
                        c[i, j] = c[i, j] * 2
                    T.clear(c[0:16, :])
                    T.copy(c, C[bx, :, :])
            else:
                T.clear(c)
                if S[bx] > 1:
                    T.gemm(a, b, c)
                else:
                    T.clear(c[0:16, :])
                    for i, j in T.Parallel(32, 32):
                        c[i, j] = c[i, j] + 7
                if S[bx] > 0:
                    T.clear(c[16:32, :])
                if S[bx] > 2:
                    T.gemm(a, b, c)
                T.copy(c, C[bx, :, :])

    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (32, 16)).astype(np.float16), rng.integers(-3, 4, (16, 32)).astype(np.float16)
    product, want = a.astype(np.float32) @ b.astype(np.float32), np.full((4, 32, 32), 3, np.float32)
    for s in range(4):
        if order == "before":
            want[s] = product if s > 1 else np.repeat([0, 7], 16)[:, None]
        elif order == "loop" and s > 0:
            want[s] = product * np.repeat([0, 2], 16)[:, None]
        elif order == "branch":
            want[s] = product if s > 1 else 7
            want[s][16:] *= s == 0
            want[s] += product * (s > 2)
    arrays = {"S": np.arange(4, dtype=np.int32), "A": a, "B": b, "C": np.full((4, 32, 32), 3, np.float32)}
    np.testing.assert_array_equal(strict.run(tilelang.compile(main), arrays, text=False)["C"], want)


def test_a_single_last_row_meets_products_of_columns():
    """None is of the whole accumulator, and still they are of several forms."""

    @T.prim_func
    def main(A: T.Tensor((17, 16), "float16"), B: T.Tensor((48, 16), "float16"), C: T.Tensor((17, 48), "float32")):
        with T.Kernel(1):
            a, b, c = T.alloc_shared((17, 16), "float16"), T.alloc_shared((48, 16), "float16"), T.alloc_fragment((17, 48), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b[0:32, :], c[:, 0:32], transpose_B=True)
            T.gemm(a, b[32:48, :], c[:, 32:48], transpose_B=True)
            T.gemm(a[16:17, :], b, c[16:17, :], transpose_B=True)
            T.copy(c, C)

    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (17, 16)).astype(np.float16), rng.integers(-3, 4, (48, 16)).astype(np.float16)
    want = a.astype(np.float32) @ b.T.astype(np.float32) * np.repeat([1, 2], [16, 1])[:, None]
    got = strict.run(tilelang.compile(main), {"A": a, "B": b, "C": np.zeros((17, 48), np.float32)}, text=False)
    np.testing.assert_array_equal(got["C"], want)


def test_a_single_last_row_of_a_part_meets_products_of_the_whole():
    """All products of an accumulator leave out the same padding, those of a part that ends where the tile does, too."""

    @T.prim_func
    def main(
        A: T.Tensor((33, 1), "float16"), At: T.Tensor((1, 33), "float16"), B: T.Tensor((48, 1), "float16"), C: T.Tensor((33, 48), "float32")
    ):
        with T.Kernel(1):
            a, at, b = T.alloc_shared((33, 1), "float16"), T.alloc_shared((1, 33), "float16"), T.alloc_shared((48, 1), "float16")
            c = T.alloc_fragment((33, 48), "float32")
            T.copy(A, a)
            T.copy(At, at)
            T.copy(B, b)
            T.clear(c)
            T.gemm(at[:, 16:33], b, c[16:33, :], transpose_A=True, transpose_B=True, clear_accum=True)
            T.gemm(a, b[32:48, :], c[:, 32:48], transpose_B=True)
            T.copy(c, C)

    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (33, 1)).astype(np.float16), rng.integers(-3, 4, (48, 1)).astype(np.float16)
    want = a.astype(np.float32) @ b.T.astype(np.float32)
    want[:, 32:] += want[:, 32:]
    want[:16, :32], want[:16, 32:] = 0, want[:16, 32:] / 2
    got = strict.run(tilelang.compile(main), {"A": a, "At": a.T.copy(), "B": b, "C": np.zeros((33, 48), np.float32)}, text=False)
    np.testing.assert_array_equal(got["C"], want)
