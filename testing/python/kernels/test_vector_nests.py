"""Nests beyond plain element-wise work, the strict way: values, hazards, sentinels, and the emitted text beside the IR."""

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

RNG = np.random.default_rng(7)


def run(func, text=True, **arrays):
    return strict.run(tilelang.compile(func), arrays, text=text)


@pytest.mark.parametrize("rows, columns", [(48, 128), (48, 100), (15, 65)])
def test_reducer_over_tiles(rows, columns):
    @T.prim_func
    def main(A: T.Tensor((rows, columns), "float16"), B: T.Tensor((columns,), "float32"), C: T.Tensor((rows,), "float32")):
        with T.Kernel(1):
            a = T.alloc_shared((rows, columns), "float16")
            top = T.alloc_reducer((columns,), "float32", op="max")
            total = T.alloc_reducer((rows,), "float32", op="sum")
            T.reducer_init(top)
            T.reducer_init(total)
            T.copy(A, a)
            for i, j in T.Parallel(rows, columns):
                T.reducer_update(top[j], T.cast(a[i, j], "float32") * 2)
                T.reducer_update(total[i], T.cast(a[i, j], "float32"))
            T.finalize_reducer(top)
            T.finalize_reducer(total)
            T.copy(top, B)
            T.copy(total, C)

    a = RNG.standard_normal((rows, columns)).astype(np.float16)
    out = run(main, A=a, B=np.zeros(columns, np.float32), C=np.zeros(rows, np.float32))
    np.testing.assert_array_equal(out["B"], 2 * a.astype(np.float32).max(0))
    np.testing.assert_allclose(out["C"], a.astype(np.float64).sum(1), rtol=1e-5, atol=1e-5)


def row_gather(rows, width, dtype):
    @T.prim_func
    def main(W: T.Tensor((300, width), dtype), I: T.Tensor((rows,), "int32"), B: T.Tensor((rows, width), dtype)):
        with T.Kernel(T.ceildiv(rows, 16)) as bx:
            o = T.alloc_shared((16, width), dtype)
            for i, j in T.Parallel(16, width):
                o[i, j] = W[I[bx * 16 + i], j]
            T.copy(o, B[bx * 16, 0])

    return main


@pytest.mark.parametrize("width, dtype", [(128, "float16"), (100, "float32"), (33, "int8")])
def test_rows_chosen_by_data(width, dtype):
    w = RNG.integers(-100, 100, (300, width)).astype(dtype)
    index = RNG.integers(0, 300, 64).astype(np.int32)
    kernel = tilelang.compile(row_gather(64, width, dtype))
    out = strict.run(kernel, {"W": w, "I": index, "B": np.zeros((64, width), dtype)})
    np.testing.assert_array_equal(out["B"], w[index])
    loads = [line for line in kernel.get_kernel_source().splitlines() if "DataCopyPad" in line]
    assert loads, "rows travel by DMA"


def test_guarded_rows_are_clamped():
    rows, width = 48, 64

    @T.prim_func
    def main(W: T.Tensor((300, width), "float32"), I: T.Tensor((rows,), "int32"), B: T.Tensor((rows, width), "float32")):
        with T.Kernel(3) as bx:
            for i, j in T.Parallel(16, width):
                B[bx * 16 + i, j] = T.if_then_else(I[bx * 16 + i] >= 0, W[I[bx * 16 + i], j] * 2.0, -1.0)

    w = RNG.standard_normal((300, width)).astype(np.float32)
    index = RNG.integers(-200, 300, rows).astype(np.int32)
    out = run(main, W=w, I=index, B=np.zeros((rows, width), np.float32))
    np.testing.assert_array_equal(out["B"], np.where(index[:, None] >= 0, w[np.maximum(index, 0)] * 2, -1))


def test_rows_stored_where_data_says():
    @T.prim_func
    def main(X: T.Tensor((64, 100), "float16"), I: T.Tensor((64,), "int32"), B: T.Tensor((200, 100), "float16")):
        with T.Kernel(4) as bx:
            for i, j in T.Parallel(16, 100):
                B[I[bx * 16 + i], j] = X[bx * 16 + i, j] * 2.0

    x = RNG.standard_normal((64, 100)).astype(np.float16)
    index = RNG.permutation(200)[:64].astype(np.int32)
    out = run(main, X=x, I=index, B=np.zeros((200, 100), np.float16))
    want = np.zeros((200, 100), np.float16)
    want[index] = x * 2
    np.testing.assert_array_equal(out["B"], want)


