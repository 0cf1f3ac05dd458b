"""`T.view` and `T.reshape`: one storage under several shapes, read and written through all of them."""

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.errors import UnsupportedConstruct

RNG = np.random.default_rng(8)


def numpy_dtype(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


@pytest.mark.parametrize("rows, groups, width", [(16, 4, 32), (3, 5, 7)])
def test_reductions_of_a_reshaped_tile(rows, groups, width):
    columns = groups * width

    @T.prim_func
    def main(A: T.Tensor((rows, columns), "float32"), B: T.Tensor((rows, groups), "float32")):
        with T.Kernel(1):
            a = T.alloc_shared((rows, columns), "float32")
            top = T.alloc_fragment((rows, groups), "float32")
            v = T.reshape(a, (rows, groups, width))
            T.copy(A, a)
            T.reduce_max(v, top, dim=2)
            T.copy(top, B)

    a = RNG.standard_normal((rows, columns)).astype(np.float32)
    out = strict.run(tilelang.compile(main), {"A": a, "B": np.zeros((rows, groups), np.float32)})
    np.testing.assert_array_equal(out["B"], a.reshape(rows, groups, width).max(2))


def test_writes_through_a_view_are_seen_by_the_buffer():
    @T.prim_func
    def main(A: T.Tensor((8, 48), "float32"), B: T.Tensor((8, 48), "float32")):
        with T.Kernel(1):
            a = T.alloc_shared((8, 48), "float32")
            v = T.reshape(a, (8, 3, 16))
            flat = T.reshape(v, (384,))
            T.copy(A, a)
            for i, g, j in T.Parallel(8, 3, 16):
                v[i, g, j] = v[i, g, j] * 2.0 + g
            for i in T.Parallel(384):
                flat[i] = flat[i] + 1.0
            T.copy(a, B)

    a = RNG.standard_normal((8, 48)).astype(np.float32)
    out = strict.run(tilelang.compile(main), {"A": a, "B": np.zeros_like(a)})
    want = (a.reshape(8, 3, 16) * 2 + np.arange(3, dtype=np.float32)[:, None]).reshape(8, 48) + 1
    np.testing.assert_allclose(out["B"], want, rtol=1e-6)


def test_a_fill_through_a_view_reaches_the_buffer():
    @T.prim_func
    def main(A: T.Tensor((8, 16), "float32"), B: T.Tensor((8, 16), "float32")):
        with T.Kernel(1):
            a = T.alloc_shared((8, 16), "float32")
            v = T.reshape(a, (16, 8))
            T.copy(A, a)
            T.fill(v[0:2, 0:8], 5.0)
            T.copy(a, B)

    a = RNG.standard_normal((8, 16)).astype(np.float32)
    out = strict.run(tilelang.compile(main), {"A": a, "B": np.zeros_like(a)})
    a[0] = 5.0
    np.testing.assert_array_equal(out["B"], a)


def test_the_bits_of_floats_as_integers():
    @T.prim_func
    def main(A: T.Tensor((100,), "float32"), B: T.Tensor((100,), "int32")):
        with T.Kernel(1):
            a = T.alloc_shared((100,), "float32")
            bits = T.view(a, (100,), "int32")
            o = T.alloc_shared((100,), "int32")
            T.copy(A, a)
            for i in T.Parallel(100):
                o[i] = (bits[i] >> 23) & 255
            T.copy(o, B)

    a = RNG.standard_normal(100).astype(np.float32)
    out = strict.run(tilelang.compile(main), {"A": a, "B": np.zeros(100, np.int32)})
    np.testing.assert_array_equal(out["B"], a.view(np.int32) >> 23 & 255)


@pytest.mark.parametrize("target", ["a2", "a5"])
@pytest.mark.parametrize(
    "dtype, seen",
    [("float32", "int32"), ("int32", "uint32"), ("float16", "int16"), ("bfloat16", "uint16"), ("int16", "bfloat16"), ("int8", "uint8"),
     ("float8_e4m3fn", "int8"), ("float8_e5m2", "uint8"), ("uint8", "float8_e4m3fn")],
)  # fmt: skip
@pytest.mark.one_in(2)
def test_the_bits_of_one_element(dtype, seen, target):
    """Seed 12532 of the fuzzer: bits of a scalar were made in a tile of lanes no instruction fills."""

    @T.prim_func
    def main(A: T.Tensor((40,), dtype), B: T.Tensor((40,), "float32")):
        with T.Kernel(1):
            a = T.alloc_shared((40,), dtype)
            b = T.alloc_fragment((40,), "float32")
            T.copy(A, a)
            v = T.view(a, (20, 2), seen)
            for i in T.Parallel(40):
                b[i] = T.cast(v[3, 1], "float32") + T.cast(i, "float32")
            for i in T.Parallel(1):
                b[i] = T.cast(v[2, 0], "float32")
            T.copy(b, B)

    numbers, other = (np.dtype(getattr(ml_dtypes, d, d)) for d in (dtype, seen))
    a = np.arange(40).astype(numbers) + np.ones((), numbers)
    bits = a.view(other).astype(np.float32)
    out = strict.run(tilelang.compile(main, target=target), {"A": a, "B": np.zeros(40, np.float32)}, text=target == "a2")
    np.testing.assert_array_equal(out["B"], np.concatenate([bits[4:5], bits[7] + np.arange(1, 40, dtype=np.float32)]))


@pytest.mark.parametrize("seen", ["uint16", "int16"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "uint16"])
def test_computed_numbers_go_back_as_the_bits_they_are(dtype, seen):
    """Vector instructions compute 16-bit unsigned numbers in 32-bit lanes: what is stored through a view is narrow again."""
    one = getattr(T, seen)(1)

    @T.prim_func
    def main(A: T.Tensor((2, 40), dtype), B: T.Tensor((2, 40), dtype), C: T.Tensor((40,), dtype)):
        with T.Kernel(1):
            a = T.alloc_shared((2, 40), dtype)
            bits = T.view(a, (2, 40), seen)
            T.copy(A, a)
            for i, j in T.Parallel(2, 40):
                if j % 2 == 0:
                    bits[i, j] = bits[i, j] + one
            T.copy(a, B)
            for j in T.Parallel(40):
                C[j] = T.reinterpret(dtype, T.max(bits[1, 3], one) ^ one)

    a = RNG.standard_normal((2, 40)).astype(numpy_dtype(dtype) if dtype != "uint16" else np.float16).view(numpy_dtype(dtype))
    bits = a.view(seen).copy()
    bits[:, ::2] += 1
    out = strict.run(tilelang.compile(main), {"A": a, "B": np.zeros_like(a), "C": np.zeros(40, a.dtype)}, text=False)
    np.testing.assert_array_equal(out["B"].view(seen), bits)
    np.testing.assert_array_equal(out["C"].view(seen), np.full(40, max(bits[1, 3], 1) ^ 1))


@pytest.mark.parametrize("written", [False, True])
def test_an_element_that_a_view_writes_is_not_the_loaded_one(written):
    """Whether a product is computed may depend on what was loaded, or on what was computed of it afterwards."""

    @T.prim_func
    def main(
        Mask: T.Tensor((8,), "int32"),
        A: T.Tensor((8, 16, 16), "float16"),
        B: T.Tensor((16, 16), "float16"),
        C: T.Tensor((16, 16), "float32"),
    ):
        with T.Kernel(1):
            mask, a, b = T.alloc_shared((8,), "int32"), T.alloc_shared((16, 16), "float16"), T.alloc_shared((16, 16), "float16")
            c, pairs = T.alloc_fragment((16, 16), "float32"), T.reshape(mask, (2, 4))
            T.copy(Mask, mask)
            if written:
                for i, j in T.Parallel(2, 4):
                    pairs[i, j] = 1 - pairs[i, j]
            T.copy(B, b)
            T.clear(c)
            for k in T.serial(8):
                if mask[k] != 0:
                    T.copy(A[k, 0, 0], a)
                    T.gemm(a, b, c)
            T.copy(c, C)

    mask, a, b = np.arange(8, dtype=np.int32) % 3, *(RNG.integers(-3, 4, s).astype(np.float16) for s in ((8, 16, 16), (16, 16)))
    out = strict.run(tilelang.compile(main), {"Mask": mask, "A": a, "B": b, "C": np.zeros((16, 16), np.float32)}, text=False)
    chosen = (1 - mask if written else mask) != 0
    np.testing.assert_array_equal(out["C"], sum(a[chosen].astype(np.float32)) @ b.astype(np.float32))


@pytest.mark.parametrize("cached", [False, True])
def test_a_reshaped_tensor_of_a_size_of_run_time(cached, monkeypatch):
    """Also of a kernel that was just compiled, whose stages are those that were made then."""
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", str(int(not cached)))
    n = T.dynamic("n")

    @T.prim_func
    def main(X: T.Tensor((n, 16), "float32"), Y: T.Tensor((n, 16), "float32")):
        with T.Kernel(T.ceildiv(n, 4)) as b:
            x, V, W = T.alloc_shared((64,), "float32"), T.reshape(X, (n * 16,)), T.Tensor((n * 16,), "float32", Y.data)
            T.copy(V[b * 64], x)
            for i in T.Parallel(64):
                x[i] = x[i] + 1
            T.copy(x, W[b * 64])

    x = np.arange(160, dtype=np.float32).reshape(10, 16)
    for _ in range(2):
        out = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros_like(x)}, {"n": 10})["Y"]
        np.testing.assert_array_equal(out, x + 1)


