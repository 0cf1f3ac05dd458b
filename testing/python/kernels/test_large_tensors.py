"""Tensors with more elements than an int32 can number: sizes, and offsets in values, in the stream and in the text.

Their arrays are zeros of which next to nothing is touched: no memory stands behind the rest.
"""

import re

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import arch
from tilelang_ascend.errors import ArgumentValueError
from tilelang_ascend.ir import AllocBuffer, Bind, PrimFunc, Var, call, const_int, decl_buffer, dtype_of, imm, seq, sym
from tilelang_ascend.sim import machine
from tilelang_ascend.tileop.base.output import Output
from tilelang_ascend.transform.lower.lower_tile_ops import _workspaces

BLOCKS, LANES = 7, 64
STEP = 655360000
"""Elements between the places that are looked at: three of them are behind 2**31."""
ELEMENTS = BLOCKS * STEP
CHECKED = machine.SimOptions(checks=("memcheck", "synccheck"))


def run(kernel, arrays: dict, scalars: dict | None = None, text: bool = True) -> None:
    """Runs the IR and the text in place, one after the other."""
    artifact = kernel.artifact
    written = {p.name: p.writes for p in artifact.signature.parameters}
    tensors = [machine.Tensor(a.ctypes.data, a.nbytes, name, written[name]) for name, a in arrays.items()]
    words = {**(scalars or {}), **{name: a.ctypes.data for name, a in arrays.items()}}
    for entries in [strict.entries_of(artifact), *([strict.twin_entries(artifact)] if text else [])]:
        launches = [
            machine.Launch(step.kernel_type, step.block_dim, e, [int(words[slot.name]) for slot in step.abi])
            for step, e in zip(artifact.steps, entries, strict=True)
        ]
        result = machine.run_in_order(arch.get_chip(artifact.chip), launches, tensors, CHECKED)
        assert not result.hazards, result.hazards[0].text()
        yield


def some(rows: int = BLOCKS) -> np.ndarray:
    return np.arange(1, rows * LANES + 1).reshape(rows, LANES).astype(np.int8)


@pytest.fixture(scope="module")
def flat():
    """A tensor of one dimension with numbers at every step."""
    x = np.zeros(ELEMENTS, np.int8)
    x.reshape(BLOCKS, STEP)[:, :LANES] = some()
    return x


@pytest.mark.parametrize("columns", [(1 << 15) - 1, 1 << 15, (1 << 16) - 1, 1 << 16, 70_016])
@pytest.mark.parametrize("dtype", ["int8", "float16"])
def test_the_number_of_elements_is_what_it_is(columns, dtype):
    rows = 1 << 16

    @T.prim_func
    def main(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((LANES,), dtype)):
        with T.Kernel(1):
            t = T.alloc_shared((LANES,), dtype)
            T.copy(X[rows - 1, columns - LANES : columns], t)
            T.copy(t, Y)

    kernel = tilelang.compile(main)
    (function,) = kernel.artifact.ascend_ir.functions.values()
    assert [const_int(n) for p in function.params for n in p.ty.shape] == [rows * columns, LANES]
    x, y = np.zeros((rows, columns), dtype), np.zeros(LANES, dtype)
    x[-1, -LANES:] = some(1)
    for _ in run(kernel, {"X": x, "Y": y}, text=False):
        np.testing.assert_array_equal(y, some(1)[0])


def sizes_known_when_it_runs():
    m, n = T.symbolic("m"), T.symbolic("n")

    @T.prim_func
    def main(X: T.Tensor((3, m, n), "int8"), Y: T.Tensor((3, LANES), "int8")):
        with T.Kernel(3) as b:
            t = T.alloc_shared((LANES,), "int8")
            T.copy(X[b, 0, 0:LANES], t)
            T.copy(t, Y[b, :])

    return main, {"m": 1 << 16, "n": 1 << 15}, (3, 1 << 16, 1 << 15)


