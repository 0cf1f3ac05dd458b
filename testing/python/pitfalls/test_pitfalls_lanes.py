"""Pitfalls of partial writes, tails and shapes: every lane that should be written is, and no other."""

import re

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.ir import op_name, operand_parts, scope_of, statements

F32 = "float32"
RNG = np.random.default_rng(7)


def floats(*shape, dtype=np.float32):
    """Multiples of 1/4: sums of them are exact."""
    return (RNG.integers(-40, 41, shape) / 4).astype(dtype)


@pytest.mark.parametrize("width", [1, 2, 7, 63, 64, 65, 127, 129, 1021, 4095, 4096])
def test_p02_width_of_a_tile_never_changes_the_result(width):
    @T.prim_func
    def k(
        X: T.Tensor((2, width), F32),
        R: T.Tensor((width,), F32),
        Y: T.Tensor((2, width), F32),
        Z: T.Tensor((2, width), F32),
    ):
        with T.Kernel(1):
            x, y, z = (T.alloc_fragment((2, width), F32) for _ in range(3))
            r = T.alloc_shared((width,), F32)
            T.copy(X, x)
            T.copy(R, r)
            T.fill(z, 1.5)
            for i, j in T.Parallel(2, width):
                y[i, j] = T.max(x[i, j], 0.0) * 2.0 + r[j]
                z[i, j] = z[i, j] + T.abs(x[i, j])
            T.copy(y, Y)
            T.copy(z, Z)

    x, r = floats(2, width), floats(width)
    out = strict.run(tilelang.compile(k), {"X": x, "R": r, "Y": floats(2, width), "Z": floats(2, width)}, text=width == 65)
    np.testing.assert_array_equal(out["Y"], np.maximum(x, 0) * 2 + r)
    np.testing.assert_array_equal(out["Z"], 1.5 + np.abs(x))


def test_p03_masked_store_writes_exactly_the_valid_lanes():
    @T.prim_func
    def k(X: T.Tensor((40,), F32), Y: T.Tensor((40,), F32), n: T.int32):
        with T.Kernel(1):
            for i in T.Parallel(40):
                if i < n:
                    Y[i] = X[i]

    kernel, x = tilelang.compile(k), floats(40)
    for n in range(41):
        y = np.full(40, 77, np.float32)
        out = strict.run(kernel, {"X": x, "Y": y}, {"n": n}, text=n == 9)["Y"]
        np.testing.assert_array_equal(out, np.where(np.arange(40) < n, x, y))


@pytest.mark.parametrize("stride", [1, 16])
def test_p04_scalar_stores_of_all_cores_are_visible(stride):
    @T.prim_func
    def k(Y: T.Tensor((48 * stride,), "int32")):
        with T.Kernel(48) as cid:
            Y[cid * stride] = cid + 1

    before = np.full(48 * stride, -5, np.int32)
    want = before.copy()
    want[::stride] = np.arange(1, 49)
    kernel = tilelang.compile(k)
    np.testing.assert_array_equal(strict.run(kernel, {"Y": before})["Y"], want)
    assert_no_element_stays_in_a_cache(kernel)


def assert_no_element_stays_in_a_cache(kernel):
    """The machine model has no cache of the scalar unit. On the chip it takes and returns lines of 64 bytes: scalar stores of two cores to
    one line undo each other, and a line that was read is out of date once a transfer has changed it."""
    (function,) = kernel.artifact.ascend_ir.functions.values()
    written, read, before = set(), [], None
    for s in statements(function.body):
        call, name = getattr(s, "value", None), op_name(s) or op_name(getattr(s, "value", None)) or ""
        where = [operand_parts(a)[0].source for a in call.args if operand_parts(a)] if name.startswith("ascend.") else []
        if name == "ascend.set_value":
            assert scope_of(where[0]) != "global"
        elif name == "ascend.get_value" and scope_of(where[0]) == "global":
            read.append((where[0], before))
        elif name == "ascend.copy_ub_to_gm":
            written.add(where[0])
        before = name
    assert all(before == "ascend.data_cache_clean" for b, before in read if b in written)


