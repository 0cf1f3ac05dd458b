"""K10-K13, K15-K19, K28, K35, K36, K50: reductions, softmax, norms, quantisation and running sums of rows."""

import kernels_rows as k
import numpy as np
import pytest
import references as ref
from checks import check, compare, small_and_large, strict, untouched


def uniform(low, high, *shape, dtype="float32", seed=0):
    rng = np.random.default_rng([seed, *shape])
    return (rng.random(shape, dtype=np.float32) * (high - low) + low).astype(ref.numpy_dtype(dtype))


@pytest.mark.parametrize("shape", [(32, 4096), (1, 515), (2, 64), (3, 63), (33, 100)])
def test_k10_sum(shape):
    x = uniform(0, 1, *shape)
    want = ref.wide(x).sum(-1)
    check(k.reduce_sum(*shape), {"X": x, "Y": untouched(shape[0], "float32")}, {"Y": want}, 1e-5)


@pytest.mark.parametrize("shape", [(32, 4096), (5, 999)])
def test_k11_sum_of_float16_is_rounded_once(shape):
    x = uniform(0, 1, *shape, dtype="float16")
    want = ref.wide(x).sum(-1)
    check(k.reduce_sum(*shape, dtype="float16"), {"X": x, "Y": untouched(shape[0], "float16")}, {"Y": want}, 2**-11 + 1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("shape", small_and_large(((13, 100, 32), (2, 65, 33)), ((13, 2048, 32),)))
def test_k12_max(shape, dtype):
    x = uniform(-1, 1, *shape, dtype=dtype)
    program = k.reduce_max(*shape, dtype=dtype)
    check(program, {"X": x, "Y": untouched(shape[:2], dtype)}, {"Y": x.max(-1)}, text=shape[1] < 200)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", small_and_large(((5, 100, 32), (4, 65, 33)), ((13, 2048, 32),)))
def test_k12_max_along_outer_axes(shape, axis):
    x = uniform(-1, 1, *shape)
    x[:, :, 0] = x.max((0, 1)).max() + np.arange(shape[0])[:, None] + np.arange(shape[1])  # the last plane and the first column count
    program, y = k.reduce_max_axis(*shape, axis), untouched(np.delete(shape, axis), "float32")
    check(program, {"X": x, "Y": y}, {"Y": x.max(axis)}, text=shape[1] < 200)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", [(4, 4096), (7, 999), (5, 7)])
def test_k13_softmax(shape):
    x = uniform(-4, 4, *shape, dtype="float16")
    check(k.softmax(*shape), {"X": x, "Y": untouched(shape, "float16")}, {"Y": ref.softmax(x)}, 2e-3, 1e-7, text=shape[1] < 4000)


def test_k13_softmax_of_one_column():
    """All are one, whatever a kernel loads: no comparison tells a wrong one."""
    x = uniform(-4, 4, 3, 1, dtype="float16")
    out = strict.run(k.softmax(3, 1), {"X": x, "Y": untouched(x.shape, "float16")})
    compare(out["Y"], np.ones((3, 1)), 0, 0)


@pytest.mark.slow
def test_k13_softmax_large():
    x = uniform(-4, 4, 32, 4096, dtype="float16")
    check(k.softmax(32, 4096), {"X": x, "Y": untouched(x.shape, "float16")}, {"Y": ref.softmax(x)}, 2e-3, 1e-7, text=False)


@pytest.mark.parametrize("shape", small_and_large(((3, 3001), (9, 1024), (8, 7)), ((64, 100_003),)))
def test_softmax_of_rows_that_do_not_fit(shape):
    x = uniform(-4, 4, *shape)
    arrays = {"X": x, "Y": untouched(shape, "float32")}
    check(k.softmax_online(*shape), arrays, {"Y": ref.softmax(x)}, 1e-5, 1e-9, text=shape[1] < 10_000)


def test_softmax_of_large_and_masked_values():
    x = uniform(-4, 4, 6, 1500) + 3e4
    x[1, 3:] = -np.inf
    x[2, ::2] = -np.inf
    arrays = {"X": x, "Y": untouched(x.shape, "float32")}
    check(k.softmax_online(6, 1500), arrays, {"Y": ref.softmax(x)}, 1e-5, 1e-9)


@pytest.mark.parametrize("batch", small_and_large((1, 5), (32,)))
def test_k19_softmax_of_a_dynamic_batch(batch):
    x = uniform(0, 1, batch, 32, 1, 256)
    arrays = {"X": x, "Y": untouched(x.shape, "float32")}
    check(k.softmax_dynamic(32, 256), arrays, {"Y": ref.softmax(x)}, 1e-5, scalars={"B": batch})


@pytest.mark.parametrize("dtype,rtol", [("float32", 1e-5), ("float16", 2e-3)])
def test_k15_k17_rms_norm_of_whole_rows(dtype, rtol):
    x, g = uniform(-1, 1, 8, 256, dtype=dtype), uniform(0.1, 1, 256, dtype=dtype)
    arrays = {"X": x, "G": g, "Y": untouched(x.shape, dtype)}
    check(k.rms_norm(8, 256, dtype=dtype), arrays, {"Y": ref.rms_norm(x, g)}, rtol, 1e-6)


@pytest.mark.parametrize("dtype,rtol", [("float32", 1e-5), ("float16", 2e-3)])
@pytest.mark.parametrize("shape", small_and_large(((8, 1055), (3, 17)), ((64, 100_003),)))
@pytest.mark.one_in(2)
def test_k16_k18_rms_norm_of_rows_that_do_not_fit(shape, dtype, rtol):
    x, g = uniform(-1, 1, *shape, dtype=dtype), uniform(0.1, 1, shape[1], dtype=dtype)
    x[:, 0] = 4  # counts in the sum of squares, so that a row that starts late is noticed
    arrays = {"X": x, "G": g, "Y": untouched(shape, dtype)}
    program = k.rms_norm_split(*shape, dtype=dtype)
    check(program, arrays, {"Y": ref.rms_norm(x, g)}, rtol, 1e-6, text=shape[1] < 10_000)


@pytest.mark.parametrize("dtype,tolerance", [("float32", 1e-5), ("bfloat16", 1e-2)])
@pytest.mark.parametrize("form", ["whole", "split"])
@pytest.mark.parametrize("shape", small_and_large(((6, 768), (5, 333)), ((1024, 768), (2000, 1024))))
@pytest.mark.one_in(4)
def test_k35_layer_norm(shape, form, dtype, tolerance):
    x = uniform(-1, 1, *shape, dtype=dtype)
    x[:, 0] = 8  # counts for more than all else, so that a row that starts late is noticed in any dtype
    g, b = uniform(0, 1, shape[1], dtype=dtype), uniform(0, 1, shape[1], dtype=dtype, seed=1)
    program = (k.layer_norm if form == "whole" else k.layer_norm_split)(*shape, dtype=dtype)
    arrays = {"X": x, "G": g, "B": b, "Y": untouched(shape, dtype)}
    check(program, arrays, {"Y": ref.layer_norm(x, g, b)}, tolerance, tolerance, text=shape[0] < 100)


@pytest.mark.parametrize("shape", small_and_large(((8, 63, 64), (3, 5, 33)), ((32, 64, 64),)))
def test_k36_batch_norm(shape):
    x = uniform(-1, 1, *shape)
    channels = shape[1]
    y, mean, inv = ref.batch_norm(x)
    arrays = {"X": x, "Y": untouched(shape, "float32")}
    arrays |= {"Mean": untouched(channels, "float32"), "Inv": untouched(channels, "float32")}
    check(k.batch_norm(*shape), arrays, {"Y": y, "Mean": mean, "Inv": inv}, 1e-4, 1e-5)


@pytest.mark.parametrize("shape", small_and_large(((4, 8), (13, 128)), ((512, 128),)))
def test_k28_dynamic_quantisation(shape):
    # Rows of different magnitude, so that a wrong scale is noticed.
    x = (uniform(-1, 1, *shape) * np.arange(1, shape[0] + 1)[:, None]).astype(np.float16)
    x[:, 0] = np.arange(1, shape[0] + 1)  # the largest of its row, so that a row that starts late is noticed
    q, scale = ref.dynamic_quant(x)
    arrays = {"X": x, "Q": untouched(shape, "int8"), "S": untouched(shape[0], "float16")}
    program = k.dynamic_quant(*shape)
    out = check(program, arrays, {"S": scale, "Q": q}, 2**-10, text=shape[0] < 100, tolerances={"Q": (0, 1)})
    assert (out["Q"] != q).mean() < 0.01


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("shape", small_and_large(((13, 321), (5, 64)), ((32, 1024),)))
@pytest.mark.one_in(2)
def test_k50_cumsum(shape, dim, reverse):
    x = uniform(0, 1, *shape)
    want = ref.wide(x)
    want = np.flip(np.flip(want, dim).cumsum(dim), dim) if reverse else want.cumsum(dim)
    check(k.cumsum(*shape, reverse, dim), {"X": x, "Y": untouched(shape, "float32")}, {"Y": want}, 1e-5)
