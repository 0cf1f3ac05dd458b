"""Rows that are longer than UB, under reductions along them: statements sweep over parts, and values are those of whole rows."""

import numpy as np
import pytest
import strict
from dtype_cases import numpy_dtype

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch.spec import ChipSpec
from tilelang_ascend.isa.base import Space

F16, F32 = "float16", "float32"
RNG = np.random.default_rng(0)


@pytest.fixture
def small_ub(monkeypatch):
    """A function that makes UB so small that small tiles are too large for it."""
    usual = ChipSpec.capacity_bytes
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")

    def set_to(size):
        monkeypatch.setattr(ChipSpec, "capacity_bytes", lambda chip, space: size if space is Space.UB else usual(chip, space))

    set_to(6144)
    return set_to


def run(kernel, text=True, streamed=True, **arrays):
    """The strict run of a kernel, which has to sweep over its rows (or not)."""
    compiled = tilelang.compile(kernel)
    assert any("as often as" in note for note in compiled.artifact.notes) == streamed, compiled.artifact.notes
    return strict.run(compiled, arrays, text=text)


def softmax(rows, n, dtype=F32):
    @T.prim_func
    def kernel(X: T.Tensor((2 * rows, n), dtype), Y: T.Tensor((2 * rows, n), dtype)):
        with T.Kernel(2, threads=128) as bx:
            x, e = T.alloc_shared((rows, n), dtype), T.alloc_fragment((rows, n), F32)
            most, total = T.alloc_fragment((rows,), F32), T.alloc_fragment((rows,), F32)
            T.copy(X[bx * rows, 0], x)
            T.copy(x, e)
            T.reduce_max(e, most, dim=1)
            for i, j in T.Parallel(rows, n):
                e[i, j] = T.exp(e[i, j] - most[i])
            T.reduce_sum(e, total, dim=1)
            for i, j in T.Parallel(rows, n):
                e[i, j] = e[i, j] / total[i]
            T.copy(e, Y[bx * rows, 0])

    return kernel


@pytest.mark.parametrize("rows, n, dtype", [(1, 65536, F32), (2, 32768, F16), (1, 50257, F32), (3, 50021, F16)])
@pytest.mark.one_in(3)
def test_softmax(rows, n, dtype):
    x = RNG.standard_normal((2 * rows, n)).astype(dtype)
    got = run(softmax(rows, n, dtype), X=x, Y=np.zeros_like(x), text=False)["Y"]
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True).astype(np.float64))
    step = 2e-5 if dtype == F32 else 1e-3
    np.testing.assert_allclose(got.astype(np.float64), e / e.sum(1, keepdims=True), rtol=step, atol=1e-7)


def test_rows_come_from_the_tensor_again_and_not_from_a_workspace():
    compiled = tilelang.compile(softmax(1, 65536))
    assert not [slot for step in compiled.artifact.steps for slot in step.abi if slot.kind == "workspace"]


