"""T.sort, T.argsort and T.topk, the strict way, against torch (and NumPy where torch has no such dtype or no stable order)."""

import ml_dtypes
import numpy as np
import pytest
import strict
import torch

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.errors import InvalidArgument, ShapeMismatch

RNG = np.random.default_rng(11)


def sort_kernel(rows, width, dtype, descending, block):
    @T.prim_func
    def main(X: T.Tensor((rows, width), dtype), Y: T.Tensor((rows, width), dtype), I: T.Tensor((rows, width), "int32")):
        with T.Kernel(T.ceildiv(rows, block)) as bx:
            x = T.alloc_fragment((block, width), dtype)
            y = T.alloc_shared((block, width), dtype)
            place = T.alloc_fragment((block, width), "int32")
            T.copy(X[bx * block, 0], x)
            T.sort(x, y, descending=descending, indices=place)
            T.copy(y, Y[bx * block, 0])
            T.copy(place, I[bx * block, 0])

    return main


def topk_kernel(rows, width, k, dtype, largest, block):
    @T.prim_func
    def main(X: T.Tensor((rows, width), dtype), Y: T.Tensor((rows, k), dtype), I: T.Tensor((rows, k), "int32")):
        with T.Kernel(T.ceildiv(rows, block)) as bx:
            x = T.alloc_fragment((block, width), dtype)
            y = T.alloc_fragment((block, k), dtype)
            place = T.alloc_fragment((block, k), "int32")
            T.copy(X[bx * block, 0], x)
            T.topk(x, y, place, largest=largest)
            T.copy(y, Y[bx * block, 0])
            T.copy(place, I[bx * block, 0])

    return main


def numbers(shape, dtype):
    """Many equal values; for integers the extremes as well."""
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        x = RNG.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
        x[..., ::3] = RNG.integers(0, 4, x[..., ::3].shape)
        x[..., 0], x[..., -1] = info.min, info.max
        return x
    x = RNG.standard_normal(shape).astype(np.float32)
    x[RNG.random(shape) < 0.3] = 0.5
    return x.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def ordered(x, descending, k=None):
    """(values, places) in stable order; NaN counts as +inf."""
    key = x.astype(np.int64) if x.dtype.kind in "iu" else np.nan_to_num(x.astype(np.float64), nan=np.inf, posinf=np.inf, neginf=-np.inf)
    order = np.argsort(-key if descending else key, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(x, order, -1), order


def run(kernel, x, shape, text=True):
    arrays = {"X": x, "Y": np.zeros(shape, x.dtype), "I": np.zeros(shape, np.int32)}
    return strict.run(tilelang.compile(kernel), arrays, text=text)


def check(out, x, descending, k=None):
    values, places = ordered(x, descending, k)
    np.testing.assert_array_equal(out["I"], places)
    assert out["Y"].tobytes() == values.tobytes(), "the values are not bit by bit those of the input"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "rows, width, dtype, descending, block, text",
    [
        (5, 64, "float32", True, 4, True),
        (3, 100, "float32", False, 3, False),
        (2, 33, "float16", True, 2, False),
        (1, 1000, "bfloat16", False, 1, False),
        (4, 40, "int32", False, 4, True),
        (2, 50, "uint32", True, 2, False),
        (3, 200, "int16", True, 3, False),
        (3, 40, "int8", False, 3, False),
        (2, 40, "uint8", True, 2, False),
        (2, 1, "float32", True, 2, False),
        (2, 2050, "float32", True, 1, False),
        (2, 480, "float32", True, 2, False),  # three runs of 128 and one of 96 are merged at once
    ],
)
def test_sort(rows, width, dtype, descending, block, text):
    x = numbers((rows, width), dtype)
    check(run(sort_kernel(rows, width, dtype, descending, block), x, x.shape, text), x, descending)


@pytest.mark.parametrize(
    "rows, width, k, dtype, largest, block",
    [
        (21, 64, 6, "float32", True, 16),
        (8, 256, 8, "float32", True, 8),
        (2, 2000, 40, "float16", True, 2),
        (3, 300, 5, "bfloat16", False, 3),
        (2, 96, 96, "int32", True, 2),
        (3, 20, 1, "float32", True, 3),
    ],
)
def test_topk(rows, width, k, dtype, largest, block):
    x = numbers((rows, width), dtype)
    check(run(topk_kernel(rows, width, k, dtype, largest, block), x, (rows, k), text=width == 64), x, largest, k)


def test_equals_torch():
    x = RNG.permutation(4 * 150).reshape(4, 150).astype(np.float32)
    out = run(topk_kernel(4, 150, 12, "float32", True, 4), x, (4, 12), text=False)
    values, places = torch.from_numpy(x).topk(12)
    np.testing.assert_array_equal(out["Y"], values)
    np.testing.assert_array_equal(out["I"], places)
    ties = RNG.integers(0, 5, (4, 150)).astype(np.float32)
    out = run(sort_kernel(4, 150, "float32", False, 4), ties, ties.shape, text=False)
    values, places = torch.sort(torch.from_numpy(ties), stable=True)
    np.testing.assert_array_equal(out["Y"], values)
    np.testing.assert_array_equal(out["I"], places)