def test_values_scattered_within_a_tile():
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), I: T.Tensor((64,), "int32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1):
            x = T.alloc_shared((64,), "float32")
            index = T.alloc_shared((64,), "int32")
            y = T.alloc_shared((64,), "float32")
            T.copy(X, x)
            T.copy(I, index)
            for i in T.Parallel(64):
                y[index[i]] = T.exp(x[i])
            T.copy(y, B)

    x, index = RNG.standard_normal(64).astype(np.float32), RNG.permutation(64).astype(np.int32)
    out = run(main, X=x, I=index, B=np.zeros(64, np.float32))
    np.testing.assert_allclose(out["B"][index], np.exp(x), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_bit_reductions(dtype):
    @T.prim_func
    def main(A: T.Tensor((16, 40), dtype), B: T.Tensor((16,), dtype), C: T.Tensor((16,), dtype)):
        with T.Kernel(1):
            a = T.alloc_shared((16, 40), dtype)
            b = T.alloc_fragment((16,), dtype)
            c = T.alloc_fragment((16,), dtype)
            T.copy(A, a)
            T.reduce_bitxor(a, b, dim=1)
            T.reduce_bitor(a, c, dim=1)
            T.copy(b, B)
            T.copy(c, C)

    a = RNG.integers(0, 100, (16, 40)).astype(dtype)
    out = run(main, A=a, B=np.zeros(16, dtype), C=np.zeros(16, dtype))
    np.testing.assert_array_equal(out["B"], np.bitwise_xor.reduce(a, 1))
    np.testing.assert_array_equal(out["C"], np.bitwise_or.reduce(a, 1))


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_unsigned_hash(dtype):
    """A multiplicative hash with per-lane rotation."""
    bits = 8 * np.dtype(dtype).itemsize

    @T.prim_func
    def main(A: T.Tensor((100,), dtype), R: T.Tensor((100,), dtype), B: T.Tensor((100,), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(100):
                B[i] = T.max((A[i] * 40503) << R[i] | (A[i] * 40503) >> (bits - R[i]), A[i])

    a = RNG.integers(0, 2**bits, 100).astype(dtype)
    r = RNG.integers(1, bits, 100).astype(dtype)
    out = run(main, A=a, R=r, B=np.zeros(100, dtype))
    a, r = (x.astype(np.int32 if bits < 32 else dtype) for x in (a, r))  # narrow arithmetic is int32
    h = a * a.dtype.type(40503)
    np.testing.assert_array_equal(out["B"], np.maximum(h << r | h >> (bits - r), a).astype(dtype))


def test_top_k_by_iterated_argmax():
    rows, experts, k = 32, 64, 4

    @T.prim_func
    def main(X: T.Tensor((rows, experts), "float32"), V: T.Tensor((rows, k), "float32"), I: T.Tensor((rows, k), "int32")):
        with T.Kernel(2) as bx:
            x = T.alloc_fragment((16, experts), "float32")
            top = T.alloc_fragment((16,), "float32")
            index = T.alloc_fragment((16, experts), "int32")
            best = T.alloc_fragment((16,), "int32")
            T.copy(X[bx * 16, 0], x)
            for n in T.serial(k):
                T.fill(index, -1)
                T.reduce_max(x, top, dim=1, clear=True)
                for i, j in T.Parallel(16, experts):
                    index[i, j] = T.if_then_else(top[i] == x[i, j], j, index[i, j])
                T.reduce_max(index, best, dim=1, clear=True)
                for i, j in T.Parallel(16, experts):
                    x[i, j] = T.if_then_else(top[i] == x[i, j], -10000.0, x[i, j])
                for i in T.Parallel(16):
                    V[bx * 16 + i, n] = top[i]
                    I[bx * 16 + i, n] = best[i]

    x = RNG.standard_normal((rows, experts)).astype(np.float32)
    out = run(main, X=x, V=np.zeros((rows, k), np.float32), I=np.zeros((rows, k), np.int32))
    want = np.argsort(-x, 1)[:, :k]
    np.testing.assert_array_equal(out["I"], want)
    np.testing.assert_array_equal(out["V"], np.take_along_axis(x, want, 1))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_8_bit_floats_are_storage(dtype):
    @T.prim_func
    def main(A: T.Tensor((8, 100), dtype), B: T.Tensor((8, 100), dtype)):
        with T.Kernel(1):
            a = T.alloc_shared((8, 100), dtype)
            T.copy(A, a)
            for i, j in T.Parallel(8, 100):
                B[i, j] = T.cast(a[i, j], "float32") * 1.7

    fp8 = getattr(ml_dtypes, dtype)
    a = RNG.standard_normal((8, 100)).astype(fp8)
    # C220 has no 8-bit float tensors, so the emitted text of their transfers does not compile there.
    out = run(main, text=False, A=a, B=np.zeros((8, 100), fp8))
    want = (a.astype(np.float32) * np.float32(1.7)).astype(fp8)
    np.testing.assert_array_equal(out["B"].astype(np.float32), want.astype(np.float32))


@pytest.mark.parametrize("dtype", ["float32", "int32", "int16", "uint32"])
def test_values_read_before_a_store_are_the_old_ones(dtype):
    """Both halves are read first and stored later, also where the values are used as bits of another dtype."""
    stride = 4

    @T.prim_func
    def main(X: T.Tensor((16,), dtype), Y: T.Tensor((16,), dtype)):
        with T.Kernel(1, threads=32):
            x = T.alloc_shared((16,), dtype)
            T.copy(X, x)
            for b, i in T.Parallel(2, stride):
                p, q = x[b * 2 * stride + i], x[b * 2 * stride + i + stride]
                swap = p < q
                x[b * 2 * stride + i] = T.if_then_else(swap, q, p)
                x[b * 2 * stride + i + stride] = T.if_then_else(swap, p, q)
            T.copy(x, Y)

    x = np.array([3, 9, 1, 7, 2, 10, 8, 0, 4, 4, 11, 5, 12, 3, 6, 13], dtype)
    pairs = x.reshape(2, 2, stride)
    want = np.stack([pairs.max(1), pairs.min(1)], 1).reshape(-1)
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros_like(x)}, text=False)
    np.testing.assert_array_equal(out["Y"], want)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool", "float8_e4m3fn", "float16", "int64"])
def test_gathers_of_every_width(dtype, caplog):
    @T.prim_func
    def main(X: T.Tensor((50,), dtype), I: T.Tensor((3, 21), "int32"), Y: T.Tensor((3, 21), dtype)):
        with T.Kernel(1, threads=32):
            x, index, y = T.alloc_shared((50,), dtype), T.alloc_shared((3, 21), "int32"), T.alloc_shared((3, 21), dtype)
            T.copy(X, x)
            T.copy(I, index)
            for i, j in T.Parallel(3, 21):
                y[i, j] = x[index[i, j]]
            T.copy(y, Y)

    kind = np.dtype(ml_dtypes.float8_e4m3fn if dtype.startswith("float8") else dtype)
    x = RNG.integers(0, 2 if dtype == "bool" else 120, 50).astype(kind)
    index = RNG.integers(0, 50, (3, 21), dtype=np.int32)
    with caplog.at_level("WARNING", logger="tilelang_ascend"):
        out = run(main, text=False, X=x, I=index, Y=np.zeros((3, 21), kind))
    assert "scalar loops" not in caplog.text
    assert (out["Y"] == x[index]).all()


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int16"])
@pytest.mark.parametrize("rows, columns", [(5, 9), (3, 70), (1, 16)])
@pytest.mark.one_in(2)
def test_products(rows, columns, dtype, caplog):
    @T.prim_func
    def main(X: T.Tensor((rows, columns), dtype), R: T.Tensor((rows,), dtype), C: T.Tensor((columns,), dtype)):
        with T.Kernel(1, threads=32):
            x = T.alloc_shared((rows, columns), dtype)
            r, c = T.alloc_fragment((rows,), dtype), T.alloc_fragment((columns,), dtype)
            T.copy(X, x)
            T.fill(r, 2)
            T.fill(c, 1)
            for i, j in T.Parallel(rows, columns):
                r[i] = r[i] * x[i, j]
            for i, j in T.Parallel(rows, columns):
                if x[i, j] != 1:
                    c[j] *= x[i, j]
            T.copy(r, R)
            T.copy(c, C)

    x = RNG.choice(np.array([1, 1, 1, -1, 2, 0.5] if dtype.startswith("float") else [1, -1, 3, 7]), (rows, columns)).astype(dtype)
    with caplog.at_level("WARNING", logger="tilelang_ascend"):
        out = run(main, text=False, X=x, R=np.zeros(rows, dtype), C=np.zeros(columns, dtype))
    assert "scalar loops" not in caplog.text
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(
            out["R"], (2 * x.astype(np.float64).prod(1) if dtype.startswith("float") else 2 * x.prod(1)).astype(dtype)
        )
        np.testing.assert_array_equal(out["C"], (x.astype(np.float64).prod(0) if dtype.startswith("float") else x.prod(0)).astype(dtype))


@pytest.mark.parametrize("dtype, text", [("float32", True), ("float16", False), ("int32", False)])
def test_columns_at_run_time(dtype, text):
    """One column of a tile in each step of a loop, and the tile as an output: no scalar loop."""
    rows, k = 21, 19

    @T.prim_func
    def main(A: T.Tensor((k, rows), dtype), B: T.Tensor((rows, k), dtype), C: T.Tensor((rows, 1), dtype)):
        with T.Kernel(1):
            a = T.alloc_shared((rows,), dtype)
            b = T.alloc_shared((rows, k), dtype)
            top = T.alloc_fragment((rows, 1), dtype)
            for j in T.serial(k):
                T.copy(A[j, 0], a)
                for i in T.Parallel(rows):
                    b[i, j] = a[i]
            T.reduce_max(b, top, dim=1)
            T.reduce_max(b, top, dim=1, clear=False)
            T.copy(b, B)
            T.copy(top, C)

    a = RNG.integers(-100, 100, (k, rows)).astype(dtype)
    kernel = tilelang.compile(main)
    out = strict.run(kernel, {"A": a, "B": np.zeros((rows, k), dtype), "C": np.zeros((rows, 1), dtype)}, text=text)
    np.testing.assert_array_equal(out["B"], a.T)
    np.testing.assert_array_equal(out["C"], a.T.max(axis=1, keepdims=True))
    assert "GetValue" not in kernel.get_kernel_source()


def test_rows_of_one_element_chosen_by_data():
    """Seed 1950 of the fuzzer: such rows do not start at blocks of UB."""

    @T.prim_func
    def kernel(I: T.Tensor((10,), "int32"), X: T.Tensor((10, 1), "int8"), Y: T.Tensor((10, 16, 1), "int8")):
        with T.Kernel(1):
            for i, j, k in T.Parallel(10, 16, 1):
                Y[i, j, k] = X[I[i], k]

    index, x = RNG.permutation(10).astype(np.int32), RNG.integers(-9, 9, (10, 1)).astype(np.int8)
    out = run(kernel, I=index, X=x, Y=np.zeros((10, 16, 1), np.int8))
    np.testing.assert_array_equal(out["Y"], np.repeat(x[index][:, None], 16, axis=1))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_row_value_read_backwards_is_broadcast(dtype):
    """Broadcasts along the innermost axis read the values from the lowest address on, whichever way the nest passes them."""

    @T.prim_func
    def main(
        A: T.Tensor((6, 3, 8), dtype),
        X: T.Tensor((6, 3, 8, 24), dtype),
        Y: T.Tensor((6, 3, 8, 24), dtype),
        Z: T.Tensor((6, 3, 8, 24), dtype),
    ):
        with T.Kernel(1):
            a, x = T.alloc_shared((6, 3, 8), dtype), T.alloc_shared((6, 3, 8, 24), dtype)
            y, z = T.alloc_shared((6, 3, 8, 24), dtype), T.alloc_shared((6, 3, 8, 24), dtype)
            T.copy(A, a)
            T.copy(X, x)
            for i, j, k, m in T.Parallel(6, 3, 8, 24):
                y[i, j, k, m] = x[i, j, k, m] - a[5 - i, j, k]
            for i, j, k, m in T.Parallel(6, 3, 8, 24):
                z[i, j, k, m] = x[i, j, k, m] * a[5 - i, 2 - j, 7 - k]
            T.copy(y, Y)
            T.copy(z, Z)

    a, x = (RNG.integers(-9, 9, s).astype(dtype) for s in ((6, 3, 8), (6, 3, 8, 24)))
    out = run(main, A=a, X=x, Y=np.zeros_like(x), Z=np.zeros_like(x))
    np.testing.assert_array_equal(out["Y"], x - a[::-1, :, :, None])
    np.testing.assert_array_equal(out["Z"], x * a[::-1, ::-1, ::-1, None])


def test_unsigned_conditions_in_scalar_loops():
    """Seed 582 of the fuzzer: an analyzer that was told x < 0 of an unsigned x failed."""

    @T.prim_func
    def kernel(X: T.Tensor((8, 9), "uint16"), Z: T.Tensor((9, 8), "uint16"), Y: T.Tensor((8, 9), "uint16")):
        with T.Kernel(1):
            y = T.alloc_fragment((8, 9), "uint16")
            T.fill(y, 3)
            for i, j in T.Parallel(8, 9):
                if y[i, j] < 0:
                    y[i, j] = Z[j, i]
                elif X[i, j] < 5:
                    y[i, j] = Z[j, i]
            T.copy(y, Y)

    x, z = RNG.integers(0, 9, (8, 9)).astype(np.uint16), RNG.integers(0, 9, (9, 8)).astype(np.uint16)
    out = run(kernel, X=x, Z=z, Y=np.zeros((8, 9), np.uint16))
    np.testing.assert_array_equal(out["Y"], np.where(x < 5, z.T, 3))


@pytest.mark.parametrize("n", [0, 1, 39, 40])
def test_an_extent_known_at_launch_ends_where_it_says(n):
    @T.prim_func
    def main(A: T.Tensor((40,), "float32"), B: T.Tensor((40,), "float32"), n: T.int32):
        with T.Kernel(1):
            a, b = T.alloc_shared((40,), "float32"), T.alloc_fragment((40,), "float32")
            T.copy(A, a)
            T.fill(b, 7.0)
            for i in T.Parallel(n):
                b[i] = a[i] * 2
            T.copy(b, B)

    a = RNG.integers(-9, 9, 40).astype(np.float32)
    out = strict.run(tilelang.compile(main), {"A": a, "B": np.zeros_like(a)}, {"n": n}, text=n == 39)
    np.testing.assert_array_equal(out["B"], np.where(np.arange(40) < n, a * 2, np.float32(7)))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_old_value_of_an_element_is_read_before_its_place_is_used(dtype):
    @T.prim_func
    def main(A: T.Tensor((4,), dtype), B: T.Tensor((4,), dtype)):
        with T.Kernel(1):
            a, b = T.alloc_shared((4,), dtype), T.alloc_fragment((4,), dtype)
            T.copy(A, a)
            T.copy(A, b)
            for i in T.Parallel(1):
                b[0] = b[0] + a[i + 1] * a[i + 1]
            T.copy(b, B)

    a = np.array([3, 5, 7, 9], dtype)
    out = run(main, A=a, B=np.zeros_like(a))
    np.testing.assert_array_equal(out["B"], [28, 5, 7, 9])


def test_unsigned_scalars_wrap():
    """Scalars of uint32 are computed as what they are: signed sums that overflow are undefined in C++, unsigned ones are not."""

    @T.prim_func
    def main(X: T.Tensor((4,), "uint32"), Y: T.Tensor((5, 64), "uint32")):
        with T.Kernel(1):
            x, y = T.alloc_shared((4,), "uint32"), T.alloc_shared((5, 64), "uint32")
            T.copy(X, x)
            for j in T.Parallel(64):
                y[0, j] = x[0] * x[1] + T.uint32(4294967295)
                y[1, j] = T.max(x[0], x[1]) - x[2]
                y[2, j] = T.if_then_else(x[0] < x[1], x[2] + T.cast(j, "uint32"), x[3])
                y[3, j] = T.if_then_else(x[1] < x[2], x[2], T.uint32(4000000000) - x[3])
                y[4, j] = T.min(x[3] * T.uint32(2654435761), x[2]) // T.uint32(7)
            T.copy(y, Y)

    for x in ([3653403231, 2735729615, 2195314465, 1158725112], [1, 2, 4294967295, 2147483648]):
        out = run(main, X=np.array(x, np.uint32), Y=np.zeros((5, 64), np.uint32))["Y"]
        a, b, c, d = x
        want = [
            a * b - 1,
            max(a, b) - c,
            c + np.arange(64) if a < b else d,
            c if b < c else 4000000000 - d,
            min(d * 2654435761 % 2**32, c) // 7,
        ]
        for row, w in zip(out, want):
            np.testing.assert_array_equal(row, np.broadcast_to(w % 2**32, 64))


@pytest.mark.parametrize("otherwise", [False, True])
def test_a_branch_that_never_runs(otherwise):
    """Seed 1837 of the fuzzer: under a condition that contradicts the grid, a transfer of rows that overlap was emitted."""

    @T.prim_func
    def main(X: T.Tensor((9, 3), "float16"), Y: T.Tensor((9, 6), "float16")):
        with T.Kernel(T.ceildiv(3, 6), T.ceildiv(9, 4)) as (bx, by):
            y = T.alloc_fragment((4, 6), "float16")
            T.fill(y, 1)
            if bx % 2 == 1:
                for i, j in T.Parallel(4, 6):
                    y[i, j] = X[by * 4 + i, 3 - 1 - (bx * 6 + j)]
            elif otherwise:
                T.fill(y, 2)
            T.copy(y, Y[by * 4, 0])

    out = run(main, X=RNG.integers(-9, 9, (9, 3)).astype(np.float16), Y=np.zeros((9, 6), np.float16))
    np.testing.assert_array_equal(out["Y"], np.full((9, 6), 2 if otherwise else 1))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int8", "int64", "bool"])
@pytest.mark.parametrize("kind", ["swap in a branch", "loop", "both ways", "of two"])
@pytest.mark.one_in(3)
def test_a_name_keeps_its_value_when_a_branch_or_loop_of_the_nest_stores_to_its_tile(kind, dtype):
    n = 40

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype), m: T.int32):
        with T.Kernel(1):
            x, y = T.alloc_shared((n,), dtype), T.alloc_shared((n,), dtype)
            T.copy(X, x)
            T.copy(Y, y)
            for i in T.Parallel(n):
                old = x[i]
                if kind == "swap in a branch":
                    if m > 1:
                        x[i] = y[i]
                        y[i] = old
                elif kind == "loop":
                    for _k in T.serial(m):
                        x[i] = y[i]
                        y[i] = old
                elif kind == "both ways":
                    if m > 1:
                        x[i] = y[i]
                        y[i] = old
                    else:
                        y[i] = x[i]
                        x[i] = old
                else:
                    other = y[i]
                    for k in T.serial(2):
                        x[i] = other
                        y[i] = T.if_then_else(k < m, old, x[i])
            T.copy(x, X)
            T.copy(y, Y)

    compiled = tilelang.compile(main)
    a, b = (np.random.default_rng(k).integers(0, 2 if dtype == "bool" else 50, n).astype(dtype) for k in range(2))
    want = {"swap in a branch": [(a, b), (b, a)], "loop": [(b, a), (a, a)], "both ways": [(a, a), (b, a)], "of two": [(b, b), (b, a)]}
    for m, (x, y) in zip((1, 3), want[kind]):
        out = strict.run(compiled, {"X": a, "Y": b}, {"m": m}, text=m == 3 and dtype == "int8")
        np.testing.assert_array_equal(out["X"], x)
        np.testing.assert_array_equal(out["Y"], y)


