"""Values every iteration of T.Parallel has for itself, and loops inside a nest that works on GM."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


@tilelang.jit
def row_sums(M, N, private, staged):
    """B[i] = sum of A[i, :], accumulated in a private array or in a scalar, from a tile or straight from GM."""

    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M,), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((M, N), "float32")
            array = T.alloc_local((1,), "float32")
            if staged:
                T.copy(A, tile)
            source = tile if staged else A
            for i in T.Parallel(M):
                if private == "array":
                    array[0] = 0.0
                    for j in T.serial(N):
                        array[0] += source[i, j]
                    B[i] = array[0]
                else:
                    total = T.alloc_var("float32")
                    total = 0.0
                    for j in T.serial(N):
                        total += source[i, j]
                    B[i] = total

    return main


@pytest.mark.parametrize("private", ["array", "scalar"])
@pytest.mark.parametrize("staged", [True, False])
def test_every_iteration_has_its_own_accumulator(private, staged):
    a = np.random.default_rng(0).standard_normal((16, 24)).astype(np.float32)
    out = strict.run(row_sums(16, 24, private, staged), {"A": a, "B": np.zeros(16, np.float32)})
    np.testing.assert_allclose(out["B"], a.sum(1), **strict.tolerance("float32", 24))


def test_a_private_array_of_several_elements():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(2, threads=128) as bx:
            four = T.alloc_local((4,), "float32")
            for i in T.Parallel(8):
                for v in T.vectorized(4):
                    four[v] = A[bx * 32 + i * 4 + v]
                for v in T.vectorized(4):
                    B[bx * 32 + i * 4 + v] = four[3 - v] * 2

    a = np.arange(64, dtype=np.float32)
    out = strict.run(tilelang.compile(main), {"A": a, "B": np.zeros(64, np.float32)})
    np.testing.assert_array_equal(out["B"], a.reshape(16, 4)[:, ::-1].ravel() * 2)


@pytest.mark.one_in(2)
def test_a_loop_too_long_for_a_tile_reads_element_by_element():
    n = 50_000

    @T.prim_func
    def main(A: T.Tensor((2, n), "float32"), B: T.Tensor((2,), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(2):
                last = T.alloc_var("float32")
                last = 0.0
                for j in T.serial(n):
                    if j % 25_000 == 7:
                        last += A[i, j]
                B[i] = last

    a = np.random.default_rng(0).standard_normal((2, n)).astype(np.float32)
    out = strict.run(tilelang.compile(main), {"A": a, "B": np.zeros(2, np.float32)}, text=False)
    np.testing.assert_allclose(out["B"], a[:, 7] + a[:, 25_007], **strict.tolerance("float32", 2))


def test_what_an_inner_loop_leaves_out_stays():
    """The loop stores three of every four elements."""

    @T.prim_func
    def main(A: T.Tensor((16, 8), "float32"), B: T.Tensor((16, 8), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(16):
                for j in T.serial(8):
                    if j % 4 != 1:
                        B[i, j] = A[i, j] + 1

    a = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
    out = strict.run(tilelang.compile(main), {"A": a, "B": np.full((16, 8), 7, np.float32)})
    np.testing.assert_array_equal(out["B"], np.where(np.arange(8) % 4 != 1, a + 1, np.float32(7)))


def test_a_loop_that_is_left_early():
    @T.prim_func
    def main(A: T.Tensor((16, 8), "float32"), B: T.Tensor((16, 8), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(16):
                for j in T.serial(8):
                    if j == 3:
                        break
                    B[i, j] = A[i, j] + 1

    a = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
    out = strict.run(tilelang.compile(main), {"A": a, "B": np.full((16, 8), 7, np.float32)})
    np.testing.assert_array_equal(out["B"], np.where(np.arange(8) < 3, a + 1, np.float32(7)))


@pytest.mark.parametrize("read_after", [False, True])
@pytest.mark.parametrize("staged", [False, True])
def test_a_variable_declared_in_front_of_the_loop(staged, read_after):
    """What the last iteration assigns stays."""

    @T.prim_func
    def main(A: T.Tensor((40,), "int32"), B: T.Tensor((40,), "int32"), C: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            tile, at = T.alloc_shared((40,), "int32"), T.alloc_var("int32")
            at = 3
            T.copy(A, tile)
            for i in T.Parallel(40):
                at = 39 - i
                if staged:
                    tile[i] = tile[i] + at
                else:
                    B[at] = A[i]
            if staged:
                T.copy(tile, B)
            C[0] = at if read_after else 7

    a = np.arange(40, dtype=np.int32) * 5
    out = strict.run(tilelang.compile(main), {"A": a, "B": np.zeros(40, np.int32), "C": np.zeros(1, np.int32)})
    np.testing.assert_array_equal(out["B"], a + np.arange(40)[::-1] if staged else a[::-1])
    assert out["C"][0] == (0 if read_after else 7)


@pytest.mark.parametrize("dtype", ["int32", "int8", "int64", "float16", "float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["loop", "lanes", "loop in a loop"])
@pytest.mark.one_in(2)
def test_a_variable_without_a_value_starts_at_zero(kind, dtype):
    n = 40

    @T.prim_func
    def main(Y: T.Tensor((n,), "int32"), m: T.int32):
        with T.Kernel(1):
            y = T.alloc_shared((n,), "int32")
            for i in T.Parallel(n):
                if kind == "loop in a loop":
                    for _k in T.serial(2):
                        v = T.alloc_var(dtype)
                        for q in T.serial(m):
                            v = v + T.cast(q + 1, dtype)
                        y[i] = T.cast(v, "int32")
                else:
                    w = T.alloc_var(dtype)
                    if kind == "loop":
                        for _k in T.serial(m):
                            w = w + T.cast(i, dtype)
                    elif i < 7:
                        w = T.cast(m, dtype)
                    y[i] = T.cast(w, "int32")
            T.copy(y, Y)

    i = np.arange(n)
    compiled = tilelang.compile(main)
    for m in (0, 3):
        out = strict.run(compiled, {"Y": np.full(n, 9, np.int32)}, {"m": m}, text=dtype == "int8")["Y"]
        np.testing.assert_array_equal(
            out, {"loop": m * i, "lanes": np.where(i < 7, m, 0), "loop in a loop": 0 * i + m * (m + 1) // 2}[kind]
        )


@pytest.mark.parametrize("chip", ["a2", "a5"])
@pytest.mark.parametrize("kind", ["sum", "largest", "count", "private"])
@pytest.mark.one_in(2)
def test_variables_all_rows_share_are_known_to_both_vector_cores(kind, chip):
    """Each of the two cores of a block would add up its half of the rows."""
    rows = 33

    @T.prim_func
    def main(
        A: T.Tensor((rows, 16), "float16"),
        B: T.Tensor((16, 16), "float16"),
        C: T.Tensor((rows, 16), "float32"),
        D: T.Tensor((8,), "float32"),
    ):
        with T.Kernel(1):
            a, b = T.alloc_shared((rows, 16), "float16"), T.alloc_shared((16, 16), "float16")
            c, r = T.alloc_fragment((rows, 16), "float32"), T.alloc_fragment((rows,), "float32")
            s = T.alloc_var("float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c)
            T.reduce_max(c, r, dim=1)
            s = 0.0
            for i in T.Parallel(rows):
                if kind == "sum":
                    s = s + r[i]
                elif kind == "largest":
                    if r[i] > s:
                        s = r[i]
                elif kind == "count":
                    s = s + 1.0
                else:
                    s = r[i] * 2.0
                    r[i] = s
            if kind != "private":
                for i, j in T.Parallel(rows, 16):
                    c[i, j] = c[i, j] + s
                D[0] = s
            for i, j in T.Parallel(rows, 16):
                c[i, j] = c[i, j] + r[i]
            T.copy(c, C)

    rng = np.random.default_rng(0)
    a, b = rng.integers(-2, 3, (rows, 16)).astype(np.float16), rng.integers(-2, 3, (16, 16)).astype(np.float16)
    product = a.astype(np.float32) @ b.astype(np.float32)
    r = product.max(axis=1)
    s = {"sum": r.sum(), "largest": max(0, r.max()), "count": rows, "private": 0}[kind]
    want = product + s + r[:, None] * (2 if kind == "private" else 1)
    arrays = {"A": a, "B": b, "C": np.zeros((rows, 16), np.float32), "D": np.zeros(8, np.float32)}
    got = strict.run(tilelang.compile(main, target=chip), arrays, text=False)
    np.testing.assert_array_equal(got["C"], want)
    assert got["D"][0] == s


def test_a_variable_of_iterations_beyond_a_tile():
    """Stores of a nest that is longer than its tile are not taken apart where one of them reads what another has put into a variable."""

    @T.prim_func
    def main(X: T.Tensor((32,), "float32"), Y: T.Tensor((16,), "float32"), D: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            x, y = T.alloc_shared((32,), "float32"), T.alloc_shared((16,), "float32")
            v, total, count = T.alloc_var("float32"), T.alloc_var("float32"), T.alloc_var("int32")
            total = 0.0
            count = 0
            T.copy(X, x)
            for i in T.Parallel(32):
                v = x[i] * 2.0
                if i < 16:
                    y[i] = v
                total = total + x[i]
                count = count + 1
            T.copy(y, Y)
            D[0] = total
            D[1] = T.cast(count, "float32")

    x = np.arange(32, dtype=np.float32)
    got = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros(16, np.float32), "D": np.zeros(8, np.float32)}, text=False)
    np.testing.assert_array_equal(got["Y"], 2 * x[:16])
    assert list(got["D"][:2]) == [x.sum(), 32]


def test_iterations_that_change_a_variable_alike_are_counted():
    """`c = c + 1` has the same value in all lanes, and is no statement that runs once."""

    @T.prim_func
    def main(D: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            c = T.alloc_var("int32")
            c = 0
            for _ in T.Parallel(64):
                c = c + 1
            D[0] = c
            c = 1
            for _, _ in T.Parallel(4, 5):
                c = 2
                for _ in T.serial(3):
                    c = c * 2
            D[1] = c

    assert list(strict.run(tilelang.compile(main), {"D": np.zeros(8, np.int32)})["D"][:2]) == [64, 16]


@pytest.mark.parametrize("chip", ["a2", "a5"])
@pytest.mark.parametrize("divided", [True, False])
@pytest.mark.parametrize("kind", ["loop", "branch"])
@pytest.mark.one_in(2)
def test_what_a_nest_counts_is_known_to_all_cores(kind, divided, chip):
    """Products hang on it, and the second vector core, which may have no tile of the nest, has to come to the same flags."""
    rows = 32

    @T.prim_func
    def main(
        A: T.Tensor((rows, 16), "float16"), B: T.Tensor((16, 16), "float16"), X: T.Tensor((rows,), "float32"),
        C: T.Tensor((rows, 16), "float32"), D: T.Tensor((8,), "float32"),
    ):  # fmt: skip
        with T.Kernel(1):
            a, b, x = T.alloc_shared((rows, 16), "float16"), T.alloc_shared((16, 16), "float16"), T.alloc_shared((rows,), "float32")
            c, total = T.alloc_fragment((rows, 16), "float32"), T.alloc_fragment((rows, 16), "float32")
            n = T.alloc_var("int32")
            n = 0
            T.copy(A, a)
            T.copy(B, b)
            T.copy(X, x)
            T.clear(total)
            for i in T.Parallel(rows):
                x[i] = x[i] + 1.0
                n = n + 1
            if kind == "loop":
                for _ in T.serial(n // 8):
                    T.clear(c)
                    T.gemm(a, b, c)
                    for i, j in T.Parallel(rows, 16):
                        total[i, j] = total[i, j] + c[i, j] + x[i]
            elif n > 20:
                T.clear(c)
                T.gemm(a, b, c)
                for i, j in T.Parallel(rows, 16):
                    total[i, j] = c[i, j] + x[i]
            T.copy(total, C)
            if not divided:
                D[0] = total[3, 4]

    rng = np.random.default_rng(0)
    a, b = rng.integers(-2, 3, (rows, 16)).astype(np.float16), rng.integers(-2, 3, (16, 16)).astype(np.float16)
    x = rng.integers(-2, 3, rows).astype(np.float32)
    want = (a.astype(np.float32) @ b.astype(np.float32) + x[:, None] + 1) * (4 if kind == "loop" else 1)
    arrays = {"A": a, "B": b, "X": x, "C": np.zeros((rows, 16), np.float32), "D": np.zeros(8, np.float32)}
    got = strict.run(tilelang.compile(main, target=chip), arrays, text=False)
    np.testing.assert_array_equal(got["C"], want)
    assert got["D"][0] == (0 if divided else want[3, 4])


@pytest.mark.parametrize("blocks", [4, 100])
def test_variables_without_a_value_start_at_0_wherever_they_are_declared(blocks):
    """A core runs several blocks, and a loop comes back to a declaration: each finds 0."""

    @T.prim_func
    def kernel(C: T.Tensor((blocks, 3), "int32"), n: T.int32):
        with T.Kernel(blocks, threads=128) as b:
            whole = T.alloc_var("int32")
            for i in T.serial(3):
                part = T.int32()
                for k in T.serial(n):
                    whole = whole + k + 1
                    part = part + k + 1
                C[b, i] = whole * 100 + part

    out = strict.run(tilelang.compile(kernel), {"C": np.zeros((blocks, 3), np.int32)}, {"n": 3}, text=blocks == 100)
    np.testing.assert_array_equal(out["C"], np.tile([606, 1206, 1806], (blocks, 1)))
