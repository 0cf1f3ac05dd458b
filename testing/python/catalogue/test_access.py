"""Global memory from `T.Parallel`, copies and scalar code: every index form, every edge, dynamic sizes, atomics."""

import kernels_access as k
import numpy as np
import pytest
import references as ref
from checks import check, strict, untouched

RNG = np.random.default_rng(11)
DTYPES = ["float32", "float16", "int32"]


def integers(low, high, shape, dtype):
    return RNG.integers(low, high, shape).astype(ref.numpy_dtype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 127, 300])
class TestIndices:
    @pytest.mark.one_in(3)
    def test_reversed(self, n, dtype):
        x = integers(-99, 99, n, dtype)
        check(k.reversed_copy(n, dtype=dtype), {"X": x, "Y": untouched(n, dtype)}, {"Y": x[::-1]})

    @pytest.mark.one_in(3)
    def test_strided_load(self, n, dtype):
        x = integers(-99, 99, 2 * n + 1, dtype)
        check(k.every_other(n, dtype=dtype), {"X": x, "Y": untouched(n, dtype)}, {"Y": x[1::2]})

    @pytest.mark.one_in(3)
    def test_strided_store(self, n, dtype):
        x, y = integers(-99, 99, n, dtype), untouched(3 * n, dtype)
        want = y.copy()
        want[::3] = x
        check(k.spread(n, dtype=dtype), {"X": x, "Y": y}, {"Y": want})

    @pytest.mark.one_in(3)
    def test_gather(self, n, dtype):
        x, index = integers(-99, 99, 50, dtype), integers(0, 50, n, "int32")
        check(k.gather(n, 50, dtype=dtype), {"X": x, "Index": index, "Y": untouched(n, dtype)}, {"Y": x[index]})

    @pytest.mark.one_in(3)
    def test_scatter(self, n, dtype):
        x, index, y = integers(-99, 99, n, dtype), RNG.permutation(400)[:n].astype(np.int32), untouched(400, dtype)
        want = y.copy()
        want[index] = x
        check(k.scatter(n, 400, dtype=dtype), {"X": x, "Index": index, "Y": y}, {"Y": want})


@pytest.mark.parametrize("n", [1, 2, 127, 300])
def test_stencil_reads_left_of_its_tile(n):
    x = integers(-99, 99, n, "float32")
    want = np.zeros(n)
    want[1:-1] = x[:-2] - 2 * x[1:-1] + x[2:]
    if n < 3:
        out = strict.run(k.stencil(n), {"X": x, "Y": untouched(n, "float32")})
        np.testing.assert_array_equal(out["Y"], want)
    else:
        check(k.stencil(n), {"X": x, "Y": untouched(n, "float32")}, {"Y": want})


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(32, 32), (33, 50)])
def test_transpose_without_a_tile(shape, dtype):
    x = integers(-99, 99, shape, dtype)
    check(k.transpose_direct(*shape, dtype=dtype), {"X": x, "Y": untouched(shape[::-1], dtype)}, {"Y": x.T})


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_columns_of_a_matrix(dtype):
    x, y = integers(-9, 9, (37, 50), dtype), untouched((37, 7), dtype)
    want = y.copy()
    want[:, 3] = x.sum(1)
    check(k.column_store(37, 50, dtype=dtype), {"X": x, "Y": y}, {"Y": want})
    check(k.column_load(37, 50, 11, dtype=dtype), {"X": x, "Y": untouched(37, dtype)}, {"Y": x[:, 11] * 2})


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("r", [1, 2, 7, 33, 100])
def test_p10_one_result_per_row_without_padding(r, dtype):
    x = integers(-99, 99, (r, 64), dtype)
    x[:, 0] = np.arange(100, 100 + r)  # the largest of its row, so that a row that starts late is noticed
    check(k.row_results(r, dtype=dtype), {"X": x, "Y": untouched(r, dtype)}, {"Y": x.max(1)})


