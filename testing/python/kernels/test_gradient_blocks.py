"""Loops as in the backward of attention: sums that stay on the cube core, what a step makes added to memory. Blocks whose sums fill L0C are worked on in parts that all
add their share, and steps are as long as L0C has room for. Whatever else a block does with what it adds."""

from functools import lru_cache

import numpy as np
import pytest
import strict
from example_kernels import kernel as kernel_of

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

F16, F32, I32 = "float16", "float32", "int32"


@lru_cache(maxsize=None)
def kernel(rows, keys, dim, blocks, steps, variant=""):
    """For blocks i of K and steps j of Q: p = f16(max(K_i Q_j^T, 0) / 8); V_i += p Q_j; G_j += p^T K_i, and what `variant` does besides."""
    total = keys * steps

    @T.prim_func
    def k(
        Q: T.Tensor((total, dim), F16),
        K: T.Tensor((rows * blocks, dim), F16),
        M: T.Tensor((4,), I32),
        V: T.Tensor((rows * blocks, dim), F32),
        G: T.Tensor((total, dim), F16 if variant == "narrow" else F32),
        H: T.Tensor((total, dim), F32),
    ):
        with T.Kernel(blocks) as i:
            a, q = T.alloc_shared((rows, dim), F16), T.alloc_shared((keys, dim), F16)
            s, p = T.alloc_fragment((rows, keys), F32), T.alloc_shared((rows, keys), F16)
            v, g = T.alloc_fragment((rows, dim), F32), T.alloc_fragment((keys, dim), F32)
            w, z = T.alloc_fragment((rows, dim), F32), T.alloc_shared((keys, dim), F16)
            T.copy(K[i * rows, 0], a)
            T.clear(v)
            T.clear(w)
            if variant == "kept":
                T.clear(g)
            for j in T.Pipelined(i // 2 if variant == "causal" else M[0] if variant == "run time" else 0, steps, num_stages=2):
                T.copy(Q[j * keys, 0], q)
                T.gemm(a, q, s, transpose_B=True, clear_accum=True)
                for x, y in T.Parallel(rows, keys):
                    p[x, y] = T.max(s[x, y], 0.0) / 8
                if variant == "masked":
                    for x, y in T.Parallel(rows, keys):
                        p[x, y] = T.if_then_else(i * rows + x <= j * keys + y, p[x, y], 0)
                if variant == "numbered":
                    for x, y in T.Parallel(rows, keys):
                        p[x, y] += j
                T.gemm(p, q, v)
                if variant == "two sums":
                    T.gemm(p, q, w)
                if variant == "started":
                    T.fill(g, 1.0)
                    T.gemm(p, a, g, transpose_A=True)
                elif variant == "kept":
                    T.gemm(p, a, g, transpose_A=True)
                else:
                    T.gemm(p, a, g, transpose_A=True, clear_accum=True)
                if variant == "doubled":
                    for x, y in T.Parallel(keys, dim):
                        T.atomic_add(G[j * keys + x, y], g[x, y] * 2)
                elif variant == "narrow":
                    for x, y in T.Parallel(keys, dim):
                        T.atomic_add(G[j * keys + x, y], g[x, y])
                elif variant == "stored":
                    for x, y in T.Parallel(keys, dim):
                        H[j * keys + x, y] = g[x, y]
                    for x, y in T.Parallel(keys, dim):
                        T.atomic_add(G[j * keys + x, y], g[x, y])
                elif variant == "one place":
                    for x, y in T.Parallel(keys, dim):
                        T.atomic_add(G[x, y], g[x, y])
                elif variant == "tile":
                    T.atomic_add(G[j * keys : (j + 1) * keys, :], g)
                elif variant == "left early":
                    T.atomic_add(G[j * keys : (j + 1) * keys, :], g)
                    if j >= M[0]:
                        break
                else:
                    for x, y in T.Parallel(keys, dim):
                        T.atomic_add(G[j * keys + x, y], g[x, y])
                if variant == "two tensors":
                    for x, y in T.Parallel(keys, dim):
                        T.atomic_add(H[j * keys + x, y], g[x, y])
            if variant == "two sums":
                for x, y in T.Parallel(rows, dim):
                    v[x, y] += w[x, y]
            T.copy(v, V[i * rows, 0])

    return k


def arrays_of(rows, keys, dim, blocks, steps, variant=""):
    """Small numbers, whose sums float32 holds exactly in any order."""
    rng = np.random.default_rng(rows + keys)
    small = lambda *shape: (rng.integers(-2, 3, shape) / 2).astype(np.float16)  # noqa: E731
    total = keys * steps
    return {
        "Q": small(total, dim), "K": small(rows * blocks, dim), "M": np.full(4, min(2, steps - 1), np.int32), "V": np.zeros((rows * blocks, dim), np.float32),
        "G": np.ones((total, dim), np.float16 if variant == "narrow" else np.float32), "H": np.zeros((total, dim), np.float32),
    }  # fmt: skip


def expected(arrays, rows, keys, dim, blocks, steps, variant=""):
    """V, G and H."""
    q, k = arrays["Q"].astype(np.float64).reshape(steps, keys, dim), arrays["K"].astype(np.float64).reshape(blocks, rows, dim)
    v, g, h = np.zeros((blocks, rows, dim)), arrays["G"].astype(np.float64).reshape(steps, keys, dim), np.zeros((steps, keys, dim))
    for i in range(blocks):
        kept = np.zeros((keys, dim))
        for j in range(i // 2 if variant == "causal" else arrays["M"][0] if variant == "run time" else 0, steps):
            p = (np.maximum(k[i] @ q[j].T, 0) / 8).astype(np.float16).astype(np.float64)
            if variant == "masked":
                p = np.where(i * rows + np.arange(rows)[:, None] <= j * keys + np.arange(keys), p, 0)
            if variant == "numbered":
                p = (p + j).astype(np.float16).astype(np.float64)
            v[i] += p @ q[j] * (2 if variant == "two sums" else 1)
            part = p.T @ k[i] + (variant == "started")
            kept += part
            g[0 if variant == "one place" else j] += kept if variant == "kept" else part * (2 if variant == "doubled" else 1)
            if variant == "stored":
                h[j] = part
            if variant == "two tensors":
                h[j] += part
            if variant == "left early" and j >= arrays["M"][0]:
                break
    return v, g, h


def check(sizes, variant="", chip="a2", text=False, **configs):
    if variant == "stored":
        sizes = (*sizes[:3], 1, sizes[4])  # Blocks would overwrite each other.
    compiled = tilelang.compile(kernel(*sizes, variant), target=chip, pass_configs=configs)
    arrays = arrays_of(*sizes, variant)
    out = strict.run(compiled, arrays, text=text)
    for name, want in zip("VGH", expected(arrays, *sizes, variant)):
        tolerance = 2.0**-10 * np.abs(want).max() * sizes[3] if name == "G" and variant == "narrow" else 1e-3
        np.testing.assert_allclose(out[name].astype(np.float64), want.reshape(out[name].shape), rtol=0, atol=tolerance)
    return " ".join(compiled.artifact.notes)


FULL = (256, 16, 128, 2, 4)
"""Rows, keys, columns, blocks, steps: the sum takes all of L0C on A2."""
SMALL = (32, 16, 32, 3, 8)
LARGE = (128, 128, 128, 2, 3)
"""What a step makes takes more than is left."""

IN_PARTS = ("", "two tensors", "masked", "numbered", "kept", "tile", "run time", "causal", "one place", "left early", "two sums")
WHOLE = ("doubled", "narrow", "stored", "started")


@pytest.mark.parametrize("variant", IN_PARTS + WHOLE)
@pytest.mark.one_in(6)
def test_blocks_whose_sums_fill_l0c(variant):
    """Parts of the rows are blocks, if all of what they add is added; what is rounded, or stored, in between is the sum over all rows."""
    notes = check(FULL, variant, text=variant in ("", "kept"))
    assert ("worked on in" in notes and "vector cores add" not in notes) == (variant in IN_PARTS), notes


@pytest.mark.parametrize(
    "variant", ("", "two tensors", "masked", "numbered", "kept", "tile", "run time", "causal", "one place", "left early") + WHOLE
)
@pytest.mark.one_in(6)
def test_longer_steps(variant):
    """Where there is room, steps are longer if every key adds to elements of its own, and what it adds is made of nothing that steps change."""
    notes = check(SMALL, variant, text=variant == "")
    together = ("", "two tensors", "masked", "tile", "two sums", "started")
    assert ("worked on together" in notes) == (variant in together), notes


@pytest.mark.parametrize("variant", IN_PARTS + WHOLE)
@pytest.mark.one_in(6)
def test_shorter_steps(variant):
    notes = check(LARGE, variant, text=variant == "")
    shorter = ("", "two tensors", "masked", "numbered", "tile", "two sums", "started", "causal", "one place")
    assert ("worked on as" in notes) == (variant in shorter), notes


@pytest.mark.parametrize("chip", ["a3", "a5"])
@pytest.mark.parametrize("sizes", [FULL, SMALL, LARGE, (512, 32, 128, 2, 3), (128, 256, 64, 2, 2)], ids=str)
@pytest.mark.one_in(6)
def test_other_chips_and_sizes(sizes, chip):
    check(sizes, chip=chip)


@pytest.mark.parametrize(
    "sizes", [(256, 16, 128, 3, 1), (32, 16, 32, 5, 7), (32, 16, 32, 2, 13), (64, 128, 128, 1, 1), (128, 128, 128, 2, 2)], ids=str
)
@pytest.mark.parametrize("variant", ["", "masked"])
@pytest.mark.one_in(6)
def test_numbers_of_steps(sizes, variant):
    check(sizes, variant)


@pytest.mark.parametrize("sizes", [FULL, SMALL, LARGE], ids=["parts", "longer", "shorter"])
def test_no_flag_can_be_left_out(sizes, monkeypatch):
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    assert strict.surviving_mutants(tilelang.compile(kernel(*sizes)), arrays_of(*sizes)) == []


def test_it_can_be_switched_off():
    notes = check(SMALL, **{"tl.merge_steps": False}) + check(LARGE, **{"tl.merge_steps": False})
    assert "steps of a loop" not in notes


@pytest.mark.parametrize("chip", ["a2", "a5"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.one_in(2)
def test_gradients_have_enough_flags(causal, chip):
    """No barrier for all pipes stands in the loop of the backward of attention, whether all blocks have as many steps or not."""
    backward = kernel_of("flash_attention/backward.py", "backward")(1, 3, 1024, 128, causal=causal, bM=64, bN=64)
    compiled = tilelang.compile(backward, target=chip, pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
    assert not any("more than the available" in note for note in compiled.artifact.notes)
