"""What stands behind a `break`, a `continue` or in a loop that may not run does not happen: a tile keeps what it had."""

import itertools

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

N, STEPS = 64, 4


def tiles(kind):
    """Vector code: fills and loads of one tile that later ones overwrite, or not."""

    @T.prim_func
    def main(A: T.Tensor((STEPS, N), "float32"), M: T.Tensor((STEPS,), "int32"), C: T.Tensor((STEPS + 1, N), "float32")):
        with T.Kernel(1) as _:
            t, u = T.alloc_shared((N,), "float32"), T.alloc_shared((N,), "float32")
            n = T.alloc_var("int32")
            T.fill(u, 0)
            T.fill(t, 7.0)
            if kind == "continue":
                for k in T.serial(STEPS):
                    T.fill(t, 3.0)
                    if M[k] == 0:
                        continue
                    T.copy(A[k, 0], t)
                    T.copy(t, C[k, 0])
            elif kind == "break":
                for k in T.serial(STEPS):
                    T.fill(t, 3.0)
                    if M[k] == 0:
                        break
                    T.copy(A[k, 0], t)
                    for i in T.Parallel(N):
                        u[i] = u[i] + t[i]
            elif kind == "while":
                n = 0
                while n < STEPS:
                    n += 1
                    T.fill(t, 3.0)
                    if M[n - 1] == 0:
                        continue
                    T.copy(A[n - 1, 0], t)
                    T.copy(t, C[n - 1, 0])
            elif kind == "no trips":
                for k in T.serial(M[0]):
                    T.copy(A[k, 0], t)
            elif kind == "branch":
                if M[0] > 0:
                    T.copy(A[0, 0], t)
            elif kind == "carried":
                for k in T.serial(STEPS):
                    for i in T.Parallel(N):
                        u[i] = u[i] + t[i]
                    if M[k] == 0:
                        continue
                    T.copy(A[k, 0], t)
            elif kind == "versions":
                for k in T.Pipelined(STEPS, num_stages=3):
                    if M[k] == 0:
                        continue
                    T.copy(A[k, 0], t)
                    for i in T.Parallel(N):
                        u[i] = u[i] + t[i]
            elif kind == "one of two":
                for k in T.Pipelined(STEPS, num_stages=3):
                    if M[k] == 1:
                        T.copy(A[k, 0], t)
                    else:
                        T.fill(t, 2.0)
                    for i in T.Parallel(N):
                        u[i] = u[i] + t[i]
            else:
                for k in T.Pipelined(STEPS, num_stages=2):
                    for _j in T.serial(M[k]):
                        T.copy(A[k, 0], t)
                    for i in T.Parallel(N):
                        u[i] = u[i] + t[i]
            for i in T.Parallel(N):
                u[i] = u[i] + t[i]
            T.copy(u, C[STEPS, 0])

    return tilelang.compile(main)


def expected(kind, A, M):
    C, t, u = np.full((STEPS + 1, N), 9, np.float32), np.full(N, 7, np.float32), np.zeros(N, np.float32)
    three, two = np.full(N, 3, np.float32), np.full(N, 2, np.float32)
    if kind == "no trips":
        t = A[M[0] - 1] if M[0] else t
    elif kind == "branch":
        t = A[0] if M[0] else t
    else:
        for k in range(STEPS):
            if kind == "carried":
                u = u + t
            if kind in ("continue", "break", "while"):
                t = three
            if M[k]:
                t = A[k]
            elif kind == "break":
                break
            if kind in ("continue", "while") and M[k]:
                C[k] = t
            if kind == "one of two" and not M[k]:
                t = two
            if kind in ("one of two", "inner loop") or kind in ("break", "versions") and M[k]:
                u = u + t
    C[STEPS] = u + t
    return C


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", ["continue", "break", "while", "no trips", "branch", "carried", "versions", "one of two", "inner loop"])
def test_a_tile_keeps_what_it_had(kind):
    kernel, rng = tiles(kind), np.random.default_rng(0)
    for n, M in enumerate(itertools.product((0, 1), repeat=STEPS)):
        A = rng.integers(-3, 4, (STEPS, N)).astype(np.float32)
        arrays = {"A": A, "M": np.array(M, np.int32), "C": np.full((STEPS + 1, N), 9, np.float32)}
        out = strict.run(kernel, arrays, text=n == 5)
        np.testing.assert_array_equal(out["C"], expected(kind, A, M))


