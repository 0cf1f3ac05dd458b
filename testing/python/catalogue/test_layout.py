"""K29, K42, K43, K45, K46, K48, K49: kernels that move, select, sort or combine elements."""

import re

import kernels_layout as k
import numpy as np
import pytest
import references as ref
from checks import check, small_and_large, untouched

RNG = np.random.default_rng(7)


def integers(low, high, shape, dtype):
    return RNG.integers(low, high, shape).astype(ref.numpy_dtype(dtype))


@pytest.mark.parametrize("dtype", ["float16", "float32", "int16"])
@pytest.mark.parametrize("shape", small_and_large(((16, 16), (100, 130), (1, 70)), ((1024, 2048),)))
@pytest.mark.one_in(2)
def test_k29_transpose(shape, dtype):
    x = integers(-999, 999, shape, dtype)
    program = k.transpose(*shape, dtype=dtype)
    check(program, {"X": x, "Y": untouched(shape[::-1], dtype)}, {"Y": x.T}, text=shape[0] < 200)


@pytest.mark.parametrize("form", ["halves", "guarded", "modulo"])
@pytest.mark.parametrize("shape", small_and_large(((3, 8, 64),), ((8, 64, 64),)))
def test_k42_rope(shape, form):
    tokens, _, d = shape
    x = (RNG.random(shape) * 2 - 1).astype(ref.bfloat16)
    angle = RNG.random((tokens, d)) * 6
    cos, sin = np.cos(angle).astype(ref.bfloat16), np.sin(angle).astype(ref.bfloat16)
    arrays = {"X": x, "Cos": cos, "Sin": sin, "Y": untouched(shape, "bfloat16")}
    check(k.rope(*shape, form), arrays, {"Y": ref.rope(x, cos, sin)}, 2**-8, 1e-6)


@pytest.mark.parametrize("form", ["copy", "parallel"])
@pytest.mark.parametrize("shape", small_and_large(((300, 8, 128), (40, 5, 33)), ((64 * 128, 8, 128),)))
def test_k43_scatter_update(shape, form):
    slots, rows, d = shape
    new, cache = integers(-99, 99, (rows, d), "int8"), integers(-99, 99, (slots, d), "int8")
    index = RNG.permutation(slots)[:rows].astype(np.int32)
    want = cache.copy()
    want[index] = new
    check(k.scatter_rows(slots, rows, d, form=form), {"K": new, "Index": index, "Cache": cache}, {"Cache": want})


def test_k43_gather_of_rows():
    cache, index = integers(-99, 99, (300, 96), "float16"), integers(0, 300, 21, "int32")
    check(k.gather_rows(300, 21, 96), {"Cache": cache, "Index": index, "Y": untouched((21, 96), "float16")}, {"Y": cache[index]})


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(32, 64), (33, 65), (3, 1)])
@pytest.mark.one_in(2)
def test_k45_broadcast(shape, dtype):
    m, n = shape
    row, column = integers(-99, 99, (1, n), dtype), integers(-99, 99, (m, 1), dtype)
    check(k.broadcast_rows(m, n, dtype), {"X": row, "Y": untouched(shape, dtype)}, {"Y": np.broadcast_to(row, shape)})
    check(k.broadcast_columns(m, n, dtype), {"X": column, "Y": untouched(shape, dtype)}, {"Y": np.broadcast_to(column, shape)})


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("m,left,right", [(32, 64, 64), (33, 27, 38), (5, 1, 16)])
@pytest.mark.one_in(2)
def test_k45_split_and_concat(m, left, right, dtype):
    a, b = integers(-99, 99, (m, left), dtype), integers(-99, 99, (m, right), dtype)
    both = np.concatenate([a, b], 1)
    parts = {"A": untouched(a.shape, dtype), "B": untouched(b.shape, dtype)}
    check(k.split_columns(m, left + right, left, dtype), {"X": both, **parts}, {"A": a, "B": b})
    check(k.concat_columns(m, left, right, dtype), {"A": a, "B": b, "Y": untouched(both.shape, dtype)}, {"Y": both})


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.one_in(6)
def test_k45_expand_along_any_axes(axes, dtype):
    shape = (5, 12, 33)
    x = integers(-99, 99, [1 if a in axes else n for a, n in enumerate(shape)], dtype)
    check(k.broadcast_axes(shape, axes, dtype), {"X": x, "Y": untouched(shape, dtype)}, {"Y": np.broadcast_to(x, shape)})


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("parts,n", [((16, 16, 32), 64), ((3, 1, 9), 37)])
def test_k45_split_and_concat_of_three_along_rows(parts, n, dtype):
    x = integers(-99, 99, (sum(parts), n), dtype)
    pieces = dict(zip("ABC", np.split(x, np.cumsum(parts)[:-1])))
    empty = {name: untouched(piece.shape, dtype) for name, piece in pieces.items()}
    check(k.split_rows(parts, n, dtype), {"X": x, **empty}, pieces)
    check(k.concat_rows(parts, n, dtype), {**pieces, "Y": untouched(x.shape, dtype)}, {"Y": x})


