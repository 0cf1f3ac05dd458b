"""Values that cross between cube and vector cores on chip: L0C to UB of both vector cores, UB to L1 of the cube core (A5)."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import strict
import test_pipeline_failures as failures
import test_skew as skew

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import AllocBuffer, Evaluate, const_int, dtype_of, itemsize, op_name, scope_of, statements
from tilelang_ascend.isa import Space
from tilelang_ascend.transform import pipeline

TO_UB, TO_L1 = "ascend.fixpipe_to_ub", "ascend.copy_ub_to_l1"
NUMPY = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    "int8": np.int8,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
}


def crossings(kernel) -> dict:
    """Instruction -> arguments of its calls, of those that cross directly."""
    found: dict = {}
    for func in kernel.artifact.ascend_ir.functions.values():
        for s in statements(func.body):
            if isinstance(s, Evaluate) and op_name(s) in (TO_UB, TO_L1):
                found.setdefault(op_name(s), []).append(list(s.value.args))
    return found


def there_and_back(m, n, k, dtype, chip="a5", configs=None, scale=1 / 8):
    """Y = f(A @ B) @ B^T with f(x) = dtype(max(x, 0) * scale)."""
    acc = "int32" if dtype == "int8" else "float32"

    @T.prim_func
    def kernel(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), Y: T.Tensor((m, k), acc)):
        with T.Kernel(1):
            a, b, p = T.alloc_shared((m, k), dtype), T.alloc_shared((k, n), dtype), T.alloc_shared((m, n), dtype)
            s, f, o = T.alloc_fragment((m, n), acc), T.alloc_fragment((m, n), "float32"), T.alloc_fragment((m, k), acc)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, s, clear_accum=True)
            for i, j in T.Parallel(m, n):
                f[i, j] = T.max(T.cast(s[i, j], "float32"), 0.0) * scale
            T.copy(f, p)
            T.gemm(p, b, o, transpose_B=True, clear_accum=True)
            T.copy(o, Y)

    return tilelang.compile(kernel, target=chip, pass_configs=configs)


def operands(m, n, k, dtype, seed=0):
    rng = np.random.default_rng(seed)
    low = 4 if dtype == "int8" else 1
    return tuple((rng.random(shape) * 2 * low - low).round(2).astype(NUMPY[dtype]) for shape in ((m, k), (k, n)))


def check(kernel, m, n, k, dtype, scale=1 / 8, **how):
    a, b = operands(m, n, k, dtype)
    s = a.astype(np.float64) @ b.astype(np.float64)
    p = np.maximum(s, 0) * scale
    p = p.round() if dtype == "int8" else p.astype(NUMPY[dtype]).astype(np.float64)
    y = np.full((m, k), 7, np.int32 if dtype == "int8" else np.float32)
    out = strict.run(kernel, {"A": a, "B": b, "Y": y}, **how)["Y"]
    if dtype == "int8":
        assert np.abs(out - p @ b.astype(np.float64).T).max() <= 4 * n  # halves are rounded to even, or not
        return
    # Where p lies between two numbers of its dtype, a last place of s decides.
    step = {"float32": 2**-22, "float16": 2**-10, "bfloat16": 2**-7, "float8_e4m3fn": 2**-3}[dtype]
    limit = step * np.abs(p).max() * np.sqrt(n) + strict.tolerance("float32", n)["atol"]
    np.testing.assert_allclose(out, p @ b.astype(np.float64).T, rtol=0.02 if dtype == "float8_e4m3fn" else 0.002, atol=4 * limit)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float8_e4m3fn", "int8"])
@pytest.mark.parametrize("m,n,k", [(32, 32, 32), (64, 96, 32), (128, 64, 64)])
@pytest.mark.one_in(9)
def test_there_and_back(m, n, k, dtype):
    kernel = there_and_back(m, n, k, dtype)
    found = crossings(kernel)
    assert set(found) == {TO_UB, TO_L1}, found
    check(kernel, m, n, k, dtype, text=m == 32)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "m,n,ways",
    [
        (16, 32, {TO_UB}),  # halves of 8 rows are no whole fractals of L1
        (32, 48, {TO_UB, TO_L1}),
        (48, 32, {TO_UB}),
        (34, 32, {TO_UB}),
        (33, 32, set()),  # one core has a row more
        (32, 24, set()),  # rows end inside of a fractal
        (32, 20, set()),
        (1, 32, {TO_UB}),  # halves of the only row
    ],
)
def test_what_the_hardware_cannot_divide_stays_in_gm(m, n, ways):
    kernel = there_and_back(m, n, 32, "float16")
    found = set(crossings(kernel))
    assert found <= ways, found
    check(kernel, m, n, 32, "float16", text=False)


@pytest.mark.parametrize("chip,configs", [("a2", None), ("a3", None), ("a5", {"tl.direct_channels": False})])
def test_without_paths(chip, configs):
    kernel = there_and_back(64, 32, 32, "float16", chip, configs)
    assert not crossings(kernel)
    check(kernel, 64, 32, 32, "float16", text=False)


def test_every_flag_is_needed():
    m, n, k = 32, 32, 32
    a, b = operands(m, n, k, "float16")
    kernel = there_and_back(m, n, k, "float16")
    assert strict.surviving_mutants(kernel, {"A": a, "B": b, "Y": np.zeros((m, k), np.float32)}) == []


def test_halves_of_columns():
    """Sums over rows need all of them: the vector cores divide the columns."""
    m, n = 32, 64

    @T.prim_func
    def kernel(A: T.Tensor((m, 32), "float16"), B: T.Tensor((32, n), "float16"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            a, b = T.alloc_shared((m, 32), "float16"), T.alloc_shared((32, n), "float16")
            s, y = T.alloc_fragment((m, n), "float32"), T.alloc_fragment((n,), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, s, clear_accum=True)
            T.reduce_sum(s, y, dim=0)
            T.copy(y, Y)

    compiled = tilelang.compile(kernel, target="a5")
    ((call,),) = crossings(compiled).values()
    assert int(call[-2]) == 2, "dual destination: halves of the columns"
    a, b = operands(m, n, 32, "float16")
    out = strict.run(compiled, {"A": a, "B": b, "Y": np.full(n, 7, np.float32)})
    np.testing.assert_allclose(out["Y"], (a.astype(np.float64) @ b.astype(np.float64)).sum(0), **strict.tolerance("float32", m * 32))


STEPS = {
    "constant": (skew.constant, 5, 0, range(5)),
    "one": (skew.constant, 1, 0, range(1)),
    **{f"run time {n}": (skew.run_time, 4, n, range(n)) for n in (0, 1, 2, 4)},
    "from one": (skew.from_one, 4, 0, range(1, 4)),
    "behind each other": (skew.three_behind_each_other, 4, 4, [0, 1, 2, 3, 0, 1, 0]),
    "left early": (skew.left_early, 4, 2, range(2)),
    "twice": (skew.twice, 4, 0, [0, 1, 2, 3] * 2),
    "some": (skew.some, 7, 1, [0, 2, 3, 5, 6]),
}
"""Name -> (loop, blocks of operands, n, blocks it works on)."""


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.one_in(6)
def test_steps_of_a_loop(name):
    body, trips, n, blocks = STEPS[name]
    kernel, given = skew.kernel(body, trips, "a5"), skew.data(trips)
    assert set(crossings(kernel)) == {TO_UB, TO_L1}
    skew.check(kernel, *given, n, skew.expected(blocks, *given), text=name == "constant")


@pytest.mark.parametrize("name", ["constant", "some"])
def test_every_flag_of_a_loop_is_needed(name):
    body, trips, n, _ = STEPS[name]
    kernel, (a, b) = skew.kernel(body, trips, "a5"), skew.data(trips)
    arrays = {"A": a, "B": b, "Y": np.zeros((skew.N, skew.N), np.float32)}
    assert strict.surviving_mutants(kernel, arrays, {"n": n}, {"n": trips}) == []


def _places(ir, core: str) -> dict:
    """Name of a tile in UB that the program of a kind of core mentions -> its addresses."""
    (func,) = (f for f in ir.functions.values() if str(f.attrs["ascend.core"]) == core)
    found = {}
    for s in statements(func.body):
        if isinstance(s, AllocBuffer) and scope_of(s.buffer) == "shared.ub":
            first, (versions, count) = int(s.annotations["address"]), (const_int(n) for n in s.buffer.ty.shape)
            found[s.buffer.name] = range(first, first + versions * count * itemsize(dtype_of(s.buffer)))
    return found


def _meet(a: range, b: range) -> bool:
    return a.start < b.stop and b.start < a.stop


def test_tiles_that_share_memory_with_what_the_cube_core_writes():
    """Results land in UB whenever the fix-pipe gets there: vector work on a tile at the same address has to be over, and says so."""
    chip, func, n = get_chip("a5"), failures.attention(2, 64, "a5").artifact.tile_ir, 9
    ub = chip.memories[Space.UB]
    for room in range(24, 16, -1):
        smaller = replace(ub, reserved_bytes=ub.capacity_bytes - room * 1024)
        lowered = pipeline.lower(func, replace(chip, memories={**chip.memories, Space.UB: smaller}), keep_stages=True)
        written, used = (_places(lowered.ascend_ir, core) for core in ("aic", "aiv"))
        if any(a != b and _meet(x, y) for a, x in written.items() for b, y in used.items()):
            break
    else:
        raise AssertionError("no tile shares memory with one that the cube core writes")
    arrays, scalars = failures.attention_arguments(n, 64)
    out, _ = strict.once(func, "a5", arrays, lowered, scalars)
    y, _, magnitude = failures.attention_values(arrays, scalars, False)
    assert (abs(out["Y"] - y) <= 2.0**-11 * magnitude + 1e-6).all()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("stages", [1, 2, 4, 8])
def test_weights_have_as_many_places_as_steps_are_under_way(stages):
    """Not as many as stages: a step whose weights are in L1 still is not overtaken."""
    assert set(crossings(failures.attention(stages, 64, "a5"))) == {TO_UB, TO_L1}
    for n in (0, 1, 2, 9):
        failures.check_attention(n, stages, rows=64, target="a5", strictly=n == 9)