def both_cores(kind):
    """A product goes to the vector core, and comes back, in iterations that are not left before."""

    @T.prim_func
    def main(A: T.Tensor((STEPS, 32, 32), "float16"), M: T.Tensor((STEPS,), "int32"), C: T.Tensor((STEPS + 1, 32, 32), "float32")):
        with T.Kernel(1) as _:
            a, b = T.alloc_shared((32, 32), "float16"), T.alloc_shared((32, 32), "float16")
            c, d, s = (T.alloc_fragment((32, 32), "float32") for _ in range(3))
            T.clear(s)
            for k in T.Pipelined(STEPS, num_stages=2):
                if kind == "before":
                    if M[k] == 0:
                        continue
                T.copy(A[k, 0, 0], a)
                T.gemm(a, a, c, clear_accum=True)
                if kind == "between":
                    if M[k] == 0:
                        continue
                if kind == "break between":
                    if M[k] == 0:
                        break
                for i, j in T.Parallel(32, 32):
                    d[i, j] = c[i, j] + 1
                    b[i, j] = c[i, j]
                if kind == "between and back":
                    if M[k] == 0:
                        continue
                T.copy(d, C[k, 0, 0])
                T.gemm(b, a, s)
                if kind == "after":
                    if M[k] == 0:
                        break
            T.copy(s, C[STEPS, 0, 0])

    return tilelang.compile(main)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", ["before", "between", "break between", "between and back", "after"])
def test_flags_between_the_cores(kind):
    kernel, rng = both_cores(kind), np.random.default_rng(0)
    for n, M in enumerate([(1, 0, 1, 1), (0, 0, 0, 0), (1, 1, 1, 1), (1, 1, 0, 1), (0, 1, 0, 1)]):
        A = (rng.integers(-1, 2, (STEPS, 32, 32)) * (rng.random((STEPS, 32, 32)) < 0.2)).astype(np.float16)
        C, total = np.full((STEPS + 1, 32, 32), 9, np.float32), np.zeros((32, 32), np.float32)
        for k in range(STEPS):
            a, on = A[k].astype(np.float32), M[k]
            if not on and kind != "after":
                if kind == "break between":
                    break
                continue
            C[k] = a @ a + 1
            total += a @ a @ a
            if not on:
                break
        C[STEPS] = total
        arrays = {"A": A, "M": np.array(M, np.int32), "C": np.full((STEPS + 1, 32, 32), 9, np.float32)}
        np.testing.assert_array_equal(strict.run(kernel, arrays, text=n == 0)["C"], C)


def test_a_load_of_some_blocks_stays_theirs():
    """The same load in every tile of the grid, under a condition: it overwrites what the others have filled."""

    @T.prim_func
    def main(X: T.Tensor((100, N), "float32"), n: T.int32, W: T.Tensor((N,), "float32"), C: T.Tensor((100, N), "float32")):
        with T.Kernel(100) as bx:
            x, w = T.alloc_shared((N,), "float32"), T.alloc_shared((N,), "float32")
            T.fill(w, 1.0)
            if bx < n:
                T.copy(W, w)
            T.copy(X[bx, 0], x)
            for i in T.Parallel(N):
                x[i] = x[i] * w[i]
            T.copy(x, C[bx, 0])

    rng = np.random.default_rng(0)
    X, W = rng.random((100, N)).astype(np.float32), rng.random(N).astype(np.float32)
    for n in (0, 60):
        out = strict.run(tilelang.compile(main), {"X": X, "W": W, "C": np.zeros_like(X)}, {"n": n}, text=False)
        np.testing.assert_array_equal(out["C"], np.where(np.arange(100)[:, None] < n, X * W, X))