def of_computed_shape(how):
    n = T.symbolic("n")

    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), L: T.Tensor((8,), "int32"), Y: T.Tensor((2, 64), "float32")):
        with T.Kernel(1):
            m = L[0] if how != "chosen" else T.if_then_else(L[1] > 0, L[0], n // 2)
            F = T.Tensor((2, m), "float32", X.data)
            if how == "stored":
                for i, j in T.Parallel(2, 64):
                    F[i, j] = Y[i, j]
            elif how == "region":
                t = T.alloc_shared((2, 64), "float32")
                T.copy(F[:, 0:64], t)
                T.copy(t, Y)
            else:
                for i, j in T.Parallel(2, 64):
                    Y[i, j] = F[i, j]

    return main


@pytest.mark.parametrize("how", ["loaded", "stored", "chosen"])
def test_a_tensor_seen_with_a_shape_that_data_tells(how):
    arrays = {"X": np.arange(400, dtype=np.float32), "L": np.full(8, 200, np.int32), "Y": -np.ones((2, 64), np.float32)}
    out = strict.run(tilelang.compile(of_computed_shape(how)), arrays, {"n": 400})
    np.testing.assert_array_equal(out["X"].reshape(2, 200)[:, :64], out["Y"])
    assert (out["Y"][:, 1] == (-1 if how == "stored" else [1, 201])).all()


def test_regions_of_it_are_none_of_the_tensor():
    with pytest.raises(UnsupportedConstruct, match="no region of X as it is declared, and the kernel computes its shape"):
        tilelang.compile(of_computed_shape("region"))
