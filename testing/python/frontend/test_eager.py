"""The eager style, and telling the two styles apart without calling anything."""

import typing

import numpy as np
import pytest

import tilelang_ascend.language as T
from tilelang_ascend.errors import ArgumentTypeError, ArgumentValueError, InvalidKernel
from tilelang_ascend.frontend import EagerTemplate, is_eager, trace
from tilelang_ascend.ir import structural_equal
from tilelang_ascend.sim.reference import run


def matmul(A, B, block_M=32, block_N=32, block_K=16, dtype=T.float16, accum=T.float32):
    M, N, K = T.const("M, N, K")
    A: T.Tensor[[M, K], dtype]
    B: T.Tensor[[K, N], dtype]
    C = T.empty((M, N), dtype)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_s = T.alloc_shared((block_M, block_K), dtype)
        B_s = T.alloc_shared((block_K, block_N), dtype)
        C_l = T.alloc_fragment((block_M, block_N), accum)
        T.clear(C_l)
        for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[by * block_M, ko * block_K], A_s)
            T.copy(B[ko * block_K, bx * block_N], B_s)
            T.gemm(A_s, B_s, C_l)
        T.copy(C_l, C[by * block_M, bx * block_N])
    return C


def lazy(M, N, block=None):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, block or 8)) as i:
            A[i, 0] = 1

    return main


def factory(M):
    return lazy(M, 4)


def test_detection_does_not_call_the_function():
    assert is_eager(matmul) and not is_eager(lazy) and not is_eager(factory)
    assert not is_eager(lazy(4, 4))


def test_trace_of_a_lazy_function():
    func = trace(lazy, (16,), {"N": 4})
    assert [p.name for p in func.params] == ["A"] and str(func.attrs["global_symbol"]) == "main"
    assert structural_equal(func, trace(lazy(16, 4)))
    with pytest.raises(InvalidKernel, match="not a kernel"):
        trace(lambda: 3)


def multiplied(
    A,
    block: int = 16,
    scale: typing.Optional[float] = None,
    notes: typing.Any = None,
    sizes: tuple[int, ...] = (1,),
    more: float | None = None,
):
    N = T.const("N")
    A: T.Tensor[[N], "float32"]
    B = T.empty((N,), "float32")
    scale = 2.0 if scale is None else scale
    with T.Kernel(T.ceildiv(N, block)) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[bx * block + i] * scale
    return B


def test_hints_for_readers_are_no_types_of_parameters():
    a = np.arange(32, dtype=np.float32)
    for given, factor in (({}, 2), ({"scale": 3.0}, 3), ({"scale": 0.5, "notes": "n", "sizes": (2,)}, 0.5)):
        bound = EagerTemplate(multiplied).bind((a,), given)
        out = np.zeros_like(a)
        run(bound.func, a, out)
        np.testing.assert_array_equal(out, a * factor)


def test_eager_gemm_values_and_parameters():
    a, b = np.random.default_rng(0).standard_normal((2, 48, 48)).astype(np.float16)
    a, b = a[:40, :33].copy(), b[:33, :47].copy()
    bound = EagerTemplate(matmul).bind((a, b))
    assert [p.name for p in bound.func.params] == ["A", "B", "C"]
    assert list(bound.func.attrs["tl.out_idx"]) == [2] and int(bound.func.attrs["tl.threads"]) == 128
    assert bound.inputs[0] is a and bound.inputs[1] is b
    c = np.zeros((40, 47), np.float16)
    run(bound.func, a, b, c)
    np.testing.assert_allclose(c.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32), rtol=2e-3, atol=2e-3)


def test_specialisations_are_shared_and_distinct():
    template = EagerTemplate(matmul)
    x, y = np.zeros((32, 16), np.float16), np.zeros((16, 64), np.float16)
    first = template.bind((x, y))
    assert template.bind((x.copy(), y.copy())).func.same_as(first.func)
    assert template.bind((x, y), {"block_M": 16}).key != first.key
    assert template.bind((x, np.zeros((16, 65), np.float16))).key != first.key
    by_name = template.bind((), {"M": 32, "N": 64, "K": 16})
    assert by_name.key == first.key and by_name.inputs == (None, None)


def test_calls_that_do_not_fit():
    template = EagerTemplate(matmul)
    x = np.zeros((32, 16), np.float16)
    with pytest.raises(ArgumentValueError, match="dimension 0 of 'B' is 15, but K is 16"):
        template.bind((x, np.zeros((15, 64), np.float16)))
    with pytest.raises(ArgumentValueError, match="1 dimensions, the kernel declares 2"):
        template.bind((x, np.zeros(16, np.float16)))
    with pytest.raises(ArgumentTypeError, match="missing argument 'B'"):
        template.bind((x,), launch=True)
    with pytest.raises(ArgumentTypeError, match="no parameter or constant named 'Q'"):
        template.bind((x, x), {"Q": 3})
    with pytest.raises(ArgumentTypeError, match="must be a tensor"):
        template.bind((x, 3))
    with pytest.raises(ArgumentTypeError, match="not hashable"):
        template.bind((x, x), {"block_M": [1]})
    with pytest.raises(InvalidKernel, match="constant 'N' cannot be read"):
        template.bind((), {"M": 32, "K": 16})


