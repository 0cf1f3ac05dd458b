"""Tests in a script: conditions on the device, a seed, and `tilelang.testing.main`."""

import torch

import tilelang
import tilelang.language as T
import tilelang.testing

tilelang.testing.set_random_seed(0)


def scale(N, factor, block=64):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=block) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * factor

    return main


def run_scale(N, factor):
    kernel = tilelang.compile(scale(N, factor), out_idx=-1)
    x = torch.randn(N).cuda()
    tilelang.testing.torch_assert_close(kernel(x), x * factor, rtol=1e-5, atol=1e-5)


@tilelang.testing.requires_cuda
def test_scale():
    run_scale(128, 2.0)


@tilelang.testing.requires_cuda_compute_version_ge(8, 0)
def test_scale_tail():
    run_scale(100, 0.5)


@tilelang.testing.requires_rocm
def test_for_another_vendor():
    raise AssertionError("must not run")


if __name__ == "__main__":
    tilelang.testing.main()
