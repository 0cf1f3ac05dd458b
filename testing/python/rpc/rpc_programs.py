"""Kernels for tests of remote runs, good ones and broken ones."""

import dataclasses

import tilelang_ascend as tilelang
import tilelang_ascend.language as T


def add(n=4096, block=1024, constant=1.0):
    @T.prim_func
    def add(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block)) as bx:
            a = T.alloc_shared((block,), "float32")
            b = T.alloc_shared((block,), "float32")
            T.copy(A[bx * block], a)
            T.copy(B[bx * block], b)
            for i in T.Parallel(block):
                a[i] = a[i] + b[i] + constant
            T.copy(a, C[bx * block])

    return tilelang.compile(add, out_idx=-1)


def with_text(kernel, statement: str):
    """The artifact with a statement at the start of its kernel function."""
    artifact = kernel.artifact
    head, brace, rest = artifact.kernel_source.partition("__global__")
    name, brace, body = rest.partition("{")
    return dataclasses.replace(artifact, kernel_source=f"{head}__global__{name}{{\n{statement}\n{body}")


def endless(kernel):
    return with_text(kernel, "for (volatile int turns = 0; turns < 1;) {}")


def crashing(kernel):
    return with_text(kernel, "*(volatile int*)8 = 1;")


def not_compiling(kernel):
    return with_text(kernel, "this is not C++;")
