"""Functions the scalar unit does not have, in scalar expressions: variables, conditions, bounds of loops, indices."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

N = 32


def program(kind):
    @T.prim_func
    def main(X: T.Tensor((8,), "float32"), s: T.float32, Y: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            x, y = T.alloc_shared((8,), "float32"), T.alloc_shared((N,), "float32")
            v, n = T.alloc_var("float32"), T.alloc_var("int32")
            T.copy(X, x)
            T.clear(y)
            if kind == "variable":
                v = T.exp(x[1]) + T.sqrt(s)
                y[0] = v
                n = T.cast(T.floor(v), "int32")
                y[n] = 1.0
            elif kind == "condition":
                if T.abs(x[2]) > T.pow(s, 1.5):
                    y[0] = 1.0
                elif T.isnan(T.sqrt(x[2])) and T.abs(x[2]) > 0:
                    y[1] = 2.0
            elif kind == "bound":
                for i in T.serial(T.cast(T.ceil(s), "int32")):
                    y[i] = x[i]
            elif kind == "index":
                y[T.cast(T.round(T.abs(x[2])), "int32")] = 4.0
            elif kind == "nested":
                v = T.log(T.exp(T.sqrt(T.abs(x[2]))) + 1.0)
                y[3] = T.tanh(v)
            elif kind == "while":
                v = s * 100
                n = 0
                while T.sqrt(v) > 1.5:
                    v = v * 0.5
                    n += 1
                    if n == 2:
                        continue
                    y[n] = v
            elif kind == "parallel bound":
                for i in T.Parallel(T.cast(T.floor(T.sqrt(s * 20)), "int32")):
                    y[i] = s
            elif kind == "two parallel bounds":
                for i, j in T.Parallel(T.cast(T.ceil(s), "int32"), T.cast(T.exp(s - 1.0), "int32")):
                    y[i * 8 + j] = x[j]
            T.copy(y, Y)

    return main


def expected(kind, x, s):
    y = np.zeros(N, np.float32)
    if kind == "variable":
        v = np.exp(x[1]) + np.sqrt(s)
        y[0] = v
        y[int(v)] = 1
    elif kind == "condition":
        y[1] = 2
    elif kind == "bound":
        y[:3] = x[:3]
    elif kind == "index":
        y[2] = 4
    elif kind == "nested":
        y[3] = np.tanh(np.log(np.exp(np.sqrt(abs(x[2]))) + 1))
    elif kind == "while":
        v, n = s * 100, 0
        while np.sqrt(v) > 1.5:
            v, n = v * 0.5, n + 1
            if n != 2:
                y[n] = v
    elif kind == "two parallel bounds":
        y.reshape(4, 8)[:3, : int(np.exp(s - 1))] = x[: int(np.exp(s - 1))]
    else:
        y[: int(np.sqrt(s * 20))] = s
    return y


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", ["variable", "condition", "bound", "index", "nested", "while", "parallel bound", "two parallel bounds"])
def test_the_vector_unit_computes_them_for_the_scalar_unit(kind):
    x = np.array([0.5, 1.25, -2.25, 4, 7, 8, 9, 10], np.float32)
    s = 2.5
    out = strict.run(tilelang.compile(program(kind)), {"X": x, "Y": np.full(N, -7, np.float32)}, {"s": s})
    np.testing.assert_allclose(out["Y"], expected(kind, x, s), rtol=1e-5)


@pytest.mark.parametrize("what", ["cast", "bits", "class"])
def test_functions_inside_of_integers(what):
    """A named element makes the integer one number for all lanes, which the scalar unit still cannot compute."""

    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            for i in T.serial(64):
                x = X[i]
                if what == "cast":
                    Y[i] = T.cast(T.sqrt(x), "int32")
                elif what == "bits":
                    Y[i] = T.reinterpret(T.abs(x), "int32")
                else:
                    Y[i] = T.if_then_else(T.isinf(x) and T.isfinite(x + 1), 1, 0)

    x = np.arange(64, dtype=np.float32)
    want = {"cast": np.floor(np.sqrt(x)), "bits": x.view(np.int32), "class": np.zeros(64)}[what]
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.full(64, -1, np.int32)}, text=False)
    np.testing.assert_array_equal(out["Y"], want.astype(np.int32))


@pytest.mark.parametrize("place", ["tensor", "tile", "let"])
def test_functions_that_choose_an_element_for_each_lane(place):
    """Where the scalar unit finds the element, which were errors: `T.Parallel` stores to a place that a function gives, and loads by a let."""
    size = T.dynamic("size")

    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), W: T.Tensor((size,), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            x, y = T.alloc_shared((N,), "float32"), T.alloc_shared((N,), "float32")
            T.copy(X, x)
            T.clear(y)
            for i in T.Parallel(N):
                if place == "tensor":
                    Y[T.cast(T.floor(x[i]), "int32")] = x[i]
                elif place == "tile":
                    y[T.cast(T.floor(x[i]), "int32")] = x[i]
                else:
                    first = T.cast(T.floor(x[i]), "int32")
                    y[i] = W[first] + W[first + 1]
            if place != "tensor":
                T.copy(y, Y)

    rng = np.random.default_rng(5)
    x, w = (rng.permutation(N) + 0.75).astype(np.float32), rng.integers(-9, 9, N).astype(np.float32)
    at = x.astype(int)
    want = w[at] + np.append(w, 0)[at + 1] if place == "let" else x[np.argsort(at)]
    out = strict.run(tilelang.compile(main), {"X": x, "W": w, "Y": np.full(N, -7, np.float32)}, {"size": N}, text=place == "let")
    np.testing.assert_array_equal(out["Y"], want)
