"""Elements and rows of GM tensors that data chooses: small tables are loaded whole, others element by element, stores too."""

import logging

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

RNG = np.random.default_rng(77)
N, M, BLOCK = 90, 70, 33


@pytest.fixture(autouse=True)
def no_scalar_loops(caplog):
    with caplog.at_level(logging.WARNING, logger="tilelang_ascend"):
        yield
    assert "scalar loops" not in caplog.text


def numpy_dtype(dtype):
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def numbers(shape, dtype):
    if dtype == "bool":
        return RNG.random(shape) < 0.5
    x = RNG.integers(-100, 100, shape).astype(numpy_dtype(dtype))
    return x * 10**15 if dtype == "int64" else x


def gather_and_scatter(size, dtype):
    @T.prim_func
    def main(
        X: T.Tensor((size,), dtype), I: T.Tensor((M,), "int32"), Y: T.Tensor((M,), dtype), P: T.Tensor((M,), "int32"),
        Z: T.Tensor((N,), dtype), W: T.Tensor((3, N), dtype),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(M, BLOCK)) as bx:
            for i in T.Parallel(BLOCK):
                if bx * BLOCK + i < M:
                    Y[bx * BLOCK + i] = X[I[bx * BLOCK + i]]
            for i in T.Parallel(BLOCK):
                if bx * BLOCK + i < M and X[bx * BLOCK + i] > X[bx * BLOCK + i + 1]:
                    Z[P[bx * BLOCK + i]] = X[bx * BLOCK + i]
            for j, i in T.Parallel(3, BLOCK):
                if bx * BLOCK + i < M:
                    W[j, P[bx * BLOCK + i]] = X[bx * BLOCK + i + j]

    return main


@pytest.mark.parametrize(
    "size, dtype, text",
    [
        (200, "float32", False), (200, "int8", True), (200, "int64", False),  # loaded whole
        (99_999, "float16", True), (99_999, "int32", False), (99_999, "int8", False), (99_999, "int64", True), (99_999, "bool", False),
        (99_999, "bfloat16", False),
    ],
)  # fmt: skip
@pytest.mark.one_in(3)
def test_elements(size, dtype, text):
    x, index = numbers(size, dtype), RNG.integers(0, size, M, dtype=np.int32)
    places = RNG.permutation(N)[:M].astype(np.int32)
    zeros = {"Y": M, "Z": N, "W": (3, N)}
    arrays = {"X": x, "I": index, "P": places, **{name: np.zeros(s, x.dtype) for name, s in zeros.items()}}
    out = strict.run(tilelang.compile(gather_and_scatter(size, dtype)), arrays, text=text)
    want = {name: np.zeros(s, x.dtype) for name, s in zeros.items()}
    want["Y"] = x[index]
    falls = x[:M] > x[1 : M + 1]
    want["Z"][places[falls]] = x[:M][falls]
    want["W"][:, places] = np.stack([x[j : M + j] for j in range(3)])
    for name, array in want.items():
        np.testing.assert_array_equal(out[name], array, err_msg=name)


