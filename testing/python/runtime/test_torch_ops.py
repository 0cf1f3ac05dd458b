"""Kernels registered as ops of torch: traced by torch.compile without a break, with shapes that stay symbols."""

import pytest
import torch

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

BLOCK = 64


def halves_and_sums():
    """Two results: half as long, and as long as the input."""
    n = T.dynamic("n")

    @T.prim_func
    def main(
        A: T.Tensor((n * 2,), "float32"),
        B: T.Tensor((n,), "float32"),
        s: T.float32,
        C: T.Tensor((n,), "float32"),
        D: T.Tensor((n * 2,), "float32"),
    ):
        with T.Kernel(T.ceildiv(n, BLOCK)) as bx:
            for i in T.Parallel(BLOCK):
                C[bx * BLOCK + i] = B[bx * BLOCK + i] + s
        with T.Kernel(T.ceildiv(n * 2, BLOCK)) as bx:
            for i in T.Parallel(BLOCK):
                D[bx * BLOCK + i] = A[bx * BLOCK + i] * s

    return main  # fmt: skip


def add_to():
    n = T.dynamic("n")

    @T.prim_func
    def add_to(A: T.Tensor((n,), "float32"), times: T.int32):
        with T.Kernel(T.ceildiv(n, BLOCK)) as bx:
            for i in T.Parallel(BLOCK):
                A[bx * BLOCK + i] = A[bx * BLOCK + i] + 1.0 * times

    return add_to


@pytest.fixture(scope="module")
def two_results():
    return tilelang.register_op(tilelang.compile(halves_and_sums(), out_idx=[-2, -1]), "ops_tests::two_results")


@pytest.fixture(scope="module")
def in_place():
    return tilelang.register_op(tilelang.compile(add_to()))


def test_what_torch_checks_of_an_op(two_results, in_place):
    torch.library.opcheck(two_results, (torch.randn(6), torch.randn(3), 0.5))
    torch.library.opcheck(in_place, (torch.randn(5), 3))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_one_graph_for_all_extents(two_results, backend):
    from torch._dynamo.testing import CompileCounterWithBackend  # takes long

    graphs = CompileCounterWithBackend(backend)

    @torch.compile(backend=graphs, fullgraph=True, dynamic=True)
    def function(a, b):
        c, d = two_results(a + 1, b, 2.5)
        return c * 3, d[: b.shape[0]] + c

    for n in (3, 70):
        a, b = torch.randn(2 * n), torch.randn(n)
        c, d = b + 2.5, (a + 1) * 2.5
        for got, wanted in zip(function(a, b), (c * 3, d[:n] + c)):
            torch.testing.assert_close(got, wanted)
    assert graphs.frame_count == 1


def test_a_tensor_is_changed_in_place_inside_of_a_graph(in_place):
    @torch.compile(backend="aot_eager", fullgraph=True)
    def function(x):
        y = x * 2
        torch.ops.tilelang.add_to(y, 3)
        return y + 1

    assert in_place is not None
    assert torch.equal(function(torch.ones(65)), torch.full((65,), 6.0))


def test_a_gradient_can_be_given_to_an_op():
    op = tilelang.register_op(tilelang.compile(halves_and_sums(), out_idx=[-2, -1]), "ops_tests::with_gradient")
    op.register_autograd(lambda ctx, c, d: (None, c, None))
    b = torch.ones(3, requires_grad=True)
    torch.compile(lambda b: op(torch.ones(6), b, 2.0)[0], backend="aot_eager", fullgraph=True)(b).sum().backward()
    assert torch.equal(b.grad, torch.ones(3))


def test_the_shapes_of_a_call_are_checked_while_it_is_traced(two_results):
    function = torch.compile(lambda a, b: two_results(a, b, 1.0), backend="eager", fullgraph=True)
    with pytest.raises(Exception, match="Buffer rank mismatch for parameter B: expected 1 dimensions, got 2"):
        function(torch.ones(6), torch.ones(3, 1))


def test_names_that_are_refused(two_results):
    kernel = tilelang.compile(add_to())
    with pytest.raises(ValueError, match="There is an op ops_tests::two_results already"):
        tilelang.register_op(kernel, "ops_tests::two_results")
    with pytest.raises(ValueError, match="namespace::name, such as tilelang::softmax, not 'add'"):
        tilelang.register_op(kernel, "add")
    with pytest.raises(TypeError, match="takes a compiled kernel, not function"):
        tilelang.register_op(lambda x: x)
