"""Whole kernels timed with counted iterations, and with all of them."""

import attention
import programs
import pytest
import torch

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

WITHIN = 0.01
"""What docs/machine.md promises."""


def product(m, n, k):
    return programs.matmul(m, n, k), [torch.empty(m, k).half(), torch.empty(k, n).half(), torch.empty(m, n).half()]


def row_sums(rows, columns):
    @T.prim_func
    def main(A: T.Tensor((rows, columns), "float32"), Y: T.Tensor((rows,), "float32")):
        with T.Kernel(rows // 16) as bx:
            a, part, total = T.alloc_shared((16, 256), "float32"), T.alloc_fragment((16,), "float32"), T.alloc_fragment((16,), "float32")
            T.clear(total)
            for i in T.Pipelined(columns // 256, num_stages=2):
                T.copy(A[bx * 16, i * 256], a)
                T.reduce_sum(a, part, dim=1)
                for r in T.Parallel(16):
                    total[r] += part[r]
            T.copy(total, Y[bx * 16])

    return tilelang.compile(main), [torch.empty(rows, columns), torch.empty(rows)]


def scores(seq, heads, causal):
    q, k, v, out = (torch.empty(1, heads, seq, 64).half() for _ in range(4))
    return tilelang.compile(attention.forward(1, heads, seq, 64, causal=causal)), [
        q,
        k,
        v,
        torch.empty(heads).half(),
        out,
        torch.empty(1, heads, seq),
    ]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", [
    pytest.param(lambda: product(1024, 1536, 4096), id="product"),
    pytest.param(lambda: product(1000, 1024, 1000), id="product of odd sizes"),
    pytest.param(lambda: row_sums(512, 32768), id="row sums"),
    pytest.param(lambda: scores(4096, 2, False), id="attention"),
    pytest.param(lambda: scores(768, 2, True), id="causal attention"),
])  # fmt: skip
def test_times_agree(case):
    kernel, arguments = case()
    few, all_ = (kernel.simulate(*arguments, values=False, checks=False, every_step=every) for every in (False, True))
    assert few.simulated_us == pytest.approx(all_.simulated_us, rel=WITHIN)
    assert few.run.per_core and [c.instructions for c in few.run.per_core] == [c.instructions for c in all_.run.per_core]


def test_what_l2_writes_back_has_no_rhythm_at_first():
    """Outputs larger than L2 find room in it for a while; then every store costs HBM a write."""

    @T.prim_func
    def main(A: T.Tensor((16384, 4096), "float32"), Y: T.Tensor((16384, 4096), "float32")):
        with T.Kernel(16384 // 8, 4) as (bx, by):
            a = T.alloc_shared((8, 1024), "float32")
            T.copy(A[bx * 8, by * 1024], a)
            for i, j in T.Parallel(8, 1024):
                a[i, j] = a[i, j] * 2
            T.copy(a, Y[bx * 8, by * 1024])

    kernel, arguments = tilelang.compile(main), [torch.empty(16384, 4096), torch.empty(16384, 4096)]
    few, all_ = (kernel.simulate(*arguments, values=False, checks=False, warm=False, every_step=every) for every in (False, True))
    assert all_.run.traffic["hbm_write"] > 64 << 20
    assert few.simulated_us == pytest.approx(all_.simulated_us, rel=WITHIN)
    assert few.run.traffic == pytest.approx(all_.run.traffic, rel=WITHIN)
    assert [c.instructions for c in few.run.per_core] == [c.instructions for c in all_.run.per_core]


def test_elements_that_scalars_read_are_no_traffic():
    """Of counted iterations neither."""

    @T.prim_func
    def main(A: T.Tensor((512,), "int32"), Y: T.Tensor((64, 256), "float32")):
        with T.Kernel(2):
            y = T.alloc_shared((4, 256), "float32")
            T.fill(y, 1)
            for k in T.serial(200):
                T.atomic_add(Y[A[k // 4] % 60, 0], y)

    kernel, arguments = tilelang.compile(main, target="a5"), [torch.arange(512).int(), torch.zeros(64, 256)]
    few, all_ = (kernel.simulate(*arguments, values=False, checks=False, every_step=every) for every in (False, True))
    assert few.run.traffic == all_.run.traffic
    assert few.run.traffic["l2_read"] == 0