@pytest.mark.parametrize("lines", ["first", "last", "chosen"])
def test_a_condition_on_the_use_of_a_tile_does_not_bound_a_nest_whose_length_run_time_tells(lines):
    @T.prim_func
    def main(X: T.Tensor((32,), "float32"), Y: T.Tensor((64,), "float32"), n: T.int32):
        with T.Kernel(1):
            x, y = T.alloc_shared((32,), "float32"), T.alloc_shared((64,), "float32")
            T.copy(X, x)
            T.copy(Y, y)
            for i in T.Parallel(n):
                if lines == "first":
                    y[i] = 1.0
                    if i < 32:
                        x[i] = 2.0
                elif lines == "last":
                    if i >= 32:
                        x[i - 32] = 2.0
                    y[i] = 1.0
                else:
                    y[i] = T.if_then_else(i < 32, x[i], 7.0)
            T.copy(x, X)
            T.copy(y, Y)

    compiled = tilelang.compile(main)
    for n in (0, 3, 40, 64):
        x, y = np.zeros(32, np.float32), np.full(64, 3, np.float32)
        out = strict.run(compiled, {"X": x, "Y": y}, {"n": n}, text=n == 40)
        i = np.arange(64)
        written = {"first": i < min(n, 32), "last": i < n - 32, "chosen": i < 0}[lines]
        np.testing.assert_array_equal(out["X"], np.where(written, 2, 0)[:32])
        value = np.where(i < 32, 0, 7) if lines == "chosen" else 1
        np.testing.assert_array_equal(out["Y"], np.where(i < n, value, 3))