@pytest.mark.parametrize("descending", [True, False])
def test_special_values(descending):
    """-inf of the input comes before the padding, NaN counts as +inf, zeros of both signs are equal."""
    x = RNG.choice(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0], np.float32), (3, 45))
    check(run(sort_kernel(3, 45, "float32", descending, 3), x, x.shape, text=False), x, descending)


def test_only_infinite():
    x = np.full((1, 35), -np.inf, np.float32)
    check(run(sort_kernel(1, 35, "float32", True, 1), x, x.shape, text=False), x, True)


def test_in_place_slices_and_other_ranks():
    @T.prim_func
    def main(
        X: T.Tensor((2, 3, 40), "float32"), Y: T.Tensor((2, 3, 40), "float32"), Z: T.Tensor((70,), "float32"), I: T.Tensor((5,), "int64")
    ):
        with T.Kernel(1):
            x = T.alloc_shared((2, 3, 40), "float32")
            z = T.alloc_shared((70,), "float32")
            best = T.alloc_fragment((5,), "int64")
            T.copy(X, x)
            T.copy(X[0, 0, 0:40], z[0:40])
            T.copy(X[1, 1, 0:30], z[40:70])
            T.topk(z, indices=best)
            T.sort(x)
            T.sort(z[0:40], z[0:40], descending=True)
            T.copy(x, Y)
            T.copy(z, Z)
            T.copy(best, I)

    x = numbers((2, 3, 40), "float32")
    out = strict.run(
        tilelang.compile(main), {"X": x, "Y": np.zeros_like(x), "Z": np.zeros(70, np.float32), "I": np.zeros(5, np.int64)}, text=False
    )
    np.testing.assert_array_equal(out["Y"], np.sort(x, axis=-1))
    z = np.concatenate([x[0, 0], x[1, 1, :30]])
    np.testing.assert_array_equal(out["I"], ordered(z, True, 5)[1])
    np.testing.assert_array_equal(out["Z"], np.concatenate([np.sort(z[:40])[::-1], z[40:]]))


@pytest.mark.parametrize("dtype, dim", [("float32", 0), ("int8", 1), ("float16", 1)])
def test_other_dimensions(dtype, dim):
    shape = (40, 6) if dim == 0 else (3, 37, 5)
    best = tuple(4 if d == dim else n for d, n in enumerate(shape))

    @T.prim_func
    def main(X: T.Tensor(shape, dtype), Y: T.Tensor(shape, dtype), I: T.Tensor(shape, "int32"), B: T.Tensor(best, dtype)):
        with T.Kernel(1):
            x, y = T.alloc_shared(shape, dtype), T.alloc_shared(shape, dtype)
            place, b = T.alloc_fragment(shape, "int32"), T.alloc_fragment(best, dtype)
            T.copy(X, x)
            T.sort(x, y, dim=dim, indices=place)
            T.topk(x, b, dim=dim)
            T.copy(y, Y)
            T.copy(place, I)
            T.copy(b, B)

    x = numbers(shape, dtype)
    kernel = tilelang.compile(main)
    out = strict.run(kernel, {"X": x, "Y": np.zeros_like(x), "I": np.zeros(shape, np.int32), "B": np.zeros(best, x.dtype)}, text=False)
    assert "GetValue" not in kernel.get_kernel_source()
    rows = np.moveaxis(x, dim, -1)
    values, places = ordered(rows, False)
    np.testing.assert_array_equal(np.moveaxis(out["I"], dim, -1), places)
    np.testing.assert_array_equal(np.moveaxis(out["Y"], dim, -1), values)
    np.testing.assert_array_equal(np.moveaxis(out["B"], dim, -1), ordered(rows, True, 4)[0])


def test_on_a5():
    """The sorter of the 950."""
    x = numbers((3, 70), "float32")
    kernel = tilelang.compile(sort_kernel(3, 70, "float32", True, 3), target="a5")
    check(strict.run(kernel, {"X": x, "Y": np.zeros_like(x), "I": np.zeros(x.shape, np.int32)}, text=True), x, True)


def test_no_scalar_loop():
    text = tilelang.compile(topk_kernel(64, 256, 8, "float32", True, 16)).get_kernel_source()
    assert "GetValue" not in text and "SetValue" not in text


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda x, y: T.sort(x, y, dim=2), InvalidArgument),
        (lambda x, y: T.topk(x, T.alloc_shared((2, 63), "float32"), dim=0), ShapeMismatch),
        (lambda x, y: T.sort(x, T.alloc_shared((4, 40), "float32")), ShapeMismatch),
        (lambda x, y: T.topk(x, T.alloc_shared((4, 8), "float32"), k=9), ShapeMismatch),
        (lambda x, y: T.topk(x, T.alloc_shared((4, 65), "float32")), ShapeMismatch),
        (lambda x, y: T.topk(x, T.alloc_shared((3, 8), "float32")), ShapeMismatch),
        (lambda x, y: T.topk(x), InvalidArgument),
        (lambda x, y: T.sort(T.alloc_shared((4, 8), "int64")), InvalidArgument),
    ],
)
def test_refused(call, error):
    with pytest.raises(error):

        @T.prim_func
        def main(X: T.Tensor((4, 64), "float32")):
            with T.Kernel(1):
                x = T.alloc_shared((4, 64), "float32")
                y = T.alloc_shared((4, 64), "float32")
                T.copy(X, x)
                call(x, y)
                T.copy(y, X)


