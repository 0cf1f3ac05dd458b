"""Mixed kernels whose two vector cores meet in global memory: they divide a tensor alike, or one of them does it all."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.ir import IfThenElse, statements
from tilelang_ascend.ir.functions import core_functions

N = 32


def with_product(body):
    """The kernel `body(A, I, Z, C, c, v, w, bx)` after c = A @ A, with tiles v and w of N float32 elements."""

    @T.prim_func
    def kernel(
        A: T.Tensor((N, N), "float16"), I: T.Tensor((N,), "int32"), Z: T.Tensor((2 * N,), "float32"), C: T.Tensor((2 * N, N), "float32")
    ):
        with T.Kernel(2) as bx:
            a, c = T.alloc_shared((N, N), "float16"), T.alloc_fragment((N, N), "float32")
            v, w = T.alloc_fragment((N,), "float32"), T.alloc_fragment((N,), "float32")
            T.copy(A, a)
            T.gemm(a, a, c, clear_accum=True)
            body(A, I, Z, C, c, v, w, bx)

    return tilelang.compile(kernel)


def run(body, text=True):
    """`with_product(body)` on random numbers: (A @ A, I, results, text)."""
    rng = np.random.default_rng(0)
    a, i = rng.integers(-2, 3, (N, N)).astype(np.float16), rng.permutation(N).astype(np.int32)
    arrays = {"A": a, "I": i, "Z": np.full(2 * N, 5, np.float32), "C": np.full((2 * N, N), 7, np.float32)}
    product = a.astype(np.float32) @ a.astype(np.float32)
    compiled = with_product(body)
    return product, i, strict.run(compiled, arrays, text=text), compiled.artifact.kernel_source


def test_a_tensor_stored_twice_is_divided_the_same_way():
    """Seeds 378 and 652 of the fuzzer: rows of the first tile, columns of the second."""

    def body(A, I, Z, C, c, v, w, bx):
        other = T.alloc_shared((N, N), "float32")
        T.fill(other, 1)
        T.copy(other, C[bx * N, 0])
        for i, j in T.Parallel(N, N):
            C[bx * N + i, j] = c[j, i]

    product, _, out, _ = run(body)
    np.testing.assert_array_equal(out["C"], np.concatenate([product.T, product.T]))


def test_one_of_two_stores_cannot_be_divided():
    """Seeds 581 and 1087: elements are stored one by one where a condition holds."""

    def body(A, I, Z, C, c, v, w, bx):
        other = T.alloc_shared((N, N), "float32")
        T.fill(other, 1)
        T.fill(v, 2)
        T.copy(other, C[bx * N, 0])
        for i, j in T.Parallel(N, N):
            if c[i, j] > v[j]:
                C[bx * N + i, j] = c[i, j]

    product, _, out, _ = run(body, text=False)
    want = np.where(product > 2, product, 1)
    np.testing.assert_array_equal(out["C"], np.concatenate([want, want]))


def test_odd_rows_of_a_shifted_tile():
    """Seed 2029: the second core would read a row below the tile, of which both have a copy."""

    def body(A, I, Z, C, c, v, w, bx):
        for i, j in T.Parallel(N - 1, N):
            T.atomic_add(C[bx * N + i + 1, j], c[i + 1, j])
        for i in T.Parallel(N):
            w[i] = c[N - 1 - i, N - 1 - i]
        T.copy(w, Z[bx * N])

    product, _, out, _ = run(body)
    want = np.full((N, N), 7.0) + np.where(np.arange(N)[:, None] > 0, product, 0)
    np.testing.assert_array_equal(out["C"], np.concatenate([want, want]))
    np.testing.assert_array_equal(out["Z"][:N], np.diag(product)[::-1])


def test_elements_are_stored_by_one_core():
    """Seed 532: the cube core stored them as well, and its flags did not match."""

    def body(A, I, Z, C, c, v, w, bx):
        T.reduce_sum(c, v, dim=1)
        for i in T.Parallel(N):
            w[i] = v[i] + 1.0
            Z[bx * N + I[i]] = v[i]
        Z[bx * N] = w[3]
        for i, j in T.Parallel(N, N):
            c[i, j] = c[i, j] * w[i]
        T.copy(c, C[bx * N, 0])

    product, i, out, _ = run(body)
    v = product.sum(1)
    z = np.empty(N, np.float32)
    z[i] = v
    z[0] = v[3] + 1
    np.testing.assert_array_equal(out["Z"], np.concatenate([z, z]))
    np.testing.assert_array_equal(out["C"][:N], product * (v + 1)[:, None])


def test_rows_stored_in_a_loop_stay_divided():
    """Boxes of different iterations do not overlap: nothing keeps the two cores from sharing the work."""

    def body(A, I, Z, C, c, v, w, bx):
        for k in T.serial(4):
            part = T.alloc_fragment((8, N), "float32")
            for i, j in T.Parallel(8, N):
                part[i, j] = T.cast(k * 8 + i, "float32")
            T.copy(part, C[bx * N + k * 8, 0])

    _, _, out, source = run(body)
    assert "sub_block * 4" in source
    np.testing.assert_array_equal(out["C"], np.tile(np.arange(N)[:, None], (2, N)))


def test_a_scalar_of_a_tensor_the_block_writes():
    """The core that writes the tensor reads it, and does all vector work."""

    def body(A, I, Z, C, c, v, w, bx):
        x = Z[bx]
        for i, j in T.Parallel(N, N):
            c[i, j] = c[i, j] * x
        T.copy(c, C[bx * N, 0])
        Z[bx] = x + 1.0

    product, _, out, _ = run(body)
    np.testing.assert_array_equal(out["C"], np.concatenate([5 * product, 5 * product]))
    np.testing.assert_array_equal(out["Z"][:3], [6, 6, 5])


def test_odd_rows_element_by_element():
    """Seed 630: the scalar loops of the second core read a row below its share, which nothing had written."""

    def body(A, I, Z, C, c, v, w, bx):
        for i, j in T.Parallel(15, N):
            C[bx * N + i + 1, N - 1 - j] = C[bx * N + i + 1, N - 1 - j] + Z[j]

    _, _, out, source = run(body, text=False)
    assert "sub_block * 8" in source
    want = np.full((N, N), 7)
    want[1:16] = 12
    np.testing.assert_array_equal(out["C"], np.concatenate([want, want]))


def test_odd_rows_chosen_by_data():
    """The row nobody wrote would choose an element."""

    def body(A, I, Z, C, c, v, w, bx):
        index, t = T.alloc_shared((15,), "int32"), T.alloc_fragment((15, N), "float32")
        T.copy(I[0:15], index)
        for i, j in T.Parallel(15, N):
            t[i, j] = c[index[i], j]
        T.copy(t, C[bx * N, 0])

    product, i, out, _ = run(body)
    want = np.concatenate([product[i[:15]], np.full((N - 15, N), 7)])
    np.testing.assert_array_equal(out["C"], np.concatenate([want, want]))


def test_products_that_never_happen():
    """The loop around the product has no iterations, which is known only after the rows were divided: both cores of the block still run."""

    @T.prim_func
    def main(X: T.Tensor((16, 32), "float16"), Y: T.Tensor((16, 32), "float32")):
        with T.Kernel(1) as bx:
            c = T.alloc_fragment((16, 32), "float32")
            a, b = T.alloc_shared((16, 16), "bfloat16"), T.alloc_shared((16, 32), "bfloat16")
            T.copy(X, c)
            for k in T.serial(T.min(bx, 8)):
                T.gemm(a, b, c, clear_accum=k == 0)
            for i, j in T.Parallel(16, 32):
                Y[i, j] = c[i, j]

    x = np.arange(512).reshape(16, 32).astype(np.float16)
    got = strict.run(tilelang.compile(main), {"X": x, "Y": np.zeros((16, 32), np.float32)})
    np.testing.assert_array_equal(got["Y"], x.astype(np.float32))


def test_what_forbids_a_division_is_told():
    def body(A, I, Z, C, c, v, w, bx):
        T.reduce_sum(c, v, dim=0)
        for i, j in T.Parallel(N, N):
            c[i, j] = c[i, j] + c[N - 1 - i, N - 1 - j] * v[j]
        T.copy(c, C[bx * N, 0])

    (note,) = [n for n in with_product(body).artifact.notes if "vector cores" in n]
    reduction = test_what_forbids_a_division_is_told.__code__.co_firstlineno + 2
    assert f"test_two_vector_cores.py:{reduction}:" in note and "the divided dimension as a whole" in note


def test_the_division_of_most_work():
    """Rows could be divided as well, but most of the work is on one row."""
    n = 512

    @T.prim_func
    def main(
        A: T.Tensor((16, 16), "float16"), B: T.Tensor((16, n), "float16"), X: T.Tensor((n,), "float32"), C: T.Tensor((16, n), "float32")
    ):
        with T.Kernel(1):
            a, b = T.alloc_shared((16, 16), "float16"), T.alloc_shared((16, n), "float16")
            c, x = T.alloc_fragment((16, n), "float32"), T.alloc_fragment((n,), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(X, x)
            T.gemm(a, b, c, clear_accum=True)
            for _ in T.serial(40):
                for j in T.Parallel(n):
                    x[j] = x[j] * 0.5 + 1.0
            for i, j in T.Parallel(16, n):
                c[i, j] = c[i, j] * x[j]
            T.copy(c, C)

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((16, 16), (16, n)))
    compiled = tilelang.compile(main)
    out = strict.run(compiled, {"A": a, "B": b, "X": np.full(n, 2, np.float32), "C": np.zeros((16, n), np.float32)})
    np.testing.assert_array_equal(out["C"], 2 * (a.astype(np.float32) @ b.astype(np.float32)))
    assert f"sub_block * {n // 2}" in compiled.artifact.kernel_source


def test_odd_rows_are_reduced_by_instructions():
    """Each core knows how many rows it has: reductions and scans of a number that only run time tells are element by element."""
    rows = 17

    @T.prim_func
    def main(A: T.Tensor((2 * rows, N), "float16"), B: T.Tensor((N, N), "float16"), Y: T.Tensor((2 * rows, N), "float32")):
        with T.Kernel(2) as bx:
            a, b = T.alloc_shared((rows, N), "float16"), T.alloc_shared((N, N), "float16")
            c, sums = T.alloc_fragment((rows, N), "float32"), T.alloc_fragment((rows, N), "float32")
            most = T.alloc_fragment((rows,), "float32")
            T.copy(A[bx * rows, 0], a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.reduce_max(c, most, dim=1)
            T.cumsum(c, sums, dim=1)
            for i, j in T.Parallel(rows, N):
                c[i, j] = sums[i, j] - most[i]
            T.copy(c, Y[bx * rows, 0])

    rng = np.random.default_rng(3)
    a, b = (rng.integers(-3, 4, (n, N)).astype(np.float16) for n in (2 * rows, N))
    compiled = tilelang.compile(main)
    assert not compiled.artifact.warnings and "sub_block * 9" in compiled.artifact.kernel_source
    c = a.astype(np.float32) @ b.astype(np.float32)
    got = strict.run(compiled, {"A": a, "B": b, "Y": np.zeros_like(c)}, text=False)
    np.testing.assert_array_equal(got["Y"], c.cumsum(1) - c.max(1, keepdims=True))


def variable_rows(rows, part):
    """The first n rows of a softmax of A @ A^T go to C, from a row on that is data."""

    @T.prim_func
    def kernel(A: T.Tensor((rows, N), "float16"), P: T.Tensor((2,), "int32"), C: T.Tensor((2 * rows, rows), "float16")):
        with T.Kernel(1):
            first, n = P[0], P[1]
            a, out = T.alloc_shared((rows, N), "float16"), T.alloc_shared((rows, rows), "float16")
            c = T.alloc_fragment((rows, rows), "float32")
            most, total = T.alloc_fragment((rows,), "float32"), T.alloc_fragment((rows,), "float32")
            T.copy(A, a)
            T.gemm(a, a, c, transpose_B=True, clear_accum=True)
            T.reduce_max(c, most, dim=1)
            for i, j in T.Parallel(rows, rows):
                c[i, j] = T.exp(c[i, j] - most[i])
            T.reduce_sum(c, total, dim=1)
            for i, j in T.Parallel(rows, rows):
                c[i, j] = c[i, j] / total[i]
            if part == "tile":
                T.copy(c, out)
            for i, j in T.Parallel(rows, rows):
                if i < n:
                    C[first + i, j] = out[i, j] if part == "tile" else c[i, j]

    return kernel


@pytest.mark.one_in(3)
@pytest.mark.parametrize("rows, part", [(64, "tile"), (64, "accumulator"), (128, "tile"), (48, "tile")])
def test_as_many_rows_as_run_time_tells_are_divided(rows, part):
    compiled = tilelang.compile(variable_rows(rows, part))
    assert not [n for n in compiled.artifact.notes if "vector work" in str(n)]
    stored = [s for s in statements(core_functions(compiled.artifact.ascend_ir)["aiv"].body) if isinstance(s, IfThenElse)]
    assert not any("sub_block == 0" in str(s.condition) for s in stored), "one of the cores works alone"
    a = np.random.default_rng(rows).standard_normal((rows, N)).astype(np.float16) / 2
    product = a.astype(np.float32) @ a.astype(np.float32).T
    want = np.exp(product - product.max(1, keepdims=True))
    want /= want.sum(1, keepdims=True)
    for first, n in (
        (0, rows),
        (3, 0),
        (5, 1),
        (0, rows // 2),
        (1, rows // 2 - 1),
        (rows, rows // 2 + 1),
        (rows, rows),
        (2, rows - 1),
        (0, -4),
    ):
        given = {"A": a, "P": np.array([first, n], np.int32), "C": np.full((2 * rows, rows), 7, np.float16)}
        got = strict.run(compiled, given, text=n == rows - 1)["C"].astype(np.float32)
        expected = np.full((2 * rows, rows), 7, np.float32)
        expected[first : first + max(n, 0)] = want[: max(n, 0)]
        np.testing.assert_allclose(got, expected, atol=2e-3, err_msg=f"{first}, {n}")
