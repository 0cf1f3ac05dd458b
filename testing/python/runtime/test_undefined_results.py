"""A plain call returns nothing that was computed from undefined memory, and says once what it did not write."""

import logging

import pytest
import torch

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.errors import SimulationError

N = 64


def compiled(build, dtype="float32"):
    return tilelang.compile(build(dtype), out_idx=[-1])


def never_filled(dtype):
    @T.prim_func
    def main(C: T.Tensor((N,), dtype)):
        with T.Kernel(1):
            tile = T.alloc_shared((N,), dtype)
            T.copy(tile, C)

    return main


def workspace_first_read(dtype):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1):
            w, tile = T.alloc_global((N,), dtype), T.alloc_shared((N,), dtype)
            T.copy(w, tile)
            for i in T.Parallel(N):
                C[i] = A[i] + tile[i]

    return main


def accumulator_not_cleared(dtype):
    @T.prim_func
    def main(A: T.Tensor((N, N), "float16"), C: T.Tensor((N, N), dtype)):
        with T.Kernel(1):
            a, c = T.alloc_shared((N, N), "float16"), T.alloc_fragment((N, N), dtype)
            T.copy(A, a)
            T.gemm(a, a, c)
            T.copy(c, C)

    return main


def undefined_branch(dtype):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1):
            tile = T.alloc_shared((N,), dtype)
            T.copy(A[: N // 2], tile[: N // 2])
            for i in T.Parallel(N):
                C[i] = 0
            value = tile[N - 1]
            if value > 1:
                C[0] = 1

    return main


@pytest.mark.parametrize(
    "build, inputs, where",
    [
        (never_filled, (), "a tensor in GM"),
        (workspace_first_read, (torch.ones(N),), "a tensor in GM"),
        (accumulator_not_cleared, (torch.ones(N, N).half(),), "accumulator of a mmad"),
        (undefined_branch, (torch.ones(N),), "scalar value"),
    ],
)
def test_undefined_memory_is_no_result(build, inputs, where):
    with pytest.raises(SimulationError, match=f"initcheck: undefined bytes .* reach .*{where}") as caught:
        compiled(build)(*inputs)
    assert caught.value.location.file == __file__


def test_the_check_can_be_switched_off(monkeypatch):
    monkeypatch.setenv("TILELANG_SIM_CHECKS", "off")
    assert compiled(never_filled)().shape == (N,)


def half(dtype):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(N // 2):
                C[i] = A[i]

    return main


def positive(dtype):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(N):
                if A[i] > 0:
                    C[i] = A[i]

    return main


def own_element(dtype):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(1):
            for i in T.Parallel(N):
                C[i] = T.if_then_else(A[i] > 0, A[i], C[i] + A[i])

    return main


def some_blocks(dtype):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(4) as bx:
            if A[bx * 16] > 0:
                for i in T.Parallel(16):
                    C[bx * 16 + i] = A[bx * 16 + i]

    return main


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int32", "int8"])
@pytest.mark.parametrize(
    "build, written",
    [
        (half, lambda a: torch.arange(N) < N // 2),
        (positive, lambda a: a > 0),
        (own_element, lambda a: a > 0),
        (some_blocks, lambda a: (a[::16] > 0).repeat_interleave(16)),
    ],
)
def test_elements_never_written_are_told_once(build, written, dtype, caplog):
    a = (torch.arange(N) * 37 % 61 - 30).to(getattr(torch, dtype))
    kernel, expected = compiled(build, dtype), written(a)
    with caplog.at_level(logging.WARNING):
        first, second = kernel(a), kernel(a)
    for out in (first, second):
        assert torch.equal(out[expected], a[expected])
        rest = out[~expected]
        assert rest.isnan().all() if rest.is_floating_point() else (rest == -1).all()
    assert sum("are never written; such elements are" in r.getMessage() for r in caplog.records) == 1


def test_truth_values_never_written_are_false():
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), C: T.Tensor((N,), "bool")):
        with T.Kernel(1):
            for i in T.serial(N // 2):
                C[i] = A[i] > 0

    out = tilelang.compile(main, out_idx=[-1])(torch.ones(N))
    assert out.view(torch.uint8).tolist() == [1] * (N // 2) + [0] * (N // 2)


def padding(dtype):
    @T.prim_func
    def main(A: T.Tensor((50,), dtype), B: T.Tensor((50,), dtype), C: T.Tensor((50,), dtype)):
        with T.Kernel(1):
            a, b, c = (T.alloc_shared((N,), dtype) for _ in range(3))
            T.copy(A, a[:50])
            T.copy(B, b[:50])
            for i in T.Parallel(N):
                c[i] = a[i] // b[i]
            T.copy(c[:50], C)

    return main


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_padding_may_be_undefined(dtype):
    """Rows 50 to 63 of the tiles were never filled, and their quotients go nowhere: vector and scalar code alike."""
    kind = getattr(torch, dtype)
    a, b = torch.arange(50).to(kind), torch.full((50,), 7).to(kind)
    assert torch.equal(compiled(padding, dtype)(a, b), a // b)
