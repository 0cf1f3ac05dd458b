"""Dtype objects in host code, and dtypes the machine does not compute with."""

import ml_dtypes
import numpy as np
import pytest
import torch

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.errors import DtypeMismatch, UnsupportedConstruct

NAMES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 float8_e4m3fn float8_e5m2 float8_e8m0fnu".split()


@pytest.mark.parametrize("name", NAMES)
def test_names_torch_and_numpy_agree(name):
    dtype = getattr(T, name)
    assert dtype.as_torch() is getattr(torch, name)
    assert dtype == name and dtype == getattr(torch, name) and getattr(torch, name) == dtype and dtype in [getattr(torch, name)]
    assert dtype == dtype.as_numpy() and dtype.as_numpy().itemsize == dtype.bytes == dtype.itemsize == dtype.bits // 8
    assert T.dtype(dtype.as_torch()) == dtype == T.dtype(dtype.as_numpy()) and dtype.name == str(dtype) == name
    assert torch.empty(2, dtype=dtype.as_torch()).element_size() == dtype.bytes
    others = [n for n in NAMES if n != name]
    assert all(dtype != n and dtype != getattr(torch, n) and dtype != getattr(T, n) for n in others)


def test_what_a_dtype_is_not():
    assert T.float16 != None and T.float16 != 16 and T.float16 != float and T.float16 != torch.ones(1)  # noqa: E711
    assert T.float16 == np.float16 and T.bfloat16 == np.dtype(ml_dtypes.bfloat16) and {T.float16: 1}["float16"] == 1
    with pytest.raises(DtypeMismatch, match="torch has no dtype"):
        T.float8_e3m4.as_torch()


def lazy():
    @T.prim_func
    def k(A: T.Tensor((16,), "float64"), B: T.Tensor((16,), "float64")):
        with T.Kernel(1):
            for i in T.Parallel(16):
                B[i] = A[i] + 1.0

    tilelang.compile(k)


def eager():
    @tilelang.jit
    def k(A):
        N = T.const("N")
        A: T.Tensor[[N], "float64"]
        B = T.empty((N,), "float64")
        with T.Kernel(1):
            for i in T.serial(N):
                B[i] = A[i] * 2.0
        return B

    k(torch.ones(16, dtype=torch.float64))


@pytest.mark.parametrize("build", [lazy, eager])
def test_float64_is_refused_when_it_is_compiled(build):
    with pytest.raises(UnsupportedConstruct, match="float64") as error:
        build()
    assert "B[i] = A[i]" in str(error.value)


def test_tiles_of_float64_are_copied():
    @T.prim_func
    def k(A: T.Tensor((16,), "float64"), B: T.Tensor((16,), "float64")):
        with T.Kernel(1):
            s = T.alloc_shared((16,), "float64")
            T.copy(A, s)
            T.copy(s, B)

    a, b = torch.randn(16, dtype=torch.float64), torch.zeros(16, dtype=torch.float64)
    tilelang.compile(k)(a, b)
    assert torch.equal(a, b)