def one_size_known_when_it_runs():
    m = T.symbolic("m")

    @T.prim_func
    def main(X: T.Tensor((3, m, 1 << 16, 1 << 15), "int8"), Y: T.Tensor((3, LANES), "int8")):
        with T.Kernel(3) as b:
            t = T.alloc_shared((LANES,), "int8")
            T.copy(X[b, 0, 0, 0:LANES], t)
            T.copy(t, Y[b, :])

    return main, {"m": 1}, (3, 1, 1 << 16, 1 << 15)


@pytest.mark.parametrize("case", [sizes_known_when_it_runs, one_size_known_when_it_runs])
def test_strides_that_are_products(case):
    func, scalars, shape = case()
    x, y = np.zeros(shape, np.int8), np.zeros((3, LANES), np.int8)
    x.reshape(3, -1)[:, :LANES] = some(3)
    for _ in run(tilelang.compile(func), {"X": x, "Y": y}, scalars):
        np.testing.assert_array_equal(y, some(3))
        y[:] = 0


def a_nest():
    @T.prim_func
    def main(X: T.Tensor((ELEMENTS,), "int8"), Y: T.Tensor((BLOCKS, LANES), "int8")):
        with T.Kernel(BLOCKS) as b:
            for i in T.Parallel(LANES):
                Y[b, i] = X[b * STEP + i]

    return main


def a_copy():
    @T.prim_func
    def main(X: T.Tensor((ELEMENTS,), "int8"), Y: T.Tensor((BLOCKS, LANES), "int8")):
        with T.Kernel(BLOCKS) as b:
            t = T.alloc_shared((LANES,), "int8")
            T.copy(X[b * STEP], t)
            T.copy(t, Y[b, :])

    return main


def names():
    @T.prim_func
    def main(X: T.Tensor((ELEMENTS,), "int8"), Y: T.Tensor((BLOCKS, LANES), "int8")):
        with T.Kernel(BLOCKS) as b:
            first = b * STEP
            start = first + 8
            for i in T.Parallel(LANES):
                Y[b, i] = X[start + i - 8]

    return main


def a_loop():
    @T.prim_func
    def main(X: T.Tensor((ELEMENTS,), "int8"), Y: T.Tensor((BLOCKS, LANES), "int8")):
        with T.Kernel(1):
            t = T.alloc_shared((LANES,), "int8")
            for k in range(BLOCKS):
                T.copy(X[k * STEP : k * STEP + LANES], t)
                T.copy(t, Y[k, :])

    return main


def a_length_known_when_it_runs():
    n = T.symbolic("n", "int64")

    @T.prim_func
    def main(X: T.Tensor((n,), "int8"), Y: T.Tensor((BLOCKS, LANES), "int8")):
        with T.Kernel(BLOCKS) as b:
            for i in T.Parallel(LANES):
                Y[b, i] = X[b * STEP + i]

    return main


def elements():
    @T.prim_func
    def main(X: T.Tensor((ELEMENTS,), "int8"), Y: T.Tensor((BLOCKS, LANES), "int8")):
        with T.Kernel(BLOCKS) as b:
            for i in T.serial(LANES):
                Y[b, i] = X[b * STEP + i]

    return main


def a_choice():
    @T.prim_func
    def main(X: T.Tensor((ELEMENTS,), "int8"), Y: T.Tensor((BLOCKS, LANES), "int8")):
        with T.Kernel(BLOCKS) as b:
            t = T.alloc_shared((LANES,), "int8")
            T.copy(X[T.if_then_else(b > 3, b * STEP, T.min(b, 3) * STEP)], t)
            T.copy(t, Y[b, :])

    return main


def a_condition():
    @T.prim_func
    def main(X: T.Tensor((ELEMENTS,), "int8"), Y: T.Tensor((BLOCKS, LANES), "int8")):
        with T.Kernel(BLOCKS) as b:
            t = T.alloc_shared((LANES,), "int8")
            start = b * STEP
            if start < 5 * STEP:
                T.copy(X[start], t)
                T.copy(t, Y[b, :])
            if b * STEP >= 5 * STEP:
                T.copy(X[b * STEP], t)
                T.copy(t, Y[b, :])

    return main


