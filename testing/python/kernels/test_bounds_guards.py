"""Guards around several statements, conditional updates of what a block owns, and extents of run time: whole tiles, no scalar loops."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

RNG = np.random.default_rng(12)
SIZES = (70, 0, 31, 32)
BLOCK = 32


def numbers(*shape, dtype=np.float32):
    return RNG.integers(-8, 9, shape).astype(dtype)


def places(count, below):
    return RNG.integers(0, below, count).astype(np.int32)


def check(kernel, cases, warnings=()):
    """`cases`: (arrays, scalars, {name: expected}); the emitted text runs for the first one. `warnings`: parts of the expected ones."""
    kernel = tilelang.compile(kernel)
    for k, (arrays, scalars, expected) in enumerate(cases):
        out = strict.run(kernel, arrays, scalars, text=k == 0)
        for name, want in expected.items():
            assert out[name].tobytes() == want.astype(out[name].dtype).tobytes(), (name, scalars)
    assert len(kernel.artifact.warnings) == len(warnings)
    for part, w in zip(warnings, kernel.artifact.warnings):
        assert part in str(w)


def test_several_statements_under_one_guard():
    N = T.dynamic("N")

    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32"), Z: T.Tensor((N,), "float16"), W: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, BLOCK)) as b:
            for i in T.Parallel(BLOCK):
                g = b * BLOCK + i
                if g < N:
                    v = X[g] * 2
                    Y[g] = v
                    if v > 3:
                        Z[g] = v + 1
                    elif v < -3:
                        Z[g] = v - 1
                    else:
                        Z[g] = 0
                    if v > 0:
                        W[g] += v

    def case(n):
        x, w = numbers(n), numbers(n)
        y = x * 2
        z = np.where(y > 3, y + 1, np.where(y < -3, y - 1, 0))
        arrays = {"X": x, "Y": np.zeros(n, np.float32), "Z": np.zeros(n, np.float16), "W": w}
        return arrays, {"N": n}, {"Y": y, "Z": z, "W": w + np.maximum(y, 0)}

    check(main, map(case, SIZES))


def test_a_swap_under_a_condition_of_what_it_changes():
    N = T.dynamic("N")

    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, BLOCK)) as b:
            for i in T.Parallel(BLOCK):
                g = b * BLOCK + i
                if g < N and X[g] > 0:
                    t = X[g]
                    X[g] = Y[g]
                    Y[g] = t

    def case(n):
        x, y = numbers(n), numbers(n)
        return {"X": x, "Y": y}, {"N": n}, {"X": np.where(x > 0, y, x), "Y": np.where(x > 0, x, y)}

    check(main, map(case, SIZES))


def test_limits_of_two_stores_in_two_directions():
    M, N = T.dynamic("M, N")

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32"), Z: T.Tensor((N, M), "float32"), m: T.int32, n: T.int32):
        with T.Kernel(T.ceildiv(M, 8), T.ceildiv(N, 16)) as (a, b):
            for i, j in T.Parallel(8, 16):
                r = a * 8 + i
                c = b * 16 + j
                if r < m and c < n:
                    v = X[r, c] * 3
                    Y[r, c] = v
                    Z[c, r] = v - 1

    def case(sizes):
        M, N, m, n = sizes
        x, y, z = numbers(M, N), numbers(M, N), numbers(N, M)
        new_y, new_z = y.copy(), z.copy()
        new_y[:m, :n] = x[:m, :n] * 3
        new_z[:n, :m] = (x[:m, :n] * 3 - 1).T
        return {"X": x, "Y": y, "Z": z}, dict(zip("MNmn", sizes)), {"Y": new_y, "Z": new_z}

    check(main, map(case, [(20, 40, 11, 33), (9, 17, 9, 17), (8, 16, 0, 3), (0, 3, 0, 0)]))


@pytest.mark.parametrize("rows", [False, True])
def test_places_beyond_a_limit_are_not_read(rows):
    """Indices beyond the limit may be anything: nothing is read there, though the limit is one of the transfer."""
    width = 24

    @T.prim_func
    def elements(W: T.Tensor((40,), "float32"), At: T.Tensor((64,), "int32"), Y: T.Tensor((64,), "float32"), n: T.int32):
        with T.Kernel(1):
            w = T.alloc_shared((40,), "float32")
            T.copy(W, w)
            for i in T.Parallel(64):
                if i < n:
                    k = At[i]
                    Y[i] = w[k]

    @T.prim_func
    def whole_rows(W: T.Tensor((40, width), "float32"), At: T.Tensor((64,), "int32"), Y: T.Tensor((64, width), "float32"), n: T.int32):
        with T.Kernel(1):
            for i, j in T.Parallel(64, width):
                if i < n:
                    Y[i, j] = W[At[i], j]

    def case(n):
        shape = (width,) if rows else ()
        w, at, y = numbers(40, *shape), places(64, 40), numbers(64, *shape)
        at[n:] = 2_000_000_000
        return {"W": w, "At": at, "Y": y}, {"n": n}, {"Y": np.concatenate([w[at[:n]], y[n:]])}

    check(whole_rows if rows else elements, map(case, (33, 0, 1, 64)))


def test_places_beyond_the_tensor_are_not_read():
    """What lies outside of `At` reads zero: one less is no place in `w`."""
    N = T.dynamic("N")

    @T.prim_func
    def main(W: T.Tensor((40,), "float32"), At: T.Tensor((N,), "int32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, BLOCK)) as b:
            w = T.alloc_shared((40,), "float32")
            T.copy(W, w)
            for i in T.Parallel(BLOCK):
                if b * BLOCK + i < N:
                    Y[b * BLOCK + i] = w[At[b * BLOCK + i] - 1]

    def case(n):
        w, at = numbers(40), places(n, 40) + np.int32(1)
        return {"W": w, "At": at, "Y": np.zeros(n, np.float32)}, {"N": n}, {"Y": w[at - 1]}

    check(main, map(case, SIZES))


def test_pairs_under_the_guard_of_one():
    """`g < N` follows from `2 * g < 2 * N`."""
    N = T.dynamic("N")

    @T.prim_func
    def main(X: T.Tensor((N,), "float16"), Y: T.Tensor((2 * N,), "float16")):
        with T.Kernel(T.ceildiv(N, BLOCK)) as b:
            for i in T.Parallel(BLOCK):
                g = b * BLOCK + i
                if g < N:
                    Y[2 * g] = X[g]
                    Y[2 * g + 1] = X[g] + 1

    def case(n):
        x = numbers(n, dtype=np.float16)
        return {"X": x, "Y": np.zeros(2 * n, np.float16)}, {"N": n}, {"Y": np.stack([x, x + 1], 1).reshape(-1)}

    check(main, map(case, (70, 1)))


def test_backward_stores():
    M = T.dynamic("M")

    @T.prim_func
    def main(X: T.Tensor((M, 24), "float16"), Y: T.Tensor((M, 24), "float32"), Z: T.Tensor((24, M), "float16")):
        with T.Kernel(T.ceildiv(M, 8)) as b:
            for i, j in T.Parallel(8, 24):
                if b * 8 + i < M:
                    Y[b * 8 + i, 23 - j] = X[b * 8 + i, j]
            for i, j in T.Parallel(8, 24):
                if b * 8 + i < M:
                    Z[23 - j, M - 1 - b * 8 - i] = X[b * 8 + i, j]

    def case(m):
        x = numbers(m, 24, dtype=np.float16)
        arrays = {"X": x, "Y": np.zeros((m, 24), np.float32), "Z": np.zeros((24, m), np.float16)}
        return arrays, {"M": m}, {"Y": x[:, ::-1], "Z": x[::-1, ::-1].T}

    check(main, map(case, (23, 0, 1, 7, 8, 9)))


def test_extents_of_run_time():
    M, N = T.dynamic("M, N")

    @T.prim_func
    def main(X: T.Tensor((M, N), "float16"), Y: T.Tensor((N, M), "float16"), S: T.Tensor((N,), "float32"), m: T.int32):
        with T.Kernel(1):
            for i, j in T.Parallel(M, N):
                Y[j, i] = X[i, j] + i
            for j in T.Parallel(m):
                T.atomic_add(S[N - 1 - j], j + 1)

    def case(sizes):
        m, n, few = sizes
        x, s = numbers(m, n, dtype=np.float16), numbers(n)
        new = s.copy()
        new[n - few :] += np.arange(few, 0, -1)
        arrays = {"X": x, "Y": np.zeros((n, m), np.float16), "S": s}
        return arrays, {"M": m, "N": n, "m": few}, {"Y": (x + np.arange(m)[:, None]).T, "S": new}

    check(main, map(case, [(9, 600, 37), (0, 3, 0), (3, 0, 0), (1, 1, 1)]))


def test_subtracting_a_scalar_zero_keeps_the_sign_of_zero():
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32"), n: T.int32):
        with T.Kernel(1):
            for i in T.Parallel(64):
                Y[i] = X[i] - n

    x = np.full(64, -0.0, np.float32)
    check(main, [({"X": x, "Y": np.zeros(64, np.float32)}, {"n": n}, {"Y": x - np.float32(n)}) for n in (0, 3)])


# ---- what conditions leave out is not loaded: other blocks write it --------------------------------------------------

STEP, BLOCKS = 40, 5


def in_place(kind):
    """Blocks change 40 elements each, in iterations that would reach into the next block."""

    @T.prim_func
    def main(X: T.Tensor((STEP * BLOCKS,), "float32"), A: T.Tensor((STEP * BLOCKS,), "float32"), n: T.int32):
        with T.Kernel(BLOCKS) as bx:
            if kind == "extent":
                for i in T.Parallel(n):
                    X[bx * n + i] = X[bx * n + i] * 2.0
            elif kind == "accumulated over an extent":
                for i in T.Parallel(n):
                    X[bx * STEP + i] = 0.0
                    for s in T.serial(3):
                        X[bx * STEP + i] += A[bx * STEP + i] * s
            elif kind == "two nests":
                t = T.alloc_shared((64,), "float32")
                for i in T.Parallel(64):
                    if i < STEP:
                        t[i] = X[bx * STEP + i] + A[bx * STEP + i]
                for i in T.Parallel(64):
                    if i < STEP:
                        X[bx * STEP + i] = t[i] * 2.0
            elif kind == "neighbours":
                for i in T.Parallel(64):
                    if i < STEP - 1:
                        X[bx * STEP + i] = X[bx * STEP + i] + X[bx * STEP + i] * A[bx * STEP + i + 1]
            elif kind == "chosen":
                for i in T.Parallel(64):
                    if i < STEP:
                        X[bx * STEP + i] = T.if_then_else(A[bx * STEP + i] > 0.0, X[bx * STEP + i], 1.0)
            elif kind == "not":
                for i in T.Parallel(64):
                    if not (i >= n):
                        X[bx * STEP + i] = X[bx * STEP + i] * 2.0
            elif kind == "data":
                for i in T.Parallel(64):
                    if i < n and A[bx * STEP + i] > 0.0:
                        X[bx * STEP + i] = X[bx * STEP + i] * 2.0
            else:
                for i in T.Parallel(64):
                    if i < n:
                        X[bx * STEP + i] = X[bx * STEP + i] * 2.0

    return main


@pytest.mark.parametrize("kind", ["extent", "accumulated over an extent", "two nests", "neighbours", "chosen", "data", "not", "variable"])
@pytest.mark.parametrize("n", [STEP, 33])
@pytest.mark.one_in(6)
def test_blocks_do_not_load_what_other_blocks_write(kind, n):
    rng = np.random.default_rng(4)
    x, a = (rng.integers(-4, 5, STEP * BLOCKS).astype(np.float32) for _ in range(2))
    want, factors = x.copy(), a.reshape(BLOCKS, STEP)
    rows = want.reshape(BLOCKS, STEP)
    if kind == "extent":
        want[: n * BLOCKS] *= 2
    elif kind == "accumulated over an extent":
        rows[:, :n] = factors[:, :n] * 3
    elif kind == "two nests":
        rows[:] = (rows + factors) * 2
    elif kind == "neighbours":
        rows[:, :-1] *= 1 + factors[:, 1:]
    elif kind == "chosen":
        rows[:] = np.where(factors > 0, rows, 1)
    elif kind == "data":
        rows[:, :n] *= np.where(factors[:, :n] > 0, 2, 1)
    else:
        rows[:, :n] *= 2
    out = strict.run(tilelang.compile(in_place(kind)), {"X": x, "A": a}, {"n": n}, text=False)
    np.testing.assert_array_equal(out["X"], want)


@pytest.mark.parametrize("end", [2, 3])
def test_limits_of_a_store_whose_tile_other_accesses_share(end):
    """Reads that leave gaps and the store are parts of one tile: what the condition leaves out is not stored."""
    n = 64

    @T.prim_func
    def main(X: T.Tensor((n,), "int32")):
        with T.Kernel(1) as _:
            for i in T.Parallel(n):
                if i < end:
                    X[i + 1] = X[56 - 7 * i] + X[i * 8 + 4] + 2

    x = np.random.default_rng(0).integers(1, 99, n).astype(np.int32)
    i, want = np.arange(end), x.copy()
    want[i + 1] = x[56 - 7 * i] + x[i * 8 + 4] + 2
    out = strict.run(tilelang.compile(main), {"X": x}, text=False)
    np.testing.assert_array_equal(out["X"], want)


@pytest.mark.parametrize("chosen", [False, True])
def test_tiles_end_where_their_guard_ends(chosen):
    """The transfer of what is stored takes over the guard, not so what the guard says of a tile that is shorter than the nest."""

    @T.prim_func
    def main(X: T.Tensor((48,), "float32"), Y: T.Tensor((48,), "float32"), Z: T.Tensor((16,), "float32")):
        with T.Kernel(1):
            a = T.alloc_shared((16,), "float32")
            T.copy(X[0:16], a)
            for i in T.Parallel(48):
                if i < 32:
                    if chosen:
                        Y[i] = X[i] + T.if_then_else(i % 4 > 0, a[i // 2], 7)
                    else:
                        Y[i] = X[i] + a[i // 2]
            T.copy(a, Z)

    x = numbers(48)
    i = np.arange(48)
    y = np.where(i < 32, x + np.where((i % 4 > 0) | (not chosen), x[np.minimum(i // 2, 15)], 7), 0)
    check(main, [({"X": x, "Y": np.zeros_like(x), "Z": np.zeros(16, np.float32)}, {}, {"Y": y, "Z": x[:16]})])
