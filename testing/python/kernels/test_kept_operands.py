"""An operand of a product stays in L1 for several blocks, and sums of parts of K are added up in GM."""

from dataclasses import replace

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.arch import get_chip
from tilelang_ascend.ir import statements
from tilelang_ascend.tile import ATOMIC_ADD, is_op
from tilelang_ascend.transform.pipeline import lower

RNG = np.random.default_rng(0)
CHIP = get_chip("a2")
ONE_CORE = replace(
    CHIP, quantities={**CHIP.quantities, **{k: replace(CHIP.quantities[k], value=n) for k, n in (("num_aic", 1), ("num_aiv", 2))}}
)
"""So that small products are many blocks for a core."""


def matmul(shape, tile, result="float16", transposed=(False, False), epilogue=None):
    (M, N, K), (m, n, k) = shape, tile

    @T.prim_func
    def kernel(
        A: T.Tensor((K, M) if transposed[0] else (M, K), "float16"),
        B: T.Tensor((N, K) if transposed[1] else (K, N), "float16"),
        C: T.Tensor((M, N), result),
    ):
        with T.Kernel(T.ceildiv(N, n), T.ceildiv(M, m), threads=128) as (bx, by):
            a = T.alloc_shared((k, m) if transposed[0] else (m, k), "float16")
            b = T.alloc_shared((n, k) if transposed[1] else (k, n), "float16")
            c = T.alloc_fragment((m, n), "float32")
            T.clear(c)
            for i in T.Pipelined(T.ceildiv(K, k), num_stages=2):
                if transposed[0]:
                    T.copy(A[i * k, by * m], a)
                else:
                    T.copy(A[by * m, i * k], a)
                if transposed[1]:
                    T.copy(B[bx * n, i * k], b)
                else:
                    T.copy(B[i * k, bx * n], b)
                T.gemm(a, b, c, transpose_A=transposed[0], transpose_B=transposed[1])
            if epilogue is not None:
                epilogue(c)
            T.copy(c, C[by * m, bx * n])

    return kernel


def notes_of(kernel, chip=ONE_CORE) -> list:
    return [note for note in lower(kernel, chip).notes if "stays in L1" in note]


def check(shape, tile, note: str, result="float16", transposed=(False, False)):
    """Small integers: every sum is exact."""
    kernel, (M, N, K) = matmul(shape, tile, result, transposed), shape
    (found,) = notes_of(kernel)
    assert note in found, found
    a, b = RNG.integers(-3, 4, (M, K)).astype("float16"), RNG.integers(-3, 4, (K, N)).astype("float16")
    arrays = {"A": np.ascontiguousarray(a.T) if transposed[0] else a, "B": np.ascontiguousarray(b.T) if transposed[1] else b}
    out = strict.once(kernel, ONE_CORE, {**arrays, "C": np.zeros((M, N), result)})[0]["C"]
    np.testing.assert_array_equal(out, (a.astype(np.float64) @ b.astype(np.float64)).astype(result))


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True)])
def test_sums_in_a_workspace(transposed):
    check((128, 512, 1024), (128, 128, 32), "sums of 512 products", transposed=transposed)


def test_sums_in_the_tensor_itself():
    check((128, 512, 1024), (128, 128, 64), "sums of 512 products", "float32")


def test_all_of_k_fits():
    check((256, 512, 256), (128, 128, 32), "stays in L1 for 4 tiles of 128 x 128", "float16")
    assert not any("sums" in note for note in notes_of(matmul((256, 512, 256), (128, 128, 32))))


def test_wide_and_tall_tiles_are_cut():
    check((128, 512, 1024), (128, 256, 32), "stays in L1 for 4 tiles of 128 x 128")
    check((512, 128, 1024), (256, 128, 32), "b stays in L1 for 4 tiles of 128 x 128")


def test_rows_columns_and_k_that_end_inside_a_tile():
    check((121, 505, 1000), (128, 128, 32), "sums of 512 products")


def test_what_is_left_alone():
    """Sums of 16 bits would be rounded once more, tensors that are written may be read again, and epilogues belong to a block."""

    @T.prim_func
    def narrow(A: T.Tensor((128, 1024), "float16"), B: T.Tensor((1024, 512), "float16"), C: T.Tensor((128, 512), "float16")):
        with T.Kernel(4, threads=128) as bx:
            a, b, c = T.alloc_shared((128, 32), "float16"), T.alloc_shared((32, 128), "float16"), T.alloc_fragment((128, 128), "float16")
            T.clear(c)
            for i in T.Pipelined(32, num_stages=2):
                T.copy(A[0, i * 32], a)
                T.copy(B[i * 32, bx * 128], b)
                T.gemm(a, b, c)
            T.copy(c, C[0, bx * 128])

    @T.prim_func
    def in_place(A: T.Tensor((1024, 1024), "float16"), B: T.Tensor((1024, 1024), "float16")):
        with T.Kernel(8, 8, threads=128) as (bx, by):
            a, b, c = T.alloc_shared((128, 32), "float16"), T.alloc_shared((32, 128), "float16"), T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for i in T.Pipelined(32, num_stages=2):
                T.copy(A[by * 128, i * 32], a)
                T.copy(B[i * 32, bx * 128], b)
                T.gemm(a, b, c)
            T.copy(c, A[by * 128, bx * 128])

    def halved(c):
        for i, j in T.Parallel(128, 128):
            c[i, j] = c[i, j] / 2

    assert not notes_of(narrow)
    assert not notes_of(in_place)
    assert not notes_of(matmul((128, 512, 1024), (128, 128, 32), epilogue=halved))