@pytest.mark.parametrize("n", [16384])
def test_layer_norm_backward(n):
    rows = 4

    @T.prim_func
    def backward(X: T.Tensor((rows, n), "bfloat16"), G: T.Tensor((rows, n), "bfloat16"), W: T.Tensor((n,), "bfloat16"),
                 DX: T.Tensor((rows, n), "bfloat16"), DW: T.Tensor((1, n), F32)):  # fmt: skip
        with T.Kernel(1, threads=128):
            x, g, w = T.alloc_fragment((1, n), F32), T.alloc_fragment((1, n), F32), T.alloc_fragment((1, n), F32)
            t, dw = T.alloc_fragment((1, n), F32), T.alloc_fragment((1, n), F32)
            mean, rstd, both = T.alloc_fragment((1,), F32), T.alloc_fragment((1,), F32), T.alloc_fragment((1,), F32)
            total = T.alloc_fragment((1,), F32)
            for i, j in T.Parallel(1, n):
                w[i, j] = W[j]
            T.clear(dw)
            for r in T.serial(rows):
                T.copy(X[r : r + 1, 0:n], x)
                T.copy(G[r : r + 1, 0:n], g)
                T.reduce_sum(x, mean, dim=1)
                for i, j in T.Parallel(1, n):
                    x[i, j] = x[i, j] - mean[i] / n
                for i, j in T.Parallel(1, n):
                    t[i, j] = x[i, j] * x[i, j]
                T.reduce_sum(t, rstd, dim=1)
                for i in T.Parallel(1):
                    rstd[i] = T.rsqrt(rstd[i] / n + 1e-5)
                for i, j in T.Parallel(1, n):
                    x[i, j] = x[i, j] * rstd[i]
                for i, j in T.Parallel(1, n):
                    dw[i, j] = dw[i, j] + x[i, j] * g[i, j]
                    g[i, j] = g[i, j] * w[i, j]
                T.reduce_sum(g, total, dim=1)
                for i, j in T.Parallel(1, n):
                    t[i, j] = g[i, j] * x[i, j]
                T.reduce_sum(t, both, dim=1)
                for i, j in T.Parallel(1, n):
                    t[i, j] = rstd[i] * (g[i, j] - total[i] / n - x[i, j] * both[i] / n)
                T.copy(t, DX[r : r + 1, 0:n])
            T.copy(dw, DW)

    bf16 = numpy_dtype("bfloat16")
    x, g, w = (RNG.standard_normal(shape).astype(bf16) for shape in ((rows, n), (rows, n), (n,)))
    out = run(backward, X=x, G=g, W=w, DX=np.zeros_like(x), DW=np.zeros((1, n), np.float32), text=False)
    x, g, w = (a.astype(np.float64) for a in (x, g, w))
    rstd = 1 / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    hat, gw = (x - x.mean(1, keepdims=True)) * rstd, g * w
    dx = rstd * (gw - gw.mean(1, keepdims=True) - hat * (gw * hat).mean(1, keepdims=True))
    np.testing.assert_allclose(out["DX"].astype(np.float64), dx, rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(out["DW"][0], (g * hat).sum(0), rtol=1e-4, atol=1e-4)


FLOATS, INTEGERS = (F16, "bfloat16", F32), ("int8", "uint8", "int16", "int32")
REDUCTIONS = {
    **{s: [(kind, d) for kind in ("sum", "max", "min", "abssum", "absmax") for d in dict.fromkeys((s, F32))] for s in FLOATS},
    **{s: [(kind, d) for kind in ("sum", "max", "min", "absmax") for d in dict.fromkeys((s, "int32"))] for s in INTEGERS},
}
REDUCTIONS["int32"] += [("max", "int8"), ("sum", "int8")]
for dtype in ("int16", "int32", "uint8"):
    REDUCTIONS[dtype] += [(kind, dtype) for kind in ("bitand", "bitor", "bitxor")]
for dtype in (F32, "int32"):
    REDUCTIONS[dtype] += [(kind, dtype) for kind in ("any", "all")]


def expected(kind, x, old, dtype):
    wide = x.astype(np.float64) if "float" in str(x.dtype) else x.astype(np.int64)
    if kind.startswith("abs"):
        wide = np.abs(x.astype(dtype) if np.can_cast(x.dtype, dtype) and x.dtype.kind in "iu" else x).astype(wide.dtype)
    whole = {
        "sum": wide.sum, "abssum": wide.sum, "max": wide.max, "absmax": wide.max, "min": wide.min,
        "any": (wide != 0).any, "all": (wide != 0).all, "bitand": lambda: np.bitwise_and.reduce(x, None),
        "bitor": lambda: np.bitwise_or.reduce(x, None), "bitxor": lambda: np.bitwise_xor.reduce(x, None),
    }[kind]()  # fmt: skip
    if old is not None:
        whole = {"sum": np.add, "max": np.maximum}[kind](whole, whole.dtype.type(old))
    return np.asarray(whole).astype(dtype)


QUICK_ADDITIONS = ("float16", "float32", "int8")
"""Sources whose reductions are also added to what is there by default: results of the same dtype and of a wider one, floats and integers."""


@pytest.mark.parametrize(
    "source, clear",
    [(s, True) for s in REDUCTIONS] + [pytest.param(s, False, marks=[] if s in QUICK_ADDITIONS else pytest.mark.slow) for s in REDUCTIONS],
)
@pytest.mark.one_in(9)
def test_every_reduction(source, clear, small_ub):
    of = numpy_dtype(source)
    n = 110000 // of.itemsize
    small_ub(98304)  # Reductions of integers need tables and results of some KB each.
    kinds = [(kind, result) for kind, result in REDUCTIONS[source] if clear or kind in ("sum", "max")]
    shown = F32 if "float" in source else "int32"

    @T.prim_func
    def kernel(X: T.Tensor((1, n), source), Z: T.Tensor((1, n), source), Y: T.Tensor((len(kinds),), shown)):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((1, n), source)
            found = [T.alloc_fragment((1,), result) for _, result in kinds]
            T.copy(X, x)
            for (kind, result), y in zip(kinds, found):
                T.fill(y, 3)
                if kind in ("any", "all"):
                    getattr(T, f"reduce_{kind}")(x, y, dim=1)
                else:
                    getattr(T, f"reduce_{kind}")(x, y, dim=1, clear=clear)
            T.copy(x, Z)
            for k, y in enumerate(found):
                T.copy(y, Y[k])

    if "float" in source:
        x = (RNG.standard_normal((1, n)) / 4).astype(of)
    else:
        info, less = np.iinfo(of), 1000 if of.itemsize > 2 else 1
        x = RNG.integers(info.min // less, info.max // less, (1, n)).astype(of)
    out = run(kernel, X=x, Z=np.zeros_like(x), Y=np.zeros(len(kinds), shown), text=False)
    np.testing.assert_array_equal(out["Z"], x)
    for (kind, result), got in zip(kinds, out["Y"]):
        want = expected(kind, x, None if clear else 3, numpy_dtype(result)).astype(shown)
        step = {F16: 2**-10, "bfloat16": 2**-7}.get(result, 2**-20) if "float" in source and "sum" in kind else 0
        assert abs(float(got) - float(want)) <= step * np.abs(x.astype(np.float64)).sum(), (kind, result, got, want)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("source", ["int8", "uint8", "int16", "int32"])
def test_integers_as_floats(source, small_ub):
    """Sums of small integers are whole before they are rounded, those of int32 are float32 (docs/numbers.md); the largest and smallest, of which rounding keeps the
    order, are met as floats."""
    small_ub(98304)
    of = numpy_dtype(source)
    n = 120000 // of.itemsize
    ways = [("sum", True, 0), ("max", True, 0), ("min", True, 0), ("absmax", True, 0), ("max", False, 2.0**31), ("min", False, -0.5)]

    @T.prim_func
    def kernel(X: T.Tensor((1, n), source), Y: T.Tensor((len(ways),), F32)):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((1, n), source)
            found = [T.alloc_fragment((1,), F32) for _ in ways]
            T.copy(X, x)
            for (kind, clear, old), y in zip(ways, found):
                T.fill(y, old)
                getattr(T, f"reduce_{kind}")(x, y, dim=1, clear=clear)
            for k, y in enumerate(found):
                T.copy(y, Y[k])

    info, less = np.iinfo(of), 40000 if of.itemsize > 2 else 1
    x = RNG.integers(info.min // less, info.max // less, (1, n)).astype(of)
    x[0, 7], x[0, n - 2] = (info.min, info.max) if of.itemsize < 4 else (-(2**28) - 1, 2**29 + 3)
    whole = x.astype(np.int64)
    want = [whole.sum(), whole.max(), whole.min(), np.abs(whole).max(), 2.0**31, min(-0.5, whole.min())]
    got = run(kernel, X=x, Y=np.zeros(len(ways), np.float32), text=False)["Y"]
    if of.itemsize == 4:
        assert (
            abs(float(got[0]) - want[0]) <= 2.0**-24 * 40 * np.abs(whole).sum()
        )  # Roundings of the longest way to a sum: parts, folds, and what is left.
        got[0] = want[0]
    np.testing.assert_array_equal(got, np.array(want, np.float32))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("source", ["bool", "int8", F16, F32])
def test_flags_beside_what_was_known(source, small_ub):
    small_ub(49152)
    n = 60000

    @T.prim_func
    def kernel(X: T.Tensor((3, n), source), Y: T.Tensor((3, 4), "bool")):
        with T.Kernel(3, threads=128) as bx:
            x = T.alloc_fragment((1, n), source)
            found = [T.alloc_fragment((1,), "bool") for _ in range(4)]
            T.copy(X[bx, 0], x)
            for k, y in enumerate(found):
                T.fill(y, k % 2)
                (T.reduce_any if k < 2 else T.reduce_all)(x, y, dim=1, clear=False)
            for k, y in enumerate(found):
                T.copy(y, Y[bx, k])

    x = np.zeros((3, n), numpy_dtype(source))
    x[1], x[2, n - 3] = 1, 1
    got = run(kernel, X=x, Y=np.zeros((3, 4), bool), text=False)["Y"]
    assert got.tolist() == [[False, True, False, False], [True, True, False, True], [True, True, False, False]]


def test_ends_of_integers(small_ub):
    """The magnitude of the lowest number is itself where neither dtype holds a larger one: it began at 0. What is joined with a result of another
    sign waits in a dtype that holds both: it wrapped before."""
    small_ub(49152)
    n, ways = 90000, [("absmax", "int8", True, 0), ("absmax", "uint8", True, 0), ("max", "uint8", False, 200), ("min", "uint8", False, 200)]

    @T.prim_func
    def kernel(X: T.Tensor((2, n), "int8"), Y: T.Tensor((2, len(ways)), "int32")):
        with T.Kernel(2, threads=128) as bx:
            x = T.alloc_fragment((1, n), "int8")
            found = [T.alloc_fragment((1,), result) for _, result, _, _ in ways]
            T.copy(X[bx, 0], x)
            for (kind, _, clear, old), y in zip(ways, found):
                T.fill(y, old)
                getattr(T, f"reduce_{kind}")(x, y, dim=1, clear=clear)
            for k, y in enumerate(found):
                T.copy(y, Y[bx, k])

    x = np.full((2, n), -128, np.int8)
    x[1, 5] = 3
    got = run(kernel, X=x, Y=np.zeros((2, len(ways)), np.int32), text=False)["Y"]
    assert got.tolist() == [[-128, 128, 200, 128], [3, 128, 200, 128]]


def test_sums_of_halves_are_rounded_once(small_ub):
    n = 4096

    @T.prim_func
    def kernel(X: T.Tensor((1, n), F16), Y: T.Tensor((1, n), F16), S: T.Tensor((1,), F16)):
        with T.Kernel(1, threads=128):
            x, s = T.alloc_fragment((1, n), F16), T.alloc_fragment((1,), F16)
            T.copy(X, x)
            T.reduce_sum(x, s, dim=1)
            for i, j in T.Parallel(1, n):
                x[i, j] = x[i, j] + s[i]
            T.copy(x, Y)
            T.copy(s, S)

    x = np.full((1, n), 0.25, np.float16)
    x[0, :1501] = 1  # halves above 2048 are even numbers: sums of parts would be rounded on the way
    out = run(kernel, X=x, Y=np.zeros_like(x), S=np.zeros(1, np.float16))
    np.testing.assert_array_equal(out["S"], x.astype(np.float32).sum(1).astype(np.float16))
    np.testing.assert_array_equal(out["Y"], x + out["S"][:, None])


def test_results_of_all_rows(small_ub):
    """Reductions along the rows' dimension of a tile, with columns that belong together, too."""

    @T.prim_func
    def kernel(X: T.Tensor((512, 16), F32), M: T.Tensor((16,), F32), Y: T.Tensor((512, 16), F32)):
        with T.Kernel(1, threads=128):
            x, most, least = T.alloc_shared((512, 16), F32), T.alloc_fragment((16,), F32), T.alloc_fragment((1,), F32)
            T.copy(X, x)
            T.reduce_max(x, most, dim=0)
            T.reduce_min(most, least, dim=0)
            for i, j in T.Parallel(512, 16):
                x[i, j] = x[i, j] - most[j] * least[0]
            T.copy(most, M)
            T.copy(x, Y)

    x = RNG.standard_normal((512, 16)).astype(np.float32)
    out = run(kernel, X=x, M=np.zeros(16, np.float32), Y=np.zeros_like(x))
    np.testing.assert_array_equal(out["M"], x.max(0))
    np.testing.assert_allclose(out["Y"], x - x.max(0) * x.max(0).min(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("jump", [False, True])
def test_tiles_between_sweeps_under_control_flow(jump, small_ub):
    """A tile changed in some iterations only, in a branch, found by later sweeps; the row it is loaded from is overwritten meanwhile."""
    n = 1536

    @T.prim_func
    def kernel(X: T.Tensor((4, n), F32), F: T.Tensor((8,), "int32"), Y: T.Tensor((4, n), F32)):
        with T.Kernel(4, threads=128) as bx:
            x, y = T.alloc_fragment((1, n), F32), T.alloc_fragment((1, n), F32)
            most, k = T.alloc_fragment((1,), F32), T.alloc_var("int32", init=0)
            T.copy(X[bx, 0], x)
            T.fill(y, 1)
            for r in T.serial(6):
                k = k + 1
                T.reduce_max(x, most, dim=1)
                if F[r] == bx:
                    for i, j in T.Parallel(1, n):
                        x[i, j] = x[i, j] * 0.5 - most[i]
                if jump:
                    if F[r] > 5:
                        break
                    if F[r] == 4:
                        continue
                for i, j in T.Parallel(1, n):
                    y[i, j] = y[i, j] + x[i, j] / (most[i] + 3.0) + k
                T.copy(x, X[bx, 0])
                T.copy(X[bx, 0], x)
            T.copy(y, Y[bx, 0])

    x = RNG.standard_normal((4, n)).astype(np.float32)
    flags = np.array([1, 0, 4, 1, 7, 2, 0, 0], np.int32)
    out = run(kernel, X=x.copy(), F=flags, Y=np.zeros_like(x), text=not jump)
    want = np.ones((4, n))
    for b in range(4):
        row = x[b].astype(np.float64)
        for r in range(6):
            most = row.max()
            row = row * 0.5 - most if flags[r] == b else row
            if jump and flags[r] > 5:
                break
            if jump and flags[r] == 4:
                continue
            want[b] += row / (most + 3) + r + 1
    np.testing.assert_allclose(out["Y"], want, rtol=1e-4, atol=1e-4)


def test_a_reduction_read_by_the_one_that_makes_it_anew(small_ub):
    """The old maximum is read in the sweep that finds a new one: it has to end first."""
    n = 1536

    @T.prim_func
    def kernel(X: T.Tensor((3, n), F32), Y: T.Tensor((3, n), F32)):
        with T.Kernel(1, threads=128):
            x, y, most = T.alloc_fragment((1, n), F32), T.alloc_fragment((1, n), F32), T.alloc_fragment((1,), F32)
            T.fill(most, 2)
            for r in T.serial(3):
                T.copy(X[r, 0], x)
                for i, j in T.Parallel(1, n):
                    y[i, j] = x[i, j] * most[i]
                T.reduce_max(x, most, dim=1)
                T.copy(y, Y[r, 0])

    x = RNG.standard_normal((3, n)).astype(np.float32)
    scale = np.array([2, x[0].max(), x[1].max()], np.float32)[:, None]
    np.testing.assert_array_equal(run(kernel, X=x, Y=np.zeros_like(x))["Y"], x * scale)


def test_rows_that_fit_are_not_streamed():
    x = RNG.standard_normal((2, 8192)).astype(np.float32)
    run(softmax(1, 8192), X=x, Y=np.zeros_like(x), streamed=False, text=False)


def test_the_logit_of_the_target(small_ub):
    """Elements that one iteration of a row stores to a tile, and to a variable, which are not divided."""
    rows, n = 2, 1536

    @T.prim_func
    def kernel(X: T.Tensor((rows, n), F32), Target: T.Tensor((rows,), "int32"), Loss: T.Tensor((rows,), F32), Last: T.Tensor((1,), F32)):
        with T.Kernel(1, threads=128):
            x, picked, last = T.alloc_fragment((rows, n), F32), T.alloc_fragment((rows,), F32), T.alloc_var(F32, init=0)
            most, total = T.alloc_fragment((rows,), F32), T.alloc_fragment((rows,), F32)
            T.copy(X, x)
            T.clear(picked)
            T.reduce_max(x, most, dim=1)
            for i, j in T.Parallel(rows, n):
                if j == Target[i]:
                    picked[i] = x[i, j]
            for j in T.Parallel(n):
                if x[0, j] > 2.0:
                    last = x[0, j]
            for i, j in T.Parallel(rows, n):
                x[i, j] = T.exp(x[i, j] - most[i])
            T.reduce_sum(x, total, dim=1)
            for i in T.Parallel(rows):
                Loss[i] = T.log(total[i]) + most[i] - picked[i]
            Last[0] = last

    x = RNG.standard_normal((rows, n)).astype(np.float32)
    target = np.array([700, n], np.int32)  # the second is none
    out = run(kernel, X=x, Target=target, Loss=np.zeros(rows, np.float32), Last=np.zeros(1, np.float32), text=False)
    np.testing.assert_allclose(out["Loss"], np.log(np.exp(x).sum(1)) - [x[0, 700], 0], rtol=1e-5)
    assert out["Last"][0] == x[0][x[0] > 2][-1]


def test_nests_on_tensors_stay_whole(small_ub):
    """Nests that read, write and update tensors themselves: cut for their own tiles, they would need all of the row in every step."""
    n = 2048

    @T.prim_func
    def kernel(X: T.Tensor((2, n), F16), W: T.Tensor((n,), F16), B: T.Tensor((n,), F16), Y: T.Tensor((2, n), F16), D: T.Tensor((n,), F32)):
        with T.Kernel(2, threads=128) as bx:
            x, total = T.alloc_fragment((n,), F32), T.alloc_fragment((1,), F32)
            T.copy(X[bx, 0:n], x)
            T.reduce_sum(x, total, dim=0)
            for j in T.Parallel(n):
                Y[bx, j] = (x[j] - total[0] / n) * W[j] + B[j]
            for j in T.Parallel(n):
                T.atomic_add(D[j], x[j] * total[0])

    x, w, b = (RNG.standard_normal(shape).astype(np.float16) for shape in ((2, n), (n,), (n,)))
    out = run(kernel, X=x, W=w, B=b, Y=np.zeros_like(x), D=np.zeros(n, np.float32), text=False)
    x, w, b = (a.astype(np.float64) for a in (x, w, b))
    np.testing.assert_allclose(out["Y"].astype(np.float64), (x - x.mean(1, keepdims=True)) * w + b, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(out["D"], (x * x.sum(1, keepdims=True)).sum(0), rtol=1e-3, atol=1e-3)


SCANS = [
    (kind, source, result)
    for kind, pairs in {
        "cumsum": [
            *((F32, d) for d in (F32, F16, "int32")), (F16, F16), (F16, F32), ("bfloat16", "bfloat16"), ("float8_e4m3fn", F32), ("int8", "int8"),
            ("int8", "int32"), ("int16", F32), ("int16", "int16"), ("int32", "int32"), ("int32", "int64"), ("int32", F32), ("uint8", "uint8"),
            ("uint16", "uint16"), ("uint32", "uint32"), ("int64", "int64"), ("int64", F32), ("int8", "bool"),
        ],
        "cummax": [
            (F32, F32), (F32, F16), (F16, F16), ("bfloat16", F32), ("int8", "int8"), ("int32", "int32"), ("int32", F32), ("uint8", "int32"),
            ("uint32", "uint32"), ("int64", "int64"),
        ],
    }.items()
    for source, result in pairs
]  # fmt: skip


def scanned(kind, x, dim, reverse, result):
    """The scan by NumPy: of integers without a wrap, of floats exact."""
    turned = np.flip(x, dim) if reverse else x
    wide = turned.astype(np.float64 if "float" in str(x.dtype) else np.int64)
    found = np.cumsum(wide, dim) if kind == "cumsum" else np.maximum.accumulate(wide, dim)
    found = np.flip(found, dim) if reverse else found
    if "int" in result and found.dtype.kind == "f":
        found = np.trunc(found)
    return (found != 0) if result == "bool" else found.astype(numpy_dtype(result))


@pytest.mark.parametrize(
    "case",
    # Numbers of 64 bits are pairs of words, one after the other where they carry.
    [pytest.param(n, id="-".join(case), marks=pytest.mark.slow if "int64" in case else []) for n, case in enumerate(SCANS)],
)
@pytest.mark.one_in(12)
def test_every_scan(case, small_ub):
    """Whole rows and columns, forwards and backwards, in parts that are not equal; numbers whose sums floats hold exactly."""
    (kind, source, result), chip = SCANS[case], "a5" if case % 3 == 2 else "a2"
    small_ub(65536 if "64" in source + result or "bool" in result else 24576)
    rows, n, dim, reverse = [(1, 9011, 1, False), (3, 3203, 1, True), (1201, 8, 0, True), (1501, 8, 0, False)][case % 4]
    shape = (rows, n)

    @T.prim_func
    def kernel(X: T.Tensor(shape, source), Y: T.Tensor(shape, result)):
        with T.Kernel(1, threads=128):
            x, y = T.alloc_fragment(shape, source), T.alloc_fragment(shape, result)
            T.copy(X, x)
            getattr(T, kind)(x, y, dim=dim, reverse=reverse)
            T.copy(y, Y)

    few = source in ("float8_e4m3fn", "bfloat16") or result in (F16, "bfloat16")
    x = (RNG.integers(-3, 4, shape) * (RNG.random(shape) < (0.01 if few else 1))).astype(numpy_dtype(source))
    if "int" in source:
        info = np.iinfo(source)
        wide = RNG.integers(
            info.min >> 20 if "64" in source else info.min, info.max >> 20 if "64" in source else info.max, shape, dtype=source
        )
        x = x if source == "int32" and result == F32 and kind == "cumsum" else wide
    compiled = tilelang.compile(kernel, target=chip)
    assert any("as often as" in note for note in compiled.artifact.notes), compiled.artifact.notes
    got = strict.run(compiled, {"X": x, "Y": np.zeros(shape, numpy_dtype(result))}, text=case % 8 == 0)["Y"]
    np.testing.assert_array_equal(got.astype(np.float64), scanned(kind, x, dim, reverse, result).astype(np.float64))


@pytest.mark.parametrize("chip", ["a2", "a5"])
def test_scans_beside_other_work(chip, small_ub):
    """Forwards and backwards, in place, of what another scan gave, before and behind a reduction, in a loop and under a condition; -0 stays."""
    small_ub(24576)
    rows, n = 2, 2500

    @T.prim_func
    def kernel(X: T.Tensor((rows, n), F32), Y: T.Tensor((rows, n), F32), Z: T.Tensor((rows, n), F32), L: T.Tensor((rows,), F32)):
        with T.Kernel(1, threads=128):
            x, y, last = T.alloc_fragment((rows, n), F32), T.alloc_fragment((rows, n), F32), T.alloc_fragment((rows,), F32)
            most = T.alloc_fragment((rows,), F32)
            T.copy(X, x)
            T.cumsum(x, y, dim=1)
            T.copy(y, Z)
            T.reduce_max(y, most, dim=1)
            for i, j in T.Parallel(rows, n):
                y[i, j] = most[i] - y[i, j]
            T.cummax(y, dim=1, reverse=True)
            for i, j in T.Parallel(rows, n):
                if x[i, j] == 2:
                    last[i] = y[i, j]
            for r in T.serial(3):
                if r != 1:
                    T.cumsum(x, dim=1, reverse=True)
                for i, j in T.Parallel(rows, n):
                    x[i, j] = (x[i, j] - y[i, j]) * 0.125
                for i, j in T.Parallel(rows, n):
                    x[i, j] = T.floor(x[i, j]) * 0.25
            for i, j in T.Parallel(rows, n):
                y[i, j] = x[i, j] + y[i, j]
            T.copy(y, Y)
            T.copy(last, L)

    x = RNG.integers(-2, 3, (rows, n)).astype(np.float32)
    x[:, :100] = -0.0
    out = run_on(kernel, chip, X=x, Y=np.zeros_like(x), Z=np.zeros_like(x), L=np.zeros(rows, np.float32))
    v = x.astype(np.float64)
    z = np.cumsum(v, 1)
    y = np.maximum.accumulate((z.max(1, keepdims=True) - z)[:, ::-1], 1)[:, ::-1]
    last = [y[i, np.flatnonzero(x[i] == 2)[-1]] for i in range(rows)]
    for r in range(3):
        v = np.cumsum(v[:, ::-1], 1)[:, ::-1] if r != 1 else v
        v = np.floor((v - y) * 0.125) * 0.25
    np.testing.assert_array_equal(out["Z"], z)
    assert np.signbit(out["Z"][:, :100]).all()
    np.testing.assert_array_equal(out["L"], last)
    np.testing.assert_allclose(out["Y"], v + y, rtol=1e-5, atol=1e-2)


def run_on(kernel, chip, **arrays):
    compiled = tilelang.compile(kernel, target=chip)
    assert any("as often as" in note for note in compiled.artifact.notes), compiled.artifact.notes
    return strict.run(compiled, arrays)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("source", ["int32", *(pytest.param(s, marks=pytest.mark.slow) for s in ("int8", "uint8", "int16", "int64"))])
@pytest.mark.parametrize("kind", ["bitand", "bitor", "bitxor"])
def test_bits_as_other_dtypes(kind, source, small_ub):
    """Met in the dtype of the source before they are floats, modulo 2^n in other integers, also with what is there."""
    small_ub(49152)
    of = numpy_dtype(source)
    n = 60000 // of.itemsize
    ways = [(F32, True), ("int32", True), ("uint8", False)]

    @T.prim_func
    def kernel(X: T.Tensor((1, n), source), Y: T.Tensor((len(ways),), "int64")):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((1, n), source)
            found = [T.alloc_fragment((1,), result) for result, _ in ways]
            T.copy(X, x)
            for (_, clear), y in zip(ways, found):
                T.fill(y, 99)
                getattr(T, f"reduce_{kind}")(x, y, dim=1, clear=clear)
            for k, y in enumerate(found):
                T.copy(y, Y[k])

    one = {"bitand": -1, "bitor": 0, "bitxor": 0}[kind]
    x = np.full((1, n), one).astype(of)
    for bit, at in ((3, 5), (6, n // 2), (of.itemsize * 8 - 1, n - 2), (0, n // 3)):
        if bit < 24 or kind == "bitxor":
            x.view(f"u{of.itemsize}")[0, at] ^= np.uint64(1 << bit).astype(f"u{of.itemsize}")
    whole = {"bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor}[kind]
    found = whole.reduce(x[0])
    want = []
    for result, clear in ways:
        as_result = np.array(found).astype(np.float32 if result == F32 else result)
        want.append(int(as_result if clear else whole(as_result, as_result.dtype.type(99))))
    got = run(kernel, X=x, Y=np.zeros(len(ways), np.int64), text=False)["Y"]
    np.testing.assert_array_equal(got, want)


PICKED = [
    pytest.param("variable", F32, "a2"), pytest.param("late", F16, "a5"), pytest.param("probability", F32, "a2"),
    pytest.param("tile", "bfloat16", "a2"), pytest.param("guarded", F32, "a5"), pytest.param("serial", F16, "a2"),
]  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("way, dtype, chip", PICKED)
def test_an_element_chosen_by_data(way, dtype, chip, small_ub):
    """The logit of a label in a row that is worked on in parts: read into a variable, late, after it has been overwritten, or in a nest."""
    rows, n = 2, 1501

    @T.prim_func
    def kernel(X: T.Tensor((4, n), dtype), L: T.Tensor((4,), "int32"), Loss: T.Tensor((4,), F32)):
        with T.Kernel(2, threads=128) as bx:
            x, e = T.alloc_shared((rows, n), dtype), T.alloc_fragment((rows, n), F32)
            most, total = T.alloc_fragment((rows,), F32), T.alloc_fragment((rows,), F32)
            label = T.alloc_fragment((rows,), "int32")
            T.copy(X[bx * rows, 0], x)
            T.copy(L[bx * rows], label)
            T.copy(x, e)
            T.reduce_max(e, most, dim=1)
            first = T.alloc_var(F32, init=0)
            if way == "variable":
                first = e[0, L[bx * rows]]
            for i, j in T.Parallel(rows, n):
                e[i, j] = T.exp(e[i, j] - most[i])
            T.reduce_sum(e, total, dim=1)
            if way == "variable":
                Loss[bx * rows] = T.log(total[0]) + most[0] - first
            if way == "variable" or way == "late":
                if way == "late":
                    Loss[bx * rows] = T.log(total[0]) + most[0] - x[0, L[bx * rows]]
                at = L[bx * rows + 1]
                Loss[bx * rows + 1] = T.log(total[1]) + most[1] - x[1, at]
            if way == "serial":
                for r in T.serial(rows):
                    if L[bx * rows + r] >= 0:
                        Loss[bx * rows + r] = T.log(total[r]) + most[r] - x[r, L[bx * rows + r]]
            if way == "probability":
                for i, j in T.Parallel(rows, n):
                    e[i, j] = e[i, j] / total[i]
                for i in T.Parallel(rows):
                    Loss[bx * rows + i] = -T.log(e[i, L[bx * rows + i]])
            if way == "tile":
                for i in T.Parallel(rows):
                    Loss[bx * rows + i] = T.log(total[i]) + most[i] - x[i, label[i]]
            if way == "guarded":
                for i in T.Parallel(rows):
                    logit = T.if_then_else(label[i] >= 0, x[i, label[i]], 0.0)
                    Loss[bx * rows + i] = T.log(total[i]) + most[i] - logit

    x = RNG.standard_normal((4, n)).astype(numpy_dtype(dtype))
    label = np.array([1500, 0, 767, -100 if way == "guarded" else 1], np.int32)
    out = run_on(kernel, chip, X=x, L=label, Loss=np.zeros(4, np.float32))
    x = x.astype(np.float64)
    logit = np.where(label >= 0, x[np.arange(4), label], 0)
    np.testing.assert_allclose(out["Loss"], np.log(np.exp(x).sum(1)) - logit, rtol=1e-4)


@pytest.mark.parametrize("dtype", [F32, "int32", "int8"])
@pytest.mark.one_in(3)
def test_elements_picked_as_they_are(dtype, small_ub):
    """-0, NaN, infinities and the ends of integers; several of one row, whose places a tile holds."""
    n, k = 12001, 4

    @T.prim_func
    def kernel(
        X: T.Tensor((n,), dtype), P: T.Tensor((k,), "int32"), Y: T.Tensor((k,), dtype), Z: T.Tensor((n,), dtype), S: T.Tensor((1,), dtype)
    ):
        with T.Kernel(1, threads=128):
            x, s, p = T.alloc_fragment((n,), dtype), T.alloc_fragment((1,), dtype), T.alloc_fragment((k,), "int32")
            T.copy(X, x)
            T.copy(P, p)
            T.reduce_max(x, s, dim=0)
            for j in T.Parallel(n):
                Z[j] = x[j] - s[0]
            for i in T.Parallel(k):
                Y[i] = x[p[i]]
            T.copy(s, S)

    small_ub(16384)
    places = np.array([n - 1, 0, 5000, 3], np.int32)
    x = RNG.integers(-100, 100, n).astype(numpy_dtype(dtype))
    x[places] = [-0.0, np.nan, -np.inf, np.inf] if dtype == F32 else [np.iinfo(dtype).min, np.iinfo(dtype).max, -1, 0]
    out = run_on(kernel, "a2", X=x, P=places, Y=np.zeros(k, x.dtype), Z=np.zeros_like(x), S=np.zeros(1, x.dtype))
    np.testing.assert_array_equal(out["Y"], x[places])
    assert dtype != F32 or np.signbit(out["Y"][0])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("way, chip", [("sum", "a2"), ("max", "a5"), ("atomic", "a2"), ("variable", "a2")])
def test_nests_that_gather_along_a_row(way, chip, small_ub):
    """A nest reduces rows that are worked on in parts: each part goes on from what those before it have come to."""
    rows, n = 2, 1501

    @T.prim_func
    def kernel(X: T.Tensor((rows, n), F32), S: T.Tensor((rows,), F32), Y: T.Tensor((rows, n), F32)):
        with T.Kernel(1, threads=128):
            x, s = T.alloc_shared((rows, n), F32), T.alloc_fragment((rows,), F32)
            most = T.alloc_var(F32, init=-1)
            T.copy(X, x)
            T.fill(s, 3)
            if way == "sum":
                for i, j in T.Parallel(rows, n):
                    s[i] += x[i, j]
            if way == "max":
                for i, j in T.Parallel(rows, n):
                    s[i] = T.max(s[i], x[i, j])
            if way == "atomic":
                for i, j in T.Parallel(rows, n):
                    T.atomic_add(s[i], x[i, j])
            if way == "variable":
                for j in T.Parallel(n):
                    most = T.max(most, x[0, j])
                for i in T.Parallel(rows):
                    s[i] = most
            for i, j in T.Parallel(rows, n):
                Y[i, j] = x[i, j] * s[i]
            T.copy(s, S)

    x = RNG.integers(-3, 4, (rows, n)).astype(np.float32)
    small_ub(16384 if way != "variable" else 6144)
    out = run_on(kernel, chip, X=x, S=np.zeros(rows, np.float32), Y=np.zeros_like(x))
    s = {"max": np.maximum(x.max(1), 3), "variable": np.full(rows, x[0].max())}.get(way, 3 + x.sum(1))
    np.testing.assert_array_equal(out["S"], s)
    np.testing.assert_array_equal(out["Y"], x * s[:, None])


@pytest.mark.parametrize("dtype, index", [(F32, "int64"), ("int32", "int32")])
def test_stores_to_elements_chosen_by_data(dtype, index, small_ub):
    """Of what was computed from the row, with what is there, from a tensor, in a branch and in a loop."""
    n = 10000

    @T.prim_func
    def kernel(X: T.Tensor((3, n), dtype), L: T.Tensor((3,), index), G: T.Tensor((3,), dtype), Y: T.Tensor((3, n), dtype)):
        with T.Kernel(3, threads=128) as b:
            x, most = T.alloc_fragment((n,), dtype), T.alloc_fragment((1,), dtype)
            T.copy(X[b, 0], x)
            T.reduce_max(x, most, dim=0)
            for j in T.Parallel(n):
                x[j] = x[j] - most[0]
            x[L[b]] = x[L[b]] - T.cast(1, dtype)
            if b > 0:
                x[n - 1 - b] = G[b] + x[5]
            for t in T.serial(3):
                x[L[t] + t + 7] = T.cast(t, dtype)
            T.copy(x, Y[b, 0])

    x, g = RNG.integers(-9, 9, (3, n)).astype(dtype), RNG.integers(0, 9, 3).astype(dtype)
    at = np.array([5, 4000, 1234], index)
    small_ub(16384)
    out = run(kernel, X=x, L=at, G=g, Y=np.zeros_like(x))
    expected = x - x.max(1, keepdims=True)
    for b in range(3):
        expected[b, at[b]] -= 1
        if b > 0:
            expected[b, n - 1 - b] = g[b] + expected[b, 5]
        expected[b, at + np.arange(7, 10)] = np.arange(3)
    np.testing.assert_array_equal(out["Y"], expected)


@pytest.mark.parametrize("way", ["label", "changed", "loop"])
def test_elements_of_tensors_are_stored_and_read_between_sweeps(way, small_ub):
    """By the scalar unit and by nests, in the order of the statements: a loss that is stored, and added to later on."""
    n, steps = 2000, 3 if way == "loop" else 1

    @T.prim_func
    def kernel(X: T.Tensor((2, n), F32), L: T.Tensor((2,), "int32"), Z: T.Tensor((2, 4), F32), Y: T.Tensor((2, n), F32)):
        with T.Kernel(2, threads=128) as b:
            x, m, s = T.alloc_shared((n,), F32), T.alloc_fragment((1,), F32), T.alloc_fragment((1,), F32)
            T.copy(X[b, 0], x)
            for k in T.serial(steps):
                T.reduce_max(x, m, dim=0)
                if way == "label":
                    Z[b, k] = m[0] - x[L[b]]
                else:
                    Z[b, k] = Z[b, k] * 2.0 + m[0]
                for j in T.Parallel(n):
                    x[j] = x[j] * 0.5 - Z[b, k]
                T.reduce_sum(x, s, dim=0)
                Z[b, 3] = Z[b, 3] + s[0]
            T.copy(x, Y[b, 0])

    x, z = RNG.integers(-8, 9, (2, n)).astype(np.float32), RNG.integers(-8, 9, (2, 4)).astype(np.float32)
    label = np.array([n - 1, 3], np.int32)
    out = run(kernel, text=way == "label", X=x.copy(), L=label, Z=z.copy(), Y=np.zeros_like(x))
    for k in range(steps):
        m = x.max(1)
        z[:, k] = m - x[[0, 1], label] if way == "label" else z[:, k] * 2 + m
        x = x * np.float32(0.5) - z[:, k : k + 1]
        z[:, 3] += x.sum(1)
    np.testing.assert_array_equal(out["Y"], x)
    np.testing.assert_array_equal(out["Z"], z)


@pytest.mark.parametrize("chip", ["a2", "a5"])
def test_elements_of_tensors_that_rows_are_stored_to(chip, small_ub):
    """The scalar unit reads elements of a row that was stored in parts, and stores some in front of it, behind it and before it is loaded again."""
    n = 1501

    @T.prim_func
    def kernel(X: T.Tensor((2, n), F32), L: T.Tensor((2,), "int32"), Y: T.Tensor((2, n), F32), Z: T.Tensor((2, 4), F32)):
        with T.Kernel(2, threads=128) as bx:
            x, most = T.alloc_shared((n,), F32), T.alloc_fragment((1,), F32)
            T.copy(X[bx, 0:n], x)
            Y[bx, L[bx]] = -50.0
            Z[bx, 0] = Y[bx, L[bx]]
            T.copy(x, Y[bx, 0:n])
            Z[bx, 1] = Y[bx, L[bx]]
            Y[bx, L[bx]] = 99.0
            T.copy(Y[bx, 0:n], x)
            T.reduce_max(x, most)
            Z[bx, 2] = most[0]
            for k in T.serial(2):
                if Y[bx, L[bx]] > 3.0:
                    for j in T.Parallel(n):
                        x[j] = x[j] - most[0]
                    T.copy(x, Y[bx, 0:n])
                    Y[bx, 3] = Y[bx, 2] + 1.0
            Z[bx, 3] = Y[bx, L[bx]] + Y[bx, 3]

    x = RNG.integers(-8, 9, (2, n)).astype(np.float32)
    label = np.array([1200, 0], np.int32)
    arrays = {"X": x, "L": label, "Y": np.zeros_like(x), "Z": np.zeros((2, 4), np.float32)}
    compiled = tilelang.compile(kernel, target=chip)
    assert any("as often as" in note for note in compiled.artifact.notes), compiled.artifact.notes
    out = strict.run(compiled, arrays)
    y, rows = x.copy(), np.arange(2)
    y[rows, label] = 99
    y -= 99
    y[:, 3] = y[:, 2] + 1
    np.testing.assert_array_equal(out["Y"], y)
    np.testing.assert_array_equal(out["Z"], np.stack([np.full(2, -50), x[rows, label], np.full(2, 99), y[rows, label] + y[:, 3]], 1))