@pytest.mark.parametrize("F", [(0, 1), (1, 0), (1, 1)], ids=str)
def test_a_break_in_one_branch_and_a_product_in_the_other(F):
    @T.prim_func
    def kernel(X: T.Tensor((32, 160), "float16"), F: T.Tensor((2,), "int32"), Y: T.Tensor((32, 32), "float32")):
        with T.Kernel(1):
            a, c = T.alloc_shared((32, 32), "float16"), T.alloc_fragment((32, 32), "float32")
            T.clear(a)
            T.clear(c)
            for k in T.Pipelined(4, num_stages=3):
                T.copy(X[0:32, k * 32 + 8 : k * 32 + 32], a[:, 8:32])
                for _ in T.Pipelined(2, num_stages=2):
                    if F[0] == 0:
                        T.gemm(a, a, c, transpose_A=True, transpose_B=True, clear_accum=True)
                    else:
                        if F[1] == 0:
                            break
            T.copy(c, Y)

    X = np.random.default_rng(0).integers(-1, 2, (32, 160)).astype(np.float16)
    a = X[:, 96:128].astype(np.float32) * (np.arange(32) >= 8)
    out = strict.run(tilelang.compile(kernel), {"X": X, "F": np.array(F, np.int32), "Y": np.ones((32, 32), np.float32)}, text=False)
    np.testing.assert_array_equal(out["Y"], (a @ a).T * (F[0] == 0))


JUMPS = ("a jump behind a jump", "a jump in two branches", "a loop and a jump in one branch", "the inner loop is left")


def cores_apart(kind):
    """Flags do not keep the cores in step around these jumps: conditions take their place."""

    @T.prim_func
    def main(A: T.Tensor((STEPS, 16, 16), "float16"), M: T.Tensor((STEPS,), "int32"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1) as _:
            a, b = T.alloc_shared((16, 16), "float16"), T.alloc_shared((16, 16), "float16")
            c, s = T.alloc_fragment((16, 16), "float32"), T.alloc_fragment((16, 16), "float32")
            again = T.alloc_var("int32")
            T.clear(s)
            T.clear(c)
            T.fill(b, 1)
            for k in T.serial(STEPS):
                if kind == "a jump behind a jump":
                    if M[k] == 0:
                        break
                    if M[k] == 2:
                        for i, j in T.Parallel(16, 16):
                            b[i, j] = s[i, j]
                        T.gemm(b, b, c, clear_accum=True)
                    if M[k] == 1:
                        continue
                    T.copy(A[k, 0, 0], a)
                    T.gemm(a, b, c, clear_accum=True)
                elif kind == "a jump in two branches":
                    if M[k] == 0:
                        break
                    if M[k] >= 2:
                        for i, j in T.Parallel(16, 16):
                            s[i, j] = s[i, j] + c[i, j]
                        if M[k] == 3:
                            continue
                        T.copy(A[k, 0, 0], a)
                        T.gemm(a, b, c, clear_accum=True)
                elif kind == "a loop and a jump in one branch":
                    if M[k] == 1:
                        for i, j in T.Parallel(16, 16):
                            s[i, j] = s[i, j] + c[i, j]
                            b[i, j] = 2
                        if M[k] >= 1:
                            break
                    for _ in T.serial(M[k]):
                        T.copy(A[k, 0, 0], a)
                        T.gemm(a, b, c)
                else:
                    again = 0
                    while again < 2:
                        again += 1
                        for r in T.serial(2):
                            if M[k] + r == 2:
                                continue
                            for i, j in T.Parallel(16, 16):
                                s[i, j] = s[i, j] + c[i, j]
                            if M[k] + r == 3:
                                break
                        if M[k] == again:
                            break
                    T.copy(A[k, 0, 0], a)
                    T.gemm(a, b, c)
            for i, j in T.Parallel(16, 16):
                s[i, j] = s[i, j] + c[i, j]
            T.copy(s, C)

    return tilelang.compile(main)


def cores_together(kind, A, M):
    """What `cores_apart` means."""
    A = A.astype(np.float32)
    s, c, b = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32), np.ones((16, 16), np.float32)
    for a, m in zip(A, M):
        if kind == "a jump behind a jump":
            if m == 0:
                break
            if m == 2:
                b = s.copy()
            if m != 1:
                c = a @ b
        elif kind == "a jump in two branches":
            if m == 0:
                break
            if m >= 2:
                s, c = s + c, a @ b if m == 2 else c
        elif kind == "a loop and a jump in one branch":
            if m == 1:
                s = s + c
                break
            c = c + m * (a @ b)
        else:
            for again in (1, 2):
                for r in range(2):
                    if m + r != 2:
                        s = s + c
                        if m + r == 3:
                            break
                if m == again:
                    break
            c = c + a @ b
    return s + c


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", JUMPS)
def test_jumps_around_which_no_flag_keeps_the_cores_in_step(kind):
    kernel, rng = cores_apart(kind), np.random.default_rng(0)
    for n, M in enumerate([(2, 1, 3, 2), (2, 0, 2, 2), (3, 2, 2, 1)]):
        A = rng.integers(-1, 2, (STEPS, 16, 16)).astype(np.float16)
        out = strict.run(kernel, {"A": A, "M": np.array(M, np.int32), "C": np.ones((16, 16), np.float32)}, text=n == 0)
        np.testing.assert_array_equal(out["C"], cores_together(kind, A, M))


