"""Pitfalls of precision, conversion, capacity and of tests that cannot fail."""

import math
import re
import time

import kernels_rows
import ml_dtypes
import numpy as np
import programs
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import arch
from tilelang_ascend.isa.base import Space
from tilelang_ascend.transform import pipeline

F32 = "float32"
RNG = np.random.default_rng(5)


def _unary(n, f, dtype=F32):
    @T.prim_func
    def k(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, 2048)) as bx:
            for i in T.Parallel(2048):
                Y[bx * 2048 + i] = f(X[bx * 2048 + i])

    return tilelang.compile(k)


def test_p18_erf_over_its_range():
    x = np.linspace(-6, 6, 20_001, dtype=np.float32)
    out = strict.run(_unary(x.size, T.erf), {"X": x, "Y": np.full_like(x, 77)}, text=False)["Y"]
    want = np.array([math.erf(float(v)) for v in x])
    assert np.max(np.abs(out - want)) <= 1e-6


def test_p23_sums_of_float16_accumulate_in_float32():
    n = 4096

    @T.prim_func
    def k(X: T.Tensor((4, n), "float16"), Y: T.Tensor((4,), "float16")):
        with T.Kernel(1):
            x, y = T.alloc_shared((4, n), "float16"), T.alloc_fragment((4,), "float16")
            T.copy(X, x)
            T.reduce_sum(x, y, dim=1)
            T.copy(y, Y)

    x = RNG.random((4, n)).astype(np.float16)
    out = strict.run(tilelang.compile(k), {"X": x, "Y": np.zeros(4, np.float16)}, text=False)["Y"]
    exact = x.astype(np.float64).sum(1)
    assert (np.abs(out - exact) <= 0.5001 * np.spacing(exact.astype(np.float16)).astype(np.float64)).all()
    in_half = np.add.accumulate(x, axis=1, dtype=np.float16)[:, -1]
    assert (np.abs(in_half - exact) > np.spacing(exact.astype(np.float16))).any(), "these data would not show the difference"


def test_p24_a_million_elements_run_in_seconds():
    x = RNG.standard_normal(1 << 20).astype(np.float32)
    y = np.zeros_like(x)
    kernel = _unary(x.size, lambda v: v * 2.0 + 1.0)
    began = time.perf_counter()
    kernel(x, y)
    assert time.perf_counter() - began < 10
    np.testing.assert_array_equal(y, x * 2 + 1)


@pytest.mark.parametrize("name", ["softmax of 32 x 4096", "rms_norm of 64 x 100003", "minicv of 1024 x 1024 x 512"])
def test_p24_kernels_of_real_sizes_run_in_seconds(name):
    if name.startswith("softmax"):
        kernel, shapes = kernels_rows.softmax(32, 4096), {"X": (32, 4096), "Y": (32, 4096)}
    elif name.startswith("rms_norm"):
        kernel, shapes = kernels_rows.rms_norm_split(64, 100_003), {"X": (64, 100_003), "G": (100_003,), "Y": (64, 100_003)}
    else:
        kernel = programs.minicv(1024, 1024, 512, 128, 256)
        shapes = {p.name: tuple(p.shape) for p in kernel.artifact.signature.parameters if p.shape}
    arrays = [RNG.uniform(-0.25, 0.25, shapes[p.name]).astype(p.dtype) for p in kernel.artifact.signature.parameters]
    began = time.process_time()
    kernel(*arrays)
    assert time.process_time() - began < 10
    assert all(np.isfinite(a).all() for a in arrays)


def test_p25_a_kernel_is_its_own_reference():
    """The interpreter of Tile IR in the package needs neither erf of NumPy nor SciPy."""
    from tilelang_ascend.sim import reference

    @T.prim_func
    def k(X: T.Tensor((64,), F32), Y: T.Tensor((64,), F32)):
        with T.Kernel(1):
            for i in T.Parallel(64):
                Y[i] = 0.5 * X[i] * (1.0 + T.erf(X[i] * math.sqrt(0.5)))

    x, y = RNG.standard_normal(64).astype(np.float32), np.zeros(64, np.float32)
    reference.run(k, x, y)
    np.testing.assert_allclose(y, [0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x.tolist()], rtol=1e-5, atol=1e-7)