@pytest.mark.parametrize("form", ["index", "load"])
@pytest.mark.parametrize("stride", [1, 16])
@pytest.mark.parametrize("r", [1, 48, 100])
@pytest.mark.one_in(3)
def test_p4_scalar_stores_of_all_cores_arrive(r, stride, form):
    x, y = integers(-9, 9, r, "int32"), untouched(r * stride, "int32")
    want = y.copy()
    want[::stride] = np.arange(r) if form == "index" else ((x * 2) * 2 + 1) * 2 + 2
    check(k.scalar_stores(r, stride, form), {"X": x, "Y": y}, {"Y": want})


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 997])
class TestDynamicSizes:
    def test_runtime_scalars(self, n):
        x = RNG.random(n, dtype=np.float32)
        want = np.where(np.arange(n) < 100, np.float32(1.5) * x + np.arange(n) * 3, 0)
        arrays, scalars = {"X": x, "Y": untouched(n, "float32")}, {"N": n, "a": 1.5, "step": 3, "limit": 100}
        if n:
            check(k.runtime_scalars(), arrays, {"Y": want}, 1e-6, 1e-6, scalars)
        else:
            strict.run(k.runtime_scalars(), arrays, scalars)

    def test_rows(self, n):
        x = RNG.random((n, 37), dtype=np.float32)
        arrays = {"X": x, "Y": untouched((n, 37), "float32")}
        if n:
            check(k.dynamic_rows(37), arrays, {"Y": x * 2 + n}, 1e-6, scalars={"M": n})
        else:
            strict.run(k.dynamic_rows(37), arrays, {"M": n})

    @pytest.mark.parametrize("m", [0, 1, 9])
    def test_rows_and_columns(self, n, m):
        x = RNG.random((m, n), dtype=np.float32)
        arrays = {"X": x, "Y": untouched(m, "float32")}
        if m:
            check(k.dynamic_columns(), arrays, {"Y": x.sum(1)}, 1e-5, scalars={"M": m, "N": n})
        else:
            strict.run(k.dynamic_columns(), arrays, {"M": m, "N": n})


def test_workspace_in_global_memory():
    x = RNG.random((100, 33), dtype=np.float32)
    check(k.through_workspace(100, 33), {"X": x, "Y": untouched(x.shape, "float32")}, {"Y": (x + 1) * 2}, 1e-6)


def test_p8_store_read_back_by_the_next_iteration():
    x = RNG.random((20, 33), dtype=np.float32)
    want = x.astype(np.float64)
    for r in range(1, 20):
        want[r] = want[r - 1] * 0.5 + x[r]
    check(k.previous_row(20, 33), {"X": x, "Y": untouched(x.shape, "float32")}, {"Y": want}, 1e-6)


def test_atomic_histogram():
    x, count = integers(0, 10, 300, "int32"), integers(0, 10, 10, "int32")
    check(k.histogram(300, 10), {"X": x, "Count": count}, {"Count": count + np.bincount(x, minlength=10)})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["add", "max", "min"])
@pytest.mark.one_in(3)
def test_atomics_of_many_iterations_on_one_element(op, dtype):
    combine = {"add": np.add, "max": np.maximum, "min": np.minimum}[op]
    x, total, rows = integers(-9, 9, (21, 50), dtype), integers(-9, 9, 1, dtype), integers(-9, 9, 21, dtype)
    if op != "add":  # The first of each row counts, the last row most: rows that start late and tiles left out are noticed.
        x[:, 0] = np.arange(10, 31) * (1 if op == "max" else -1)
    want = {"Total": combine(total, combine.reduce(x, (0, 1))), "Rows": combine(rows, combine.reduce(x, 1))}
    check(k.atomic_totals(21, 50, op, dtype=dtype), {"X": x, "Total": total, "Rows": rows}, want)


def test_atomics_of_scalar_code():
    x, count = integers(0, 10, 60, "float32"), np.array([3, 4], np.float32)
    check(k.atomic_scalars(60), {"X": x, "Count": count}, {"Count": count + [np.arange(60).sum(), x.sum()]})


def test_atomic_accumulation_of_a_split_k_gemm():
    a, b = integers(-3, 3, (50, 256), "float16"), integers(-3, 3, (256, 70), "float16")
    c = integers(-3, 3, (50, 70), "float32")
    want = c + a.astype(np.float32) @ b.astype(np.float32)
    check(k.split_k_gemm(50, 70, 256, 4), {"A": a, "B": b, "C": c}, {"C": want})


@pytest.mark.one_in(3)
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 31, 32, 33, 40])
def test_p3_masked_store_writes_the_valid_lanes_only(n):
    x, y = RNG.random(40, dtype=np.float32), untouched(40, "float32")
    want = np.concatenate([x[:n], y[n:]])
    out = strict.run(k.masked_store(n), {"X": x, "Y": y})
    np.testing.assert_array_equal(out["Y"], want)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
@pytest.mark.parametrize("first", [0, 1, 16, 27])
@pytest.mark.one_in(6)
def test_parts_of_a_tile_that_start_inside_a_block(first, dtype):
    x = integers(-99, 99, (5, 40), dtype)
    want = np.zeros((5, 45 + first))
    want[:, first : first + 40] = x
    check(k.insert_columns(5, 40, first, dtype), {"X": x, "Y": untouched(want.shape, dtype)}, {"Y": want})
    wide = integers(-99, 99, (5, 70), dtype)
    arrays = {"X": wide, "Y": untouched((5, 33), dtype)}
    check(k.cut_columns(5, 70, first, 33, dtype), arrays, {"Y": wide[:, first : first + 33]})