def test_p04_elements_are_read_behind_the_transfers_that_wrote_them():
    """By tiles, by elements in loops, by atomic updates; neighbours were read before."""

    @T.prim_func
    def k(X: T.Tensor((4, 16), F32), Y: T.Tensor((4, 16), F32), Z: T.Tensor((4, 16), F32)):
        with T.Kernel(4) as b:
            t = T.alloc_shared((16,), F32)
            T.copy(X[b, :], t)
            Z[b, 0] = Y[b, 0] + 1.0
            T.copy(t, Y[b, :])
            Z[b, 1] = Y[b, 1] * 2.0
            for i in T.serial(2, 16):
                T.atomic_add(Y[b, i], 3.0)
                Z[b, i] = Y[b, i] + Z[b, i - 1]

    kernel, x, y = tilelang.compile(k), floats(4, 16), floats(4, 16)
    out = strict.run(kernel, {"X": x, "Y": y, "Z": np.zeros_like(x)})
    want = np.zeros_like(x)
    want[:, 0], want[:, 1] = y[:, 0] + 1, x[:, 1] * 2
    for i in range(2, 16):
        want[:, i] = x[:, i] + 3 + want[:, i - 1]
    np.testing.assert_array_equal(out["Z"], want)
    assert_no_element_stays_in_a_cache(kernel)


@pytest.mark.parametrize("shape", [(1,), (1, 1)])
def test_p05_store_of_a_tile_of_one_element(shape):
    out_shape = (48, *shape[1:])

    @T.prim_func
    def k(X: T.Tensor(out_shape, F32), Y: T.Tensor(out_shape, F32)):
        with T.Kernel(48) as cid:
            t = T.alloc_fragment(shape, F32)
            T.copy(X[cid, 0] if len(shape) == 2 else X[cid], t)
            if len(shape) == 2:
                for i, j in T.Parallel(1, 1):
                    t[i, j] = t[i, j] * 2.0
                T.copy(t, Y[cid, 0])
            else:
                for i in T.Parallel(1):
                    t[i] = t[i] * 2.0
                T.copy(t, Y[cid])

    x = floats(*out_shape)
    np.testing.assert_array_equal(strict.run(tilelang.compile(k), {"X": x, "Y": np.zeros_like(x)})["Y"], 2 * x)


@pytest.mark.parametrize("dtype", [F32, "float16"])
@pytest.mark.parametrize("rows", range(1, 34))
@pytest.mark.one_in(6)
def test_p10_one_scalar_per_row_is_stored_without_padding(rows, dtype):
    @T.prim_func
    def k(X: T.Tensor((rows, 50), dtype), Y: T.Tensor((rows,), dtype)):
        with T.Kernel(1):
            x, y = T.alloc_shared((rows, 50), dtype), T.alloc_fragment((rows,), dtype)
            T.copy(X, x)
            T.reduce_sum(x, y, dim=1)
            T.copy(y, Y)

    x = floats(rows, 50, dtype=dtype)
    out = strict.run(tilelang.compile(k), {"X": x, "Y": np.full(rows, 77, dtype)}, text=rows == 9)["Y"]
    np.testing.assert_array_equal(out, x.astype(np.float64).sum(1).astype(dtype))


@tilelang.jit
def _double(dtype, block):
    N = T.dynamic("N")

    @T.prim_func
    def main(X: T.Tensor((N,), dtype), Y: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block)) as bx:
            x = T.alloc_shared((block,), dtype)
            T.copy(X[bx * block], x)
            for i in T.Parallel(block):
                x[i] = x[i] + x[i]
            T.copy(x, Y[bx * block])

    return main


def test_p11_one_binary_for_every_size():
    kernel = _double(F32, 64)
    for n in (1, 63, 64, 65, 9999):
        x = floats(n)
        np.testing.assert_array_equal(strict.run(kernel, {"X": x, "Y": np.zeros_like(x)}, {"N": n}, text=False)["Y"], 2 * x)


def test_p11_a_run_time_tile_shape_is_an_error_that_names_it():
    with pytest.raises(tilelang.errors.NonStaticShape, match=r"\brows\b") as caught:

        @T.prim_func
        def k(X: T.Tensor((8,), F32), rows: T.int32):
            with T.Kernel(1):
                x = T.alloc_shared((rows, 8), F32)
                T.copy(X, x[0, :])

    assert "alloc_shared((rows, 8)" in caught.value.location.source and caught.value.hint