@T.prim_func
def works_and_leaves(X: T.Tensor((4, 256), "float32"), F: T.Tensor((4,), "int32"), Y: T.Tensor((4, 256), "float32")):
    with T.Kernel(2, threads=128) as b:
        x, y, m = T.alloc_fragment((1, 256), "float32"), T.alloc_fragment((1, 256), "float32"), T.alloc_fragment((1,), "float32")
        for t in T.serial(2):
            T.copy(X[b * 2 + t, 0], x)
            T.clear(y)
            for r in T.serial(3):
                if F[r] == b * 2 + t:
                    T.reduce_sum(x, m, dim=1)
                    for i, j in T.Parallel(1, 256):
                        y[i, j] = y[i, j] + x[i, j] * m[i]
                    break
                for i, j in T.Parallel(1, 256):
                    x[i, j] = x[i, j] + 1.0
            for i, j in T.Parallel(1, 256):
                y[i, j] = y[i, j] - x[i, j]
            T.copy(y, Y[b * 2 + t, 0])


def test_a_branch_that_works_and_leaves():
    """No barriers order what the jump parts: the jump becomes a condition."""
    x = np.random.default_rng(0).standard_normal((4, 256)).astype(np.float32)
    flags = np.array([1, 2, 0, 0], np.int32)
    out = strict.run(tilelang.compile(works_and_leaves), dict(X=x, F=flags, Y=np.zeros_like(x)))
    want = np.zeros((4, 256))
    for b in range(4):
        row = x[b].astype(np.float64)
        for flag in flags[:3]:
            if flag == b:
                want[b] += row * row.sum()
                break
            row = row + 1
        want[b] -= row
    np.testing.assert_allclose(out["Y"], want, rtol=1e-4, atol=1e-3)