@pytest.mark.parametrize("shape", small_and_large(((100, 64), (17, 5)), ((1024, 64),)))
def test_k46_one_hot(shape):
    n, depth = shape
    index = integers(0, depth, n, "int32")
    check(k.one_hot(n, depth), {"Index": index, "Y": untouched((n, depth), "float32")}, {"Y": np.eye(depth)[index]})


def test_k48_top_k_one_maximum_at_a_time():
    x = RNG.permutation(6 * 300).reshape(6, 300).astype(np.float32)
    values, indices = ref.top_k(x, 5)
    arrays = {"X": x, "V": untouched((6, 5), "float32"), "I": untouched((6, 5), "int32")}
    check(k.top_k_iterative(6, 300, 5), arrays, {"V": values, "I": indices})


def test_k48_stores_maxima_from_where_they_are_spread():
    """A column of results goes to blocks of its own in one instruction, and constants wait for no load: 4.15 us otherwise, simulated."""
    kernel = k.top_k_iterative(1024, 128, 6)
    assert not re.search(r"Copy\(\w+_rows", kernel.get_kernel_source())
    report = kernel.simulate(
        np.zeros((1024, 128), "float32"), np.zeros((1024, 6), "float32"), np.zeros((1024, 6), "int32"), values=False, checks=False
    )
    assert report.simulated_us - report.run.launch_us < 3.7


@pytest.mark.parametrize("shape", [(3, 96, 17), (32, 4096, 2048)])
def test_k48_top_k_by_sorting(shape):
    m, n, top = shape
    x = RNG.permutation(m * n).reshape(m, n).astype(np.float32)
    values, indices = ref.top_k(x, top)
    arrays = {"X": x, "V": untouched((m, top), "float32"), "I": untouched((m, top), "int32")}
    check(k.top_k_sorted(m, n, top), arrays, {"V": values, "I": indices})


@pytest.mark.parametrize("shape", small_and_large(((2, 32, 17),), ((2, 64, 32), (2, 512, 200))))
def test_k48_top_k_by_a_bitonic_network(shape):
    m, n, top = shape
    x = RNG.permutation(m * n).reshape(m, n).astype(np.float32)
    values, indices = ref.top_k(x, top)
    arrays = {"X": x, "V": untouched((m, top), "float32"), "I": untouched((m, top), "int32")}
    check(k.top_k_bitonic(m, n, top), arrays, {"V": values, "I": indices}, text=n < 1000)


@pytest.mark.parametrize("dtype", ["float32", "int32", "float16", "bfloat16", "int16"])
@pytest.mark.parametrize("form", ["tile", "element"])
@pytest.mark.parametrize("shape", small_and_large(((8, 64), (7, 100), (60, 33)), ((8, 1024),)))
@pytest.mark.one_in(9)
def test_k49_atomic_add_of_rows(shape, form, dtype):
    x, y = integers(-2, 3, shape, dtype), integers(-2, 3, shape[1], dtype)
    want = ref.wide(y) + ref.wide(x).sum(0)
    check(k.atomic_rows(*shape, dtype=dtype, form=form), {"X": x, "Y": y}, {"Y": want})


@pytest.mark.parametrize("op", ["add", "max", "min"])
def test_k49_split_k(op):
    x, y = integers(-9, 9, (5, 33, 65), "float32"), integers(-9, 9, (33, 65), "float32")
    combine = {"add": np.add, "max": np.maximum, "min": np.minimum}[op]
    check(k.split_k_sum(33, 65, 5, op=op), {"X": x, "Y": y}, {"Y": combine(y, combine.reduce(x, 0))})