def a_choice_of_elements():
    @T.prim_func
    def main(X: T.Tensor((ELEMENTS,), "int8"), Y: T.Tensor((BLOCKS, LANES), "int8")):
        with T.Kernel(BLOCKS) as b:
            for i in T.Parallel(LANES):
                Y[b, i] = T.if_then_else(b * STEP + i < ELEMENTS - STEP // 2, X[b * STEP + i], T.int8(0))

    return main


CASES = [a_condition, a_choice_of_elements, a_nest, a_copy, names, a_loop, a_length_known_when_it_runs, elements, a_choice]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", CASES)
def test_indices_are_numbers_without_end(case, flat):
    y = np.zeros((BLOCKS, LANES), np.int8)
    for _ in run(tilelang.compile(case()), {"X": flat, "Y": y}, {"n": ELEMENTS}):
        np.testing.assert_array_equal(y, some())
        y[:] = 0


def chosen_by_data():
    @T.prim_func
    def main(X: T.Tensor((ELEMENTS,), "int8"), I: T.Tensor((BLOCKS,), "int32"), Y: T.Tensor((BLOCKS, LANES), "int8")):
        with T.Kernel(BLOCKS) as b:
            t = T.alloc_shared((LANES,), "int8")
            start = I[b] * STEP
            T.copy(X[start], t)
            T.copy(t, Y[b, :])

    return main


def test_data_may_name_any_element(flat):
    order, y = np.arange(BLOCKS, dtype=np.int32)[::-1].copy(), np.zeros((BLOCKS, LANES), np.int8)
    for _ in run(tilelang.compile(chosen_by_data()), {"X": flat, "I": order, "Y": y}):
        np.testing.assert_array_equal(y, some()[::-1])
        y[:] = 0


def stores():
    @T.prim_func
    def main(X: T.Tensor((ELEMENTS,), "int8"), Y: T.Tensor((BLOCKS, LANES), "int8")):
        with T.Kernel(BLOCKS) as b:
            for i in T.Parallel(LANES):
                X[b * STEP + i] = Y[b, i]

    return main


def test_stores_reach_any_element():
    x = np.zeros(ELEMENTS, np.int8)
    places = x.reshape(BLOCKS, STEP)[:, :LANES]
    for _ in run(tilelang.compile(stores()), {"X": x, "Y": some()}):
        np.testing.assert_array_equal(places, some())
        places[:] = 0


def test_rows_of_one_element_far_apart():
    """More rows than a transfer moves: where the second one begins."""
    rows, m, n = 4100, T.symbolic("m"), T.symbolic("n")

    @T.prim_func
    def main(X: T.Tensor((m, n), "int8"), Y: T.Tensor((rows, 1), "int8")):
        with T.Kernel(1):
            t = T.alloc_shared((rows, 1), "int8")
            T.copy(X[0:rows, 0:1], t)
            T.copy(t, Y)

    text = tilelang.compile(main).kernel_source
    assert re.search(r"X\[static_cast<int64_t>\(\w+\) \* static_cast<int64_t>\(n\) \* 4095\]", text)


def test_operands_with_rows_far_apart():
    k, n = 256, 1 << 24

    @T.prim_func
    def main(A: T.Tensor((64, k), "int8"), B: T.Tensor((k, n), "int8"), C: T.Tensor((64, 64), "int32")):
        with T.Kernel(1):
            a, b, c = T.alloc_shared((64, k), "int8"), T.alloc_shared((k, 64), "int8"), T.alloc_fragment((64, 64), "int32")
            T.copy(A, a)
            T.copy(B[:, n - 64 : n], b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    rng = np.random.default_rng(1)
    a, b, c = rng.integers(-9, 9, (64, k)).astype(np.int8), np.zeros((k, n), np.int8), np.zeros((64, 64), np.int32)
    b[:, -64:] = rng.integers(-9, 9, (k, 64))
    for _ in run(tilelang.compile(main), {"A": a, "B": b, "C": c}):
        np.testing.assert_array_equal(c, a.astype(np.int32) @ b[:, -64:].astype(np.int32))
        c[:] = 0


def rows_of_a_constant_length(columns):
    @T.prim_func
    def main(X: T.Tensor((3, columns), "float32"), Y: T.Tensor((3, LANES), "float32")):
        with T.Kernel(1):
            t = T.alloc_shared((3, LANES), "float32")
            T.copy(X[:, 0:LANES], t)
            T.copy(t, Y)

    return main


def rows_of_any_length(columns):
    n = T.symbolic("n", "int64")

    @T.prim_func
    def main(X: T.Tensor((3, n), "float32"), Y: T.Tensor((3, LANES), "float32")):
        with T.Kernel(1):
            t = T.alloc_shared((3, LANES), "float32")
            T.copy(X[:, 0:LANES], t)
            T.copy(t, Y)

    return main


def stored_rows(columns):
    @T.prim_func
    def main(Y: T.Tensor((3, LANES), "float32"), X: T.Tensor((3, columns), "float32")):
        with T.Kernel(1):
            t = T.alloc_shared((3, LANES), "float32")
            T.copy(Y, t)
            T.copy(t, X[:, 0:LANES])

    return main


@pytest.mark.parametrize("columns", [1 << 29, (1 << 30) - 64, 1 << 30, (1 << 30) + 64, (1 << 30) + 128])
@pytest.mark.parametrize("case", [rows_of_a_constant_length, rows_of_any_length, stored_rows])
@pytest.mark.one_in(2)
def test_rows_further_apart_than_a_transfer_can_say(case, columns):
    """The parameter of the instruction counts bytes in 32 bits."""
    kernel = tilelang.compile(case(columns))
    x, y = np.zeros((3, columns), np.float32), some(3).astype(np.float32)
    here = x[:, :LANES]
    there, expected = (here, y) if case is stored_rows else (y, y.copy())
    if case is not stored_rows:
        here[:] = y
    for _ in run(kernel, {"X": x, "Y": y}, {"n": columns}):
        np.testing.assert_array_equal(there, expected)
        there[:] = 0


def test_rows_of_bytes_further_apart_than_a_transfer_can_say():
    n, columns = T.symbolic("n", "int64"), (1 << 32) + 2 * LANES

    @T.prim_func
    def main(X: T.Tensor((2, n), "int8"), Y: T.Tensor((2, LANES), "int8")):
        with T.Kernel(1):
            t = T.alloc_shared((2, LANES), "int8")
            T.copy(X[:, 0:LANES], t)
            T.copy(t, Y)

    x, y = np.zeros((2, columns), np.int8), np.zeros((2, LANES), np.int8)
    x[:, :LANES] = some(2)
    for _ in run(tilelang.compile(main), {"X": x, "Y": y}, {"n": columns}):
        np.testing.assert_array_equal(y, some(2))
        y[:] = 0


@pytest.mark.parametrize("columns", [(1 << 31) - 64, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 32) + 16])
@pytest.mark.parametrize("known", [True, False])
def test_results_with_rows_far_apart(known, columns):
    """The parameter of the instruction counts elements in 32 bits."""
    n = columns if known else T.symbolic("n", "int64")

    @T.prim_func
    def main(A: T.Tensor((16, 16), "float16"), B: T.Tensor((16, 16), "float16"), C: T.Tensor((2, n), "float16")):
        with T.Kernel(1):
            a, b, c = T.alloc_shared((16, 16), "float16"), T.alloc_shared((16, 16), "float16"), T.alloc_fragment((16, 16), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C[0:16, 0:16])

    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, (16, 16)).astype(np.float16) for _ in range(2))
    c = np.zeros((2, columns), np.float16)
    for _ in run(tilelang.compile(main), {"A": a, "B": b, "C": c}, {"n": columns}):
        np.testing.assert_array_equal(c[:, :16], (a @ b)[:2])
        assert not c[:, 16:64].any()
        c[:, :16] = 0


