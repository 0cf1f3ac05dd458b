"""gemm on planes of tiles of more than two dimensions, and on all of their matrices at once."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend import interpret
from tilelang_ascend.errors import ShapeMismatch

RNG = np.random.default_rng(5)
P, M, K, N = 3, 32, 48, 16


def small(*shape, dtype="float16"):
    return RNG.integers(-3, 4, shape).astype(dtype)


def agree(func, arrays, expected, **scalars):
    """`func` gives `expected` in a strict run; its last tensor is the result."""
    names = [p.name for p in func.params]
    out = strict.run(tilelang.compile(func), arrays, scalars)[[n for n in names if n in arrays][-1]]
    np.testing.assert_array_equal(out, expected)
    own = {n: a.copy() for n, a in arrays.items()}
    interpret.run(func, *[own[n] if n in own else scalars[n] for n in names])
    np.testing.assert_array_equal(own[[n for n in names if n in arrays][-1]], expected)


def planes(loop, side, ta, tb):
    """Products of planes that a variable of a loop, a number of run time or both name; on `side` (or all of them)."""
    a_shape, b_shape = (K, M) if ta else (M, K), (N, K) if tb else (K, N)

    @T.prim_func
    def main(A: T.Tensor((P, *a_shape), "float16"), B: T.Tensor((P, *b_shape), "float16"), C: T.Tensor((P, M, N), "float32"), n: T.int32):
        with T.Kernel(1):
            a, a1 = T.alloc_shared((P, *a_shape), "float16"), T.alloc_shared(a_shape, "float16")
            b, b1 = T.alloc_shared((P, *b_shape), "float16"), T.alloc_shared(b_shape, "float16")
            c, c1 = T.alloc_fragment((P, M, N), "float32"), T.alloc_fragment((M, N), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            for k in T.serial(P) if loop != "pipelined" else T.Pipelined(P, num_stages=2):
                p = (k + n) % P if loop == "run time" else k
                if side == "all":
                    T.gemm(a[p, :, :], b[p, :, :], c[p, :, :], ta, tb)
                elif side == "a":
                    T.copy(B[p, 0, 0], b1)
                    T.gemm(a[p, :, :], b1, c1, ta, tb, clear_accum=True)
                    T.copy(c1, C[p, :, :])
                elif side == "b":
                    T.copy(A[p, 0, 0], a1)
                    T.gemm(a1, b[p, :, :], c1, ta, tb, clear_accum=True)
                    T.copy(c1, C[p, :, :])
                else:
                    T.copy(A[p, 0, 0], a1)
                    T.copy(B[p, 0, 0], b1)
                    T.gemm(a1, b1, c[p, :, :], ta, tb)
            if side in ("all", "c"):
                T.copy(c, C)

    return main


CASES = [("serial", "all", 0, 0), ("run time", "all", 1, 1), ("pipelined", "all", 0, 1), ("serial", "a", 1, 0), ("run time", "b", 0, 1)]
CASES += [("pipelined", "c", 0, 0)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_planes(case):
    _, _, ta, tb = case
    a, b = small(P, M, K), small(P, K, N)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    arrays = {"A": a.swapaxes(1, 2).copy() if ta else a, "B": b.swapaxes(1, 2).copy() if tb else b, "C": np.zeros_like(expected)}
    agree(planes(*case), arrays, expected, n=4)


def batched(shape_a, shape_b, shape_c, clear=False):
    @T.prim_func
    def main(A: T.Tensor(shape_a, "float16"), B: T.Tensor(shape_b, "float16"), C: T.Tensor(shape_c, "float32")):
        with T.Kernel(1):
            a, b, c = T.alloc_shared(shape_a, "float16"), T.alloc_shared(shape_b, "float16"), T.alloc_fragment(shape_c, "float32")
            T.copy(A, a)
            T.copy(B, b)
            if not clear:
                T.clear(c)
            T.gemm(a, b, c, clear_accum=clear)
            T.copy(c, C)

    return main


@pytest.mark.parametrize("lead_a, lead_b, lead_c", [((2,), (2,), (2,)), ((), (2,), (2,)), ((2, 2), (), (2, 1, 2)), ((1,), (), (2,))])
def test_one_product_for_each_matrix_of_the_accumulator(lead_a, lead_b, lead_c):
    a, b = small(*lead_a, 16, 32), small(*lead_b, 32, 16)
    expected = np.broadcast_to(a.astype(np.float32) @ b.astype(np.float32), [n for n in lead_c if n != 1] + [16, 16])
    expected = expected.reshape(*lead_c, 16, 16).copy()
    agree(batched(a.shape, b.shape, expected.shape, clear=len(lead_a) == 0), {"A": a, "B": b, "C": np.zeros_like(expected)}, expected)


def test_matrices_that_do_not_pair():
    with pytest.raises(ShapeMismatch, match="nor one for each matrix of C"):
        batched((2, 16, 32), (3, 32, 16), (2, 16, 16))
    with pytest.raises(ShapeMismatch, match="nor one for each matrix of C"):
        batched((2, 16, 32), (32, 16), (16, 16))


def test_everything_else_a_stack_is_used_for():
    """Element-wise work, elements, parts of planes, reductions over planes and a tensor whose edge a plane hangs over."""

    @T.prim_func
    def main(A: T.Tensor((5, 30, 32), "float16"), B: T.Tensor((32, 32), "float16"), C: T.Tensor((4, 32, 32), "float32")):
        with T.Kernel(1):
            a, b = T.alloc_shared((2, 3, 32, 32), "float16"), T.alloc_shared((32, 32), "float16")
            c, s = T.alloc_fragment((3, 32, 32), "float32"), T.alloc_fragment((32, 32), "float32")
            T.copy(A[0:3, 0:32, :], a[0, :, :, :])
            T.copy(A[3:6, 0:32, :], a[1, :, :, :])
            T.copy(B, b)
            T.clear(c)
            for h in T.serial(2):
                for p, i, j in T.Parallel(3, 32, 32):
                    a[h, p, i, j] = a[h, p, i, j] + h
                for p in T.serial(3):
                    T.gemm(a[h, p, 0:32, :], b, c[p, :, :])
            T.gemm(a[1, 2, 16:32, :], b, c[2, 0:16, :])
            T.fill(c[1, 0:8, :], 2)
            for p in T.serial(1, 3):
                for i, j in T.Parallel(32, 32):
                    c[p, i, j] = c[p, i, j] + c[p - 1, 3, j]
            T.copy(c, C[0:3, :, :])
            T.reduce_sum(c, s, dim=0)
            T.copy(s, C[3, :, :])

    a, b = small(5, 30, 32), small(32, 32)
    whole = np.zeros((6, 32, 32), np.float32)
    whole[:5, :30] = a
    whole[3:] += 1
    c = (whole[:3] + whole[3:]) @ b.astype(np.float32)
    c[2, :16] += whole[5, 16:] @ b.astype(np.float32)
    c[1, 0:8] = 2
    c[1] += c[0, 3]
    c[2] += c[1, 3]
    agree(main, {"A": a, "B": b, "C": np.zeros((4, 32, 32), np.float32)}, np.concatenate([c, c.sum(0)[None]]))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("rows, dtype", [(24, "float16"), (16, "int8"), (40, "int8"), (5, "float32")])
def test_planes_that_are_no_whole_pieces_of_the_cube_core(rows, dtype):
    accum = "int32" if dtype == "int8" else "float32"

    @T.prim_func
    def main(A: T.Tensor((P, rows, 32), dtype), B: T.Tensor((P, 32, rows), dtype), C: T.Tensor((P, rows, rows), accum)):
        with T.Kernel(1):
            a, b, c = T.alloc_shared((P, rows, 32), dtype), T.alloc_shared((P, rows, 32), dtype), T.alloc_fragment((rows, rows), accum)
            T.copy(A, a)
            for p in T.serial(P):
                for i, j in T.Parallel(rows, 32):
                    b[p, i, j] = B[p, j, i]
            for p in T.serial(P):
                T.gemm(a[p, :, :], b[p, :, :], c, transpose_B=True, clear_accum=True)
                T.copy(c, C[p, :, :])

    a, b = small(P, rows, 32, dtype=dtype), small(P, 32, rows, dtype=dtype)
    expected = a.astype(accum) @ b.astype(accum)
    agree(main, {"A": a, "B": b, "C": np.zeros_like(expected)}, expected)


@pytest.mark.parametrize("op", ["reduce", "scan", "own scan"])
def test_ops_on_one_plane_number_its_dimensions(op):
    """Square planes: nothing but the values tells one dimension from another."""

    @T.prim_func
    def main(A: T.Tensor((P, M, M), "float16"), B: T.Tensor((M, M), "float16"), C: T.Tensor((P, M, M), "float32")):
        with T.Kernel(1):
            a, b = T.alloc_shared((P, M, M), "float16"), T.alloc_shared((M, M), "float16")
            c, out = T.alloc_fragment((P, M, M), "float32"), T.alloc_fragment((P, M, M), "float32")
            most = T.alloc_fragment((P, M), "float32")
            T.copy(A, a)
            T.copy(B, b)
            for p in T.serial(P):
                T.gemm(a[p, :, :], b, c[p, :, :], clear_accum=True)
                if op == "reduce":
                    T.reduce_max(c[p, :, :], most[p, :], dim=1)
                else:
                    T.cumsum(c[p, :, :], c[p, :, :] if op == "own scan" else out[p, :, :], dim=1)
            if op == "reduce":
                for p, i, j in T.Parallel(P, M, M):
                    out[p, i, j] = most[p, j]
            T.copy(c if op == "own scan" else out, C)

    a, b = small(P, M, M), small(M, M)
    c = a.astype(np.float32) @ b.astype(np.float32)
    expected = np.broadcast_to(c.max(1, keepdims=True), c.shape) if op == "reduce" else c.cumsum(1)
    agree(main, {"A": a, "B": b, "C": np.zeros_like(c)}, expected)


@pytest.mark.parametrize("op", ["reduce", "scan"])
def test_ops_on_as_much_of_a_plane_as_a_number_of_run_time_says(op):
    @T.prim_func
    def main(A: T.Tensor((P, M, M), "float16"), B: T.Tensor((M, M), "float16"), n: T.int32, C: T.Tensor((P, M, M), "float32")):
        with T.Kernel(1):
            a, b = T.alloc_shared((P, M, M), "float16"), T.alloc_shared((M, M), "float16")
            c, most = T.alloc_fragment((P, M, M), "float32"), T.alloc_fragment((P, M), "float32")
            T.copy(A, a)
            T.copy(B, b)
            for p in T.serial(P):
                T.gemm(a[p, :, :], b, c[p, :, :], clear_accum=True)
            if op == "reduce":
                T.reduce_max(c[:, :, 0:n], most, dim=2)
                for p, i, j in T.Parallel(P, M, M):
                    c[p, i, j] = most[p, i]
            else:
                T.cumsum(c[:, 0:n, :], dim=1)
            T.copy(c, C)

    a, b = small(P, M, M), small(M, M)
    c = a.astype(np.float32) @ b.astype(np.float32)
    expected = np.broadcast_to(c[:, :, :5].max(2, keepdims=True), c.shape) if op == "reduce" else c.copy()
    if op == "scan":
        expected[:, :5] = c[:, :5].cumsum(1)
    agree(main, {"A": a, "B": b, "C": np.zeros_like(c)}, expected, n=5)