def test_several_chunks():
    """More lanes than are spread at a time."""
    n = 1100

    @T.prim_func
    def main(X: T.Tensor((50_000,), "float32"), I: T.Tensor((n,), "int32"), Y: T.Tensor((n,), "float32"), Z: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(n):
                Y[i] = X[I[i]] + 1.0
            for i in T.Parallel(n):
                Z[(I[i] * 7 + 3) % n] = X[i]

    x, index = numbers(50_000, "float32"), (RNG.permutation(n) + n * RNG.integers(0, 40, n)).astype(np.int32)
    out = strict.run(tilelang.compile(main), {"X": x, "I": index, "Y": np.zeros(n, np.float32), "Z": np.zeros(n, np.float32)}, text=False)
    np.testing.assert_array_equal(out["Y"], x[index] + 1)
    want = np.zeros(n, np.float32)
    want[(index * 7 + 3) % n] = x[:n]
    np.testing.assert_array_equal(out["Z"], want)


@pytest.mark.parametrize("width", [64, 1])
def test_rows_under_a_condition(width):
    """Rows whose condition does not look at the column stay one transfer each; rows of one element are elements."""

    @T.prim_func
    def main(X: T.Tensor((20, width), "float16"), P: T.Tensor((20,), "int32"), Y: T.Tensor((40, width), "float16")):
        with T.Kernel(T.ceildiv(20, 8)) as bx:
            for i, j in T.Parallel(8, width):
                if bx * 8 + i < 20:
                    Y[P[bx * 8 + i], j] = X[bx * 8 + i, j] * 2.0

    x, places = numbers((20, width), "float16"), RNG.permutation(40)[:20].astype(np.int32)
    out = strict.run(tilelang.compile(main), {"X": x, "P": places, "Y": np.zeros((40, width), np.float16)}, text=False)
    want = np.zeros((40, width), np.float16)
    want[places] = x * 2
    np.testing.assert_array_equal(out["Y"], want)


@pytest.mark.parametrize("dtype", ["bool", "uint8"])
def test_rows_of_one_value(dtype):
    """Bytes have no instruction that fills them."""

    @T.prim_func
    def main(P: T.Tensor((N,), "int32"), Z: T.Tensor((N, M), dtype), A: T.Tensor((N,), "int32")):
        with T.Kernel(N) as bx:
            a = T.alloc_shared((1,), "int32")
            T.copy(A[bx], a)
            for i, j in T.Parallel(1, M):
                Z[P[bx + i], j] = T.cast(a[0] > bx, dtype)

    places, a = RNG.permutation(N).astype(np.int32), RNG.integers(0, N, N).astype(np.int32)
    out = strict.run(tilelang.compile(main), {"P": places, "Z": np.zeros((N, M), dtype), "A": a})
    want = np.zeros((N, M), dtype)
    want[places] = (a > np.arange(N))[:, None]
    np.testing.assert_array_equal(out["Z"], want)


PLACES = {
    "in front of the last": lambda i: T.max(i - 1, 0), "pairs": lambda i: i // 2 + 10, "from in front": lambda i: i // 2 - 3,
    "neighbours": lambda i: i ^ 1, "chosen": lambda i: T.if_then_else(i < 5, i, i + 1), "squares": lambda i: i * i % 40,
}  # fmt: skip
PLACES_NUMPY = {
    "in front of the last": lambda i: np.maximum(i - 1, 0), "pairs": lambda i: i // 2 + 10, "from in front": lambda i: i // 2 - 3,
    "neighbours": lambda i: i ^ 1, "chosen": lambda i: np.where(i < 5, i, i + 1), "squares": lambda i: i * i % 40,
}  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("place, width, guarded", [(p, w, (k + n) % 2 == 0) for k, p in enumerate(PLACES) for n, w in enumerate((1, 8))])
def test_arithmetic_that_leaves_a_tensor_loaded_whole(place, width, guarded):
    """What is outside reads zero, though no single transfer ends there; under a bound of the store, nothing outside is read at all."""
    size, block, dtype = 19, 32, "float32" if width == 1 else "int8"

    @T.prim_func
    def main(X: T.Tensor((size, width), dtype), Y: T.Tensor((2 * block, width), dtype)):
        with T.Kernel(2) as b:
            for i, j in T.Parallel(block, width):
                if b * block + i < (size if guarded else 2 * block):
                    Y[b * block + i, j] = X[PLACES[place](b * block + i), j]

    x = np.random.default_rng(0).integers(1, 99, (size, width)).astype(dtype)
    at = PLACES_NUMPY[place](np.arange(2 * block))
    want = np.where(((at >= 0) & (at < size))[:, None], x[np.clip(at, 0, size - 1)], 0)
    if guarded:
        want[size:] = 7
    out = strict.run(tilelang.compile(main), {"X": x, "Y": np.full((2 * block, width), 7, dtype)}, text=False)
    np.testing.assert_array_equal(out["Y"], want)


@pytest.mark.parametrize("width", [1, 8, 128])
def test_arithmetic_that_leaves_a_tensor_under_a_condition(width):
    """A condition keeps what data chooses inside of a tensor; what arithmetic reads outside of it is zero there, too."""
    size, block = 19_000, 32

    @T.prim_func
    def main(
        X: T.Tensor((size, width), "float32"),
        I: T.Tensor((block,), "int32"),
        Y: T.Tensor((block, width), "float32"),
        Z: T.Tensor((block, width), "float32"),
    ):
        with T.Kernel(1) as _:
            for i, j in T.Parallel(block, width):
                if i % 3 != 1:
                    Y[i, j] = X[i // 2 + size - 9, j]
                    Z[i, j] = X[I[i], j]

    rng, i = np.random.default_rng(0), np.arange(block)
    x = rng.integers(1, 99, (size, width)).astype(np.float32)
    chosen = np.where(i % 3 != 1, rng.integers(0, size, block), -7).astype(np.int32)
    arrays = {"X": x, "I": chosen, "Y": np.full((block, width), 5, np.float32), "Z": np.full((block, width), 5, np.float32)}
    out = strict.run(tilelang.compile(main), arrays, text=False)
    at, runs = i // 2 + size - 9, (i % 3 != 1)[:, None]
    np.testing.assert_array_equal(out["Y"], np.where(runs, np.where((at < size)[:, None], x[np.minimum(at, size - 1)], 0), 5))
    np.testing.assert_array_equal(out["Z"], np.where(runs, x[np.maximum(chosen, 0)], 5))


@pytest.mark.parametrize("how", ["number", "condition", "data", "number of the place"])
def test_iterations_that_store_the_same_number_to_one_element_are_no_race(how):
    @T.prim_func
    def main(X: T.Tensor((64,), "int32"), F: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(64):
                if how == "number":
                    F[i // 2] = 3
                elif how == "condition":
                    if X[i] > 30:
                        F[i // 2] = 3
                elif how == "data":
                    F[X[i] // 4] = 3
                else:
                    F[X[i] // 4] = X[i] // 4

    x = RNG.permutation(64).astype(np.int32)
    want = np.zeros(64, np.int32)
    places = np.arange(64) // 2 if how in ("number", "condition") else x // 4
    want[places[x > 30] if how == "condition" else places] = 3
    out = strict.run(tilelang.compile(main), {"X": x, "F": np.zeros(64, np.int32)})
    np.testing.assert_array_equal(out["F"], np.where(np.arange(64) < 16, np.arange(64), 0) if how == "number of the place" else want)
