"""Atomic updates of rows whose number is data: one transfer for each row where only the row is data, element by element elsewhere."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.ir import For, op_name, statements

R, N, ROWS = 12, 40, 5

# Form -> does a transfer move a whole row?
FORMS = {
    "rows": True, "of a tile": True, "computed": True, "int64": True, "in a block": True, "if i": True, "if data": True, "else": True,
    "two indices": True, "planes": True, "one column between": True, "serial inside": True, "two updates": True,
    "if j": False, "columns": False, "row by j": False, "written index": False, "diagonal": False,
}  # fmt: skip
SHAPES = {
    "planes": (ROWS, 2, N),
    "one column between": (ROWS, 3, N),
    "two indices": (ROWS, 4, N),
    "columns": (R, ROWS),
    "diagonal": (ROWS, N),
}


def build(form, dtype, op):
    shape = SHAPES.get(form, (ROWS, N))
    index = "int64" if form == "int64" else "int32"
    update = {"add": T.atomic_add, "max": T.atomic_max, "min": T.atomic_min}[op]

    @T.prim_func
    def main(X: T.Tensor((R, N), dtype), I: T.Tensor((R,), index), J: T.Tensor((R,), "int32"), Y: T.Tensor(shape, dtype)):
        with T.Kernel(2) as bx:
            x = T.alloc_shared((R // 2, N), dtype)
            at = T.alloc_shared((R // 2,), "int32")
            T.copy(X[bx * (R // 2), 0], x)
            if form == "written index":
                T.fill(at, 0)
            if form == "in a block":
                for i, j in T.Parallel(R // 2, N // 2):
                    update(Y[I[bx * (R // 2) + i], bx * (N // 2) + j], X[bx * (R // 2) + i, j])
            elif form == "serial inside":
                for i in T.Parallel(R // 2):
                    for j in T.serial(N):
                        update(Y[I[bx * (R // 2) + i], j], x[i, j])
            elif form == "planes":
                for i, p, j in T.Parallel(R // 2, 2, N):
                    update(Y[I[bx * (R // 2) + i], p, j], x[i, j])
            else:
                for i, j in T.Parallel(R // 2, N):
                    if form in ("rows", "int64"):
                        update(Y[I[bx * (R // 2) + i], j], X[bx * (R // 2) + i, j])
                    elif form == "of a tile":
                        update(Y[I[bx * (R // 2) + i], j], x[i, j])
                    elif form == "computed":
                        update(Y[I[bx * (R // 2) + i], j], x[i, j] + x[i, j])
                    elif form == "two updates":
                        update(Y[I[bx * (R // 2) + i], j], x[i, j])
                        update(Y[J[bx * (R // 2) + i], j], x[i, j])
                    elif form == "if i":
                        if i < 4 - bx:
                            update(Y[I[bx * (R // 2) + i], j], x[i, j])
                    elif form == "if data":
                        if J[bx * (R // 2) + i] > 1:
                            update(Y[I[bx * (R // 2) + i], j], x[i, j])
                    elif form == "else":
                        if J[bx * (R // 2) + i] > 1:
                            update(Y[I[bx * (R // 2) + i], j], x[i, j])
                        else:
                            update(Y[J[bx * (R // 2) + i], j], x[i, j])
                    elif form == "two indices":
                        update(Y[I[bx * (R // 2) + i], J[bx * (R // 2) + i], j], x[i, j])
                    elif form == "one column between":
                        update(Y[I[bx * (R // 2) + i], 2, j], x[i, j])
                    elif form == "if j":
                        if j < 7 + i:
                            update(Y[I[bx * (R // 2) + i], j], x[i, j])
                    elif form == "columns":
                        update(Y[bx * (R // 2) + i, I[i]], x[i, j])
                    elif form == "row by j":
                        update(Y[I[bx * (R // 2) + j % 3], j], x[i, j])
                    elif form == "written index":
                        at[i] = I[bx * (R // 2) + i]
                        update(Y[at[i], j], x[i, j])
                    else:
                        update(Y[I[i], i], x[i, j])

    return tilelang.compile(main)


def reference(form, X, I, J, Y, combine):
    half = R // 2
    for r in range(R):
        i, x = r % half, X[r]
        block = r // half
        row = I[r]
        if form == "computed":
            combine.at(Y, row, x + x)
        elif form == "in a block":
            combine.at(Y[:, block * (N // 2) : (block + 1) * (N // 2)], row, x[: N // 2])
        elif form == "if i" and i >= 4 - block or form == "if data" and J[r] <= 1:
            continue
        elif form == "else":
            combine.at(Y, row if J[r] > 1 else J[r], x)
        elif form == "two updates":
            combine.at(Y, row, x)
            combine.at(Y, J[r], x)
        elif form == "two indices":
            combine.at(Y, (row, J[r]), x)
        elif form == "one column between":
            combine.at(Y[:, 2], row, x)
        elif form == "planes":
            combine.at(Y, row, x[None])
        elif form == "if j":
            combine.at(Y[:, : 7 + i], row, x[: 7 + i])
        elif form == "columns":
            combine.at(Y, (np.full(N, r), np.full(N, I[i])), x)
        elif form == "row by j":
            combine.at(Y, (I[block * half + np.arange(N) % 3], np.arange(N)), x)
        elif form == "diagonal":
            combine.at(Y, (np.full(N, I[i]), np.full(N, i)), x)
        else:
            combine.at(Y, row, x)


def in_rows(kernel) -> bool:
    """True if no loop around an atomic transfer runs over the elements of a row."""
    functions = kernel.artifact.ascend_ir.functions.values()
    loops = [s for f in functions for s in statements(f.body) if isinstance(s, For)]
    return not any(int(s.extent) in (N, N // 2) and any("atomic" in (op_name(x) or "") for x in statements(s.body)) for s in loops)


CASES = [(form, *(("float32", "add"), ("int32", "min"))[k % 2]) for k, form in enumerate(FORMS)]


@pytest.mark.parametrize(
    "form, dtype, op",
    [*CASES, ("rows", "float16", "max"), ("rows", "int32", "min"), ("if data", "int32", "min"), ("if j", "float16", "max")],
)
@pytest.mark.one_in(6)
def test_rows(form, dtype, op):
    rng = np.random.default_rng(0)
    X = rng.integers(-9, 10, (R, N)).astype(dtype)
    I = rng.integers(0, ROWS, R).astype("int64" if form == "int64" else "int32")
    J = rng.integers(0, 4, R).astype("int32")
    shape = SHAPES.get(form, (ROWS, N))
    kernel = build(form, dtype, op)
    want = rng.integers(-3, 4, shape).astype(dtype)
    got = strict.run(kernel, {"X": X, "I": I, "J": J, "Y": want.copy()}, text=form == "if data")
    reference(form, X, I, J, want, {"add": np.add, "max": np.maximum, "min": np.minimum}[op])
    np.testing.assert_array_equal(got["Y"], want)
    assert in_rows(kernel) == FORMS[form]


@pytest.mark.parametrize("count, add", [(4, T.atomic_addx4), (2, T.atomic_addx2)])
def test_a_few_neighbours_at_a_time_are_a_row(count, add):
    @T.prim_func
    def kernel(X: T.Tensor((R, N), "float32"), I: T.Tensor((R,), "int32"), Y: T.Tensor((ROWS, N), "float32")):
        with T.Kernel(1):
            x = T.alloc_shared((R, N), "float32")
            T.copy(X, x)
            for i, j in T.Parallel(R, N // count):
                add(Y[I[i], j * count], x[i, j * count])

    rng = np.random.default_rng(0)
    X, I = rng.integers(-9, 10, (R, N)).astype("float32"), rng.integers(0, ROWS, R).astype("int32")
    want = rng.integers(-3, 4, (ROWS, N)).astype("float32")
    compiled = tilelang.compile(kernel)
    got = strict.run(compiled, {"X": X, "I": I, "Y": want.copy()})
    np.add.at(want, I, X)
    np.testing.assert_array_equal(got["Y"], want)
    assert in_rows(compiled)
    loops = [x for f in compiled.artifact.ascend_ir.functions.values() for x in statements(f.body) if isinstance(x, For)]
    assert not any(int(x.extent) == N // count and any("atomic" in (op_name(y) or "") for y in statements(x.body)) for x in loops)