def test_a_maximum_behind_a_jump():
    """It is not found in front of it, where the numbers it is the greatest of are converted."""

    @T.prim_func
    def main(X: T.Tensor((STEPS, 32, N), "float16"), M: T.Tensor((STEPS,), "int32"), C: T.Tensor((32,), "float32")):
        with T.Kernel(1) as _:
            raw, x, m = T.alloc_shared((32, N), "float16"), T.alloc_fragment((32, N), "float32"), T.alloc_fragment((32,), "float32")
            T.clear(m)
            for k in T.serial(STEPS):
                T.copy(X[k, 0, 0], raw)
                for i, j in T.Parallel(32, N):
                    x[i, j] = T.cast(raw[i, j], "float32")
                if M[k] == 0:
                    break
                T.reduce_max(x, m, dim=1)
            T.copy(m, C)

    x = np.random.default_rng(0).standard_normal((STEPS, 32, N)).astype(np.float16)
    flags = np.array([1, 1, 0, 1], np.int32)
    out = strict.run(tilelang.compile(main), {"X": x, "M": flags, "C": np.zeros(32, np.float32)}, text=False)
    np.testing.assert_array_equal(out["C"], x[1].max(1).astype(np.float32))


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("jump", ["continue", "break"])
@pytest.mark.one_in(2)
def test_work_in_front_of_a_jump_beside_another_branch(jump, reads):
    """What follows the loop waits for a store that left the last iteration. A branch beside the jump made the plan of flags forget it."""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), M: T.Tensor((STEPS,), "int32"), W: T.Tensor((2, N), "float32"), C: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            a, b, c = (T.alloc_shared((N,), "float32") for _ in range(3))
            T.copy(A, a)
            T.fill(b, 0)
            T.fill(c, 0)
            for k in T.serial(STEPS):
                if M[k] > 0:
                    T.copy(a, W[k % 2, 0])
                    if jump == "continue":
                        continue
                    else:
                        break
                else:
                    for i in T.Parallel(N):
                        b[i] = b[i] + k
            if reads:
                T.copy(W[1, 0], c)
            else:
                for i in T.Parallel(N):
                    a[i] = a[i] + 1
            for i in T.Parallel(N):
                c[i] = c[i] + a[i] + b[i]
            T.copy(c, C)

    kernel = tilelang.compile(main)
    a, w = np.arange(N, dtype=np.float32), np.full((2, N), 5, np.float32)
    for flags in itertools.product([0, 1], repeat=STEPS):
        want, steps, rows = a + (0 if reads else 1), 0, w.copy()
        for k, flag in enumerate(flags):
            if flag:
                rows[k % 2] = a
                if jump == "break":
                    break
            else:
                steps += k
        want = want + steps + (rows[1] if reads else 0)
        arrays = {"A": a.copy(), "M": np.array(flags, np.int32), "W": w.copy(), "C": np.zeros(N, np.float32)}
        out = strict.run(kernel, arrays, text=flags == (0, 1, 0, 1))
        np.testing.assert_array_equal(out["W"], rows)
        np.testing.assert_array_equal(out["C"], want)


