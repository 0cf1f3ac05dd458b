"""Copies through a staging tile: what arrives is what the source held, and where it began, when the stage was filled."""

from __future__ import annotations

import numpy as np
import pytest
import strict

import tilelang_ascend
import tilelang_ascend.language as T

F32, F16, I32 = "float32", "float16", "int32"


def check(func, arrays: dict, want: dict, scalars=None):
    out = strict.run(tilelang_ascend.compile(func), {k: v.copy() for k, v in arrays.items()}, scalars, text=False)
    for name, value in want.items():
        np.testing.assert_array_equal(out[name], value, err_msg=name)


def numbers(*shape, dtype=np.float32):
    return np.random.default_rng(7).standard_normal(shape).astype(dtype)


def test_variable_changes_in_between():
    @T.prim_func
    def main(A: T.Tensor((256,), F32), C: T.Tensor((192,), F32)):
        with T.Kernel(1):
            s, f = T.alloc_shared((64,), F32), T.alloc_fragment((64,), F32)
            v = T.alloc_var(I32)
            v = 0
            for k in T.serial(3):
                T.copy(A[v : v + 64], s)
                v = v + 64
                T.copy(s, f)
                for i in T.Parallel(64):
                    f[i] = f[i] * 2
                T.copy(f, C[k * 64])

    a = numbers(256)
    check(main, {"A": a, "C": numbers(192)}, {"C": 2 * a[:192]})


def test_offset_in_gm_changes_in_between():
    @T.prim_func
    def main(A: T.Tensor((256,), F32), O: T.Tensor((4,), I32), C: T.Tensor((128,), F32)):  # noqa: E741
        with T.Kernel(1):
            s, f = T.alloc_shared((64,), F32), T.alloc_fragment((64,), F32)
            for k in T.serial(2):
                T.copy(A[O[0] : O[0] + 64], s)
                O[0] = O[0] + 32
                T.copy(s, f)
                T.copy(f, C[k * 64])

    a = numbers(256)
    arrays = {"A": a, "O": np.array([32, 0, 0, 0], np.int32), "C": numbers(128)}
    check(main, arrays, {"C": np.concatenate([a[32:96], a[64:128]])})


@pytest.mark.parametrize("low", [8, 0, 16])
def test_reader_writes_the_source(low):
    @T.prim_func
    def main(A: T.Tensor((32, 64), F32), C: T.Tensor((16, 64), F32), D: T.Tensor((32, 64), F32)):
        with T.Kernel(1):
            b, s = T.alloc_shared((32, 64), F32), T.alloc_shared((16, 64), F32)
            T.copy(A, b)
            T.copy(b[0:16, :], s)
            T.copy(s, b[low : low + 16, :])
            T.copy(s, C)
            T.copy(b, D)

    a = numbers(32, 64)
    want = a.copy()
    want[low : low + 16] = a[:16]
    check(main, {"A": a, "C": numbers(16, 64), "D": numbers(32, 64)}, {"C": a[:16], "D": want})


def test_rotation_through_a_stage():
    @T.prim_func
    def main(A: T.Tensor((2, 64), F32), C: T.Tensor((2, 64), F32)):
        with T.Kernel(1):
            x, y, t = T.alloc_shared((64,), F32), T.alloc_shared((64,), F32), T.alloc_shared((64,), F32)
            T.copy(A[0, :], x)
            T.copy(A[1, :], y)
            for _ in T.serial(3):
                T.copy(x, t)
                T.copy(y, x)
                T.copy(t, y)
            T.copy(x, C[0, :])
            T.copy(y, C[1, :])

    a = numbers(2, 64)
    check(main, {"A": a, "C": numbers(2, 64)}, {"C": a[::-1]})


