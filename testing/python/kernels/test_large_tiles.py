"""Tiles in the sizes of GPUs, larger than UB: rows are worked on in parts, where that means the same."""

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch import get_chip

RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def run(kernel, divided=True, text=True, scalars=None, **arrays):
    """The strict run of a kernel, which has to be divided (or not)."""
    compiled = tilelang.compile(kernel)
    assert any("parts, each of which is a block" in note for note in compiled.artifact.notes) == divided, compiled.artifact.notes
    return strict.run(compiled, arrays, scalars, text=text)


def test_two_tiles_and_their_sum():
    m, n = T.dynamic("m, n")

    @T.prim_func
    def add(A: T.Tensor((m, n), "float32"), B: T.Tensor((m, n), "float32"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(T.ceildiv(n, 256), T.ceildiv(m, 128), threads=128) as (bx, by):
            a, b = T.alloc_shared((128, 256), "float32"), T.alloc_shared((128, 256), "float32")
            c = T.alloc_fragment((128, 256), "float32")
            T.copy(A[by * 128, bx * 256], a)
            T.copy(B[by * 128, bx * 256], b)
            for i, j in T.Parallel(128, 256):
                c[i, j] = a[i, j] + b[i, j]
            T.copy(c, C[by * 128, bx * 256])

    a, b = random(300, 500), random(300, 500)
    out = run(add, A=a, B=b, C=np.zeros_like(a), scalars={"m": 300, "n": 500})
    np.testing.assert_array_equal(out["C"], a + b)


@pytest.mark.parametrize("rows, columns", [(8, 8192), (64, 1024)])
def test_softmax(rows, columns):
    @T.prim_func
    def softmax(X: T.Tensor((2 * rows, columns), "float32"), Y: T.Tensor((2 * rows, columns), "float32")):
        with T.Kernel(2, threads=128) as bx:
            x, e = T.alloc_shared((rows, columns), "float32"), T.alloc_fragment((rows, columns), "float32")
            most, total = T.alloc_fragment((rows,), "float32"), T.alloc_fragment((rows,), "float32")
            T.copy(X[bx * rows, 0], x)
            T.reduce_max(x, most, dim=1)
            for i, j in T.Parallel(rows, columns):
                e[i, j] = T.exp(x[i, j] - most[i])
            T.reduce_sum(e, total, dim=1)
            for i, j in T.Parallel(rows, columns):
                e[i, j] = e[i, j] / total[i]
            T.copy(e, Y[bx * rows, 0])

    x = random(2 * rows, columns)
    out = run(softmax, X=x, Y=np.zeros_like(x))
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(out["Y"], e / e.sum(1, keepdims=True), rtol=2**-17)


def test_rms_norm_with_weights_every_row_needs():
    rows, columns = 4, 8192

    @T.prim_func
    def norm(X: T.Tensor((10, columns), "float32"), W: T.Tensor((columns,), "float32"), Y: T.Tensor((10, columns), "float32")):
        with T.Kernel(T.ceildiv(10, rows), threads=128) as bx:
            x, square = T.alloc_shared((rows, columns), "float32"), T.alloc_fragment((rows, columns), "float32")
            w, total = T.alloc_shared((columns,), "float32"), T.alloc_fragment((rows,), "float32")
            T.copy(W, w)
            T.copy(X[bx * rows, 0], x)
            for i, j in T.Parallel(rows, columns):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, total, dim=1)
            for i in T.Parallel(rows):
                total[i] = T.rsqrt(total[i] / columns + 1e-6)
            for i, j in T.Parallel(rows, columns):
                x[i, j] = x[i, j] * total[i] * w[j]
            T.copy(x, Y[bx * rows, 0])

    x, w = random(10, columns), random(columns)
    out = run(norm, X=x, W=w, Y=np.zeros_like(x))
    expected = x / np.sqrt((x.astype(np.float64) ** 2).mean(1, keepdims=True) + 1e-6) * w
    np.testing.assert_allclose(out["Y"], expected, rtol=2**-15, atol=1e-7)


def test_columns_where_rows_are_added_up():
    @T.prim_func
    def total(X: T.Tensor((256, 256), "float32"), Y: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=128):
            x, y = T.alloc_shared((256, 256), "float32"), T.alloc_fragment((256,), "float32")
            T.copy(X, x)
            T.reduce_sum(x, y, dim=0)
            T.copy(y, Y)

    x = RNG.integers(-9, 9, (256, 256)).astype(np.float32)
    np.testing.assert_array_equal(run(total, X=x, Y=np.zeros(256, np.float32))["Y"], x.sum(0))


def test_running_sums():
    @T.prim_func
    def sums(X: T.Tensor((64, 1024), "float32"), Y: T.Tensor((64, 1024), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((64, 1024), "float32")
            T.copy(X, x)
            T.cumsum(x, dim=1)
            T.copy(x, Y)

    x = RNG.integers(-9, 9, (64, 1024)).astype(np.float32)
    np.testing.assert_array_equal(run(sums, X=x, Y=np.zeros_like(x))["Y"], x.cumsum(1))


def test_sums_over_steps_and_a_scalar_that_counts_them():
    """Every part takes all the steps, and counts them from the beginning."""
    rows, columns, steps = 128, 256, 3

    @T.prim_func
    def add_up(X: T.Tensor((steps, rows, columns), "float32"), Y: T.Tensor((rows, columns), "float32"), N: T.Tensor((16,), "int32")):
        with T.Kernel(1, threads=128):
            x, y = T.alloc_shared((rows, columns), "float32"), T.alloc_fragment((rows, columns), "float32")
            count = T.alloc_var("int32")
            count = 0
            T.clear(y)
            for k in T.Pipelined(steps, num_stages=2):
                T.copy(X[k, 0, 0], x)
                count = count + 1
                for i, j in T.Parallel(rows, columns):
                    y[i, j] += x[i, j] * T.cast(count, "float32") + T.cast(i, "float32")
            T.copy(y, Y)
            N[0] = count

    x = RNG.integers(-9, 9, (steps, rows, columns)).astype(np.float32)
    out = run(add_up, X=x, Y=np.zeros((rows, columns), np.float32), N=np.zeros(16, np.int32))
    expected = sum((k + 1) * x[k] for k in range(steps)) + steps * np.arange(rows)[:, None]
    np.testing.assert_array_equal(out["Y"], expected)
    assert out["N"][0] == steps


def test_what_is_added_to_global_memory_is_added_once():
    rows, columns = 128, 512

    @T.prim_func
    def add(X: T.Tensor((rows, columns), "float32"), Y: T.Tensor((rows, columns), "float32"), Z: T.Tensor((16,), "float32")):
        with T.Kernel(2, threads=128):
            x, one = T.alloc_shared((rows, columns), "float32"), T.alloc_shared((16,), "float32")
            T.copy(X, x)
            T.fill(one, 1)
            T.atomic_add(Y, x)
            T.atomic_add(Z, one)

    x = RNG.integers(-9, 9, (rows, columns)).astype(np.float32)
    out = run(add, X=x, Y=np.ones_like(x), Z=np.zeros(16, np.float32))
    np.testing.assert_array_equal(out["Y"], 1 + 2 * x)
    np.testing.assert_array_equal(out["Z"], np.full(16, 2))


def test_rows_that_are_read_again_leave_columns_to_divide():
    """The second load sees what the first store left, of other rows."""
    n = 256

    @T.prim_func
    def twice(X: T.Tensor((n, n), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((n, n), "float32")
            T.copy(X, x)
            for i, j in T.Parallel(n, n):
                x[i, j] = x[i, j] + 1.0
            T.copy(x, X)
            T.copy(X[n - 1 : n, 0:n], x[0:1, 0:n])
            for j in T.Parallel(n):
                x[0, j] = x[0, j] * 2.0
            T.copy(x[0:1, 0:n], X[0:1, 0:n])

    x = RNG.integers(-9, 9, (n, n)).astype(np.float32)
    np.testing.assert_array_equal(run(twice, X=x.copy())["X"], np.concatenate([2 * (x[-1:] + 1), x[1:] + 1]))


def test_a_scalar_of_a_tensor_the_block_writes():
    """It is read before the first part is stored, though later parts are computed from it, too."""
    n = 256

    @T.prim_func
    def scaled(X: T.Tensor((n, n), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((n, n), "float32")
            s = X[0, 0]
            T.copy(X, x)
            for i, j in T.Parallel(n, n):
                x[i, j] = x[i, j] + s
            T.copy(x, X)

    x = random(n, n)
    np.testing.assert_array_equal(run(scaled, divided=False, X=x)["X"], x + x[0, 0])


def test_tiles_that_fit_stay_whole():
    @T.prim_func
    def double(X: T.Tensor((64, 256), "float32"), Y: T.Tensor((64, 256), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((64, 256), "float32")
            T.copy(X, x)
            for i, j in T.Parallel(64, 256):
                x[i, j] = x[i, j] * 2.0
            T.copy(x, Y)

    x = random(64, 256)
    np.testing.assert_array_equal(run(double, divided=False, X=x, Y=np.zeros_like(x))["Y"], 2 * x)


def test_an_accumulator_larger_than_l0c():
    """256 x 256 float32 is 256 KB: the product is divided along M or N, and its K loop runs once for each part."""

    @T.prim_func
    def gemm(A: T.Tensor((300, 128), "float16"), B: T.Tensor((128, 280), "float16"), C: T.Tensor((300, 280), "float32")):
        with T.Kernel(T.ceildiv(280, 256), T.ceildiv(300, 256), threads=128) as (bx, by):
            a, b = T.alloc_shared((256, 64), "float16"), T.alloc_shared((64, 256), "float16")
            c = T.alloc_fragment((256, 256), "float32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=3):
                T.copy(A[by * 256, k * 64], a)
                T.copy(B[k * 64, bx * 256], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 256, bx * 256])

    a, b = (RNG.integers(-3, 4, shape).astype(np.float16) for shape in ((300, 128), (128, 280)))
    out = run(gemm, A=a, B=b, C=np.zeros((300, 280), np.float32))
    np.testing.assert_array_equal(out["C"], a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("transposed", [False, True])
def test_two_accumulators_and_what_vector_cores_make_of_them(transposed):
    """128 KB each; both cores work on the same parts."""
    m, n, k = 128, 256, 96

    @T.prim_func
    def gated(
        A: T.Tensor((m, k), "float16"), B: T.Tensor((2, n, k), "float16"), S: T.Tensor((n,), "float32"), C: T.Tensor((n, m), "float32")
    ):
        with T.Kernel(1, threads=128):
            a, up, gate = T.alloc_shared((m, k), "float16"), T.alloc_shared((n, k), "float16"), T.alloc_shared((n, k), "float16")
            x, y = T.alloc_fragment((n, m), "float32"), T.alloc_fragment((n, m), "float32")
            s = T.alloc_fragment((n,), "float32")
            T.copy(A, a)
            T.copy(B[0, :, :], up)
            T.copy(B[1, :, :], gate)
            T.gemm(up, a, x, transpose_B=True, clear_accum=True)
            T.gemm(gate, a, y, transpose_B=True, clear_accum=True)
            T.copy(S, s)
            for i, j in T.Parallel(n, m):
                x[i, j] = T.max(x[i, j], 0) * (y[i, j] + (s[i] if not transposed else s[j]))
            T.copy(x, C)

    a, b, s = RNG.integers(-2, 3, (m, k)).astype(np.float16), RNG.integers(-2, 3, (2, n, k)).astype(np.float16), random(n)
    out = run(gated, A=a, B=b, S=s, C=np.zeros((n, m), np.float32))
    x, y = (p.astype(np.float32) @ a.T.astype(np.float32) for p in b)
    want = np.maximum(x, 0) * (y + (s[:m][None, :] if transposed else s[:, None]))
    np.testing.assert_allclose(out["C"], want, rtol=1e-6)


def test_attention_whose_products_are_larger_than_l0c():
    """Two products of 512 x 128 in one step."""
    m, n, d = 512, 128, 128

    @T.prim_func
    def attention(
        Q: T.Tensor((m, d), "float16"),
        K: T.Tensor((3 * n, d), "float16"),
        V: T.Tensor((3 * n, d), "float16"),
        O: T.Tensor((m, d), "float32"),
    ):
        with T.Kernel(1, threads=128):
            q, k, v = T.alloc_shared((m, d), "float16"), T.alloc_shared((n, d), "float16"), T.alloc_shared((n, d), "float16")
            s, p, o = T.alloc_fragment((m, n), "float32"), T.alloc_fragment((m, n), "float16"), T.alloc_fragment((m, d), "float32")
            most, before, total = (T.alloc_fragment((m,), "float32") for _ in range(3))
            row = T.alloc_fragment((m,), "float32")
            T.copy(Q, q)
            T.fill(o, 0)
            T.fill(total, 0)
            T.fill(most, -T.infinity("float32"))
            for i in T.Pipelined(3, num_stages=2):
                T.copy(K[i * n, 0], k)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                T.copy(most, before)
                T.reduce_max(s, most, dim=1, clear=False)
                for a, b in T.Parallel(m, n):
                    s[a, b] = T.exp(s[a, b] - most[a])
                T.reduce_sum(s, row, dim=1)
                T.copy(s, p)
                for a in T.Parallel(m):
                    total[a] = total[a] * T.exp(before[a] - most[a]) + row[a]
                for a, b in T.Parallel(m, d):
                    o[a, b] *= T.exp(before[a] - most[a])
                T.copy(V[i * n, 0], v)
                T.gemm(p, v, o)
            for a, b in T.Parallel(m, d):
                o[a, b] /= total[a]
            T.copy(o, O)

    q, k, v = ((RNG.standard_normal((rows, d)) / 4).astype(np.float16) for rows in (m, 3 * n, 3 * n))
    out = run(attention, Q=q, K=k, V=v, O=np.zeros((m, d), np.float32))
    e = np.exp(q.astype(np.float64) @ k.T.astype(np.float64))
    np.testing.assert_allclose(out["O"], e @ v / e.sum(1, keepdims=True), rtol=0, atol=2e-3)


@pytest.mark.parametrize("dtype", ["int8", "bool", "float8_e4m3fn"])
def test_bytes_of_large_tiles_in_another_order(dtype):
    """Bytes are gathered as numbers of twice their size: the part of the tile a statement reads, not all of it."""
    n = 256

    @T.prim_func
    def turned(X: T.Tensor((n, n), dtype), Y: T.Tensor((n, n), dtype)):
        with T.Kernel(1, threads=128):
            x, y = T.alloc_shared((n, n), dtype), T.alloc_shared((n, n), dtype)
            T.copy(X, x)
            for i, j in T.Parallel(n, n):
                y[i, j] = x[j, n - 1 - i]
            T.copy(y, Y)

    x = RNG.integers(0, 2, (n, n)).astype(np.uint8) if dtype == "bool" else RNG.integers(0, 120, (n, n)).astype(np.uint8)
    as_dtype = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    out = run(turned, divided=False, text=False, X=x.view(as_dtype), Y=np.zeros((n, n), as_dtype))["Y"]
    np.testing.assert_array_equal(out.view(np.uint8), x[:, ::-1].T)


def test_bytes_that_data_chooses_in_a_large_tile():
    rows, n = 640, 128

    @T.prim_func
    def chosen(X: T.Tensor((rows, n), "int8"), I: T.Tensor((64,), "int32"), Y: T.Tensor((64, n), "int8")):
        with T.Kernel(1, threads=128):
            x, index, y = T.alloc_shared((rows, n), "int8"), T.alloc_shared((64,), "int32"), T.alloc_shared((64, n), "int8")
            T.copy(X, x)
            T.copy(I, index)
            for i, j in T.Parallel(64, n):
                y[i, j] = x[index[i], n - 1 - j]
            T.copy(y, Y)

    x, index = RNG.integers(-128, 128, (rows, n)).astype(np.int8), RNG.integers(0, rows, 64).astype(np.int32)
    out = run(chosen, divided=False, text=False, X=x, I=index, Y=np.zeros((64, n), np.int8))["Y"]
    np.testing.assert_array_equal(out, x[index, ::-1])


def test_parts_that_run_side_by_side_share_the_number_of_the_block():
    """Two products in two parts, the second one's late: what passes between the cores lies in the workspaces of the block in both."""
    rows, keys, blocks, dim = 96, 512, 2, 32

    @T.prim_func
    def kernel(
        Q: T.Tensor((blocks * rows, dim), "float16"), K: T.Tensor((keys, dim), "float16"), O: T.Tensor((blocks * rows, dim), "float32")
    ):
        with T.Kernel(blocks, threads=128) as bx:
            q, k_s = T.alloc_shared((rows, dim), "float16"), T.alloc_shared((keys, dim), "float16")
            s, p = T.alloc_fragment((rows, keys), "float32"), T.alloc_fragment((rows, keys), "float16")
            m, o = T.alloc_fragment((rows,), "float32"), T.alloc_fragment((rows, dim), "float32")
            T.copy(Q[bx * rows, 0], q)
            T.copy(K, k_s)
            T.gemm(q, k_s, s, transpose_B=True, clear_accum=True)
            T.reduce_max(s, m, dim=1)
            for i, j in T.Parallel(rows, keys):
                s[i, j] = T.exp(s[i, j] - m[i])
            T.copy(s, p)
            T.gemm(p, k_s, o, clear_accum=True)
            T.copy(o, O[bx * rows, 0])

    rng = np.random.default_rng(0)
    q, k = ((rng.standard_normal((n, dim)) * 0.3).astype(np.float16) for n in (blocks * rows, keys))
    got = strict.run(tilelang.compile(kernel), {"Q": q, "K": k, "O": np.zeros((blocks * rows, dim), np.float32)}, {})["O"]
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    assert (abs(got - weights @ k) <= 2**-9 * (weights @ abs(k.astype(np.float64)))).all()


def test_parts_are_blocks():
    """Fewer blocks than cores: parts of one block are on different cores."""

    @T.prim_func
    def kernel(X: T.Tensor((6, 64, 4096), "float32"), Y: T.Tensor((6, 64, 4096), "float32"), S: T.Tensor((6, 64), "float32")):
        with T.Kernel(6, threads=128) as b:
            x, s = T.alloc_shared((64, 4096), "float32"), T.alloc_fragment((64,), "float32")
            T.copy(X[b, 0, 0], x)
            T.reduce_max(x, s, dim=1)
            T.copy(s, S[b, 0])
            for i, j in T.Parallel(64, 4096):
                x[i, j] = x[i, j] - s[i]
            T.copy(x, Y[b, 0, 0])

    x = random(6, 64, 4096)
    compiled = tilelang.compile(kernel)
    assert compiled.artifact.steps[0].block_dim == get_chip(compiled.artifact.chip).num_aiv
    out = run(kernel, text=False, X=x, Y=np.zeros_like(x), S=np.zeros((6, 64), np.float32))
    np.testing.assert_array_equal(out["S"], x.max(2))
    np.testing.assert_array_equal(out["Y"], x - x.max(2, keepdims=True))


def test_parts_of_blocks_with_products_follow_each_other():
    """Each block has more rows than L0C and UB hold: what its parts have in common is loaded by each, and one begins before another has ended."""

    @T.prim_func
    def kernel(A: T.Tensor((3, 256, 64), "float16"), B: T.Tensor((3, 64, 512), "float16"), C: T.Tensor((3, 256, 512), "float32")):
        with T.Kernel(3, threads=128) as b:
            x, y, c = T.alloc_shared((256, 64), "float16"), T.alloc_shared((64, 512), "float16"), T.alloc_fragment((256, 512), "float32")
            T.copy(A[b, 0, 0], x)
            T.copy(B[b, 0, 0], y)
            T.clear(c)
            T.gemm(x, y, c)
            for i, j in T.Parallel(256, 512):
                c[i, j] = T.max(c[i, j], 0.0) + i
            T.copy(c, C[b, 0, 0])

    a, b = RNG.integers(-4, 5, (3, 256, 64)).astype(np.float16), RNG.integers(-4, 5, (3, 64, 512)).astype(np.float16)
    out = run(kernel, text=False, A=a, B=b, C=np.zeros((3, 256, 512), np.float32))
    expected = np.maximum(a.astype(np.float32) @ b.astype(np.float32), 0) + np.arange(256)[:, None]
    np.testing.assert_array_equal(out["C"], expected)
