"""What the cube core takes in around an operand of gemm: the rest of a fractal behind a part of a tile, and the padding of the tile."""

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

CHIPS = ("a2", "a5")
SUM = {"int8": "int32"}


def numbers(shape, dtype, seed):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(getattr(ml_dtypes, dtype, None) or dtype)


def product(func, a, b, out, chip, want=None, **more):
    """Run `func` on A, B and C; C is the product unless `want` says otherwise."""
    got = strict.run(tilelang.compile(func, target=chip), {"A": a, "B": b, "C": out, **more}, text=False)["C"]
    np.testing.assert_array_equal(got.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64) if want is None else want)


def rows_from(first, m, rows, dtype):
    """A is `m` rows of a tile from row `first` on, B transposed `m` rows of another one; nothing else of them has a value."""
    K, out = 48, SUM.get(dtype, "float32")

    @T.prim_func
    def kernel(A: T.Tensor((m, K), dtype), B: T.Tensor((m, K), dtype), C: T.Tensor((m, m), out)):
        with T.Kernel(1):
            a, b, c = T.alloc_shared((rows, K), dtype), T.alloc_shared((rows, K), dtype), T.alloc_fragment((m, m), out)
            T.copy(A, a[first : first + m, :])
            T.copy(B, b[first : first + m, :])
            T.gemm(a[first : first + m, :], b[first : first + m, :], c, transpose_B=True, clear_accum=True)
            T.copy(c, C)

    return kernel


@pytest.mark.parametrize(
    "part", [(8, 17, 25), (3, 1, 16), (0, 1, 32), (3, 5, 8), (20, 12, 32), (31, 1, 32)], ids=lambda p: "_".join(map(str, p))
)
@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.one_in(2)
def test_rows_of_tiles(chip, dtype, part):
    m = part[1]
    a, b = numbers((m, 48), dtype, 0), numbers((m, 48), dtype, 1)
    out = np.zeros((m, m), SUM.get(dtype, "float32"))
    product(rows_from(*part, dtype), a, b, out, chip, a.astype(np.float64) @ b.astype(np.float64).T)


