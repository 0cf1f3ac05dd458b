"""Copies of tiles that are only read are the tiles themselves, as long as these hold what was copied."""

from functools import lru_cache

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

F16, F32 = "float16", "float32"
N, STEPS = 32, 3

ONE, TWO = (
    ("", "vector", "in a loop", "of a copy", "accumulator"),
    ("changed before", "changed in a nest", "changed in the loop", "read outside", "written", "part", "rounded"),
)
"""Where the copy goes, and where it stays."""


@lru_cache(maxsize=None)
def kernel(variant):
    """Y_k = f(x_k) @ B + f(x_k)^T @ B for steps k, where the second product reads a copy of f(x_k)."""

    @T.prim_func
    def k(X: T.Tensor((STEPS * N, N), F16), B: T.Tensor((N, N), F16), Y: T.Tensor((STEPS * N, N), F32), Z: T.Tensor((STEPS * N, N), F32)):
        with T.Kernel(1) as _:
            b, x, y = T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F16), T.alloc_shared((N, N), F32 if variant == "rounded" else F16)
            w, c, z = T.alloc_shared((N, N), F16), T.alloc_fragment((N, N), F32), T.alloc_fragment((N, N), F32)
            T.copy(B, b)
            if variant in ("part", "read outside"):
                T.fill(y, 0)
            for k in T.serial(STEPS):
                if variant == "read outside":
                    for i, j in T.Parallel(N, N):
                        z[i, j] = y[i, j]
                    T.copy(z, Z[k * N, 0])
                T.copy(X[k * N, 0], x)
                for i, j in T.Parallel(N, N):
                    x[i, j] = x[i, j] * 2
                if variant == "accumulator":
                    T.gemm(x, b, c, clear_accum=True)
                    T.copy(c, z)
                    T.copy(z, Z[k * N, 0])
                elif variant == "part":
                    T.copy(x[0:16, 0:N], y[0:16, 0:N])
                elif variant == "of a copy":
                    T.copy(x, w)
                    T.copy(w, y)
                else:
                    T.copy(x, y)
                T.gemm(x, b, c, clear_accum=True)
                if variant == "changed before":
                    T.fill(x, 1)
                if variant == "written":
                    y[3, 4] = 7
                if variant == "changed in a nest":
                    for i, j in T.Parallel(N, N):
                        x[i, j] = y[i, j] + 1
                if variant == "vector":
                    for i, j in T.Parallel(N, N):
                        z[i, j] = y[i, j] + y[i, 0]
                    T.copy(z, Z[k * N, 0])
                elif variant == "in a loop":
                    for _ in T.serial(2):
                        T.gemm(y, b, c, transpose_A=True)
                elif variant == "changed in the loop":
                    for _ in T.serial(2):
                        T.gemm(y, b, c, transpose_A=True)
                        for i, j in T.Parallel(N, N):
                            x[i, j] = x[i, j] + 1
                elif variant == "rounded":
                    for i, j in T.Parallel(N, N):
                        z[i, j] = y[i, j] / 3
                    T.copy(z, Z[k * N, 0])
                elif variant != "accumulator":
                    T.gemm(y, b, c, transpose_A=True)
                T.copy(c, Y[k * N, 0])

    return k


@pytest.mark.parametrize("chip", ["a2", "a5"])
@pytest.mark.parametrize("variant", ONE + TWO)
@pytest.mark.one_in(6)
def test_copies(variant, chip):
    compiled, rng = tilelang.compile(kernel(variant), target=chip), np.random.default_rng(3)
    arrays = {name: rng.integers(-2, 3, (n, N)).astype(np.float16) for name, n in (("X", STEPS * N), ("B", N))}
    arrays |= {name: np.zeros((STEPS * N, N), np.float32) for name in "YZ"}
    out = strict.run(compiled, arrays, text=chip == "a2")
    b, before = arrays["B"].astype(np.float32), np.zeros((N, N), np.float32)
    for k in range(STEPS):
        x = arrays["X"][k * N : (k + 1) * N].astype(np.float32) * 2
        y = np.concatenate([x[:16], np.zeros((16, N), np.float32)]) if variant == "part" else x.copy()
        if variant == "read outside":
            np.testing.assert_array_equal(out["Z"][k * N : (k + 1) * N], before)
        before = y
        if variant == "written":
            y[3, 4] = 7
        times = {"in a loop": 2, "changed in the loop": 2, "vector": 0, "accumulator": 0, "rounded": 0}.get(variant, 1)
        np.testing.assert_array_equal(out["Y"][k * N : (k + 1) * N], x @ b + times * (y.T @ b))
        if variant in ("vector", "accumulator", "rounded"):
            z = {"vector": y + y[:, :1], "accumulator": x @ b, "rounded": y / 3}[variant]
            np.testing.assert_allclose(out["Z"][k * N : (k + 1) * N], z, rtol=1e-6)


@pytest.mark.parametrize("variant", ONE + TWO)
def test_which_go(variant):
    """Of tiles of the user, `y`, or the copy of the accumulator, is gone where it may be."""
    from tilelang_ascend.arch import get_chip
    from tilelang_ascend.ir import AllocBuffer, statements
    from tilelang_ascend.transform import pipeline

    stages = pipeline.lower(kernel(variant), get_chip("a2"), keep_stages=True).stages
    (stage,) = [ir for name, ir in stages if name == "propagate_copies"]
    declared = {s.buffer.name for s in statements(stage.body) if isinstance(s, AllocBuffer)}
    copy = "y" if variant != "accumulator" else "z"
    assert (copy in declared) == (variant in TWO)
