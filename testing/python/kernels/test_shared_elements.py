"""Iterations of T.Parallel that share elements and change them by more than one operation run one after the other, with a warning."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


def update(x, t, i, j):
    x[i] = x[i] * 2.0 + 1.0


def through_another_tile(x, t, i, j):
    t[i] = x[i]
    x[i] = t[i] + 1.0


def in_a_loop(x, t, i, j):
    for _ in T.serial(2):
        x[i] = x[i] * 2.0 + 1.0


def under_a_condition(x, t, i, j):
    if x[i] > 0.0:
        x[i] = x[i] * 2.0 - j


def same_number(x, t, i, j):
    t[i] = x[i] * 3.0
    t[i] = t[i] + x[i]


CASES = {
    update: lambda x: x * 8 + 7,
    through_another_tile: lambda x: x + 3,
    in_a_loop: lambda x: x * 64 + 63,
    under_a_condition: lambda x: np.where(x > 0, x * 8 - 4, x),
    same_number: lambda x: x,
}


@tilelang.jit
def kernel(source):
    body = T.macro(source)

    @T.prim_func
    def main(X: T.Tensor((33,), "float32"), Y: T.Tensor((33,), "float32")):
        with T.Kernel(1):
            x = T.alloc_shared((33,), "float32")
            t = T.alloc_shared((33,), "float32")
            T.copy(X, x)
            for i, j in T.Parallel(33, 3):
                body(x, t, i, j)
            T.copy(x, Y)

    return main


@pytest.mark.parametrize("source", CASES, ids=lambda f: f.__name__)
def test_iterations_that_share_an_element(source):
    x = np.random.default_rng(4).integers(-4, 5, 33).astype(np.float32)
    out = strict.run(kernel(source), {"X": x, "Y": np.zeros_like(x)}, text=False)
    np.testing.assert_array_equal(out["Y"], CASES[source](x))


def counted(h, x, y, i, at):
    n = h[at] + 1.0
    h[at] = n


def greatest(h, x, y, i, at):
    m = T.max(h[at], x)
    h[at] = m


def place_of_its_own(h, x, y, i, at):
    h[at] = x * 2.0
    y[i] = h[at] + 1.0


def place_of_a_loop(h, x, y, i, at):
    for _ in T.serial(2):
        h[at] = x
    y[i] = h[at]


CHOSEN = (counted, greatest, place_of_its_own, place_of_a_loop)


@tilelang.jit
def chosen(source, by):
    body = T.macro(source)

    @T.prim_func
    def main(X: T.Tensor((32,), "float32"), P: T.Tensor((32,), "int32"), H: T.Tensor((8,), "float32"), Y: T.Tensor((32,), "float32")):
        with T.Kernel(1):
            x = T.alloc_shared((32,), "float32")
            y = T.alloc_shared((32,), "float32")
            h = T.alloc_shared((8,), "float32")
            T.copy(X, x)
            T.clear(y)
            T.clear(h)
            for i in T.Parallel(32):
                body(h, x[i], y, i, P[i] if by == "data" else i % 8)
            T.copy(y, Y)
            T.copy(h, H)

    return main


@pytest.mark.parametrize("by", ["data", "remainder"])
@pytest.mark.parametrize("source", CHOSEN, ids=lambda f: f.__name__)
def test_iterations_that_share_an_element_they_choose(source, by):
    """What they leave in it is what the last one stored; each reads what it has stored itself, or the ones before it."""
    rng = np.random.default_rng(4)
    x, p = rng.integers(-4, 5, 32).astype(np.float32), rng.integers(0, 8, 32).astype(np.int32)
    h, y = np.zeros(8, np.float32), np.zeros(32, np.float32)
    out = strict.run(chosen(source, by), {"X": x, "P": p, "H": h.copy(), "Y": y.copy()}, text=False)
    for i, at in enumerate(p if by == "data" else np.arange(32) % 8):
        source_of = {counted: h[at] + 1, greatest: max(h[at], x[i]), place_of_its_own: x[i] * 2, place_of_a_loop: x[i]}
        h[at] = source_of[source]
        y[i] = {place_of_its_own: h[at] + 1, place_of_a_loop: h[at]}.get(source, 0)
    np.testing.assert_array_equal(out["H"], h)
    np.testing.assert_array_equal(out["Y"], y)


def test_a_nest_none_of_whose_conditions_holds():
    @T.prim_func
    def main(X: T.Tensor((1, 17), "float32"), Y: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            x = T.alloc_shared((1, 17), "float32")
            v = T.alloc_var("float32")
            T.copy(X, x)
            v = 3
            for f in T.Parallel(17):
                i = f // 17
                j = f % 17
                if i > 0:
                    v = T.min(x[i, j], v)
            Y[0] = v

    arrays = {"X": np.ones((1, 17), np.float32), "Y": np.zeros(1, np.float32)}
    assert strict.run(tilelang.compile(main), arrays, text=False)["Y"][0] == 3


@pytest.mark.parametrize("place", ["quotient", "remainder", "data"])
def test_elements_of_tensors_that_iterations_surely_share(place):
    at = {"quotient": lambda p, i: i // 4, "remainder": lambda p, i: i % 8, "data": lambda p, i: T.cast(p[i], "int32") % 8}[place]

    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), P: T.Tensor((32,), "int32"), Y: T.Tensor((16,), "float32")):
        with T.Kernel(2) as bx:
            x = T.alloc_shared((32,), "float32")
            T.copy(X[bx * 32], x)
            for i in T.Parallel(32):
                Y[bx * 8 + at(P, i)] = Y[bx * 8 + at(P, i)] + x[i]

    rng = np.random.default_rng(4)
    x, p, want = (rng.integers(low, 8, n) for low, n in ((-4, 64), (0, 32), (-4, 16)))
    arrays = {"X": x.astype(np.float32), "P": p.astype(np.int32), "Y": want.astype(np.float32)}
    for k in range(64):
        want[k // 32 * 8 + {"quotient": k % 32 // 4, "remainder": k % 8, "data": p[k % 32]}[place]] += x[k]
    np.testing.assert_array_equal(strict.run(tilelang.compile(main), arrays, text=False)["Y"], want)


@pytest.mark.parametrize("count", [0, 3])
def test_elements_that_no_iteration_may_store_to_keep_their_value(count):
    @T.prim_func
    def main(X: T.Tensor((4, 8), "float32"), m: T.int32, Y: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            x = T.alloc_shared((4, 8), "float32")
            y = T.alloc_shared((4,), "float32")
            T.copy(X, x)
            T.fill(y, 5)
            for i, j in T.Parallel(4, T.min(m, 8)):
                y[i] = x[i, 0]
            T.copy(y, Y)

    x = np.random.default_rng(4).integers(-4, 5, (4, 8)).astype(np.float32)
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros(4, np.float32)}, {"m": count}, text=False)
    np.testing.assert_array_equal(out["Y"], x[:, 0] if count else 5)


def test_an_element_of_all_iterations_in_a_nest_longer_than_its_tiles():
    """Each iteration reads what it has stored, though the nest is as long as two tiles."""

    @T.prim_func
    def main(X: T.Tensor((8,), "float32"), Y: T.Tensor((8,), "float32"), Z: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            x = T.alloc_shared((8,), "float32")
            y = T.alloc_shared((8,), "float32")
            z = T.alloc_shared((8,), "float32")
            own = T.alloc_shared((1,), "float32")
            T.copy(X, x)
            for i in T.Parallel(16):
                if i < 8:
                    own[0] = x[i] * 2.0
                    y[i] = own[0] + 1.0
                else:
                    z[i - 8] = x[i - 8]
            T.copy(y, Y)
            T.copy(z, Z)

    x = np.arange(8, dtype=np.float32)
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros_like(x), "Z": np.zeros_like(x)}, text=False)
    np.testing.assert_array_equal(out["Y"], x * 2 + 1)
    np.testing.assert_array_equal(out["Z"], x)


@tilelang.jit
def windows(m, step, dtype, kind):
    """Rows of X into windows of Y that overlap."""
    length = 3 * step + m

    @T.prim_func
    def main(X: T.Tensor((4, m), dtype), Y: T.Tensor((length,), dtype)):
        with T.Kernel(1):
            x = T.alloc_shared((4, m), dtype)
            y = T.alloc_shared((length,), dtype)
            T.copy(X, x)
            T.copy(Y, y)
            for i, j in T.Parallel(4, m):
                if kind == "add":
                    y[i * step + j] = y[i * step + j] + x[i, j]
                elif kind == "double":
                    y[i * step + j] = y[i * step + j] * 2 + x[i, j]
                else:
                    y[i * step + j] = x[i, j]
            T.copy(y, Y)

    return main


@pytest.mark.parametrize("kind", ["add", "double", "set"])
@pytest.mark.parametrize("dtype", ["float32", "int8", "int64"])
@pytest.mark.parametrize("m, step", [(64, 16), (33, 32), (200, 32)])
@pytest.mark.one_in(2)
def test_windows_that_overlap(m, step, dtype, kind):
    rng = np.random.default_rng(5)
    x, y = rng.integers(-2, 3, (4, m)).astype(dtype), rng.integers(-2, 3, 3 * step + m).astype(dtype)
    want = y.copy()
    for i in range(4):
        part = want[i * step : i * step + m]
        part[:] = x[i] + {"add": part, "double": 2 * part, "set": 0}[kind]
    out = strict.run(windows(m, step, dtype, kind), {"X": x, "Y": y}, text=False)
    np.testing.assert_array_equal(out["Y"], want)