def _softmax(tile_forms):
    @T.prim_func
    def k(X: T.Tensor((96, 200), F32), Y: T.Tensor((96, 200), F32)):
        with T.Kernel(T.ceildiv(96, 16)) as bx:
            x, e = T.alloc_shared((16, 200), F32), T.alloc_fragment((16, 200), F32)
            top, total = T.alloc_fragment((16,), F32), T.alloc_fragment((16,), F32)
            T.copy(X[bx * 16, 0], x)
            T.reduce_max(x, top, dim=1)
            if tile_forms:
                for i, j in T.Parallel(16, 200):
                    e[i, j] = x[i, j] - top[i]
                T.exp(e, e)
            else:
                for i, j in T.Parallel(16, 200):
                    e[i, j] = T.exp(x[i, j] - top[i])
            T.reduce_sum(e, total, dim=1)
            for i, j in T.Parallel(16, 200):
                e[i, j] = e[i, j] / total[i]
            T.copy(e, Y[bx * 16, 0])

    return tilelang.compile(k)


def test_p26_composed_and_fused_softmax_agree_in_values_and_time():

    x = RNG.standard_normal((96, 200)).astype(np.float32)
    wide = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    want, times = wide / wide.sum(1, keepdims=True), []
    for tile_forms in (False, True):
        artifact = _softmax(tile_forms).artifact
        out, result = strict.launch(artifact, strict.entries_of(artifact), {"X": x, "Y": np.zeros_like(x)}, {})
        assert not result.hazards
        np.testing.assert_allclose(out["Y"], want, rtol=2**-20)
        times.append(result.cycles)
    assert abs(times[0] - times[1]) <= 0.1 * times[0]


def _capacity_kernel(elements):
    @T.prim_func
    def k(X: T.Tensor((elements,), F32), Y: T.Tensor((elements,), F32)):
        with T.Kernel(1):
            big_tile = T.alloc_shared((elements,), F32)
            T.copy(X, big_tile)
            for i in T.Parallel(elements):
                big_tile[i] = big_tile[i] + 1.0
            T.copy(big_tile, Y)
            T.copy(big_tile[0:8], Y[0:8])  # a part of the tile: it cannot be divided

    return k


def test_p30_a_full_memory_is_accepted_and_one_block_more_is_kept_elsewhere():
    full = arch.get_chip("Ascend910B1").capacity_bytes(Space.UB) // 4
    for size in (full, full + 8):
        kernel, x = tilelang.compile(_capacity_kernel(size)), RNG.integers(-8, 9, size).astype(np.float32)
        assert any("global memory holds big_tile" in note for note in kernel.artifact.notes) == (size > full)
        np.testing.assert_array_equal(strict.run(kernel, {"X": x, "Y": np.zeros_like(x)}, text=False)["Y"], x + 1)


def _one_after_the_other(elements, meet):
    """Two tiles of which one is dead when the other is filled, unless they `meet` in the end."""

    @T.prim_func
    def k(X: T.Tensor((elements,), F32), Y: T.Tensor((elements,), F32), Z: T.Tensor((elements,), F32)):
        with T.Kernel(1):
            first, second = T.alloc_shared((elements,), F32), T.alloc_shared((elements,), F32)
            T.copy(X, first)
            for i in T.Parallel(elements):
                first[i] = first[i] + 1.0
            T.copy(first, Y)
            T.copy(X, second)
            for i in T.Parallel(elements):
                second[i] = second[i] * (first[i] if meet else 2.0)
            T.copy(second, Z)
            if meet:
                T.copy(second[0:8], Z[0:8])  # a part of the tile: it cannot be divided

    return k


def test_p30_dead_tiles_give_their_memory_back_and_the_error_lists_every_tile(monkeypatch):
    monkeypatch.setattr(pipeline, "SPILLED_ROOM", ())  # Tiles could go to GM.
    elements = 3 * arch.get_chip("Ascend910B1").capacity_bytes(Space.UB) // (4 * 4)
    x = RNG.integers(-8, 9, elements).astype(np.float32)
    out = strict.run(
        tilelang.compile(_one_after_the_other(elements, False)), {"X": x, "Y": np.zeros_like(x), "Z": np.zeros_like(x)}, text=False
    )
    np.testing.assert_array_equal(out["Y"], x + 1)
    np.testing.assert_array_equal(out["Z"], x * 2)
    with pytest.raises(tilelang.errors.OutOfMemory) as caught:
        tilelang.compile(_one_after_the_other(elements, True))
    table = str(caught.value)
    for tile in ("first", "second"):
        assert re.search(rf"{tile}\b.*\b{4 * elements}\b", table), table


def test_p31_out_of_memory_proposes_a_smaller_tile(monkeypatch):
    monkeypatch.setattr(pipeline, "SPILLED_ROOM", ())  # The tile could go to GM.
    with pytest.raises(tilelang.errors.OutOfMemory) as caught:
        tilelang.compile(_capacity_kernel(100_000))
    hint = re.search(r"tiles .* (\d+) instead of 100000", caught.value.hint)
    assert hint and tilelang.compile(_capacity_kernel(int(hint.group(1))))


_DTYPES = [F32, "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool"]