def test_a_size_that_is_a_product():
    n = T.symbolic("n")

    @T.prim_func
    def main(X: T.Tensor((n, n), "int8"), Y: T.Tensor((BLOCKS, LANES), "int8")):
        with T.Kernel(BLOCKS) as b:
            F = T.Tensor((n * n,), "int8", X.data)
            for i in T.Parallel(LANES):
                Y[b, i] = F[b * 10000 * n + i]

    x, y = np.zeros((70000, 70000), np.int8), np.zeros((BLOCKS, LANES), np.int8)
    x[::10000, :LANES] = some()
    for _ in run(tilelang.compile(main), {"X": x, "Y": y}, {"n": 70000}):
        np.testing.assert_array_equal(y, some())
        y[:] = 0


def test_workspaces_of_all_blocks_together():
    """A tile that lives in GM has one copy for each block and version: together they may be too many for an int32."""
    tile = decl_buffer((2, 1 << 26), "int8", "ws")
    block = Bind(Var("block", "int32"), call("ascend.get_block_idx", [], dtype="int32"))
    declared = [AllocBuffer(tile, annotations={"workspace": True})]
    func = PrimFunc([], seq(declared, block)).with_attr("ascend.block_dim", 40)
    found, nbytes = _workspaces(func, declared, Output(arch.get_chip("a2")))
    assert nbytes == [1 << 27] and const_int(found[tile].flat.ty.shape[0]) == 40 << 27
    assert dtype_of(found[tile].offset([imm(1), imm(5)], sym.Analyzer())) == "int64"


