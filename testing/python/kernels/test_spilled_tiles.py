"""Tiles that UB has no room for, and of which no part can be worked on alone: they live in GM, and values are those of whole tiles."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch.spec import ChipSpec
from tilelang_ascend.errors import OutOfMemory
from tilelang_ascend.isa.base import Space

F16, F32, I32 = "float16", "float32", "int32"
RNG = np.random.default_rng(0)
UB_BYTES = 16384


@pytest.fixture
def small_ub(monkeypatch):
    """UB so small that small tiles are too large for it."""
    usual = ChipSpec.capacity_bytes
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    monkeypatch.setattr(ChipSpec, "capacity_bytes", lambda chip, space: UB_BYTES if space is Space.UB else usual(chip, space))


def run(kernel, spilled=True, text=True, scalars=None, **arrays):
    """The strict run of a kernel with tiles in GM (or without)."""
    compiled = tilelang.compile(kernel)
    assert any("global memory holds" in note for note in compiled.artifact.notes) == spilled, compiled.artifact.notes
    return strict.run(compiled, arrays, scalars, text=text)


def whole(*shape, dtype=F32, low=-9, high=10):
    return RNG.integers(low, high, shape).astype(dtype)


def test_rows_in_another_order():
    n = 256

    @T.prim_func
    def turned(X: T.Tensor((2 * n, n), F32), Y: T.Tensor((2 * n, n), F32)):
        with T.Kernel(2, threads=128) as b:
            x, y = T.alloc_shared((n, n), F32), T.alloc_fragment((n, n), F32)
            T.copy(X[b * n, 0], x)
            for i, j in T.Parallel(n, n):
                y[i, j] = x[n - 1 - i, n - 1 - j]
            T.copy(y, Y[b * n, 0])

    x = RNG.standard_normal((2 * n, n)).astype(np.float32)
    got = run(turned, X=x, Y=np.zeros_like(x), text=False)["Y"]
    np.testing.assert_array_equal(got, x.reshape(2, n, n)[:, ::-1, ::-1].reshape(2 * n, n))


def test_rows_and_columns_of_one_tile(small_ub):
    """Sums along both, of a tile that is made of another one and its transpose."""
    n = 80

    @T.prim_func
    def both(X: T.Tensor((3 * n, n), F32), R: T.Tensor((3 * n,), F32), C: T.Tensor((3, n), F32)):
        with T.Kernel(3, threads=128) as b:
            x, y, s = T.alloc_fragment((n, n), F32), T.alloc_fragment((n, n), F32), T.alloc_fragment((n,), F32)
            T.copy(X[b * n, 0], x)
            for i, j in T.Parallel(n, n):
                y[i, j] = x[i, j] * 2.0 + x[j, i]
            T.reduce_sum(y, s, dim=1)
            T.copy(s, R[b * n])
            T.reduce_sum(y, s, dim=0)
            T.copy(s, C[b, 0])

    x = whole(3 * n, n)
    y = x.reshape(3, n, n) * 2 + x.reshape(3, n, n).transpose(0, 2, 1)
    out = run(both, X=x, R=np.zeros(3 * n, F32), C=np.zeros((3, n), F32))
    np.testing.assert_array_equal(out["R"], y.sum(2).reshape(-1))
    np.testing.assert_array_equal(out["C"], y.sum(1))


@pytest.mark.parametrize("conditional", [False, True])
def test_places_that_are_data(small_ub, conditional):
    """Stores to chosen elements, some of them only if an element says so, and elements that the scalar unit changes."""
    n, count = 5000, 40

    @T.prim_func
    def scattered(X: T.Tensor((2, n), F32), I: T.Tensor((2, count), I32), Y: T.Tensor((2, n), F32)):
        with T.Kernel(2, threads=128) as b:
            x, at = T.alloc_shared((n,), F32), T.alloc_shared((count,), I32)
            T.copy(X[b, 0], x)
            T.copy(I[b, 0], at)
            for i in T.Parallel(count):
                if conditional:
                    if x[at[i]] > 0:
                        x[at[i]] = 70.0
                else:
                    x[at[i]] = 70.0
            for j in T.Parallel(n):
                if x[j] < 0:
                    x[j] = x[j] * 3.0
            x[at[0] // 2] = x[at[1]] + 3.0
            T.copy(x, Y[b, 0])

    x, at = whole(2, n), np.stack([RNG.permutation(n)[:count] for _ in range(2)]).astype(np.int32)
    want = x.copy()
    for row, places in zip(want, at):
        row[places] = np.where(row[places] > 0, 70, row[places]) if conditional else 70
        row[:] = np.where(row < 0, row * 3, row)
        row[places[0] // 2] = row[places[1]] + 3
    np.testing.assert_array_equal(run(scattered, X=x, I=at, Y=np.zeros_like(x))["Y"], want)


def test_neighbours_round_after_round(small_ub):
    n, rounds = 5000, 3

    @T.prim_func
    def rolled(X: T.Tensor((2, n), F32), m: T.int32, Y: T.Tensor((2, n), F32)):
        with T.Kernel(2, threads=128) as b:
            x, y = T.alloc_shared((n,), F32), T.alloc_shared((n,), F32)
            T.copy(X[b, 0], x)
            for k in T.serial(m):
                for j in T.Parallel(n):
                    y[j] = x[j] + x[(j + k * k + 1) % n]
                for j in T.Parallel(n):
                    x[n - 1 - j] = y[j]
            T.copy(x, Y[b, 0])

    x = whole(2, n)
    for m in (0, rounds):
        want = x
        for k in range(m):
            want = (want + np.roll(want, -(k * k + 1), 1))[:, ::-1]
        np.testing.assert_array_equal(run(rolled, X=x, Y=np.zeros_like(x), scalars={"m": m}, text=m > 0)["Y"], want)


def test_scans_and_counts(small_ub):
    """A scan in place, elements that depend on those before them, and a histogram."""
    n = 3000

    @T.prim_func
    def counted(I: T.Tensor((2, n), I32), H: T.Tensor((2, n), I32)):
        with T.Kernel(2, threads=128) as b:
            at, h = T.alloc_shared((n,), I32), T.alloc_shared((n,), I32)
            T.copy(I[b, 0], at)
            T.clear(h)
            for j in T.Parallel(n):
                T.atomic_add(h[at[j]], 1)
            T.cumsum(h, dim=0)
            for j in T.serial(1, 20):
                h[j * 3] = h[j * 3 - 1] + h[(j * j * 7) % n]
            T.copy(h, H[b, 0])

    at = RNG.integers(0, n, (2, n)).astype(np.int32)
    want = np.stack([np.bincount(row, minlength=n).cumsum() for row in at])
    for row in want:
        for j in range(1, 20):
            row[j * 3] = row[j * 3 - 1] + row[(j * j * 7) % n]
    np.testing.assert_array_equal(run(counted, I=at, H=np.zeros((2, n), np.int32))["H"], want)


def test_products_that_turn_what_they_are_made_of():
    """What comes of a product is added to its transpose, decides the next operand, and is reduced by columns."""
    m, rounds, blocks = 128, 2, 2

    @T.prim_func
    def kernel(A: T.Tensor((blocks * m, m), F16), Y: T.Tensor((blocks * m, m), F32), S: T.Tensor((blocks, m), F32)):
        with T.Kernel(blocks, threads=128) as b:
            a, c = T.alloc_shared((m, m), F16), T.alloc_fragment((m, m), F32)
            y, z, s = T.alloc_fragment((m, m), F32), T.alloc_fragment((m, m), F32), T.alloc_fragment((m,), F32)
            T.copy(A[b * m, 0], a)
            T.clear(y)
            for _ in T.serial(rounds):
                T.gemm(a, a, c, clear_accum=True, transpose_B=True)
                for i, j in T.Parallel(m, m):
                    y[i, j] += c[m - 1 - i, j] + c[j, i]
                for i, j in T.Parallel(m, m):
                    z[i, j] = T.if_then_else(y[j, i] > 0.0, 1.0, -1.0)
                T.copy(z, a)
            T.copy(y, Y[b * m, 0])
            T.reduce_max(y, s, dim=0)
            T.copy(s, S[b, 0])

    a = whole(blocks * m, m, dtype=F16, low=-3, high=4)
    x, y = a.astype(np.float32).reshape(blocks, m, m), np.zeros((blocks, m, m), np.float32)
    for _ in range(rounds):
        c = x @ x.transpose(0, 2, 1)
        y += c[:, ::-1] + c.transpose(0, 2, 1)
        x = np.where(y.transpose(0, 2, 1) > 0, 1, -1).astype(np.float32)
    out = run(kernel, A=a, Y=np.zeros((blocks * m, m), F32), S=np.zeros((blocks, m), F32), text=False)
    np.testing.assert_array_equal(out["Y"], y.reshape(blocks * m, m))
    np.testing.assert_array_equal(out["S"], y.max(1))


def test_an_element_that_decides_which_products_run():
    m, n, steps, blocks = 128, 256, 3, 2

    @T.prim_func
    def kernel(A: T.Tensor((blocks * m, 64), F16), B: T.Tensor((steps, 64, n), F16), W: T.Tensor((blocks * m, n), F32),
               Y: T.Tensor((blocks * m, n), F32)):  # fmt: skip
        with T.Kernel(blocks, threads=128) as bx:
            a, b = T.alloc_shared((m, 64), F16), T.alloc_shared((64, n), F16)
            c, y, w = T.alloc_fragment((m, n), F32), T.alloc_fragment((m, n), F32), T.alloc_fragment((m, n), F32)
            T.copy(A[bx * m, 0], a)
            T.copy(W[bx * m, 0], w)
            for i, j in T.Parallel(m, n):
                y[i, j] = w[m - 1 - i, j] + w[i, n - 1 - j]
            T.clear(c)
            for k in T.serial(steps):
                if y[k, 3] > 0.0:
                    T.copy(B[k, 0, 0], b)
                    T.gemm(a, b, c)
            for i, j in T.Parallel(m, n):
                y[i, j] = y[i, j] + c[i, n - 1 - j]
            T.copy(y, Y[bx * m, 0])

    a, b = whole(blocks * m, 64, dtype=F16, low=-3, high=4), whole(steps, 64, n, dtype=F16, low=-3, high=4)
    w = whole(blocks * m, n).reshape(blocks, m, n)
    want = w[:, ::-1] + w[:, :, ::-1]
    for x, y in zip(a.astype(np.float32).reshape(blocks, m, 64), want):
        taken = [k for k in range(steps) if y[k, 3] > 0]
        y += sum((x @ b[k].astype(np.float32) for k in taken), np.zeros((m, n), np.float32))[:, ::-1]
    out = run(kernel, A=a, B=b, W=w.reshape(blocks * m, n), Y=np.zeros((blocks * m, n), F32), text=False)
    np.testing.assert_array_equal(out["Y"], want.reshape(blocks * m, n))


@pytest.mark.parametrize("target", ["a2", "a5"])
def test_scores_that_are_read_by_columns(target):
    """A loop of products whose vector work turns the scores round, with running maxima of columns."""
    m, d, steps = 128, 64, 3

    @T.prim_func
    def kernel(Q: T.Tensor((2 * m, d), F16), K: T.Tensor((steps * m, d), F16), O: T.Tensor((2 * m, d), F32), S: T.Tensor((2, m), F32)):
        with T.Kernel(2, threads=128) as b:
            q, k, p = T.alloc_shared((m, d), F16), T.alloc_shared((m, d), F16), T.alloc_shared((m, m), F16)
            c, y = T.alloc_fragment((m, m), F32), T.alloc_fragment((m, m), F32)
            most, o = T.alloc_fragment((m,), F32), T.alloc_fragment((m, d), F32)
            T.copy(Q[b * m, 0], q)
            T.fill(most, 0.0)
            T.clear(o)
            for step in T.Pipelined(steps, num_stages=2):
                T.copy(K[step * m, 0], k)
                T.gemm(q, k, c, clear_accum=True, transpose_B=True)
                T.reduce_max(c, most, dim=0, clear=False)
                for i, j in T.Parallel(m, m):
                    y[i, j] = T.max(c[j, i] - most[j], -20.0)
                T.copy(y, p)
                T.gemm(p, k, o)
            T.copy(o, O[b * m, 0])
            T.copy(most, S[b, 0])

    q, k = whole(2 * m, d, dtype=F16, low=-1, high=2), whole(steps * m, d, dtype=F16, low=-1, high=2)
    o, s = np.zeros((2, m, d), np.float32), np.zeros((2, m), np.float32)
    for b in range(2):
        for step in range(steps):
            keys = k[step * m :][:m].astype(np.float32)
            c = q[b * m :][:m].astype(np.float32) @ keys.T
            s[b] = np.maximum(s[b], c.max(0))
            o[b] += np.maximum(c.T - s[b], -20) @ keys
    compiled = tilelang.compile(kernel, target=target)
    out = strict.run(compiled, dict(Q=q, K=k, O=np.zeros((2 * m, d), F32), S=np.zeros((2, m), F32)), text=False)
    np.testing.assert_array_equal(out["O"], o.reshape(2 * m, d))
    np.testing.assert_array_equal(out["S"], s)


REDUCED = {"sum": lambda x, d: x.astype(np.float64).sum(d), "max": lambda x, d: x.max(d)}


@pytest.mark.parametrize("clear", [True, False])
@pytest.mark.parametrize(
    "kind, shape, dim, dtype, result",
    [
        ("sum", (3, 5001), 1, F32, F32),
        ("sum", (5001, 3), 0, F32, F32),
        ("sum", (501, 100), 0, F16, F16),
        ("max", (2, 5001), 1, I32, I32),
        ("sum", (2, 3, 5001), 2, F16, F32),
        ("sum", (2, 2501, 3), 1, I32, I32),
        ("max", (5001, 5), 0, F16, F16),
    ],
)
@pytest.mark.one_in(4)
def test_reductions_of_tensors_go_from_part_to_part(small_ub, kind, shape, dim, dtype, result, clear):
    left = tuple(n for d, n in enumerate(shape) if d != dim)

    @T.prim_func
    def kernel(X: T.Tensor(shape, dtype), Y: T.Tensor(left, result)):
        with T.Kernel(1):
            getattr(T, f"reduce_{kind}")(X, Y, dim=dim, clear=clear)

    # Sums of float16 are exact.
    x, y = whole(*shape, dtype=dtype, low=-1, high=2), whole(*left, dtype=result)
    want = REDUCED[kind](x, dim)
    want = want if clear else want + y if kind == "sum" else np.maximum(want, y)
    np.testing.assert_array_equal(run(kernel, spilled=False, X=x, Y=y)["Y"], want.astype(result))


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    "kind, shape, dim, dtype, result",
    [
        ("cumsum", (5001,), 0, F32, F32),
        ("cumsum", (3, 5001), 1, I32, I32),
        ("cumsum", (201, 72), 0, I32, I32),
        ("cummax", (2, 5001), 1, F16, F16),
        ("cumsum", (5001,), 0, "int8", I32),
    ],
)
@pytest.mark.one_in(6)
def test_scans_of_tensors_go_from_part_to_part(small_ub, kind, shape, dim, dtype, result, backwards):
    in_place = dtype == result and len(shape) == 2

    @T.prim_func
    def kernel(X: T.Tensor(shape, dtype), Y: T.Tensor(shape, result)):
        with T.Kernel(1):
            if in_place:
                getattr(T, kind)(X, dim=dim, reverse=backwards)
                T.copy(X, Y)
            else:
                getattr(T, kind)(X, Y, dim=dim, reverse=backwards)

    x = whole(*shape, dtype=dtype)
    turned = np.flip(x, dim).astype(np.float64) if backwards else x.astype(np.float64)
    want = np.cumsum(turned, dim) if kind == "cumsum" else np.maximum.accumulate(turned, dim)
    got = run(kernel, spilled=False, X=x.copy(), Y=np.zeros(shape, result))["Y"]
    np.testing.assert_array_equal(got, (np.flip(want, dim) if backwards else want).astype(result))


def test_tiles_whose_updates_memory_has_no_transfer_for(small_ub):
    """GM has no atomic sums of int64: such a tile cannot live there, and what is wrong is its size."""
    n = 3000

    @T.prim_func
    def counted(I: T.Tensor((n,), I32), H: T.Tensor((n,), "int64")):
        with T.Kernel(1):
            at, h = T.alloc_shared((n,), I32), T.alloc_shared((n,), "int64")
            T.copy(I, at)
            T.clear(h)
            for j in T.Parallel(n):
                T.atomic_add(h[at[j]], T.cast(at[n - 1 - j], "int64"))
            T.copy(h, H)

    with pytest.raises(OutOfMemory, match="'h' takes"):
        tilelang.compile(counted)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "kind, shape, dim, dtype, result, clear",
    [
        ("sum", (2, 20001), 1, "int8", I32, False),
        ("sum", (5001, 3), 0, "int8", I32, True),
        ("absmax", (2, 20001), 1, "int8", "int8", False),
        ("bitor", (2, 5001, 3), 1, "int8", "int8", True),
        ("bitxor", (2, 9001), 1, I32, I32, False),
        ("any", (5001, 5), 0, I32, "bool", True),
    ],
)
def test_parts_of_narrow_rows_leave_room_for_wider_numbers(small_ub, kind, shape, dim, dtype, result, clear):
    left = tuple(n for d, n in enumerate(shape) if d != dim)

    @T.prim_func
    def kernel(X: T.Tensor(shape, dtype), Y: T.Tensor(left, result)):
        with T.Kernel(1):
            getattr(T, f"reduce_{kind}")(X, Y, dim=dim, clear=clear)

    x, y = whole(*shape, dtype=dtype, low=0), whole(*left, dtype=result, low=0)
    joined = {"sum": np.add, "absmax": np.maximum, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor, "any": np.logical_or}[kind]
    want = joined.reduce(x.astype(np.int64), dim)
    want = want if clear else joined(want, y.astype(np.int64))
    np.testing.assert_array_equal(run(kernel, spilled=False, text=False, X=x, Y=y)["Y"], want.astype(result))


@pytest.mark.parametrize("joined", [False, True])
def test_tensors_reduced_into_tiles_of_a_megabyte(joined):
    """Rows of one element on the way, eight times as long as their number."""
    n, steps = 512, 3

    @T.prim_func
    def kernel(X: T.Tensor((n, n, steps), F32), Y: T.Tensor((n, n), F32)):
        with T.Kernel(1):
            r, y = T.alloc_fragment((n, n), F32), T.alloc_fragment((n, n), F32)
            T.reduce_sum(X, r, dim=2)
            if joined:
                for i, j in T.Parallel(n, n):
                    y[i, j] = r[i, j] - r[j, i]
                T.copy(y, Y)
            else:
                T.copy(r, Y)

    x = whole(n, n, steps)
    p = x.sum(2)
    got = run(kernel, spilled=joined, text=False, X=x, Y=np.zeros((n, n), F32))["Y"]
    np.testing.assert_array_equal(got, p - p.T if joined else p)