@pytest.mark.parametrize("step", [1, 4, 8])
@pytest.mark.parametrize("loaded", ["whole", "rows"])
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.one_in(3)
def test_rows_of_a_tile_in_a_loop(chip, loaded, step):
    M, N, K = 24, 16, 32

    @T.prim_func
    def kernel(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1):
            a, b, c = T.alloc_shared((M, K), "float16"), T.alloc_shared((K, N), "float16"), T.alloc_fragment((step, N), "float32")
            T.copy(B, b)
            if loaded == "whole":
                T.copy(A, a)
            for i in T.serial(M // step):
                if loaded == "rows":
                    T.copy(A[i * step : i * step + step, :], a[i * step : i * step + step, :])
                T.gemm(a[i * step : i * step + step, :], b, c, clear_accum=True)
                T.copy(c, C[i * step, 0])

    product(kernel, numbers((M, K), "float16", 0), numbers((K, N), "float16", 1), np.zeros((M, N), np.float32), chip)


@pytest.mark.parametrize(
    "case", [("float16", 33, "a2"), ("float16", 33, "a5"), ("float32", 16, "a2"), ("float32", 1, "a2"), ("float16", 1, "a5")], ids=str
)
def test_a_single_column_of_a_transposed_operand(case):
    dtype, columns, chip = case
    K, N = 20, 16

    @T.prim_func
    def kernel(A: T.Tensor((1, K), dtype), At: T.Tensor((K, 1), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((1, N), "float32")):
        with T.Kernel(1):
            a, b, c = T.alloc_shared((K, columns), dtype), T.alloc_shared((K, N), dtype), T.alloc_fragment((1, N), "float32")
            T.copy(At, a[:, 0:1])
            T.copy(B, b)
            T.gemm(a[:, 0:1], b, c, transpose_A=True, clear_accum=True)
            T.copy(c, C)

    a = numbers((1, K), dtype, 0)
    product(kernel, a, numbers((K, N), dtype, 1), np.zeros((1, N), np.float32), chip, At=np.ascontiguousarray(a.T))


@pytest.mark.parametrize(
    "columns", [(64, 16, 85), (0, 17, 33), (32, 48, 96), (0, 16, 16), (32, 20, 64)], ids=lambda p: "_".join(map(str, p))
)
@pytest.mark.parametrize("case", [("int8", "a2"), ("int8", "a5"), ("float8_e4m3fn", "a5")], ids=str)
@pytest.mark.one_in(3)
def test_columns_of_a_tile_of_bytes(case, columns):
    (dtype, chip), (first, n, size) = case, columns
    M, K, out = 16, 70, SUM.get(dtype, "float32")

    @T.prim_func
    def kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((K, n), dtype), C: T.Tensor((M, n), out)):
        with T.Kernel(1):
            a, b, c = T.alloc_shared((M, K), dtype), T.alloc_shared((K, size), dtype), T.alloc_fragment((M, n), out)
            T.copy(A, a)
            T.copy(B, b[:, first : first + n])
            T.gemm(a, b[:, first : first + n], c, clear_accum=True)
            T.copy(c, C)

    product(kernel, numbers((M, K), dtype, 0), numbers((K, n), dtype, 1), np.zeros((M, n), out), chip)


@pytest.mark.parametrize(
    "case", [("float16", 20, 5), ("bfloat16", 24, 8), ("float16", 20, 1), ("int8", 48, 16), ("float32", 20, 4)], ids=str
)
@pytest.mark.parametrize("chip", CHIPS)
def test_rows_along_k_loaded_piece_by_piece(chip, case):
    dtype, K, step = case
    M, N, out = 16, 32, SUM.get(dtype, "float32")

    @T.prim_func
    def kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((K - 1, N), dtype), C: T.Tensor((M, N), out)):
        with T.Kernel(1):
            a, b, c = T.alloc_shared((M, K), dtype), T.alloc_shared((K, N), dtype), T.alloc_fragment((M, N), out)
            T.copy(A, a)
            for i in T.serial(K // step):
                T.copy(B[i * step : i * step + step, :], b[i * step : i * step + step, :])
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    a, b = numbers((M, K), dtype, 0), numbers((K - 1, N), dtype, 1)
    product(kernel, a, b, np.zeros((M, N), out), chip, a[:, :-1].astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize("sizes", [(8, 130), (1, 16), (1, 33), (24, 17), (17, 32)], ids=str)
@pytest.mark.parametrize("role", ["A", "B", "At"])
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.one_in(3)
def test_a_product_is_an_operand(chip, role, sizes):
    M, N = sizes
    K, L = 16, 32
    other = {"A": (N, L), "B": (L, M), "At": (M, L)}[role]
    result = {"A": (M, L), "B": (L, N), "At": (N, L)}[role]

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), D: T.Tensor(other, "float16"), C: T.Tensor(result, "float32")
    ):
        with T.Kernel(1):
            a, b, d = T.alloc_shared((M, K), "float16"), T.alloc_shared((N, K), "float16"), T.alloc_shared(other, "float16")
            p, q = T.alloc_fragment((M, N), "float32"), T.alloc_shared((M, N), "float16")
            c = T.alloc_fragment(result, "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(D, d)
            T.gemm(a, b, p, transpose_B=True, clear_accum=True)
            T.copy(p, q)
            if role == "B":
                T.gemm(d, q, c, clear_accum=True)
            else:
                T.gemm(q, d, c, transpose_A=role == "At", clear_accum=True)
            T.copy(c, C)

    a, b, d = numbers((M, K), "float16", 0), numbers((N, K), "float16", 1), numbers(other, "float16", 2)
    p = a.astype(np.float64) @ b.astype(np.float64).T
    want = {"A": lambda: p @ d, "B": lambda: d.astype(np.float64) @ p, "At": lambda: p.T @ d}[role]()
    product(kernel, a, b, np.zeros(result, np.float32), chip, want, D=d)


def test_a_tail_in_front_of_a_tile_filled_row_by_row():
    K, M = 20, 16

    @T.prim_func
    def kernel(A: T.Tensor((17, M), "float32"), B: T.Tensor((K, 16), "float32"), C: T.Tensor((M, 16), "float32")):
        with T.Kernel(1):
            a, b, c = T.alloc_shared((K, M), "float32"), T.alloc_shared((K, 16), "float32"), T.alloc_fragment((M, 16), "float32")
            for i in T.serial(K):
                T.copy(A[i : i + 1, :], a[i : i + 1, :])
            T.copy(B, b)
            T.gemm(a, b, c, transpose_A=True, clear_accum=True)
            T.copy(c, C)

    a, b = numbers((17, M), "float32", 0), numbers((K, 16), "float32", 1)
    product(kernel, a, b, np.zeros((M, 16), np.float32), "a2", a.T.astype(np.float64) @ b[:17])


@pytest.mark.parametrize("sizes", [(16, 16), (1, 1), (40, 48), (17, 17), (32, 8)], ids=str)
@pytest.mark.parametrize("case", [("int8", "a2"), ("int8", "a5"), ("float8_e5m2", "a5"), ("float16", "a2")], ids=str)
@pytest.mark.one_in(4)
def test_products_of_several_forms_meet_in_one_accumulator(case, sizes):
    (dtype, chip), (M, N) = case, sizes
    K, out = 40, SUM.get(dtype, "float32")
    last = (M - 1) // 16 * 16

    @T.prim_func
    def kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), Bt: T.Tensor((N, K), dtype), C: T.Tensor((M, N), out)):
        with T.Kernel(1):
            a, b, t = T.alloc_shared((M, K), dtype), T.alloc_shared((K, N), dtype), T.alloc_shared((N, K), dtype)
            c = T.alloc_fragment((M, N), out)
            T.copy(A, a)
            T.copy(B, b)
            T.copy(Bt, t)
            T.gemm(a, t, c, transpose_B=True, clear_accum=True)
            T.gemm(a, b, c)
            T.gemm(a[last:M, :], b, c[last:M, :])
            T.gemm(a, t, c, transpose_B=True)
            T.copy(c, C)

    a, b = numbers((M, K), dtype, 0), numbers((K, N), dtype, 1)
    p = a.astype(np.float64) @ b.astype(np.float64)
    want = 3 * p
    want[last:] += p[last:]
    product(kernel, a, b, np.zeros((M, N), out), chip, want, Bt=np.ascontiguousarray(b.T))
