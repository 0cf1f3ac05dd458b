"""Kernels among the features of torch: graphs, gradients, views that are not what is in memory."""

import logging

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.errors import ArgumentError

N = 64


@T.prim_func
def doubled(A: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
    with T.Kernel(1):
        for i in T.Parallel(N):
            C[i] = A[i] * 2


@pytest.fixture(scope="module")
def kernel():
    return tilelang.compile(doubled, out_idx=[-1])


@pytest.fixture(scope="module")
def in_place():
    return tilelang.compile(doubled)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_function_may_call_a_kernel(kernel, backend):
    @torch.compile(backend=backend)
    def function(x):
        return kernel(x + 1) * 3

    assert torch.equal(function(torch.ones(N)), torch.full((N,), 12.0))


def test_a_compiled_function_may_make_a_kernel():
    @tilelang.jit(out_idx=[-1])
    def make(n):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
            with T.Kernel(1):
                for i in T.Parallel(n):
                    C[i] = A[i] * 2

        return main

    function = torch.compile(lambda x: make(N)(x + 1) * 3, backend="eager")
    assert torch.equal(function(torch.ones(N)), torch.full((N,), 12.0))


def test_negated_views_keep_their_sign(kernel, in_place):
    x = torch.complex(torch.ones(N), torch.arange(float(N))).conj().imag
    assert x.is_neg()
    assert torch.equal(kernel(x), -2 * torch.arange(float(N)))
    out = torch._neg_view(torch.zeros(N))
    in_place(torch.ones(N), out)
    assert torch.equal(out, torch.full((N,), 2.0))


def without_storage():
    x = torch.ones(N)
    x.untyped_storage().resize_(0)
    return x


def fake():
    with FakeTensorMode():
        return torch.ones(N)


@pytest.mark.parametrize(
    "make, says",
    [
        (fake, "FakeTensor has no storage"),
        (without_storage, "has no storage"),
        (lambda: torch.ones(N, device="meta"), "expected cpu, got meta"),
        (lambda: torch.ones(N).to_sparse(), "expected torch.strided, got torch.sparse_coo"),
        (lambda: torch.nested.nested_tensor([torch.ones(3), torch.ones(4)]), "it is a nested tensor"),
        (lambda: torch.quantize_per_tensor(torch.ones(N), 0.1, 0, torch.qint8), "expected torch.float32, got torch.qint8"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_tensors_without_elements_in_memory(kernel, make, says):
    with pytest.raises(ArgumentError, match=says):
        kernel(make())


def test_transforms_of_torch_are_refused(kernel):
    with pytest.raises(ArgumentError, match="torch.func"):
        torch.vmap(lambda x: kernel(x))(torch.ones(2, N))
    with pytest.raises(ArgumentError, match="torch.jit.trace"):
        torch.jit.trace(lambda x: kernel(x), (torch.ones(N),))


def test_a_result_has_no_gradient_and_says_so_once(caplog):
    kernel, x = tilelang.compile(doubled, out_idx=[-1]), torch.ones(N, requires_grad=True)
    with caplog.at_level(logging.WARNING):
        with torch.no_grad():
            kernel(x)
        assert not caplog.records
        assert not kernel(x).requires_grad and not kernel(x).requires_grad
    assert sum("no gradient" in r.getMessage() for r in caplog.records) == 1


def test_autograd_knows_of_writes(in_place):
    x, saved = torch.ones(N, requires_grad=True), torch.ones(N)
    loss = (x * saved).sum()
    in_place(torch.ones(N), saved)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
