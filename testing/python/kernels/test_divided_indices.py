"""Tensors of which a nest reads what loop variables choose in another way than by sums: groups of a row, repeated rows."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

F32, F16 = "float32", "float16"
RNG = np.random.default_rng(4)


def grouped(rows, columns, group, steps, index=None):
    """Every number times that of its group."""

    @T.prim_func
    def main(
        A: T.Tensor((rows, steps * columns), F32),
        S: T.Tensor((rows, steps * columns // group), F32),
        Y: T.Tensor((rows, steps * columns), F32),
    ):
        with T.Kernel(1):
            a = T.alloc_shared((rows, columns), F32)
            for k in T.serial(steps):
                T.copy(A[:, k * columns : (k + 1) * columns], a)
                for i, j in T.Parallel(rows, columns):
                    a[i, j] = a[i, j] * S[i, index(k, j) if index else (k * columns + j) // group]
                T.copy(a, Y[:, k * columns : (k + 1) * columns])

    return main


@pytest.mark.parametrize("rows, columns, group, steps", [(16, 128, 32, 3), (8, 64, 16, 1), (5, 96, 32, 2), (4, 40, 8, 3)])
@pytest.mark.parametrize("target", ["a2", "a5"])
@pytest.mark.one_in(2)
def test_groups_of_a_row(rows, columns, group, steps, target):
    a, s = (RNG.standard_normal((rows, n)).astype(np.float32) for n in (steps * columns, steps * columns // group))
    out = strict.run(
        tilelang.compile(grouped(rows, columns, group, steps), target=target), {"A": a, "S": s, "Y": np.zeros_like(a)}, text=target == "a2"
    )
    np.testing.assert_array_equal(out["Y"], a * s.repeat(group, 1))


@pytest.mark.parametrize(
    "index, numpy_index",
    [
        (lambda k, j: j % 4 + k, lambda k, j: j % 4 + k),
        (lambda k, j: 3 - j // 32 + k, lambda k, j: 3 - j // 32 + k),
        (lambda k, j: T.max(j // 16 - 4, k), lambda k, j: np.maximum(j // 16 - 4, k)),
        (lambda k, j: T.cast(T.cast(j * 3, "uint8"), "int32") // 64, lambda k, j: j * 3 % 256 // 64),
    ],
    ids=["again and again", "backwards", "at least", "wrapped"],
)
def test_other_ways_to_choose(index, numpy_index):
    rows, columns, steps = 4, 128, 2
    a, s = (RNG.standard_normal((rows, n)).astype(np.float32) for n in (steps * columns, steps * columns // 32))
    out = strict.run(tilelang.compile(grouped(rows, columns, 32, steps, index)), {"A": a, "S": s, "Y": np.zeros_like(a)})
    chosen = np.concatenate([numpy_index(k, np.arange(columns)) for k in range(steps)])
    np.testing.assert_array_equal(out["Y"], a * s[:, chosen])


def test_groups_that_end_outside():
    """Rows and groups beyond the tensor are zero."""

    @T.prim_func
    def main(S: T.Tensor((13, 3), F32), Y: T.Tensor((16, 128), F32)):
        with T.Kernel(2) as b:
            y = T.alloc_fragment((8, 128), F32)
            for i, j in T.Parallel(8, 128):
                y[i, j] = S[b * 8 + i, j // 32] + 1.0
            T.copy(y, Y[b * 8, 0])

    s = RNG.standard_normal((13, 3)).astype(np.float32)
    out = strict.run(tilelang.compile(main), {"S": s, "Y": np.zeros((16, 128), np.float32)})
    want = np.zeros((16, 4), np.float32)
    want[:13, :3] = s
    np.testing.assert_array_equal(out["Y"], want.repeat(32, 1) + 1)


def test_beside_tiles_that_fill_their_memory():
    """Scales of groups were read one by one where tiles left no room to load their tensor whole; a bias on top of a product is one such tile."""

    def kernel(bias):
        @T.prim_func
        def main(A: T.Tensor((256, 256), F16), B: T.Tensor((256, 256), F16), S: T.Tensor((256, 8), F16), Bias: T.Tensor((256, 256), F32),
                 C: T.Tensor((256, 256), F32)):  # fmt: skip
            with T.Kernel(2) as bx:
                a, b = T.alloc_shared((256, 128), F16), T.alloc_fragment((128, 128), F16)
                scaled, c = T.alloc_shared((128, 128), F16), T.alloc_fragment((256, 128), F32)
                if bias:
                    T.copy(Bias[0, bx * 128], c)
                else:
                    T.clear(c)
                for k in T.Pipelined(2, num_stages=2):
                    T.copy(A[0, k * 128], a)
                    T.copy(B[bx * 128, k * 128], b)
                    for i, j in T.Parallel(128, 128):
                        b[i, j] = b[i, j] * S[bx * 128 + i, k * 128 // 32 + j // 32]
                    T.copy(b, scaled)
                    T.gemm(a, scaled, c, transpose_B=True)
                T.copy(c, C[0, bx * 128])

        return tilelang.compile(main)

    def time_of(kernel):
        arrays = [np.zeros(p.shape, p.dtype) for p in kernel.artifact.signature.parameters]
        return kernel.simulate(*arrays, values=False, checks=False).simulated_us

    assert time_of(kernel(True)) < 2 * time_of(kernel(False))
