"""Kernels of the catalogue whose tiles are a quarter of what is usual, and four times what a memory of a core holds: the same values."""

from typing import Any, Callable, NamedTuple

import kernels_access as access
import kernels_elementwise as elementwise
import kernels_layout as layout
import kernels_products as products
import kernels_rows as rows
import numpy as np
import pytest
from checks import strict
from references import numpy_dtype

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

UB = 192 * 1024
"""Bytes of the memory of a vector core; a tile of a quarter of them, twice and with temporaries, is as large as fits."""


class Case(NamedTuple):
    """kernel: of tile sizes by name. usual, small, large: these sizes. lengths: values of dynamic dimensions. exact: results do not depend on the order of sums."""

    kernel: Callable[..., Any]
    usual: dict
    small: dict
    large: dict
    lengths: dict = {}
    exact: bool = True


def linear(kernel, usual: int, large: int, exact=True, name="block", **lengths) -> Case:
    """A kernel with one tile size."""
    return Case(kernel, {name: usual}, {name: max(1, usual // 4)}, {name: large}, lengths, exact)


def square(kernel, usual: tuple, large: tuple, exact=True, names=("block_M", "block_N")) -> Case:
    """A kernel with tiles of rows and columns."""
    return Case(kernel, dict(zip(names, usual)), {n: max(1, x // 4) for n, x in zip(names, usual)}, dict(zip(names, large)), {}, exact)


def blocks(kernel, large: tuple) -> Case:
    """A product of `bM`, `bN` and `bK`."""
    names = ("bM", "bN", "bK")
    return Case(kernel, dict(zip(names, (64, 64, 64))), dict(zip(names, (16, 16, 16))), dict(zip(names, large)), {}, False)


CASES = {
    "K06 abs": linear(lambda block: elementwise.unary(lambda x: T.abs(x), block=block), 2048, 4 * UB // 2, N=90_000),
    "K08 gelu": linear(lambda block: elementwise.unary(elementwise.gelu_tanh, dtype="float32", block=block), 2048, UB, N=70_001),
    "K24 add": linear(lambda block: elementwise.binary(lambda a, b: a + b, block=block), 2048, UB, N=50_003),
    "K24 add of matrices": square(lambda **t: elementwise.binary_2d(lambda a, b: a + b, 300, 640, **t), (32, 128), (256, 640)),
    "K25 scale and add": linear(lambda block: elementwise.scale_add(block=block), 1024, UB, N=50_003),
    "K25 multiply and add": linear(lambda block: elementwise.mul_add(block=block), 1024, UB, N=50_003),
    "K26 add of a scalar": linear(lambda block: elementwise.add_first(block=block), 1024, UB, N=50_003),
    "K37 adam": square(lambda **t: elementwise.adam(70, 1030, **t), (4, 512), (64, 1024)),
    "K38 dropout": square(lambda **t: elementwise.dropout(70, 1030, **t), (4, 512), (128, 1024)),
    "K39 swiglu": square(lambda **t: elementwise.gated(elementwise.silu, 130, 520, **t), (8, 128), (128, 512)),
    "K10 sum": linear(lambda block_M: rows.reduce_sum(150, 700, block_M=block_M), 4, 128, False, "block_M"),
    "K12 max": linear(lambda block_M: rows.reduce_max(2, 700, 128, block_M=block_M), 64, 700, name="block_M"),
    "K13 softmax": linear(lambda block_M: rows.softmax(100, 1000, block_M=block_M), 4, 96, False, "block_M"),
    "softmax of long rows": square(lambda **t: rows.softmax_online(20, 9000, **t), (8, 1024), (16, 8192), False),
    "K15 rms_norm": linear(lambda block_M: rows.rms_norm(300, 256, block_M=block_M), 4, 256, False, "block_M"),
    "K16 rms_norm of long rows": square(lambda **t: rows.rms_norm_split(20, 9000, **t), (4, 1024), (16, 8192), False),
    "K35 layer_norm": linear(lambda block_M: rows.layer_norm(100, 1024, block_M=block_M), 4, 96, False, "block_M"),
    "K35 layer_norm of long rows": square(lambda **t: rows.layer_norm_split(20, 5000, **t), (4, 256), (16, 4096), False),
    "K36 batch_norm": linear(lambda block_C: rows.batch_norm(3, 40, 1100, block_C=block_C), 4, 40, False, "block_C"),
    "K28 dynamic quantisation": linear(lambda block_M: rows.dynamic_quant(200, 512, block_M=block_M), 4, 192, name="block_M"),
    "K50 cumsum": linear(lambda block_M: rows.cumsum(120, 512, block_M=block_M), 4, 96, False, "block_M"),
    "K29 transpose": square(lambda **t: layout.transpose(600, 520, **t), (64, 64), (512, 256)),
    "K45 broadcast of rows": linear(lambda block_M: layout.broadcast_rows(200, 700, block_M=block_M), 8, 192, name="block_M"),
    "K45 broadcast of columns": linear(lambda block_M: layout.broadcast_columns(200, 700, block_M=block_M), 8, 192, name="block_M"),
    "K45 split": linear(lambda block_M: layout.split_columns(300, 900, 500, block_M=block_M), 8, 256, name="block_M"),
    "K45 concat": linear(lambda block_M: layout.concat_columns(300, 500, 400, block_M=block_M), 8, 256, name="block_M"),
    "K48 top_k": linear(lambda block_M: layout.top_k_iterative(300, 256, 3, block_M=block_M), 4, 256, name="block_M"),
    "K49 split_k sum": square(lambda **t: layout.split_k_sum(260, 1024, 3, **t), (16, 64), (256, 512), False),
    "reversed": linear(lambda block: access.reversed_copy(50_000, block=block), 128, UB),
    "every second": linear(lambda block: access.every_other(50_000, block=block), 128, UB),
    "stencil": linear(lambda block: access.stencil(50_000, block=block), 128, UB, False),
    "K30 product": blocks(lambda **t: tilelang.compile(products.matmul(300, 280, 520, **t)), (512, 512, 256)),
    "K33 products": blocks(lambda **t: tilelang.compile(products.batched(2, 300, 280, 300, **t)), (512, 512, 256)),
    "K34 quantised": blocks(lambda **t: tilelang.compile(products.quantised(300, 280, 520, 0.5, 0.25, **t)), (512, 512, 256)),
    "K23 product and softmax": Case(
        lambda **t: tilelang.compile(products.product_softmax(300, 256, 300, **t)),
        {"bM": 64, "bK": 64}, {"bM": 16, "bK": 16}, {"bM": 256, "bK": 256}, {}, False,
    ),
    "K40 feed forward": Case(
        lambda **t: tilelang.compile(products.ffn(150, 128, 256, **t)), {"bM": 32, "bH": 64}, {"bM": 16, "bH": 16}, {"bM": 128, "bH": 256}, {}, False
    ),
}  # fmt: skip


def arrays_of(kernel, lengths: dict) -> tuple[dict, dict]:
    """Tensors, with small numbers, and scalars for the parameters of a kernel."""
    rng, arrays, scalars = np.random.default_rng(5), {}, dict(lengths)
    for p in kernel.artifact.signature.parameters:
        if getattr(p, "shape", None) is None:
            scalars.setdefault(p.name, 2)
            continue
        shape, dtype = [n if isinstance(n, int) else lengths[str(n)] for n in p.shape], np.dtype(numpy_dtype(p.dtype))
        values = rng.integers(0 if dtype.kind == "u" else -3, 4, shape) if dtype.kind in "iu" else rng.random(shape) * 2 - 0.5
        arrays[p.name] = values.astype(dtype)
    return arrays, scalars


@pytest.mark.parametrize("size", ["small", "large"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.one_in(18)
def test_tiles_of_other_sizes(name, size):
    case = CASES[name]
    usual, other = case.kernel(**case.usual), case.kernel(**getattr(case, size))
    arrays, scalars = arrays_of(usual, case.lengths)
    want = strict.launch(usual.artifact, strict.entries_of(usual.artifact), arrays, scalars)[0]
    got = strict.run(other, arrays, scalars, text=False)
    for key in want:
        a, b = (np.nan_to_num(x[key].astype(np.float64)) for x in (got, want))
        if case.exact:
            np.testing.assert_array_equal(a, b)
        else:
            step = 2.0**-9 if want[key].dtype.itemsize < 4 else 1e-5
            np.testing.assert_allclose(a, b, rtol=step, atol=step * np.abs(b).max(initial=1))