@pytest.mark.parametrize("jump", ["continue", "break"])
def test_flags_of_a_branch_tell_nothing_of_the_one_that_leaves(jump):
    """A flag of the other branch is raised behind the load only where that is not the last thing done."""

    @T.prim_func
    def main(M: T.Tensor((STEPS,), "int32"), W: T.Tensor((2, N), "float32"), C: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            a, b = T.alloc_shared((N,), "float32"), T.alloc_shared((N,), "float32")
            T.copy(W[0, 0], b)
            for k in T.serial(STEPS):
                if M[k] > 0:
                    T.copy(W[1, 0], b)
                    if jump == "continue":
                        continue
                    else:
                        break
                else:
                    T.copy(W[0, 0], a)
                    T.copy(a, W[0, 0])
            T.copy(b, C)

    kernel = tilelang.compile(main)
    w = np.arange(2 * N, dtype=np.float32).reshape(2, N)
    for flags in itertools.product([0, 1], repeat=STEPS):
        arrays = {"M": np.array(flags, np.int32), "W": w.copy(), "C": np.zeros(N, np.float32)}
        np.testing.assert_array_equal(strict.run(kernel, arrays, text=False)["C"], w[int(any(flags))])


@pytest.mark.parametrize("target", ["a2", "a5"])
@pytest.mark.parametrize("jump", ["continue", "break"])
@pytest.mark.one_in(2)
def test_a_store_behind_a_jump_between_two_cores(jump, target):
    """The cube core stores again, with or without the store behind the jump, what the vector cores have read."""
    steps, f16 = 2, "float16"

    @T.prim_func
    def main(
        A: T.Tensor((steps, 16, 16), f16),
        B: T.Tensor((16, 16), f16),
        M: T.Tensor((steps,), "int32"),
        W: T.Tensor((16, 16), "float32"),
        C: T.Tensor((16,), "float32"),
    ):
        with T.Kernel(1):
            a, b, d = (T.alloc_shared((16, 16), f16) for _ in range(3))
            c, e = (T.alloc_fragment((16, 16), "float32") for _ in range(2))
            u, w = (T.alloc_fragment((16,), "float32") for _ in range(2))
            T.copy(B, b)
            T.clear(u)
            for k in T.serial(steps):
                T.copy(A[k, 0, 0], a)
                T.gemm(a, b, c, clear_accum=True)
                T.copy(c, W)
                T.copy(W[0, 0:16], w)
                for j in T.Parallel(16):
                    u[j] = u[j] + w[j]
                if M[k] > 0:
                    if jump == "continue":
                        continue
                    else:
                        break
                for i, j in T.Parallel(16, 16):
                    d[i, j] = T.cast(u[j], f16)
                T.gemm(d, b, e, clear_accum=True)
                T.copy(e, W)
            T.copy(u, C)

    rng = np.random.default_rng(0)
    x, y = (rng.integers(-1, 2, shape).astype(np.float32) for shape in ((steps, 16, 16), (16, 16)))
    kernel = tilelang.compile(main, target=target)
    for flags in itertools.product([0, 1], repeat=steps):
        total, rows = np.zeros(16, np.float32), None
        for k, flag in enumerate(flags):
            rows = x[k] @ y
            total = total + rows[0]
            if flag and jump == "break":
                break
            if not flag:
                rows = np.tile(total, (16, 1)) @ y
        arrays = {"A": x.astype(f16), "B": y.astype(f16), "M": np.array(flags, np.int32)}
        arrays |= {"W": np.zeros((16, 16), np.float32), "C": np.zeros(16, np.float32)}
        out = strict.run(kernel, arrays, text=flags == (1, 0))
        np.testing.assert_array_equal(out["W"], rows)
        np.testing.assert_array_equal(out["C"], total)


@pytest.mark.parametrize("jump", ["continue", "break"])
def test_a_jump_in_a_branch_that_is_seldom_taken(jump):
    """What orders its store stands beside it, in front of the jump: not at the end of the branch, where who leaves does not come by."""

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), M: T.Tensor((8,), "int32"), W: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            a, b = T.alloc_shared((N,), "float32"), T.alloc_shared((N,), "float32")
            T.copy(A, a)
            for k in T.serial(8):
                for i in T.Parallel(N):
                    a[i] = a[i] + 1
                if k % 4 == 1:
                    if M[k] > 0:
                        T.copy(a, W)
                        if jump == "continue":
                            continue
                        else:
                            break
            T.copy(W, b)
            T.copy(b, C)

    kernel = tilelang.compile(main)
    a = np.arange(N, dtype=np.float32)
    for flags in itertools.product([0, 1], repeat=2):
        m = np.array([0, flags[0], 0, 0, 0, flags[1], 0, 0], np.int32)
        left = [k for k in (1, 5) if m[k]]
        want = a + 1 + (left[0] if jump == "break" else left[-1]) if left else np.zeros(N, np.float32)
        arrays = {"A": a.copy(), "M": m, "W": np.zeros(N, np.float32), "C": np.ones(N, np.float32)}
        np.testing.assert_array_equal(strict.run(kernel, arrays, text=flags == (1, 0))["C"], want)


