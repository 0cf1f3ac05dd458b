"""Several `T.Kernel` in one function: they run one after the other, on the same tensors."""

import ctypes
import logging

import ml_dtypes
import numpy as np
import pytest
import strict
import torch

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import cache, interpret
from tilelang_ascend.codegen import emit
from tilelang_ascend.errors import DeviceAssertionError, InvalidKernel, SimulationError, UnsupportedConstruct
from tilelang_ascend.sim import twin

RNG = np.random.default_rng(31)
ROWS, WIDTH = 128, 64
SHAPE = (ROWS, WIDTH)


def numbers(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


@T.macro
def doubled(A, W, rows):
    with T.Kernel(ROWS // rows, threads=128) as bx:
        s = T.alloc_shared((rows, WIDTH), "float32")
        T.copy(A[bx * rows, 0], s)
        for i, j in T.Parallel(rows, WIDTH):
            s[i, j] = s[i, j] * 2
        T.copy(s, W[bx * rows, 0])


@T.macro
def reversed_blocks(W, B, rows, blocks=None):
    with T.Kernel(ROWS // rows if blocks is None else blocks, threads=128) as bx:
        s = T.alloc_fragment((rows, WIDTH), "float32")
        T.copy(W[(ROWS // rows - 1 - bx) * rows, 0], s)
        for i, j in T.Parallel(rows, WIDTH):
            s[i, j] = s[i, j] + 1
        T.copy(s, B[bx * rows, 0])


def expected(a, rows):
    return (a * 2 + 1).reshape(ROWS // rows, rows, WIDTH)[::-1].reshape(SHAPE)


def over_a_tensor(blocks=None):
    @T.prim_func
    def main(A: T.Tensor(SHAPE, "float32"), W: T.Tensor(SHAPE, "float32"), B: T.Tensor(SHAPE, "float32")):
        doubled(A, W, 64)
        reversed_blocks(W, B, 32, blocks)

    return main


def over_a_workspace(blocks=None):
    @T.prim_func
    def main(A: T.Tensor(SHAPE, "float32"), B: T.Tensor(SHAPE, "float32")):
        W = T.alloc_buffer(SHAPE, "float32")
        doubled(A, W, 64 if blocks is None else 32)
        reversed_blocks(W, B, 32, blocks)

    return main


def test_the_second_launch_sees_all_the_first_one_wrote():
    a = numbers(*SHAPE)
    kernel = tilelang.compile(over_a_tensor())
    out = strict.run(kernel, {"A": a, "W": np.zeros_like(a), "B": np.zeros_like(a)})
    np.testing.assert_array_equal(out["W"], a * 2)
    np.testing.assert_array_equal(out["B"], expected(a, 32))
    assert [step.block_dim for step in kernel.artifact.steps] == [2, 4]


def test_outputs_and_workspaces_of_a_call_live_through_its_launches():
    a = torch.from_numpy(numbers(*SHAPE))
    w, b = tilelang.compile(over_a_tensor(), out_idx=[1, 2])(a)
    np.testing.assert_array_equal(w, a * 2)
    np.testing.assert_array_equal(b, expected(a.numpy(), 32))
    kernel = tilelang.compile(over_a_workspace(), out_idx=[1])
    np.testing.assert_array_equal(kernel(a), expected(a.numpy(), 32))
    assert [slot.kind for slot in kernel.artifact.steps[1].abi] == ["buffer", "buffer", "shared"]


def test_a_shared_workspace_strictly():
    a = numbers(*SHAPE)
    out = strict.run(tilelang.compile(over_a_workspace()), {"A": a, "B": np.zeros_like(a)})
    np.testing.assert_array_equal(out["B"], expected(a, 32))


def vector_cube_vector(columns, inner):
    m = T.dynamic("m")

    @T.prim_func
    def main(
        A: T.Tensor((m, inner), "float16"), B: T.Tensor((inner, columns), "float16"), H: T.Tensor((m, inner), "float16"),
        C: T.Tensor((m, columns), "float32"), S: T.Tensor((m,), "float32"),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(m, 32), threads=128) as bx:
            a = T.alloc_fragment((32, inner), "float16")
            T.copy(A[bx * 32, 0], a)
            for i, j in T.Parallel(32, inner):
                a[i, j] = a[i, j] * 2
            T.copy(a, H[bx * 32, 0])
        with T.Kernel(T.ceildiv(columns, 64), T.ceildiv(m, 64), threads=128) as (bx, by):
            a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(inner, 32), num_stages=2):
                T.copy(H[by * 64, k * 32], a)
                T.copy(B[k * 32, bx * 64], b)
                T.gemm(a, b, c)
            for i, j in T.Parallel(64, 64):
                c[i, j] = T.max(c[i, j], 0)
            T.copy(c, C[by * 64, bx * 64])
        with T.Kernel(1, T.ceildiv(m, 16), 1) as (bx, by, bz):
            c, s = T.alloc_fragment((16, columns), "float32"), T.alloc_fragment((16,), "float32")
            T.copy(C[by * 16, 0], c)
            T.reduce_sum(c, s, dim=1)
            T.copy(s, S[by * 16])

    return main


@pytest.mark.parametrize("rows", [96, 77])
def test_kinds_of_cores_and_grids_differ_from_launch_to_launch(rows):
    kernel = tilelang.compile(vector_cube_vector(128, 64))
    assert [step.kernel_type for step in kernel.artifact.steps] == ["aiv_only", "mix_1_2", "aiv_only"]
    a, b = numbers(rows, 64, dtype=np.float16), numbers(64, 128, dtype=np.float16)
    arrays = {"A": a, "B": b, "H": np.zeros_like(a), "C": np.zeros((rows, 128), np.float32), "S": np.zeros(rows, np.float32)}
    out = strict.run(kernel, arrays, {"m": rows})
    c = np.maximum((a * np.float16(2)).astype(np.float32) @ b.astype(np.float32), 0)
    np.testing.assert_allclose(out["C"], c, **strict.tolerance(np.dtype("float32"), 64))
    np.testing.assert_allclose(out["S"], c.sum(1), rtol=1e-5)


def test_a_loop_of_python_makes_as_many_launches():
    @T.prim_func
    def main(A: T.Tensor(SHAPE, "float32"), B: T.Tensor(SHAPE, "float32")):
        for step in range(3):
            source = A if step == 0 else B
            with T.Kernel(4) as bx:
                s = T.alloc_shared((32, WIDTH), "float32")
                T.copy(source[bx * 32, 0], s)
                for i, j in T.Parallel(32, WIDTH):
                    s[i, j] = s[i, j] * 2 + step
                T.copy(s, B[bx * 32, 0])

    a = numbers(*SHAPE)
    kernel = tilelang.compile(main)
    out = strict.run(kernel, {"A": a, "B": np.zeros_like(a)})
    assert len(kernel.artifact.steps) == 3
    np.testing.assert_allclose(out["B"], ((a * 2) * 2 + 1) * 2 + 2, rtol=1e-6)


def test_scalars_between_launches():
    @T.prim_func
    def main(A: T.Tensor(SHAPE, "float32"), B: T.Tensor(SHAPE, "float32"), n: T.int32):
        v = T.alloc_var("int32", init=0)
        if n > 2:
            v = 5
        else:
            v = 7
        k = n * 3
        with T.Kernel(2) as bx:
            s = T.alloc_shared((64, WIDTH), "float32")
            T.copy(A[bx * 64, 0], s)
            for i, j in T.Parallel(64, WIDTH):
                s[i, j] = s[i, j] * v
            T.copy(s, B[bx * 64, 0])
        v = v + k
        with T.Kernel(2) as bx:
            s = T.alloc_shared((64, WIDTH), "float32")
            T.copy(B[bx * 64, 0], s)
            for i, j in T.Parallel(64, WIDTH):
                s[i, j] = s[i, j] * v
            T.copy(s, B[bx * 64, 0])

    a = numbers(*SHAPE)
    for n, factor in ((1, 7 * 10), (3, 5 * 14)):
        out = strict.run(tilelang.compile(main), {"A": a, "B": np.zeros_like(a)}, {"n": n})
        np.testing.assert_allclose(out["B"], a * factor, rtol=1e-6)


def test_scalars_of_statements_that_do_more():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), n: T.int32):
        v = T.alloc_var("int32", init=1)
        for i in T.serial(n):
            v = v + i
            assert v < 100
        with T.Kernel(1):
            for i in T.Parallel(64):
                A[i] = A[i] + v
        with T.Kernel(1):
            for i in T.Parallel(64):
                B[i] = A[i] + v

    a = numbers(64)
    out = strict.run(tilelang.compile(main), {"A": a, "B": np.zeros_like(a)}, {"n": 4})
    np.testing.assert_array_equal(out["B"], (a + 7) + 7)


def read_before_it_changes(changed):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        v = T.alloc_var("float32")
        v = A[0]
        seen = T.Tensor((8, 8), "float32", A.data)
        with T.Kernel(1):
            for i, j in T.Parallel(8, 8):
                if changed:
                    seen[i, j] = seen[i, j] + 10
                else:
                    B[i * 8 + j] = seen[i, j] + 10
        with T.Kernel(1):
            for i in T.Parallel(64):
                B[i] = B[i] + v

    return main


def test_a_scalar_is_not_read_again_when_its_tensor_has_changed():
    with pytest.raises(UnsupportedConstruct, match=r"v = A\[0\](.|\n)*is changed here(.|\n)*seen\[i, j\] \+ 10"):
        tilelang.compile(read_before_it_changes(True))
    a = numbers(64)
    out = strict.run(tilelang.compile(read_before_it_changes(False)), {"A": a, "B": np.zeros_like(a)})
    np.testing.assert_array_equal(out["B"], (a + 10) + a[0])


def test_a_grid_as_large_as_an_earlier_launch_says():
    @T.prim_func
    def main(N: T.Tensor((8,), "int32"), A: T.Tensor(SHAPE, "float32"), B: T.Tensor(SHAPE, "float32")):
        with T.Kernel(1):
            s = T.alloc_shared((8,), "int32")
            for i in T.Parallel(8):
                s[i] = N[i] + 2
            T.copy(s, N)
        blocks = N[0]
        with T.Kernel(blocks) as bx:
            s = T.alloc_shared((32, WIDTH), "float32")
            T.copy(A[bx * 32, 0], s)
            T.copy(s, B[bx * 32, 0])

    a = numbers(*SHAPE)
    out = strict.run(tilelang.compile(main), {"N": np.ones(8, np.int32), "A": a, "B": np.zeros_like(a)})
    np.testing.assert_array_equal(out["B"], np.concatenate([a[:96], np.zeros_like(a[96:])]))


def test_a_view_of_a_tensor_serves_all_launches():
    @T.prim_func
    def main(A: T.Tensor(SHAPE, "float32"), W: T.Tensor(SHAPE, "float32"), B: T.Tensor((ROWS * WIDTH,), "float32")):
        flat = T.Tensor((ROWS * WIDTH,), "float32", W.data)
        with T.Kernel(2) as bx:
            s = T.alloc_shared((64, WIDTH), "float32")
            T.copy(A[bx * 64, 0], s)
            T.copy(s, W[bx * 64, 0])
        with T.Kernel(4) as bx:
            s = T.alloc_shared((2048,), "float32")
            T.copy(flat[bx * 2048], s)
            T.copy(s, B[bx * 2048])

    a = numbers(*SHAPE)
    out = strict.run(tilelang.compile(main), {"A": a, "W": np.zeros_like(a), "B": np.zeros(ROWS * WIDTH, np.float32)})
    np.testing.assert_array_equal(out["B"], a.reshape(-1))


def test_an_eager_kernel_with_two_launches():
    @tilelang.jit
    def scaled(A):
        M = T.const("M")
        A: T.Tensor[[M], "float32"]
        B = T.empty((M,), "float32")
        C = T.empty((M,), "float32")
        with T.Kernel(T.ceildiv(M, 256)) as bx:
            for i in T.Parallel(256):
                B[bx * 256 + i] = A[bx * 256 + i] * 2
        with T.Kernel(T.ceildiv(M, 128)) as bx:
            for i in T.Parallel(128):
                C[bx * 128 + i] = B[M - 1 - bx * 128 - i] + 1
        return B, C

    a = torch.from_numpy(numbers(1000))
    b, c = scaled(a)
    np.testing.assert_array_equal(b, a * 2)
    np.testing.assert_array_equal(c, (a * 2 + 1).flip(0))


def test_one_launch_clears_what_the_next_one_adds_to():
    @T.prim_func
    def main(A: T.Tensor(SHAPE, "float32"), S: T.Tensor((WIDTH,), "float32")):
        with T.Kernel(1):
            s = T.alloc_fragment((WIDTH,), "float32")
            T.clear(s)
            T.copy(s, S)
        with T.Kernel(8) as bx:
            a, s = T.alloc_shared((16, WIDTH), "float32"), T.alloc_fragment((WIDTH,), "float32")
            T.copy(A[bx * 16, 0], a)
            T.reduce_sum(a, s, dim=0)
            T.atomic_add(S, s)

    a = RNG.integers(-9, 9, SHAPE).astype(np.float32)
    np.testing.assert_array_equal(tilelang.compile(main, out_idx=[1])(torch.from_numpy(a)), a.sum(0))
    out = strict.run(tilelang.compile(main), {"A": a, "S": np.full(WIDTH, 7, np.float32)})
    np.testing.assert_array_equal(out["S"], a.sum(0))


@pytest.mark.parametrize("rows", [0, 5])
def test_a_grid_may_have_no_blocks_at_run_time(rows):
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((m, WIDTH), "float32"), B: T.Tensor((m, WIDTH), "float32"), C: T.Tensor((8,), "int32")):
        with T.Kernel(m) as bx:
            for j in T.Parallel(WIDTH):
                B[bx, j] = A[bx, j] * 2
        with T.Kernel(8) as bx:
            C[bx] = bx

    a = numbers(rows, WIDTH)
    out = strict.run(tilelang.compile(main), {"A": a, "B": np.zeros_like(a), "C": np.zeros(8, np.int32)}, {"m": rows})
    np.testing.assert_array_equal(out["B"], a * 2)
    np.testing.assert_array_equal(out["C"], np.arange(8))


@pytest.mark.parametrize("one", [False, True])
def test_elements_stored_to_a_workspace_outlive_a_launch(one):
    @T.prim_func
    def main(A: T.Tensor((32, 64), "float32"), B: T.Tensor((32,), "float32")):
        W = T.alloc_global((32,), "float32")
        with T.Kernel(32) as bx:
            row, total = T.alloc_shared((64,), "float32"), T.alloc_fragment((1,), "float32")
            T.copy(A[bx, 0], row)
            T.reduce_sum(row, total, dim=0)
            if one:
                W[bx] = total[0]
            else:
                for i in T.Parallel(1):
                    W[bx + i] = total[i]
        with T.Kernel(2) as bx:
            for i in T.Parallel(16):
                B[bx * 16 + i] = W[31 - (bx * 16 + i)]

    a = RNG.integers(-8, 8, (32, 64)).astype(np.float32)
    out = strict.run(tilelang.compile(main), {"A": a, "B": np.zeros(32, np.float32)})
    np.testing.assert_array_equal(out["B"], a.sum(1)[::-1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "bool", "float8_e4m3fn"])
def test_dtypes_of_shared_workspaces(dtype):
    @T.prim_func
    def main(A: T.Tensor(SHAPE, dtype), B: T.Tensor(SHAPE, dtype)):
        W = T.alloc_global(SHAPE, dtype)
        for source, target in ((A, W), (W, B)):
            with T.Kernel(2) as bx:
                s = T.alloc_shared((64, WIDTH), dtype)
                T.copy(source[bx * 64, 0], s)
                T.copy(s, target[bx * 64, 0])

    kind = np.dtype(bool) if dtype == "bool" else np.dtype(getattr(ml_dtypes, dtype, dtype))
    a = (RNG.standard_normal(SHAPE) * 2).astype(kind)
    out = strict.run(tilelang.compile(main), {"A": a, "B": np.zeros_like(a)})
    assert out["B"].tobytes() == a.tobytes()


@pytest.mark.parametrize("target", ["a3", "a5"])
def test_other_chips(target):
    a = numbers(*SHAPE)
    out = strict.run(tilelang.compile(over_a_workspace(), target=target), {"A": a, "B": np.zeros_like(a)})
    np.testing.assert_array_equal(out["B"], expected(a, 32))


# ---- what was never written ------------------------------------------------------------------------------------------


def test_a_workspace_no_launch_has_written_is_condemned():
    a = numbers(*SHAPE)
    kernel = tilelang.compile(unwritten_part())
    with pytest.raises(SimulationError, match=r"undefined bytes.*reach a tensor in GM\n.*launch 2 AIV"):
        kernel(a, np.zeros_like(a))
    with pytest.raises(AssertionError, match="initcheck"):
        strict.run(kernel, {"A": a, "B": np.zeros_like(a)})


def unwritten_part():
    """The second launch reads four blocks, the first one has written three."""

    @T.prim_func
    def main(A: T.Tensor(SHAPE, "float32"), B: T.Tensor(SHAPE, "float32")):
        W = T.alloc_global(SHAPE, "float32")
        with T.Kernel(3) as bx:
            s = T.alloc_shared((32, WIDTH), "float32")
            T.copy(A[bx * 32, 0], s)
            T.copy(s, W[bx * 32, 0])
        reversed_blocks(W, B, 32)

    return main


def test_outputs_are_unwritten_when_no_launch_wrote_them(caplog):
    @T.prim_func
    def main(A: T.Tensor(SHAPE, "float32"), B: T.Tensor(SHAPE, "float32"), C: T.Tensor(SHAPE, "float32")):
        for first in (0, 64):
            with T.Kernel(1 if first else 2) as bx:
                s = T.alloc_shared((32, WIDTH), "float32")
                T.copy(A[first + bx * 32, 0], s)
                T.copy(s, B[first + bx * 32, 0])
        doubled(A, C, 64)

    a = numbers(*SHAPE)
    kernel = tilelang.compile(main, out_idx=[1, 2])
    report = kernel.simulate(a)
    assert [(u.tensor, u.lo, u.hi) for u in report.unwritten] == [("B", 96 * WIDTH * 4, ROWS * WIDTH * 4)] and not report.hazards
    with caplog.at_level(logging.WARNING):
        b, c = kernel(a)
    assert "output B" in caplog.text and "output C" not in caplog.text
    np.testing.assert_array_equal(c, a * 2)
    assert np.isnan(b[96:]).all() and (b[:96] == a[:96]).all()


def test_nothing_runs_after_an_assertion_that_does_not_hold():
    @T.prim_func
    def main(A: T.Tensor(SHAPE, "float32"), B: T.Tensor(SHAPE, "float32"), n: T.int32):
        with T.Kernel(2) as bx:
            assert bx < n, "too few"
            s = T.alloc_shared((64, WIDTH), "float32")
            T.copy(A[bx * 64, 0], s)
        doubled(A, B, 64)

    a = numbers(*SHAPE)
    kernel, b = tilelang.compile(main), np.zeros(SHAPE, np.float32)
    with pytest.raises(DeviceAssertionError, match="too few"):
        kernel(a, b, 1)
    assert not b.any()
    kernel(a, b, 2)
    np.testing.assert_array_equal(b, a * 2)


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_a_scalar_does_not_travel_from_launch_to_launch():
    @T.prim_func
    def main(A: T.Tensor(SHAPE, "float32"), B: T.Tensor(SHAPE, "float32")):
        v = T.alloc_var("int32", init=0)
        with T.Kernel(2) as bx:
            s = T.alloc_shared((64, WIDTH), "float32")
            T.copy(A[bx * 64, 0], s)
            T.copy(s, B[bx * 64, 0])
            v = v + bx
        with T.Kernel(2) as bx:
            s = T.alloc_shared((64, WIDTH), "float32")
            T.copy(B[bx * 64, 0], s)
            for i, j in T.Parallel(64, WIDTH):
                s[i, j] = s[i, j] * v
            T.copy(s, B[bx * 64, 0])

    with pytest.raises(UnsupportedConstruct, match=r"v = v \+ bx(.|\n)*it is used here(.|\n)*global memory"):
        tilelang.compile(main)


def test_a_value_of_one_launch_is_unknown_in_the_next():
    with pytest.raises(InvalidKernel, match="'bx.*' is used outside the loop, branch or kernel that defines it"):

        @T.prim_func
        def main(A: T.Tensor((8,), "int32")):
            with T.Kernel(8) as bx:
                A[bx] = bx
            with T.Kernel(8) as by:
                A[by] = A[by] + bx


def test_whether_to_launch_is_not_decided_at_run_time():
    with pytest.raises(
        UnsupportedConstruct, match=r"a launch inside run-time(.|\n)*starts here(.|\n)*if n > 3(.|\n)*condition inside of `with"
    ):

        @T.prim_func
        def main(A: T.Tensor(SHAPE, "float32"), B: T.Tensor(SHAPE, "float32"), n: T.int32):
            if n > 3:
                doubled(A, B, 64)


@pytest.mark.parametrize("loop", [T.serial, T.unroll])
def test_how_often_to_launch_is_not_decided_at_run_time(loop):
    with pytest.raises(UnsupportedConstruct, match=r"a launch inside run-time(.|\n)*`for i in range\(n\)` and a constant n"):

        @T.prim_func
        def main(A: T.Tensor(SHAPE, "float32"), B: T.Tensor(SHAPE, "float32"), n: T.int32):
            for _ in loop(n):
                doubled(A, B, 64)


@pytest.mark.parametrize("where", ["in front", "between", "behind", "in a branch"])
def test_nothing_is_stored_outside_of_a_launch(where):
    with pytest.raises(
        InvalidKernel, match=r"'B' is changed outside of `with T.Kernel(.|\n)*B\[0, 0\] = A\[1, 1\](.|\n)*`with T.Kernel\(1\) as _:`"
    ):

        @T.prim_func
        def main(A: T.Tensor(SHAPE, "float32"), B: T.Tensor(SHAPE, "float32"), n: T.int32):
            if where == "in front":
                B[0, 0] = A[1, 1]
            doubled(A, B, 64)
            if where == "between":
                B[0, 0] = A[1, 1]
            elif where == "in a branch" and n > 3:
                B[0, 0] = A[1, 1]
            doubled(B, A, 64)
            if where == "behind":
                B[0, 0] = A[1, 1]


@pytest.mark.parametrize("behind", [False, True])
def test_no_scalar_is_read_while_blocks_change_its_tensor(behind):
    """Blocks of the first cores may be done when others begin."""

    def scaled(blocks):
        @T.prim_func
        def main(A: T.Tensor((64,), "float32")):
            k = T.alloc_var("float32")
            if not behind:
                k = A[0]
            with T.Kernel(blocks) as bx:
                for i in T.Parallel(64 // blocks):
                    A[bx * (64 // blocks) + i] = A[bx * (64 // blocks) + i] * (2 if behind else k)
            if behind:
                assert A[0] < 100

        return main

    with pytest.raises(UnsupportedConstruct, match=r"outside of a T.Kernel whose blocks change(.|\n)*is changed here"):
        tilelang.compile(scaled(8))
    a = numbers(64)
    out = strict.run(tilelang.compile(scaled(1)), {"A": a.copy()}, text=False)["A"]
    np.testing.assert_array_equal(out, a * (2 if behind else a[0]))


# ---- around the launches ---------------------------------------------------------------------------------------------


def test_times_and_writes_are_those_of_all_launches():
    def only_first():
        @T.prim_func
        def main(A: T.Tensor(SHAPE, "float32"), W: T.Tensor(SHAPE, "float32")):
            doubled(A, W, 64)

        return main

    def only_second():
        @T.prim_func
        def main(W: T.Tensor(SHAPE, "float32"), B: T.Tensor(SHAPE, "float32")):
            reversed_blocks(W, B, 32)

        return main

    a = numbers(*SHAPE)
    both = tilelang.compile(over_a_tensor()).simulate(a, a.copy(), a.copy())
    first = tilelang.compile(only_first()).simulate(a, a.copy())
    second = tilelang.compile(only_second()).simulate(a, a.copy())
    # The second launch of the two finds what the first one wrote in L2.
    assert first.simulated_us < both.simulated_us <= first.simulated_us + second.simulated_us + 1e-6
    assert both.run.traffic["hbm_read"] == first.run.traffic["hbm_read"]
    for key in ("l2_read", "l2_write", "hbm_write"):
        assert both.run.traffic[key] == first.run.traffic[key] + second.run.traffic[key]
    assert both.simulated_us == pytest.approx(both.run.launch_us + both.cycles / both.run.clock_hz * 1e6)
    assert both.run.launch_us == 2 * first.run.launch_us
    assert [c.name for c in both.run.per_core] == ["launch 1 AIV 0", "launch 1 AIV 1", *(f"launch 2 AIV {k}" for k in range(4))]
    later = both.run.events[both.run.events["core"] >= 2]
    assert later["start"].min() >= first.cycles and (later["start"] + later["duration"]).max() <= both.cycles + 1e-6
    busy = sum(c.busy_cycles["V"] for r in (first, second) for c in r.run.per_core if c.name == "AIV 0") / both.cycles
    assert both.occupancy["V"] == pytest.approx(busy)


def test_notes_say_which_launch_they_are_about():
    def softened(A, B):
        with T.Kernel(1):
            a, e = T.alloc_shared((128, 256), "float32"), T.alloc_fragment((128, 256), "float32")
            T.copy(A, a)
            for i, j in T.Parallel(128, 256):
                e[i, j] = T.exp(a[i, j])
            T.copy(e, B)

    @T.prim_func
    def main(A: T.Tensor((128, 256), "float32"), B: T.Tensor((128, 256), "float32"), C: T.Tensor((8,), "int32")):
        with T.Kernel(8) as bx:
            C[bx] = bx
        T.macro(softened)(A, B)

    (note,) = [note for note in tilelang.compile(main).artifact.notes if "larger than UB" in note]
    assert note.startswith("launch 2: tiles are larger than UB")


def test_the_disk_keeps_all_launches():
    a = numbers(*SHAPE)
    kernel = tilelang.compile(over_a_workspace(), out_idx=[1])
    before = kernel(a)
    again = type(kernel.artifact).from_files(kernel.artifact.to_files())
    assert again == kernel.artifact and len(again.steps) == 2
    cache.clear_memory()
    np.testing.assert_array_equal(tilelang.compile(over_a_workspace(), out_idx=[1])(a), before)


def test_the_emitted_launcher_starts_the_kernels_in_order():
    kernel, a, b = tilelang.compile(over_a_workspace()), numbers(*SHAPE), np.zeros(SHAPE, np.float32)
    artifact = kernel.artifact
    source = emit(artifact.ascend_ir)
    program = twin.compile_text(source.text, source.signatures[0].kernel, artifact.chip, artifact.steps[0].kernel_type)
    blocks = [step.block_dim for step in artifact.steps]
    assert program.workspace_bytes(*blocks) == a.nbytes
    workspace, seen = np.zeros(a.nbytes, np.uint8), []

    def launch(name, count, words):
        seen.append((name, count, words))
        return 0

    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, workspace)]
    assert program.call(launch, *pointers, *map(ctypes.c_uint32, blocks), None) == 0
    words = [x.ctypes.data for x in (a, b, workspace)]
    assert seen == [("main_1_kernel", 2, words), ("main_2_kernel", 4, words)]


def two_products_and_a_copy():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float32"), C: T.Tensor((64, 64), "float32")):
        W = T.alloc_global((64, 64), "float32")
        for target in (W, C):
            with T.Kernel(1):
                a, c = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
                T.copy(A, a)
                T.gemm(a, a, c, clear_accum=True)
                for i, j in T.Parallel(64, 64):
                    c[i, j] = c[i, j] * 2
                T.copy(c, target)
        with T.Kernel(1):
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(W, c)
            T.copy(c, B)

    return main


def test_workspaces_of_launches_lie_side_by_side():
    a = numbers(64, 64, dtype=np.float16)
    arrays = {"A": a, "B": np.zeros((64, 64), np.float32), "C": np.zeros((64, 64), np.float32)}
    kernel = tilelang.compile(two_products_and_a_copy())
    out = strict.run(kernel, arrays)
    want = a.astype(np.float32) @ a.astype(np.float32) * 2
    for name in "BC":
        np.testing.assert_allclose(out[name], want, **strict.tolerance(np.dtype("float32"), 64))
    kinds = [[slot.kind for slot in step.abi[3:]] for step in kernel.artifact.steps]
    assert kinds == [["shared", "workspace"], ["shared", "workspace"], ["shared"]]
    program = twin.compile_text(emit(kernel.artifact.ascend_ir).text, "main_1_kernel", kernel.artifact.chip)
    assert program.workspace_bytes(1, 1, 1) == 3 * 64 * 64 * 4
    assert strict.surviving_mutants(kernel, arrays) == []


def test_names_of_the_user_do_not_meet_those_of_the_launcher():
    @T.prim_func
    def main(
        A: T.Tensor(SHAPE, "float32"), W: T.Tensor(SHAPE, "float32"), block_dim_1: T.int32, main_2_kernel: T.Tensor(SHAPE, "float32")
    ):  # fmt: skip
        given, W = W, T.alloc_buffer(SHAPE, "float32")
        doubled(A, W, 64)
        with T.Kernel(2) as bx:
            s = T.alloc_shared((64, WIDTH), "float32")
            T.copy(W[bx * 64, 0], s)
            T.copy(s, given[bx * 64, 0])
            for i, j in T.Parallel(64, WIDTH):
                s[i, j] = s[i, j] + block_dim_1
            T.copy(s, main_2_kernel[bx * 64, 0])

    a = numbers(*SHAPE)
    out = strict.run(tilelang.compile(main), {"A": a, "W": np.zeros_like(a), "main_2_kernel": np.zeros_like(a)}, {"block_dim_1": 3})
    np.testing.assert_array_equal(out["W"], a * 2)
    np.testing.assert_array_equal(out["main_2_kernel"], a * 2 + 3)


def test_the_interpreter_of_python_agrees():
    a = numbers(*SHAPE)
    for make in (over_a_tensor, over_a_workspace):
        arrays = [a, *([np.zeros_like(a)] if make is over_a_tensor else []), np.zeros_like(a)]
        interpret.run(make(), *arrays)
        np.testing.assert_array_equal(arrays[-1], expected(a, 32))


def test_the_tuner_adds_the_launches_up(monkeypatch):
    monkeypatch.setenv("TILELANG_AUTO_TUNING_CPU_COUNTS", "1")

    @tilelang.autotune(configs=[{"rows": 8}, {"rows": 64}])
    @tilelang.jit(out_idx=[1])
    def kernel(rows=64):
        @T.prim_func
        def main(A: T.Tensor(SHAPE, "float32"), B: T.Tensor(SHAPE, "float32")):
            W = T.alloc_buffer(SHAPE, "float32")
            doubled(A, W, rows)
            reversed_blocks(W, B, rows)

        return main

    best = kernel()
    a = numbers(*SHAPE)
    assert best.latency * 1e3 == pytest.approx(best.simulate(a).simulated_us, rel=1e-3)
    np.testing.assert_array_equal(best(a), expected(a, best.config["rows"]))


def test_scalars_in_front_of_a_launch_are_every_blocks_own():
    n = 150  # more blocks than cores

    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), B: T.Tensor((n,), "int32")):
        k, m = T.alloc_var("int32"), 0
        k = 5
        if A[0] > 3:
            m = 7
        with T.Kernel(n // 2, 2) as (bx, by):
            k = k + A[bx * 2 + by]
            m = m + 1
            B[bx * 2 + by] = k * 100 + m

    a = RNG.integers(4, 9, n).astype(np.int32)
    want = (a + 5) * 100 + 8
    assert (strict.run(tilelang.compile(main), {"A": a, "B": np.zeros_like(a)})["B"] == want).all()
    mine = np.zeros_like(a)
    interpret.run(main, a, mine)
    assert (mine == want).all()