def _online_softmax(n, block):
    """`n`: length of the rows, a number or a variable."""

    @T.prim_func
    def k(X: T.Tensor((2, n), F32), Y: T.Tensor((2, n), F32)):
        with T.Kernel(2) as row:
            x, e = T.alloc_shared((1, block), F32), T.alloc_fragment((1, block), F32)
            top, last, total, part = (T.alloc_fragment((1,), F32) for _ in range(4))
            T.fill(top, -3e38)
            T.fill(total, 0)
            for b in T.serial(T.ceildiv(n, block)):
                T.copy(X[row, b * block], x)
                for i, j in T.Parallel(1, block):
                    e[i, j] = T.if_then_else(b * block + j < n, x[i, j], -3e38)
                T.copy(top, last)
                T.reduce_max(e, top, dim=1, clear=False)
                for i, j in T.Parallel(1, block):
                    e[i, j] = T.exp(e[i, j] - top[i])
                T.reduce_sum(e, part, dim=1)
                for i in T.Parallel(1):
                    total[i] = total[i] * T.exp(last[i] - top[i]) + part[i]
            for b in T.serial(T.ceildiv(n, block)):
                T.copy(X[row, b * block], x)
                for i, j in T.Parallel(1, block):
                    e[i, j] = T.exp(x[i, j] - top[i]) / total[i]
                T.copy(e, Y[row, b * block])

    return tilelang.compile(k)


def _rows_and_softmax(n):
    x = RNG.standard_normal((2, n)).astype(np.float32)
    x[0] += 1e4
    if n > 1:
        x[1, ::3] = -np.inf
        x[1, 1] = 80.0
    wide = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return x, wide / wide.sum(1, keepdims=True)


@pytest.mark.parametrize("n", [1, 7, 4096, 100_003])
def test_p12_softmax_of_rows_of_any_length(n):
    x, want = _rows_and_softmax(n)
    out = strict.run(_online_softmax(n, 4096), {"X": x, "Y": np.full_like(x, 77)}, text=n == 7)["Y"]
    np.testing.assert_allclose(out, want, rtol=2**-20, atol=1e-12)


def test_p12_softmax_of_rows_of_a_length_known_at_launch():
    kernel = _online_softmax(T.dynamic("n"), 4096)
    for n in (1, 7, 4096, 4097, 100_003):
        x, want = _rows_and_softmax(n)
        out = strict.run(kernel, {"X": x, "Y": np.full_like(x, 77)}, {"n": n}, text=n == 7)["Y"]
        np.testing.assert_allclose(out, want, rtol=2**-20, atol=1e-12)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", [F32, "float16", "bfloat16", "int32", "int8"])
def test_p13_sizes_around_the_tile(dtype):
    kernel = _double(dtype, 128)
    as_numpy = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    for n in (0, 1, 7, 31, 32, 33, 127, 128, 129, 2047, 2048, 2049, 9999):
        x = RNG.integers(-60, 60, n).astype(as_numpy)
        out = strict.run(kernel, {"X": x, "Y": np.full(n, 77, as_numpy)}, {"N": n}, text=False)["Y"]
        np.testing.assert_array_equal(out.astype(np.float64), (x + x).astype(np.float64))


def _copied_by(tiles, block=128, shape=(1000,)):
    @T.prim_func
    def k(X: T.Tensor(shape, F32), Y: T.Tensor(shape, F32)):
        with T.Kernel(tiles) as bx:
            x = T.alloc_shared((block,), F32)
            T.copy(X[bx * block], x)
            T.copy(x, Y[bx * block])

    return k