@pytest.mark.parametrize("how", ["store", "load"])
def test_a_product_leaves_an_iteration_for_the_vector_cores_of_the_next(how):
    """The set in front of the jump is at the start of the next iteration: no flag behind the branch tells of it."""
    f16 = "float16"

    @T.prim_func
    def main(
        A: T.Tensor((STEPS, 16, 16), f16),
        B: T.Tensor((16, 16), f16),
        M: T.Tensor((STEPS,), "int32"),
        W: T.Tensor((2, 16, 16), "float32"),
        C: T.Tensor((16, 16), "float32"),
    ):
        with T.Kernel(1):
            a, b = T.alloc_shared((16, 16), f16), T.alloc_shared((16, 16), f16)
            c, w = T.alloc_fragment((16, 16), "float32"), T.alloc_fragment((16, 16), "float32")
            T.copy(B, b)
            T.fill(w, 3)
            for k in T.serial(STEPS):
                if M[k] > 0:
                    T.copy(A[k, 0, 0], a)
                    T.gemm(a, b, c, clear_accum=True)
                    T.copy(c, W[k % 2, 0, 0])
                    continue
                if how == "store":
                    T.copy(w, W[(k + 1) % 2, 0, 0])
                else:
                    T.copy(W[(k + 1) % 2, 0, 0], w)
            T.copy(w, C)

    rng = np.random.default_rng(0)
    a, b, w = (rng.integers(-1, 2, shape).astype(np.float32) for shape in ((STEPS, 16, 16), (16, 16), (2, 16, 16)))
    kernel = tilelang.compile(main)
    for flags in itertools.product([0, 1], repeat=STEPS):
        rows, last = w.copy(), np.full((16, 16), 3, np.float32)
        for k, flag in enumerate(flags):
            if flag:
                rows[k % 2] = a[k] @ b
            elif how == "store":
                rows[(k + 1) % 2] = last
            else:
                last = rows[(k + 1) % 2].copy()
        arrays = {
            "A": a.astype(f16),
            "B": b.astype(f16),
            "M": np.array(flags, np.int32),
            "W": w.copy(),
            "C": np.zeros((16, 16), np.float32),
        }
        out = strict.run(kernel, arrays, text=flags == (1, 0, 1, 0))
        np.testing.assert_array_equal(out["W"], rows)
        np.testing.assert_array_equal(out["C"], last)


@pytest.mark.parametrize("leave", ["break", "continue"])
def test_parts_a_loop_that_is_left_does_not_load(leave):
    """All of a tile is loaded in the first iteration, part by part; later ones leave the loop over parts, and keep what it had."""

    @T.prim_func
    def main(A: T.Tensor((STEPS * 4, N), "float32"), M: T.Tensor((STEPS,), "int32"), C: T.Tensor((STEPS * 4, N), "float32")):
        with T.Kernel(1) as _:
            t = T.alloc_shared((4, N), "float32")
            for k in T.serial(STEPS):
                for j in T.serial(4):
                    if j >= M[k]:
                        if leave == "break":
                            break
                        else:
                            continue
                    T.copy(A[k * 4 + j, 0], t[j : j + 1, :])
                T.copy(t, C[k * 4, 0])

    count, a = np.array([4, 0, 2, 1], np.int32), np.random.default_rng(0).standard_normal((STEPS * 4, N)).astype(np.float32)
    want, t = np.zeros_like(a), np.zeros((4, N), np.float32)
    for k, n in enumerate(count):
        t[:n] = a[k * 4 : k * 4 + n]
        want[k * 4 : k * 4 + 4] = t
    got = strict.run(tilelang.compile(main), {"A": a, "M": count, "C": np.zeros_like(a)}, text=False)["C"]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("stages", [2, 4])
def test_as_many_trips_as_the_number_of_a_version(stages):
    """The loop inside has `k % stages` iterations, which is the number of the version of the tile as well."""

    @T.prim_func
    def main(A: T.Tensor((8, N), "float32"), C: T.Tensor((8, N), "float32")):
        with T.Kernel(1) as _:
            t, u = T.alloc_shared((N,), "float32"), T.alloc_shared((N,), "float32")
            for k in T.Pipelined(8, num_stages=stages):
                T.copy(A[k, 0], t)
                for j in T.serial(k % stages):
                    T.copy(A[j, 0], u)
                    for i in T.Parallel(N):
                        t[i] = t[i] * 0.5 + u[i]
                T.copy(t, C[k, 0])

    a = np.random.default_rng(0).integers(-4, 5, (8, N)).astype(np.float32)
    want = a.copy()
    for k in range(8):
        for j in range(k % stages):
            want[k] = want[k] * 0.5 + a[j]
    got = strict.run(tilelang.compile(main), {"A": a, "C": np.zeros_like(a)}, text=False)["C"]
    np.testing.assert_array_equal(got, want)