def test_sums_that_start_from_another_number():
    """What a fill says is not lost."""

    @T.prim_func
    def kernel(A: T.Tensor((128, 1024), "float16"), B: T.Tensor((1024, 512), "float16"), C: T.Tensor((128, 512), "float32")):
        with T.Kernel(4, threads=128) as bx:
            a, b, c = T.alloc_shared((128, 32), "float16"), T.alloc_shared((32, 128), "float16"), T.alloc_fragment((128, 128), "float32")
            T.fill(c, 2.0)
            for i in T.Pipelined(32, num_stages=2):
                T.copy(A[0, i * 32], a)
                T.copy(B[i * 32, bx * 128], b)
                T.gemm(a, b, c)
            T.copy(c, C[0, bx * 128])

    a, b = RNG.integers(-3, 4, (128, 1024)).astype("float16"), RNG.integers(-3, 4, (1024, 512)).astype("float16")
    out = strict.once(kernel, ONE_CORE, {"A": a, "B": b, "C": np.zeros((128, 512), "float32")})[0]["C"]
    np.testing.assert_array_equal(out, a.astype(np.float64) @ b + 2)


def test_pieces_of_a_tile_between_heads():
    """The rows of a tile are no neighbours of its columns in the tensor."""

    @T.prim_func
    def kernel(A: T.Tensor((512, 3, 1024), "float16"), B: T.Tensor((1024, 128), "float16"), C: T.Tensor((512, 128), "float16")):
        with T.Kernel(2, threads=128) as by:
            a, b, c = T.alloc_shared((256, 32), "float16"), T.alloc_shared((32, 128), "float16"), T.alloc_fragment((256, 128), "float32")
            T.clear(c)
            for i in T.Pipelined(32, num_stages=2):
                T.copy(A[by * 256 : by * 256 + 256, 1, i * 32 : i * 32 + 32], a)
                T.copy(B[i * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 256, 0])

    assert "stays in L1 for 4 tiles of 128 x 128" in notes_of(kernel)[0]
    a, b = RNG.integers(-3, 4, (512, 3, 1024)).astype("float16"), RNG.integers(-3, 4, (1024, 128)).astype("float16")
    out = strict.once(kernel, ONE_CORE, {"A": a, "B": b, "C": np.zeros((512, 128), "float16")})[0]["C"]
    np.testing.assert_array_equal(out, (a[:, 1].astype(np.float64) @ b).astype("float16"))


def test_blocks_that_store_the_same_do_not_add_up():
    """Two blocks of the last axis make every result."""

    @T.prim_func
    def kernel(A: T.Tensor((128, 1024), "float16"), B: T.Tensor((1024, 512), "float16"), C: T.Tensor((128, 512), "float32")):
        with T.Kernel(4, 1, 2, threads=128) as (bx, _by, _bz):
            a, b, c = T.alloc_shared((128, 32), "float16"), T.alloc_shared((32, 128), "float16"), T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for i in T.Pipelined(32, num_stages=2):
                T.copy(A[0, i * 32], a)
                T.copy(B[i * 32, bx * 128], b)
                T.gemm(a, b, c)
            T.copy(c, C[0, bx * 128])

    lowered = lower(kernel, ONE_CORE, keep_stages=True)
    assert "sums of 512 products" in " ".join(lowered.notes)
    stage = next(func for name, func in lowered.stages if name == "keep_operands")
    added = [s.value.args[0].source.name for s in statements(stage.body) if is_op(s, ATOMIC_ADD)]
    assert added == ["c_sums"]


def test_small_products_and_other_chips_take_the_larger_tile():
    assert not notes_of(matmul((1024, 1024, 1024), (128, 128, 32)), CHIP), "the way through GM at the end is longer than what is saved"
    assert not notes_of(matmul((8192, 8192, 8192), (128, 128, 32)), get_chip("a5")), (
        "L0C holds tiles whose products are longer than their loads"
    )


def test_it_can_be_switched_off():
    for name in ("tl.keep_operands", "tl.coarsen_blocks"):
        compiled = tilelang.compile(matmul((4096, 4096, 4096), (128, 128, 32)), pass_configs={name: False})
        assert not any("stays in L1" in note for note in compiled.artifact.notes)


@pytest.mark.parametrize("size, limit", [(4096, 425), (8192, 3400)])
def test_products_near_the_roof_of_the_cube(size, limit):
    """The unchanged source with blocks of a GPU, simulated."""
    kernel = tilelang.compile(matmul((size, size, size), (128, 128, 32)))
    given = [np.zeros((size, size), "float16") for _ in range(3)]
    assert kernel.simulate(*given, values=False, checks=False).simulated_us < limit