def test_p22_a_grid_that_misses_the_tail_is_reported():
    artifact = tilelang.compile(_copied_by(1000 // 128)).artifact
    (warning,) = artifact.warnings
    assert "elements 896 to 999 of dimension 0 of Y" in warning and re.match(r".*:\d+:\d+: ", warning)
    assert not tilelang.compile(_copied_by(-(-1000 // 128))).artifact.warnings


def test_p22_a_grid_that_misses_the_tail_of_some_sizes_is_noted():
    n = T.dynamic("n")
    short, right = tilelang.compile(_copied_by(n // 128, shape=(n,))), tilelang.compile(_copied_by(T.ceildiv(n, 128), shape=(n,)))
    assert any("with n = 1009: elements 896 to 1008 of dimension 0 of Y" in note for note in short.artifact.notes)
    assert not short.artifact.warnings and not any("never written" in note for note in right.artifact.notes)


def test_p22_the_simulator_reports_what_a_call_leaves_unwritten():
    x = floats(1000)
    report = tilelang.compile(_copied_by(7), out_idx=[1]).simulate(x)
    assert [(u.tensor, u.lo, u.hi) for u in report.unwritten] == [("Y", 3584, 4000)]
    assert "never written" in report.summary()
    assert not tilelang.compile(_copied_by(8), out_idx=[1]).simulate(x).unwritten


def test_p22_gaps_inside_are_found_when_the_kernel_runs():
    @T.prim_func
    def k(X: T.Tensor((256,), F32), Y: T.Tensor((256,), F32)):
        with T.Kernel(4) as bx:
            x = T.alloc_shared((64,), F32)
            T.copy(X[bx * 64], x)
            if X[bx * 64] > 0:
                T.copy(x, Y[bx * 64])

    x = np.where(np.arange(256) == 128, -1, 1).astype(np.float32)
    (gap,) = tilelang.compile(k, out_idx=[1]).simulate(x).unwritten
    assert (gap.lo, gap.hi) == (4 * 128, 4 * 192)


def _left_half(X, Y, bx):
    for i, j in T.Parallel(8, 16):
        Y[bx * 8 + i, j] = X[bx * 8 + i, j]


def _every_other(X, Y, bx):
    for i, j in T.Parallel(8, 16):
        Y[bx * 8 + i, 2 * j] = X[bx * 8 + i, j]


def _some_rows(X, Y, bx):
    for i, j in T.Parallel(8, 32):
        if X[bx * 8 + i, 0] > 0:
            Y[bx * 8 + i, j] = X[bx * 8 + i, j]


@pytest.mark.parametrize("body", [_left_half, _every_other, _some_rows], ids=lambda f: f.__name__)
def test_p22_what_is_left_alone_on_purpose_is_not_reported(body):
    @T.prim_func
    def k(X: T.Tensor((32, 32), F32), Y: T.Tensor((32, 32), F32)):
        with T.Kernel(4) as bx:
            body(X, Y, bx)

    artifact = tilelang.compile(k).artifact
    assert not any("never written" in text for text in [*artifact.warnings, *artifact.notes])


def _stencil(X, Y, n, bx):
    for i in T.Parallel(64):
        Y[bx * 64 + i] = X[bx * 64 + i] + X[bx * 64 + i + 1] + X[bx * 64 + i + 2]


def _reversed(X, Y, n, bx):
    for i in T.Parallel(64):
        Y[bx * 64 + i] = X[n + 1 - (bx * 64 + i)]


def _masked(X, Y, n, bx):
    for i in T.Parallel(64):
        Y[bx * 64 + i] = T.if_then_else(X[bx * 64 + i] > 0.0, X[bx * 64 + i], 0.0)


def _strided(X, Y, n, bx):
    for i in T.Parallel(64):
        Y[bx * 64 + i] = T.if_then_else(2 * (bx * 64 + i) < n + 2, X[2 * (bx * 64 + i)], -1.0)


def _gathered(X, Y, n, bx):
    for i in T.Parallel(64):
        Y[bx * 64 + i] = X[T.cast(T.abs(X[bx * 64 + i]), "int32") % (n + 2)]


_ACCESSES = {
    _gathered: lambda x, n: x[np.abs(x[:n]).astype(int) % (n + 2)],
    _stencil: lambda x, n: x[:n] + x[1 : n + 1] + x[2 : n + 2],
    _reversed: lambda x, n: x[::-1][:n],
    _masked: lambda x, n: np.maximum(x[:n], 0),
    _strided: lambda x, n: np.array([x[2 * i] if 2 * i < n + 2 else -1 for i in range(n)], np.float32),
}


@pytest.mark.parametrize("body", _ACCESSES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [64, 200])
@pytest.mark.one_in(2)
def test_p48_accesses_of_a_parallel_body(body, n):
    @T.prim_func
    def k(X: T.Tensor((n + 2,), F32), Y: T.Tensor((n,), F32)):
        with T.Kernel(T.ceildiv(n, 64)) as bx:
            body(X, Y, n, bx)

    x = floats(n + 2)
    out = strict.run(tilelang.compile(k), {"X": x, "Y": np.full(n, 77, np.float32)}, text=n == 200)["Y"]
    np.testing.assert_array_equal(out, _ACCESSES[body](x, n))


def test_p48_transposed_access():
    @T.prim_func
    def k(X: T.Tensor((70, 40), F32), Y: T.Tensor((40, 70), F32)):
        with T.Kernel(T.ceildiv(40, 16), T.ceildiv(70, 32)) as (bx, by):
            for i, j in T.Parallel(16, 32):
                Y[bx * 16 + i, by * 32 + j] = X[by * 32 + j, bx * 16 + i]

    x = floats(70, 40)
    np.testing.assert_array_equal(strict.run(tilelang.compile(k), {"X": x, "Y": np.zeros((40, 70), np.float32)})["Y"], x.T)