@pytest.mark.parametrize(
    "shape, message", [((1, 1 << 31), "n is int32"), ((2, 1 << 29), "2147483648 bytes apart"), ((2, (1 << 29) - 64), None)]
)
def test_lengths_of_rows_that_an_int32_does_not_say(shape, message):
    n = T.symbolic("n")

    @T.prim_func
    def main(X: T.Tensor((shape[0], n), "float32"), Y: T.Tensor((shape[0], LANES), "float32")):
        with T.Kernel(1):
            t = T.alloc_shared((shape[0], LANES), "float32")
            T.copy(X[:, 0:LANES], t)
            T.copy(t, Y)

    kernel, x, y = tilelang.compile(main), np.zeros(shape, np.float32), np.ones((shape[0], LANES), np.float32)
    if message is None:
        kernel(x, y)
        assert not y.any()
        return
    with pytest.raises(ArgumentValueError, match=message) as error:
        kernel(x, y)
    assert "int64" in error.value.hint


def far_apart(case):
    """A kernel whose rows, or other parts, are an int32 of elements apart, and its arguments, which say that they are 2^31 bytes apart."""
    n, m, step = T.symbolic("n"), T.symbolic("m"), 1 << 29
    shape, strides = {
        "twice": ((2, n * 2), None), "view": ((n, 2), None), "planes": ((2, n, 1), None), "strides": ((2, LANES), (m, 1)), "result": ((2, n), None)
    }[case]  # fmt: skip
    size = step // 2 if case == "twice" else step

    @T.prim_func
    def main(
        N: T.Tensor((n,), "int8"),
        Y: T.Tensor((2, LANES), "float32"),
        X: T.StridedTensor(shape, strides, "float32") if strides else T.Tensor(shape, "float32"),
    ):
        with T.Kernel(1):
            t = T.alloc_shared((2, LANES), "float32")
            T.copy(Y, t)
            if case == "view":
                F = T.Tensor((2, n), "float32", X.data)
                T.copy(t, F[:, 0:LANES])
            elif case == "planes":
                for i, j in T.Parallel(2, LANES):
                    X[i, j, 0] = t[i, j]
            else:
                T.copy(t, X[:, 0:LANES])

    flat = np.zeros(2 * step, np.float32)
    x = (
        flat.reshape(2, step)[:, :LANES]
        if strides
        else flat.reshape(step, 2)
        if case == "view"
        else flat.reshape(2, step, *[1] * (len(shape) - 2))
    )
    given = [np.zeros(size, np.int8), np.zeros((2, LANES), np.float32)]
    return (tilelang.compile(main, out_idx=2), given) if case == "result" else (tilelang.compile(main), [*given, x])


@pytest.mark.parametrize("case", ["twice", "view", "planes", "strides", "result"])
def test_what_is_an_int32_of_elements_apart(case):
    kernel, given = far_apart(case)
    with pytest.raises(ArgumentValueError, match="parameter X are 2147483648 bytes apart"):
        kernel(*given)