def scaled(A, s: T.float32, n: T.int32):
    M = T.const("M")
    N = T.dynamic("N")
    A: T.StridedTensor[[M, N], [N, 1], "float32"]
    B = T.empty(M, dtype="float32")
    D = T.empty((M,), "int32")
    with T.Kernel(M) as i:
        B[i] = A[i, 0] * s
        D[i] = n
    return B, D


def test_runtime_scalars_dynamic_dims_and_several_outputs():
    template = EagerTemplate(scaled)
    a = np.ones((3, 5), np.float32)
    bound = template.bind((a, 2.5, 7))
    assert [p.name for p in bound.func.params] == ["A", "s", "n", "B", "D"]
    assert list(bound.func.attrs["tl.out_idx"]) == [3, 4] and bound.inputs[1:] == (2.5, 7)
    assert template.bind((np.ones((3, 9), np.float32), 1.0, 1)).key == bound.key
    b, d = np.zeros(3, np.float32), np.zeros(3, np.int32)
    run(bound.func, a, 2.5, 7, b, d)
    assert b.tolist() == [2.5] * 3 and d.tolist() == [7] * 3


def forgets(A):
    M = T.const("M")
    A: T.Tensor[[M], "float32"]
    B = T.empty((M,), "float32")
    C = T.empty((M,), "float32")
    with T.Kernel(M) as i:
        B[i] = A[i]
    return B


def test_every_output_is_returned():
    with pytest.raises(InvalidKernel, match="'C' is made by T.empty but not returned"):
        EagerTemplate(forgets).bind((np.zeros(3, np.float32),))


def from_stride(A):
    M, LD = T.const("M, LD")
    A: T.StridedTensor[[M, 2], [LD, 1], "float32"]
    B = T.empty((M, LD), "float32")
    with T.Kernel(M) as i:
        B[i, 0] = A[i, 1]
    return B


def test_constants_read_from_strides():
    a = np.zeros((4, 8), np.float32)[:, :2]
    assert dict(EagerTemplate(from_stride).bind((a,)).key[1]) == {"M": 4, "LD": 8}


S = T.dynamic("S")


def described(X: T.Tensor((S, 16), "float32"), n: T.int32, rows: int = 4):
    """Everything a compiler has to know stands in the signature."""
    Y = T.empty((S, 16), "float32")
    with T.Kernel(T.ceildiv(S, rows)) as i:
        t = T.alloc_fragment((rows, 16), "float32")
        T.copy(X[i * rows, 0], t)
        for r, c in T.Parallel(rows, 16):
            t[r, c] = t[r, c] + n
        T.copy(t, Y[i * rows, 0])
    return Y


def with_dynamic(X, W):
    batch_count = T.dynamic("batch_count")
    N = T.const("N")
    X: T.Tensor[[batch_count * 2, N], "float32"]
    W: T.Tensor[[batch_count], "float32"]
    Y = T.empty((batch_count * 2, N), "float32")
    with T.Kernel(batch_count) as b:
        for i, j in T.Parallel(2, N):
            Y[b * 2 + i, j] = X[b * 2 + i, j] * W[b]
    return Y


@pytest.mark.parametrize("given", [{"S": 12}, {}, {"rows": 4}, {"S": 12, "rows": 4, "n": 3}])
def test_a_described_kernel_is_compiled_without_tensors(given):
    x = np.random.default_rng(0).standard_normal((12, 16)).astype(np.float32)
    for size in (12, 7):
        y = np.zeros((size, 16), np.float32)
        bound = EagerTemplate(described).bind((), given)
        assert bound.inputs[0] is None
        run(bound.func, x[:size], 3, y)
        np.testing.assert_array_equal(y, x[:size] + 3)


def test_every_name_of_a_dimension_takes_a_value():
    template = EagerTemplate(with_dynamic)
    x, w = np.arange(40, dtype=np.float32).reshape(8, 5), np.arange(4, dtype=np.float32)
    bound = template.bind((), {"N": 5, "batch_count": 9})
    assert bound.key == template.bind((x, w)).key == template.bind((), {"N": 5}).key
    y = np.zeros((8, 5), np.float32)
    run(bound.func, x, w, y)
    np.testing.assert_array_equal(y, x * np.repeat(w, 2)[:, None])
    with pytest.raises(ArgumentTypeError, match="'batch_count' is given as 2.5, which is no integer"):
        template.bind((), {"N": 5, "batch_count": 2.5})
    with pytest.raises(ArgumentValueError, match="dimension 0 of 'W' is 4, but batch_count is 5"):
        template.bind((x, w), {"batch_count": 5})
    with pytest.raises(InvalidKernel, match="constant 'N' cannot be read"):
        template.bind((), {"batch_count": 5})