def _numpy(dtype):
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def _extremes(source, target):
    """Floats that overflow, vanish, or are none: between floats every one of them has a result."""
    largest = float(ml_dtypes.finfo(_numpy(target)).max)
    values = [
        np.inf,
        -np.inf,
        np.nan,
        largest,
        -largest,
        largest * 1.001,
        65519.0,
        65520.0,
        3.3e38,
        1e-7,
        6e-8,
        2.9e-8,
        1e-39,
        -1e-45,
        1.00390625,
    ]
    with np.errstate(over="ignore"):
        return np.float32([*values, *([0.0] * (64 - len(values)))]).astype(_numpy(source))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("source,target", [(s, t) for s in (F32, "float16", "bfloat16") for t in (F32, "float16", "bfloat16")])
def test_p37_conversions_of_extreme_floats(source, target):
    x = _extremes(source, target)
    out = strict.run(_conversion(source, target), {"X": x, "Y": np.zeros(64, _numpy(target))})["Y"]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out.astype(np.float32), x.astype(np.float32).astype(_numpy(target)).astype(np.float32))


def _values(dtype):
    if dtype == "bool":
        return RNG.integers(0, 2, 64).astype(bool)
    if dtype.startswith(("int", "uint")):
        info = np.iinfo(dtype)
        edges = [info.min, info.max, 0, 1]
        return np.concatenate([edges, RNG.integers(max(info.min, -1000), min(info.max, 1000), 60)]).astype(dtype)
    edges = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -1.5, 100.75, -100.75, 1e-3]
    return np.concatenate([edges, RNG.uniform(-120, 120, 54)]).astype(_numpy(dtype))


def _conversion(source, target):
    @T.prim_func
    def k(X: T.Tensor((64,), source), Y: T.Tensor((64,), target)):
        with T.Kernel(1):
            x, y = T.alloc_shared((64,), source), T.alloc_fragment((64,), target)
            T.copy(X, x)
            for i in T.Parallel(64):
                y[i] = T.cast(x[i], target)
            T.copy(y, Y)

    return tilelang.compile(k)


@pytest.mark.parametrize("source,target", [(s, t) for s in _DTYPES for t in _DTYPES])
@pytest.mark.one_in(6)
def test_p37_conversions(source, target):
    """Floats truncate towards zero, integers wrap, everything else rounds to nearest even."""
    x = _values(source)
    if source not in ("bool", "uint8") and target == "uint8" and _numpy(source).kind not in "iu":
        x = np.abs(x.astype(np.float32)).astype(x.dtype)
    out = strict.run(_conversion(source, target), {"X": x, "Y": np.zeros(64, _numpy(target))}, text=False)["Y"]
    wide = x.astype(np.float64) if _numpy(source).kind not in "iub" else x
    with np.errstate(all="ignore"):
        want = wide.astype(np.float32).astype(_numpy(target)) if target == "bfloat16" else wide.astype(_numpy(target))
    np.testing.assert_array_equal(out.astype(np.float64), want.astype(np.float64))


def _scale_rows(blocks, shift, swap):
    @T.prim_func
    def k(X: T.Tensor((70, 33), F32), R: T.Tensor((70,), F32), Y: T.Tensor((70, 33), F32), Z: T.Tensor((70,), F32)):
        with T.Kernel(blocks) as bx:
            x, r, z = T.alloc_shared((16, 33), F32), T.alloc_shared((16,), F32), T.alloc_fragment((16,), F32)
            T.copy(X[bx * 16, 0], x)
            T.copy(R[bx * 16 + shift], r)
            for i, j in T.Parallel(16, 33):
                x[i, j] = r[i] - x[i, j] if swap else x[i, j] - r[i]
            T.reduce_sum(x, z, dim=1)
            T.copy(x, Y[bx * 16, 0])
            T.copy(z, Z[bx * 16])

    return tilelang.compile(k)


@pytest.mark.parametrize("mistake", [None, "last tile dropped", "off by one", "operands swapped"])
def test_p50_wrong_kernels_fail_the_comparison(mistake):
    x, r = RNG.integers(1, 50, (70, 33)).astype(np.float32), np.arange(70, dtype=np.float32)
    blocks = 4 if mistake == "last tile dropped" else 5
    kernel = _scale_rows(blocks, 1 if mistake == "off by one" else 0, mistake == "operands swapped")
    arrays = {"X": x, "R": r, "Y": np.full_like(x, 777), "Z": np.full_like(r, 777)}
    out = strict.run(kernel, arrays, text=False)
    want = {"Y": x - r[:, None], "Z": (x - r[:, None]).sum(1)}
    for name, expected in want.items():
        assert np.isfinite(expected).all()
        same = np.array_equal(out[name], expected)
        assert same if mistake is None else not same, name
