"""Element-wise statements that read or write a tile across its rows: by squares where they fit, lane by lane elsewhere."""

import ml_dtypes
import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.ir import op_name, statements

NUMPY = {"bfloat16": ml_dtypes.bfloat16}
SHAPES = {"float16": (32, 48), "bfloat16": (16, 16), "float32": (24, 32), "int32": (8, 16), "uint16": (64, 32), "float32 square": (16, 16)}
RAGGED = {"float16": (24, 16), "float32": (12, 16), "int32": (16, 24), "int8": (32, 32), "int64": (8, 16)}

# Form -> (shape of x for a result of P rows and Q columns, NumPy's result).
FORMS = {
    "load": (lambda p, q: (q, p), lambda x, p, q: x.T),
    "store": (lambda p, q: (q, p), lambda x, p, q: x.T),
    "computed": (lambda p, q: (q, p), lambda x, p, q: x.T + x.T),
    "part": (lambda p, q: (q + 8, p + 32), lambda x, p, q: x[8:, 32:].T),
    "planes": (lambda p, q: (3, q, p), lambda x, p, q: x.transpose(0, 2, 1)),
    "planes within": (lambda p, q: (q, 3, p), lambda x, p, q: x.transpose(2, 1, 0)),
    "backwards": (lambda p, q: (q, p), lambda x, p, q: x[::-1].T),
}


def build(form, p, q, dtype):
    shape = FORMS[form][0](p, q)
    result = {"planes": (3, p, q), "planes within": (p, 3, q)}.get(form, (p, q))

    @T.prim_func
    def main(X: T.Tensor(shape, dtype), Y: T.Tensor(result, dtype)):
        with T.Kernel(1) as _:
            x, y = T.alloc_shared(shape, dtype), T.alloc_shared(result, dtype)
            T.copy(X, x)
            if form == "load":
                for i, j in T.Parallel(p, q):
                    y[i, j] = x[j, i]
            elif form == "store":
                for j, i in T.Parallel(q, p):
                    y[i, j] = x[j, i]
            elif form == "computed":
                for i, j in T.Parallel(p, q):
                    y[i, j] = x[j, i] + x[j, i]
            elif form == "part":
                for i, j in T.Parallel(p, q):
                    y[i, j] = x[j + 8, i + 32]
            elif form == "planes":
                for b, i, j in T.Parallel(3, p, q):
                    y[b, i, j] = x[b, j, i]
            elif form == "planes within":
                for i, b, j in T.Parallel(p, 3, q):
                    y[i, b, j] = x[j, b, i]
            else:
                for i, j in T.Parallel(p, q):
                    y[i, j] = x[q - 1 - j, i]
            T.copy(y, Y)

    return tilelang.compile(main), result


def instructions(kernel) -> set:
    return {op_name(s) for f in kernel.artifact.ascend_ir.functions.values() for s in statements(f.body)}


def check(form, name, p, q, text):
    dtype = name.split()[0]
    kernel, shape = build(form, p, q, dtype)
    rng = np.random.default_rng(0)
    x = rng.integers(0, 50, FORMS[form][0](p, q)).astype(NUMPY.get(dtype, dtype))
    got = strict.run(kernel, {"X": x, "Y": np.zeros(shape, x.dtype)}, text=text)
    np.testing.assert_array_equal(got["Y"], FORMS[form][1](x, p, q))
    return instructions(kernel)


# Every form once for elements of 16 and of 32 bits, every dtype in one form.
CASES = [
    *((form, name) for form in FORMS for name in ("float16", "float32")),
    *(("load", name) for name in SHAPES if name not in ("float16", "float32")),
]


@pytest.mark.parametrize("form, name", CASES)
@pytest.mark.one_in(2)
def test_squares(form, name):
    found = check(form, name, *SHAPES[name], text=form in ("load", "planes") and name.startswith("float"))
    assert ("ascend.trans_data_to_5hd" in found) == (form != "backwards")


@pytest.mark.parametrize("name", RAGGED)
@pytest.mark.parametrize("form", ["load", "store"])
def test_other_shapes(form, name):
    found = check(form, name, *RAGGED[name], text=False)
    # Bytes are turned as float16, 64-bit integers as words.
    assert name in ("int8", "int64") or "ascend.trans_data_to_5hd" not in found