@pytest.mark.parametrize("first, stage, last", [(F32, F16, F32), (F16, F32, F16), (F32, F16, F16), (F16, F16, F32), (F32, I32, I32)])
def test_the_stage_rounds(first, stage, last):
    @T.prim_func
    def main(A: T.Tensor((64,), first), C: T.Tensor((64,), last)):
        with T.Kernel(1):
            x, s, y = T.alloc_shared((64,), first), T.alloc_shared((64,), stage), T.alloc_fragment((64,), last)
            T.copy(A, x)
            T.copy(x, s)
            T.copy(s, y)
            T.copy(y, C)

    a = (numbers(64) * 9).astype(first)
    check(main, {"A": a, "C": np.zeros(64, last)}, {"C": a.astype(stage).astype(last)})


def test_part_of_the_source_lies_outside():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, 64), F32), C: T.Tensor((48, 64), F32)):
        with T.Kernel(3) as bx:
            s, f = T.alloc_shared((16, 64), F32), T.alloc_fragment((16, 64), F32)
            T.copy(A[bx * 16 : bx * 16 + 16, :], s)
            T.copy(s, f)
            T.copy(f, C[bx * 16 : bx * 16 + 16, :])

    a, want = numbers(37, 64), np.zeros((48, 64), np.float32)
    want[:37] = a
    check(main, {"A": a, "C": numbers(48, 64)}, {"C": want}, {"n": 37})


def test_source_in_gm_is_updated_in_between():
    @T.prim_func
    def main(C: T.Tensor((64,), F32), D: T.Tensor((64,), F32)):
        with T.Kernel(1):
            s, f = T.alloc_shared((64,), F32), T.alloc_fragment((64,), F32)
            T.copy(C, s)
            for i in T.Parallel(64):
                T.atomic_add(C[i], 1.0)
            T.copy(s, f)
            T.copy(f, D)

    c = numbers(64)
    check(main, {"C": c, "D": numbers(64)}, {"C": c + 1, "D": c})


def test_reader_stands_behind_a_continue():
    @T.prim_func
    def main(A: T.Tensor((4, 64), F32), M: T.Tensor((4,), I32), C: T.Tensor((4, 64), F32)):
        with T.Kernel(1):
            s, f = T.alloc_shared((64,), F32), T.alloc_fragment((64,), F32)
            T.fill(f, 0)
            for k in T.serial(4):
                T.copy(A[k, :], s)
                if M[k] == 0:
                    continue
                T.copy(s, f)
                T.copy(f, C[k, :])

    a, mask = numbers(4, 64), np.array([1, 0, 1, 0], np.int32)
    check(main, {"A": a, "M": mask, "C": np.zeros((4, 64), np.float32)}, {"C": a * mask[:, None]})


def test_a_product_goes_to_a_tensor_of_more_dimensions_without_the_vector_cores():
    """Numbers of a batch and a head in front of rows: the stage between has two dimensions, the tensor four."""

    @T.prim_func
    def main(A: T.Tensor((64, 32), F16), B: T.Tensor((32, 64), F16), C: T.Tensor((2, 32, 3, 64), F16)):
        with T.Kernel(2) as b:
            a, w, s = T.alloc_shared((32, 32), F16), T.alloc_shared((32, 64), F16), T.alloc_shared((32, 64), F16)
            acc = T.alloc_fragment((32, 64), F32)
            T.copy(A[b * 32, 0], a)
            T.copy(B, w)
            T.gemm(a, w, acc, clear_accum=True)
            T.copy(acc, s)
            T.copy(s, C[b, 0:32, 1, :])

    a, w, c = numbers(64, 32, dtype=np.float16), numbers(32, 64, dtype=np.float16), np.zeros((2, 32, 3, 64), np.float16)
    kernel = tilelang_ascend.compile(main)
    assert [step.kernel_type for step in kernel.artifact.steps] == ["aic_only"]
    out = strict.run(kernel, {"A": a, "B": w, "C": c}, text=False)["C"]
    np.testing.assert_allclose(out[:, :, 1].reshape(64, 64), a.astype(np.float32) @ w.astype(np.float32), rtol=2**-10, atol=2**-10)
    assert not out[:, :, [0, 2]].any()