@T.macro
def early(form, k, M, seen):
    """Adds to `seen` what is reached of an iteration: `continue` in every place of a body."""
    a, b = M[k, 0], M[k, 1]
    if form == "branches":
        if a == 0:
            seen[0] += 1.0
            T.continue_loop()
        elif b == 1:
            seen[1] += 2.0
        else:
            if a == 2:
                T.continue_loop()
            seen[2] += 4.0
        seen[3] += 8.0
    elif form == "within":
        if a > 0:
            seen[0] += 1.0
            if b == 0:
                T.continue_loop()
            seen[1] += 2.0
        seen[2] += 4.0
    elif form == "otherwise":
        if not a == 0:
            seen[0] += 1.0
        else:
            T.continue_loop()
        if b != 1:
            seen[1] += 2.0
            T.continue_loop()
        seen[2] += 4.0
    elif form == "nothing else":
        seen[0] += 1.0
        if a == 0:
            T.continue_loop()
    elif form == "either way":
        if a == 0:
            seen[0] += 1.0
            T.continue_loop()
        else:
            seen[1] += 2.0
            T.continue_loop()
        seen[2] += 4.0
    elif form == "with break":
        if a == 0:
            T.continue_loop()
        if b == 2:
            T.break_loop()
        seen[0] += 1.0
    elif form == "inner loop":
        for i in T.serial(3):
            if i == b:
                continue
            seen[0] += 1.0
        if a == 1:
            T.continue_loop()
        seen[1] += 2.0


FORMS = ["branches", "within", "otherwise", "nothing else", "either way", "with break", "inner loop"]


def reached(form, M):
    """The same by hand."""
    seen = np.zeros(4, "float32")
    for a, b in M:
        if form == "branches":
            if a == 0:
                seen[0] += 1
            elif b == 1:
                seen += [0, 2, 0, 8]
            elif a != 2:
                seen += [0, 0, 4, 8]
        elif form == "within":
            seen += [a > 0, 2 * (a > 0 and b != 0), 4 * (a <= 0 or b != 0), 0]
        elif form == "otherwise":
            seen += [a != 0, 2 * (a != 0 and b != 1), 4 * (a != 0 and b == 1), 0]
        elif form == "nothing else":
            seen[0] += 1
        elif form == "either way":
            seen += [a == 0, 2 * (a != 0), 0, 0]
        elif form == "with break":
            if a != 0 and b == 2:
                break
            seen[0] += a != 0
        else:
            seen += [3 - (b < 3), 2 * (a != 1), 0, 0]
    return seen


@pytest.mark.parametrize("loop", ["for", "while"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.one_in(2)
def test_continue_anywhere(form, loop):
    """A `continue` that ends a branch beside the rest of its iteration is that branch; others stay jumps."""

    @T.prim_func
    def main(M: T.Tensor((27, 2), "int32"), Y: T.Tensor((4,), "float32")):
        with T.Kernel(1) as _:
            seen = T.alloc_shared((4,), "float32")
            n = T.alloc_var("int32", init=0)
            T.fill(seen, 0)
            if loop == "for":
                for k in T.serial(27):
                    early(form, k, M, seen)
            else:
                while n < 27:
                    n += 1
                    early(form, n - 1, M, seen)
            T.copy(seen, Y)

    steps = np.array([*itertools.product(range(3), range(1, 4)), *itertools.product(range(3), (0, 2, 1)), *[(0, 0)] * 9], "int32")
    steps = np.random.default_rng(len(form)).permutation(steps) if form != "with break" else steps
    y = strict.run(tilelang.compile(main), {"M": steps, "Y": np.zeros(4, "float32")}, text=loop == "while")["Y"]
    np.testing.assert_array_equal(y, reached(form, steps))
