"""Accumulators that L0C has no room for, and whose rows and columns are joined by what becomes of them: made in parts, with the values of whole ones."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch.spec import ChipSpec
from tilelang_ascend.errors import OutOfMemory
from tilelang_ascend.isa.base import Space
from tilelang_ascend.transform import pipeline

F16, F32, I8, I32 = "float16", "float32", "int8", "int32"
RNG = np.random.default_rng(0)
N = 64
L0C_BYTES = 8192
"""Half of an accumulator of N x N."""


@pytest.fixture(autouse=True)
def small_l0c(monkeypatch):
    """L0C so small that small accumulators are too large for it."""
    usual = ChipSpec.capacity_bytes
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    monkeypatch.setattr(ChipSpec, "capacity_bytes", lambda chip, space: L0C_BYTES if space is Space.L0C else usual(chip, space))


def run(kernel, text=True, target="a2", **arrays):
    """The strict run of a kernel with sums in parts. Arrays hold small integers: sums are exact in any order."""
    compiled = tilelang.compile(kernel, target=target)
    assert any("sums are larger than L0C" in note for note in compiled.artifact.notes), compiled.artifact.notes
    return strict.run(compiled, arrays, {}, text=text)


def whole(*shape, dtype=F16, low=-3, high=4):
    return RNG.integers(low, high, shape).astype(dtype)


def product(a, b):
    return a.astype(np.float32) @ b.astype(np.float32)


def both_ways(p):
    """What the kernels below make of a product: every element needs its row, its column and its mirror image."""
    return p + p.swapaxes(-1, -2) + p.sum(-1, keepdims=True) * p.max(-2, keepdims=True)


@T.macro
def finish(c, d, rows, columns):
    T.reduce_sum(c, rows, dim=1)
    T.reduce_max(c, columns, dim=0)
    for i, j in T.Parallel(N, N):
        d[i, j] = c[i, j] + c[j, i] + rows[i] * columns[j]


@pytest.mark.parametrize("trips", ["known", "data"])
def test_rows_columns_and_mirror_images(trips):
    """Three blocks, whose loops over K are as long as a tensor says, or all."""
    k = 96

    @T.prim_func
    def joined(A: T.Tensor((3, N, k), F16), B: T.Tensor((k, N), F16), L: T.Tensor((3,), I32), Y: T.Tensor((3, N, N), F32)):
        with T.Kernel(3, threads=128) as b:
            a, w = T.alloc_shared((N, 32), F16), T.alloc_shared((32, N), F16)
            c, d = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32)
            rows, columns = T.alloc_fragment((N,), F32), T.alloc_fragment((N,), F32)
            T.clear(c)
            for s in T.Pipelined(k // 32 if trips == "known" else L[b], num_stages=2):
                T.copy(A[b, 0:N, s * 32 : s * 32 + 32], a)
                T.copy(B[s * 32, 0], w)
                T.gemm(a, w, c)
            finish(c, d, rows, columns)
            T.copy(d, Y[b, 0:N, 0:N])

    a, b = whole(3, N, k), whole(k, N)
    steps = np.array([3, 0, 2] if trips == "data" else [3, 3, 3], I32)
    p = np.stack([product(x[:, : 32 * n], b[: 32 * n]) for x, n in zip(a, steps)])
    got = run(joined, A=a, B=b, L=steps, Y=np.zeros((3, N, N), F32))["Y"]
    np.testing.assert_array_equal(got, both_ways(p))


def test_two_sums_of_one_loop():
    """Either of them fits alone, and is made by a loop over K of its own steps."""
    half = N // 2

    @T.prim_func
    def gated(A: T.Tensor((N, N), F16), B: T.Tensor((N, half), F16), G: T.Tensor((N, half), F16), Y: T.Tensor((N, half), F32)):
        with T.Kernel(1, threads=128):
            a, w, g = T.alloc_shared((N, 32), F16), T.alloc_shared((32, half), F16), T.alloc_shared((32, half), F16)
            c, d = T.alloc_fragment((N, half), F32), T.alloc_fragment((N, half), F32)
            rows, columns = T.alloc_fragment((N,), F32), T.alloc_fragment((half,), F32)
            T.clear(c)
            T.clear(d)
            for s in T.Pipelined(2, num_stages=2):
                T.copy(A[0, s * 32], a)
                T.copy(B[s * 32, 0], w)
                T.copy(G[s * 32, 0], g)
                T.gemm(a, w, c)
                T.gemm(a, g, d)
            T.reduce_sum(c, columns, dim=0)
            T.reduce_sum(d, rows, dim=1)
            for i, j in T.Parallel(N, half):
                c[i, j] = c[i, j] * d[i, j] + columns[j] + rows[i]
            T.copy(c, Y)

    a, b, g = whole(N, N), whole(N, half), whole(N, half)
    c, d = product(a, b), product(a, g)
    got = run(gated, A=a, B=b, G=g, Y=np.zeros((N, half), F32))["Y"]
    np.testing.assert_array_equal(got, c * d + c.sum(0) + d.sum(1)[:, None])


def test_a_small_sum_beside_a_large_one():
    """What is not divided begins anew in every part: it is not added up four times."""

    @T.prim_func
    def beside(
        A: T.Tensor((N, N), F16), B: T.Tensor((N, N), F16), G: T.Tensor((16, N), F16), Y: T.Tensor((N, N), F32), Z: T.Tensor((16, N), F32)
    ):
        with T.Kernel(1, threads=128):
            a, w, g = T.alloc_shared((N, 32), F16), T.alloc_shared((32, N), F16), T.alloc_shared((16, 32), F16)
            c, d, e = T.alloc_fragment((N, N), F32), T.alloc_fragment((16, N), F32), T.alloc_fragment((N, N), F32)
            rows, columns = T.alloc_fragment((N,), F32), T.alloc_fragment((N,), F32)
            T.clear(c)
            T.clear(d)
            for s in T.Pipelined(2, num_stages=2):
                T.copy(A[0, s * 32], a)
                T.copy(B[s * 32, 0], w)
                T.copy(G[0, s * 32], g)
                T.gemm(a, w, c)
                T.gemm(g, w, d)
            finish(c, e, rows, columns)
            T.copy(e, Y)
            T.copy(d, Z)

    a, b, g = whole(N, N), whole(N, N), whole(16, N)
    out = run(beside, A=a, B=b, G=g, Y=np.zeros((N, N), F32), Z=np.zeros((16, N), F32))
    np.testing.assert_array_equal(out["Y"], both_ways(product(a, b)))
    np.testing.assert_array_equal(out["Z"], product(g, b))


def test_operands_that_vector_cores_make():
    """Every part makes them again."""

    @T.prim_func
    def scaled(A: T.Tensor((N, N), F16), B: T.Tensor((N, N), I8), S: T.Tensor((N,), F32), Y: T.Tensor((N, N), F32)):
        with T.Kernel(1, threads=128):
            a, w8, w = T.alloc_shared((N, 32), F16), T.alloc_shared((32, N), I8), T.alloc_shared((32, N), F16)
            c, d, scale = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32), T.alloc_fragment((N,), F32)
            rows, columns = T.alloc_fragment((N,), F32), T.alloc_fragment((N,), F32)
            T.copy(S, scale)
            T.clear(c)
            for s in T.Pipelined(2, num_stages=2):
                T.copy(A[0, s * 32], a)
                T.copy(B[s * 32, 0], w8)
                for i, j in T.Parallel(32, N):
                    w[i, j] = w8[i, j] * scale[j]
                T.gemm(a, w, c)
            finish(c, d, rows, columns)
            T.copy(d, Y)

    a, b, s = whole(N, N), whole(N, N, dtype=I8), whole(N, dtype=F32, low=1)
    got = run(scaled, A=a, B=b, S=s, Y=np.zeros((N, N), F32))["Y"]
    np.testing.assert_array_equal(got, both_ways(product(a, b * s)))


def test_sums_that_become_operands():
    """By way of GM: L1 has whole tiles."""

    @T.prim_func
    def chained(A: T.Tensor((N, N), F16), B: T.Tensor((N, N), F16), D: T.Tensor((N, N), F16), Y: T.Tensor((N, N), F32)):
        with T.Kernel(1, threads=128):
            a, b, d, p = (T.alloc_shared((N, N), F16) for _ in range(4))
            c, e = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32)
            rows, columns = T.alloc_fragment((N,), F32), T.alloc_fragment((N,), F32)
            T.copy(A, a)
            T.copy(B, b)
            T.copy(D, d)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, p)
            T.gemm(p, d, c, clear_accum=True)
            finish(c, e, rows, columns)
            T.copy(e, Y)

    a, b, d = whole(N, N, low=-1, high=2), whole(N, N, low=-1, high=2), whole(N, N, low=-1, high=2)
    got = run(chained, A=a, B=b, D=d, Y=np.zeros((N, N), F32))["Y"]
    np.testing.assert_array_equal(got, both_ways(product(product(a, b), d)))


def test_a_tile_multiplied_with_itself():
    """Its rows go with those of the sum, its other copy with the columns; the diagonal is what all else is divided by."""
    k = 96

    @T.prim_func
    def correlations(A: T.Tensor((2, N, k), "bfloat16"), Y: T.Tensor((2, N, N), F32)):
        with T.Kernel(2, threads=128) as b:
            a, c, norm = T.alloc_shared((N, 32), "bfloat16"), T.alloc_fragment((N, N), F32), T.alloc_fragment((N,), F32)
            T.clear(c)
            for s in T.Pipelined(k // 32, num_stages=2):
                T.copy(A[b, 0:N, s * 32 : s * 32 + 32], a)
                T.gemm(a, a, c, transpose_B=True)
            for i in T.Parallel(N):
                norm[i] = T.max(c[i, i], 1.0)
            for i, j in T.Parallel(N, N):
                c[i, j] = T.if_then_else(i >= j, c[i, j] / (norm[i] * norm[j]), 0.0)
            T.copy(c, Y[b, 0:N, 0:N])

    import ml_dtypes

    a = whole(2, N, k, dtype=ml_dtypes.bfloat16)
    p = product(a, a.swapaxes(1, 2))
    norm = np.maximum(np.einsum("bii->bi", p), 1)
    got = run(correlations, A=a, Y=np.zeros((2, N, N), F32))["Y"]
    np.testing.assert_allclose(got, np.tril(p / (norm[:, :, None] * norm[:, None, :])), rtol=2e-6, atol=1e-9)


def test_what_other_parts_have_to_make_first():
    """A sum that goes on through all steps of a loop, and of which every step needs the columns: in parts no step would find all of them."""
    steps = 2

    @T.prim_func
    def running(A: T.Tensor((N, steps * 32), F16), B: T.Tensor((N, N), F16), Y: T.Tensor((N, N), F32), Z: T.Tensor((N,), F32)):
        with T.Kernel(1, threads=128):
            a, p, b = T.alloc_shared((N, 32), F16), T.alloc_shared((32, N), F16), T.alloc_shared((N, N), F16)
            c, d, most = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32), T.alloc_fragment((N,), F32)
            rows, columns = T.alloc_fragment((N,), F32), T.alloc_fragment((N,), F32)
            T.copy(B, b)
            T.clear(c)
            T.fill(most, 1)
            for s in T.serial(steps):
                T.copy(A[0, s * 32], a)
                for i, j in T.Parallel(32, N):
                    p[i, j] = T.min(most[j], 2.0)
                T.gemm(a, p, c)
                T.reduce_max(c, most, dim=0)
            finish(c, d, rows, columns)
            T.copy(d, Y)
            T.copy(most, Z)

    a, most, p = whole(N, steps * 32, low=-1, high=2), np.ones(N, F32), np.zeros((N, N), F32)
    for s in range(steps):
        p = p + product(a[:, s * 32 : s * 32 + 32], np.broadcast_to(np.minimum(most, 2), (32, N)).astype(F16))
        most = p.max(0)
    out = run(running, A=a, B=whole(N, N), Y=np.zeros((N, N), F32), Z=np.zeros(N, F32))
    np.testing.assert_array_equal(out["Y"], both_ways(p))
    np.testing.assert_array_equal(out["Z"], most)


def signed_permutations(*shape):
    """Matrices whose products are as small as they are, one entry off: sums are exact however many are multiplied."""
    flat = np.zeros((int(np.prod(shape)), N, N), F16)
    for x in flat:
        x[np.arange(N), RNG.permutation(N)] = RNG.choice([-1, 1], N)
        x[0, 5] += 1
    return flat.reshape(*shape, N, N)


@pytest.mark.parametrize("target", ["a2", "a5"])
def test_sums_made_anew_and_read_behind_the_loop(target):
    """Every step needs all of the step before, as rows and as columns."""
    steps = 3

    @T.prim_func
    def power(A: T.Tensor((2, N, N), F16), S: T.Tensor((2,), I32), Y: T.Tensor((2, N, N), F32)):
        with T.Kernel(2, threads=128) as b:
            a, c = T.alloc_shared((N, N), F16), T.alloc_fragment((N, N), F32)
            T.copy(A[b, 0, 0], a)
            T.clear(c)
            for _ in T.serial(S[b]):
                T.gemm(a, a, c, clear_accum=True)
                T.copy(c, a)
            T.copy(c, Y[b, 0, 0])

    a = signed_permutations(2)
    want = [np.zeros((N, N), F32), a[1].astype(F32)]
    for _ in range(steps):
        want[1] = want[1] @ want[1]
    out = run(power, target=target, A=a, S=np.array([0, steps], I32), Y=np.zeros((2, N, N), F32))
    np.testing.assert_array_equal(out["Y"], want)


@pytest.mark.parametrize("target", ["a2", "a5"])
def test_sums_that_replace_an_operand(target):
    """By columns first, then by rows: no part of the next sum can begin before all of this one are made."""

    @T.prim_func
    def chained(A: T.Tensor((N, N), F16), B: T.Tensor((N, N), F16), D: T.Tensor((N, N), F16), Y: T.Tensor((N, N), F32)):
        with T.Kernel(1, threads=128):
            a, b, c = T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16), T.alloc_fragment((N, N), F32)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, a)
            T.copy(D, b)
            T.gemm(b, a, c, clear_accum=True)
            T.copy(c, b)
            T.gemm(b, a, c)
            T.copy(c, Y)

    a, b, d = (whole(N, N, low=-1, high=2) for _ in range(3))
    p = product(a, b)
    q = product(d, p)
    out = run(chained, target=target, A=a, B=b, D=d, Y=np.zeros((N, N), F32))
    np.testing.assert_array_equal(out["Y"], q + product(q, p))


def test_steps_that_multiply_what_they_make():
    """A step of Newton and Schulz: both products are joined by rows and by columns, and replace what they are made of."""
    steps = 2

    @T.prim_func
    def inverted(A: T.Tensor((N, N), F16), Y: T.Tensor((N, N), F16)):
        with T.Kernel(1, threads=128):
            x, g, c = T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16), T.alloc_fragment((N, N), F32)
            T.copy(A, x)
            for _ in T.serial(steps):
                T.gemm(x, x, c, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(N, N):
                    g[i, j] = T.if_then_else(i == j, 2.0, 0.0) - c[i, j]
                T.gemm(g, x, c, clear_accum=True)
                T.copy(c, x)
            T.copy(x, Y)

    a = signed_permutations()
    x = a.astype(F32)
    for _ in range(steps):
        x = (2 * np.eye(N, dtype=F32) - x @ x.T) @ x
    np.testing.assert_array_equal(run(inverted, A=a, Y=np.zeros((N, N), F16))["Y"], x)


@pytest.mark.parametrize("target", ["a2", "a5"])
@pytest.mark.parametrize("other", ["zeros", "product"])
@pytest.mark.one_in(2)
def test_sums_that_begin_in_two_branches(other, target):
    blocks = 3

    @T.prim_func
    def chosen(
        A: T.Tensor((blocks, N, N), F16), B: T.Tensor((2, N, N), F16), I: T.Tensor((blocks,), I32), Y: T.Tensor((blocks, N, N), F32)
    ):
        with T.Kernel(blocks, threads=128) as bx:
            a, b, c, d = (
                T.alloc_shared((N, 32), F16),
                T.alloc_shared((32, N), F16),
                T.alloc_fragment((N, N), F32),
                T.alloc_fragment((N, N), F32),
            )
            rows, columns = T.alloc_fragment((N,), F32), T.alloc_fragment((N,), F32)
            if I[bx] > 0:
                T.clear(c)
                for s in T.Pipelined(N // 32, num_stages=2):
                    T.copy(A[bx, 0:N, s * 32 : s * 32 + 32], a)
                    T.copy(B[0, s * 32 : s * 32 + 32, 0:N], b)
                    T.gemm(a, b, c)
            else:
                if other == "zeros":
                    T.clear(c)
                else:
                    T.copy(A[bx, 0:N, 0:32], a)
                    T.copy(B[1, 0:32, 0:N], b)
                    T.gemm(a, b, c, clear_accum=True)
                    T.gemm(a, b, c)
            finish(c, d, rows, columns)
            T.copy(d, Y[bx, 0, 0])

    a, b, which = whole(blocks, N, N), whole(2, N, N), np.array([1, 0, 2], I32)
    rest = [0 if other == "zeros" else 2 * product(x[:, :32], b[1, :32]) for x in a]
    p = np.stack([product(x, b[0]) if i > 0 else product(x, b[0]) * 0 + r for x, i, r in zip(a, which, rest)])
    out = run(chosen, target=target, A=a, B=b, I=which, Y=np.zeros((blocks, N, N), F32))
    np.testing.assert_array_equal(out["Y"], both_ways(p))


def test_steps_of_one_sum_that_differ():
    """Steps of a loop whose products join rows and columns, or do not, as data says."""
    steps = 3

    @T.prim_func
    def mixed(A: T.Tensor((steps, N, 32), F16), B: T.Tensor((steps, 32, N), F16), I: T.Tensor((steps,), I32), Y: T.Tensor((N, N), F32)):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((N, 32), F16), T.alloc_shared((32, N), F16)
            c, d = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32)
            rows, columns = T.alloc_fragment((N,), F32), T.alloc_fragment((N,), F32)
            T.clear(c)
            for s in T.serial(steps):
                if I[s] > 0:
                    T.copy(A[s, 0, 0], a)
                    T.copy(B[s, 0, 0], b)
                    T.gemm(a, b, c)
                else:
                    T.copy(A[s, 0, 0], a)
                    T.gemm(a, a, c, transpose_B=True)
            finish(c, d, rows, columns)
            T.copy(d, Y)

    a, b, which = whole(steps, N, 32), whole(steps, 32, N), np.array([1, 0, 1], I32)
    p = sum(product(x, y) if i > 0 else product(x, x.T) for x, y, i in zip(a, b, which))
    out = run(mixed, A=a, B=b, I=which, Y=np.zeros((N, N), F32))
    np.testing.assert_array_equal(out["Y"], both_ways(p))


def test_operands_that_every_step_changes():
    """What a step leaves for the next one, all parts would change: products are added up one by one."""
    steps = 3

    @T.prim_func
    def decaying(A: T.Tensor((N, N), F32), B: T.Tensor((steps, N, N), F16), Y: T.Tensor((N, N), F32)):
        with T.Kernel(1, threads=128):
            x, a, b = T.alloc_fragment((N, N), F32), T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16)
            c, d = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32)
            rows, columns = T.alloc_fragment((N,), F32), T.alloc_fragment((N,), F32)
            T.copy(A, x)
            T.clear(c)
            for s in T.serial(steps):
                T.copy(B[s, 0, 0], b)
                T.copy(x, a)
                T.gemm(a, b, c)
                T.gemm(b, a, c, transpose_A=True)
                for i, j in T.Parallel(N, N):
                    x[i, j] = x[i, j] * -2.0 + 1.0
            finish(c, d, rows, columns)
            T.copy(d, Y)

    a, b, p = whole(N, N, dtype=F32), whole(steps, N, N, low=-1, high=2), 0
    x = a
    for s in range(steps):
        p = p + product(x, b[s]) + product(b[s].T, x)
        x = x * -2 + 1
    out = run(decaying, A=a, B=b, Y=np.zeros((N, N), F32))
    np.testing.assert_array_equal(out["Y"], both_ways(p))


def test_steps_that_a_variable_counts():
    """Work that a tensor hands out, tile after tile, as stream-K has it."""
    steps = 5

    @T.prim_func
    def counted(
        A: T.Tensor((N, 32 * steps), F16), B: T.Tensor((32 * steps, N), F16), L: T.Tensor((3, 2), I32), Y: T.Tensor((3, N, N), F32)
    ):
        with T.Kernel(3, threads=128) as x:
            a, b = T.alloc_shared((N, 32), F16), T.alloc_shared((32, N), F16)
            c, d = T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32)
            rows, columns = T.alloc_fragment((N,), F32), T.alloc_fragment((N,), F32)
            at = T.alloc_var(I32)
            at = L[x, 0]
            T.clear(c)
            while at < L[x, 1]:
                T.copy(A[0, at * 32], a)
                T.copy(B[at * 32, 0], b)
                T.gemm(a, b, c)
                at = at + 1
            finish(c, d, rows, columns)
            T.copy(d, Y[x, 0, 0])

    a, b, which = whole(N, 32 * steps), whole(32 * steps, N), np.array([[0, 3], [2, 2], [3, 5]], I32)
    p = np.stack([product(a[:, 32 * i : 32 * j], b[32 * i : 32 * j]) for i, j in which])
    np.testing.assert_array_equal(run(counted, A=a, B=b, L=which, Y=np.zeros((3, N, N), F32))["Y"], both_ways(p))


@pytest.mark.parametrize("target", ["a2", "a5"])
@pytest.mark.parametrize("m, n, dtype", [(72, 88, F16), (40, 104, I8), (100, 56, "bfloat16"), (56, 200, F32)])
@pytest.mark.one_in(2)
def test_parts_that_leave_a_rest(m, n, dtype, target):
    """The last part is shorter: no parts of rows, nor of columns, are equal and whole fractals."""
    k, out = 96, I32 if dtype == I8 else F32

    @T.prim_func
    def uneven(A: T.Tensor((2, m, k), dtype), B: T.Tensor((n, k), dtype), Y: T.Tensor((2, m, n), out), R: T.Tensor((2, m), out)):
        with T.Kernel(2, threads=128) as x:
            a, b, c = T.alloc_shared((m, 32), dtype), T.alloc_shared((n, 32), dtype), T.alloc_fragment((m, n), out)
            rows, columns = T.alloc_fragment((m,), out), T.alloc_fragment((n,), out)
            T.clear(c)
            for s in T.Pipelined(k // 32, num_stages=2):
                T.copy(A[x, 0, s * 32], a)
                T.copy(B[0, s * 32], b)
                T.gemm(a, b, c, transpose_B=True)
            T.reduce_max(c, rows, dim=1)
            T.reduce_max(c, columns, dim=0)
            for i, j in T.Parallel(m, n):
                c[i, j] = c[i, j] + rows[i] - columns[j]
            T.copy(c, Y[x, 0, 0])
            T.copy(rows, R[x, 0])

    import ml_dtypes

    number = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    a, b = whole(2, m, k, dtype=number), whole(n, k, dtype=number)
    p = product(a, b.T)
    got = run(uneven, target=target, text=n < 100, A=a, B=b, Y=np.zeros((2, m, n), out), R=np.zeros((2, m), out))
    np.testing.assert_array_equal(got["R"], p.max(2))
    np.testing.assert_array_equal(got["Y"], p + p.max(2, keepdims=True) - p.max(1, keepdims=True))


def test_a_rest_of_what_vector_cores_make():
    """They make shorter operands for it; what is done once for all parts is done by the first one."""
    m, k, steps = 72, 32, 3

    @T.prim_func
    def made(A: T.Tensor((m, k * steps), F16), S: T.Tensor((m,), F32), Y: T.Tensor((m, m), F32), Z: T.Tensor((steps, 16, k), F16)):
        with T.Kernel(1, threads=128):
            a, x, scale = T.alloc_shared((m, k), F16), T.alloc_shared((m, k), F16), T.alloc_fragment((m,), F32)
            c, z = T.alloc_fragment((m, m), F32), T.alloc_shared((16, k), F16)
            T.copy(S, scale)
            T.clear(c)
            for s in T.serial(steps):
                T.copy(A[0, s * k], a)
                for i, j in T.Parallel(m, k):
                    x[i, j] = a[i, j] * scale[i]
                T.gemm(x, a, c, transpose_B=True)
                T.copy(A[16, s * k], z)
                for i, j in T.Parallel(16, k):
                    z[i, j] = z[i, j] + 1.0
                T.copy(z, Z[s, 0, 0])
            for i, j in T.Parallel(m, m):
                c[i, j] = T.if_then_else(i >= j, c[i, j], c[j, i] * 2.0)
            T.copy(c, Y)

    a, scale = whole(m, k * steps), whole(m, dtype=F32)
    p = product(a * scale[:, None], a.T)
    out = run(made, A=a, S=scale, Y=np.zeros((m, m), F32), Z=np.zeros((steps, 16, k), F16))
    np.testing.assert_array_equal(out["Y"], np.where(np.tri(m, dtype=bool), p, 2 * p.T))
    np.testing.assert_array_equal(out["Z"], a[16:32].reshape(16, steps, k).swapaxes(0, 1) + 1)


@pytest.mark.parametrize("n", [72, 100])
def test_a_rest_of_products_with_themselves(n):
    """Powers of a matrix by way of vector cores, in parts of uneven columns."""

    @T.prim_func
    def power(A: T.Tensor((n, n), F16), Y: T.Tensor((n, n), F32)):
        with T.Kernel(1, threads=128):
            a, c = T.alloc_shared((n, n), F16), T.alloc_fragment((n, n), F32)
            T.copy(A, a)
            for _ in T.serial(2):
                T.gemm(a, a, c, clear_accum=True)
                T.copy(c, a)
            T.copy(c, Y)

    a = whole(n, n, low=0, high=2)
    a[RNG.random((n, n)) < 0.9] = 0
    p = product(a, a)
    np.testing.assert_array_equal(run(power, A=a, Y=np.zeros((n, n), F32))["Y"], product(p, p))


def test_without_them_it_does_not_fit(monkeypatch):
    """The kernels above need it: with these ways switched off they are refused."""
    monkeypatch.setattr(pipeline, "SUMS", ())

    @T.prim_func
    def squares(A: T.Tensor((N, N), F16), Y: T.Tensor((N, N), F32)):
        with T.Kernel(1, threads=128):
            a, c = T.alloc_shared((N, N), F16), T.alloc_fragment((N, N), F32)
            T.copy(A, a)
            T.gemm(a, a, c, clear_accum=True)
            T.copy(c, Y)

    with pytest.raises(OutOfMemory, match="L0C"):
        tilelang.compile(squares)
    monkeypatch.undo()


def test_as_gpu_kernels_have_them(monkeypatch):
    """256 x 256 float32 in registers: twice what L0C has."""
    monkeypatch.undo()
    n = 256

    @T.prim_func
    def symmetric(A: T.Tensor((n, 64), F16), Y: T.Tensor((n, n), F32)):
        with T.Kernel(1, threads=256):
            a, c = T.alloc_shared((n, 64), F16), T.alloc_fragment((n, n), F32)
            T.copy(A, a)
            T.gemm(a, a, c, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(n, n):
                c[i, j] = T.if_then_else(i >= j, c[i, j], c[j, i] * 2.0)
            T.copy(c, Y)

    a = whole(n, 64)
    p = product(a, a.T)
    got = run(symmetric, A=a, Y=np.zeros((n, n), F32), text=False)["Y"]
    np.testing.assert_array_equal(got, np.where(np.tri(n, dtype=bool), p, 2 * p.T))