def gate_kernel(tokens, hidden, experts, k):
    @T.prim_func
    def main(
        X: T.Tensor((tokens, hidden), "float16"),
        W: T.Tensor((experts, hidden), "float16"),
        V: T.Tensor((tokens, k), "float32"),
        I: T.Tensor((tokens, k), "int32"),
    ):
        with T.Kernel(1):
            x = T.alloc_shared((tokens, hidden), "float16")
            w = T.alloc_shared((experts, hidden), "float16")
            logits = T.alloc_fragment((tokens, experts), "float32")
            best = T.alloc_fragment((tokens, k), "float32")
            expert = T.alloc_fragment((tokens, k), "int32")
            T.copy(X, x)
            T.copy(W, w)
            T.gemm(x, w, logits, transpose_B=True, clear_accum=True)
            T.topk(logits, best, expert)
            T.copy(best, V)
            T.copy(expert, I)

    return main


def test_after_a_gemm():
    """Rows divided between two vector cores."""
    x, w = (RNG.integers(-3, 4, s).astype(np.float16) for s in ((32, 64), (48, 64)))
    kernel = tilelang.compile(gate_kernel(32, 64, 48, 4))
    out = strict.run(kernel, {"X": x, "W": w, "V": np.zeros((32, 4), np.float32), "I": np.zeros((32, 4), np.int32)}, text=False)
    values, places = ordered(x.astype(np.float32) @ w.astype(np.float32).T, True, 4)
    np.testing.assert_array_equal(out["I"], places)
    np.testing.assert_array_equal(out["V"], values)
    assert "GetSubBlockIdx" in kernel.get_kernel_source()


@pytest.mark.parametrize("dim", [0, 1])
def test_scan_after_a_gemm(dim):
    """The scanned dimension stays whole on both sides of the scan."""

    @T.prim_func
    def main(A: T.Tensor((32, 32), "float16"), B: T.Tensor((32, 48), "float16"), C: T.Tensor((32, 48), "float32")):
        with T.Kernel(1):
            a = T.alloc_shared((32, 32), "float16")
            b = T.alloc_shared((32, 48), "float16")
            c = T.alloc_fragment((32, 48), "float32")
            total = T.alloc_fragment((32, 48), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.cumsum(c, total, dim=dim)
            T.copy(total, C)

    a, b = (RNG.integers(-3, 4, s).astype(np.float16) for s in ((32, 32), (32, 48)))
    out = strict.run(tilelang.compile(main), {"A": a, "B": b, "C": np.zeros((32, 48), np.float32)}, text=False)
    np.testing.assert_array_equal(out["C"], np.cumsum(a.astype(np.float32) @ b.astype(np.float32), axis=dim))


def test_bitonic_network():
    """The idiom of GPU kernels that sort in registers: partners ``i ^ stride`` with strides known at run time."""
    n, levels = 32, 5

    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32"), I: T.Tensor((n,), "int32")):
        with T.Kernel(1):
            x, y = T.alloc_fragment((n,), "float32"), T.alloc_fragment((n,), "float32")
            place, other_place = T.alloc_fragment((n,), "int32"), T.alloc_fragment((n,), "int32")
            T.copy(X, x)
            for i in T.Parallel(n):
                place[i] = i
            for k in T.serial(levels):
                for j in T.serial(k + 1):
                    for i in T.Parallel(n):
                        stride = 1 << (k - j)
                        other = x[i ^ stride]
                        rising = ((i & stride) == 0) == ((i & (2 << k)) == 0)
                        keep = T.if_then_else(rising, x[i] <= other, x[i] >= other)
                        y[i] = T.if_then_else(keep, x[i], other)
                        other_place[i] = T.if_then_else(keep, place[i], place[i ^ stride])
                    T.copy(y, x)
                    T.copy(other_place, place)
            T.copy(x, Y)
            T.copy(place, I)

    x = RNG.permutation(n).astype(np.float32)
    kernel = tilelang.compile(main)
    out = strict.run(kernel, {"X": x, "Y": np.zeros_like(x), "I": np.zeros(n, np.int32)}, text=False)
    np.testing.assert_array_equal(out["Y"], np.sort(x))
    np.testing.assert_array_equal(out["I"], np.argsort(x))
    assert "GetValue" not in kernel.get_kernel_source()
