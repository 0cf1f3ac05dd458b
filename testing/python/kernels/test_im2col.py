"""Convolutions through T.im2col, against patches taken apart in NumPy."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T
from tilelang_ascend.errors import InvalidArgument, ShapeMismatch
from tilelang_ascend.ir import op_name, statements
from tilelang_ascend.sim import reference


def patches(image, kernel, stride, dilation, pad):
    """The patch matrix: one row for each output pixel."""
    batch, height, width, channels = image.shape
    padded = np.zeros((batch, height + 2 * pad, width + 2 * pad, channels), image.dtype)
    padded[:, pad : pad + height, pad : pad + width] = image
    reach = dilation * (kernel - 1) + 1
    rows = range(0, padded.shape[1] - reach + 1, stride)
    cols = range(0, padded.shape[2] - reach + 1, stride)
    out = [padded[n, y : y + reach : dilation, x : x + reach : dilation].reshape(-1) for n in range(batch) for y in rows for x in cols]
    return np.stack(out)


@tilelang.jit
def convolution(shape, filters, kernel, stride, dilation, pad, pixels, block_M, block_K, dtype="float16"):
    """out = im2col(data) @ weight."""
    depth = kernel * kernel * shape[3]

    @T.prim_func
    def main(data: T.Tensor(shape, dtype), weight: T.Tensor((depth, filters), dtype), out: T.Tensor((pixels, filters), "float32")):
        with T.Kernel(T.ceildiv(filters, 32), T.ceildiv(pixels, block_M), threads=128) as (bx, by):
            x, w = T.alloc_shared((block_M, block_K), dtype), T.alloc_shared((block_K, 32), dtype)
            acc = T.alloc_fragment((block_M, 32), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(depth, block_K), num_stages=2):
                T.im2col(data, x, by, k, kernel, stride, dilation, pad)
                T.copy(weight[k * block_K, bx * 32], w)
                T.gemm(x, w, acc)
            T.copy(acc, out[by * block_M, bx * 32])

    return main


CASES = {
    # name: (image, kernel, stride, dilation, pad, block_M, block_K)
    "lines shorter than the tile": ((2, 5, 6, 32), 3, 1, 1, 1, 32, 32),
    "lines as long as the tile": ((1, 3, 16, 32), 3, 1, 1, 1, 16, 64),
    "lines longer than the tile": ((1, 3, 40, 16), 3, 1, 1, 0, 32, 16),
    "a kernel of one": ((2, 5, 6, 32), 1, 1, 1, 0, 32, 32),
    "steps over two positions": ((1, 5, 6, 48), 3, 1, 1, 1, 32, 32),
    "several positions in one step": ((1, 5, 6, 16), 3, 1, 1, 1, 32, 64),
    "every second pixel": ((2, 7, 9, 32), 3, 2, 1, 1, 32, 32),
    "holes in the kernel": ((1, 9, 8, 32), 3, 2, 2, 2, 32, 32),
    "padding wider than the image": ((1, 2, 2, 16), 3, 1, 1, 3, 32, 16),
    "a tile of few rows": ((1, 5, 6, 32), 3, 1, 1, 1, 17, 32),
    "three channels": ((1, 5, 6, 3), 3, 1, 1, 1, 32, 16),
}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("case", CASES)
def test_convolution(case):
    shape, kernel, stride, dilation, pad, block_M, block_K = CASES[case]
    rng = np.random.default_rng(0)
    image = rng.integers(-4, 5, shape).astype(np.float16)
    rows = patches(image, kernel, stride, dilation, pad)
    weight = rng.integers(-4, 5, (rows.shape[1], 40)).astype(np.float16)
    program = convolution(shape, 40, kernel, stride, dilation, pad, rows.shape[0], block_M, block_K)
    out = strict.run(program, {"data": image, "weight": weight, "out": np.full((rows.shape[0], 40), 7, np.float32)})
    np.testing.assert_array_equal(out["out"], rows.astype(np.float32) @ weight.astype(np.float32))
    assert (program.artifact.steps[0].kernel_type == "aic_only") == (shape[3] % 16 == 0)


@pytest.mark.parametrize("channels", [16, 3])
def test_tiles_in_front_of_the_first_row_and_column_are_zero(channels):
    """Where a kernel counts its steps from -1 on: with transfers of rows of pixels, and element by element."""
    image = np.random.default_rng(3).integers(-4, 5, (2, 4, 5, channels)).astype(np.float16)
    rows = patches(image, 2, 1, 1, 1)
    tiles, steps = 1 - -len(rows) // 16, 1 - -rows.shape[1] // 16

    @T.prim_func
    def main(data: T.Tensor(image.shape, "float16"), out: T.Tensor((steps * 16, tiles * 16), "float32")):
        with T.Kernel(tiles) as by:
            x, w = T.alloc_shared((16, 16), "float16"), T.alloc_shared((16, 16), "float16")
            acc = T.alloc_fragment((16, 16), "float32")
            for i, j in T.Parallel(16, 16):
                w[i, j] = T.if_then_else(i == j, 1, 0)
            for k in T.serial(steps):
                T.im2col(data, x, by - 1, k - 1, 2, 1, 1, 1)
                T.gemm(x, w, acc, clear_accum=True, transpose_A=True)
                T.copy(acc, out[k * 16, by * 16])

    want = np.zeros((steps * 16, tiles * 16), np.float32)
    want[16 : 16 + rows.shape[1], 16 : 16 + len(rows)] = rows.T
    out = strict.run(tilelang.compile(main, target="a2"), {"data": image, "out": np.full_like(want, 7)}, text=False)
    np.testing.assert_array_equal(out["out"], want)


@pytest.mark.parametrize("dtype, accum", [("int8", "int32"), ("uint8", "int32")])
def test_patches_the_cube_core_cannot_take_as_they_are(dtype, accum):
    """Bytes are turned, and unsigned ones taken apart, by the vector cores, which then gather the patches, too."""
    image = np.random.default_rng(4).integers(0, 100, (1, 4, 4, 32)).astype(dtype)
    rows = patches(image, 1, 1, 1, 0)

    @T.prim_func
    def main(data: T.Tensor(image.shape, dtype), weight: T.Tensor((16, 32), dtype), out: T.Tensor((32, 32), accum)):
        with T.Kernel(1):
            x, w = T.alloc_shared((16, 32), dtype), T.alloc_shared((16, 32), dtype)
            acc = T.alloc_fragment((32, 32), accum)
            T.im2col(data, x, 0, 0, 1, 1, 1, 0)
            T.copy(weight, w)
            T.gemm(x, w, acc, clear_accum=True, transpose_A=True)
            T.copy(acc, out)

    weight = np.random.default_rng(5).integers(0, 100, (16, 32)).astype(dtype)
    out = strict.run(tilelang.compile(main, target="a2"), {"data": image, "weight": weight, "out": np.zeros((32, 32), accum)}, text=False)
    np.testing.assert_array_equal(out["out"], rows.astype(np.int32).T @ weight.astype(np.int32))


@tilelang.jit
def patch_matrix(shape, kernel, stride, pad, pixels):
    """The patch matrix itself: the tile is used by the vector cores, too."""
    depth = kernel * kernel * shape[3]

    @T.prim_func
    def main(data: T.Tensor(shape, "float16"), out: T.Tensor((pixels, depth), "float16")):
        with T.Kernel(T.ceildiv(pixels, 16), T.ceildiv(depth, 32), threads=128) as (bm, bk):
            x, y = T.alloc_shared((16, 32), "float16"), T.alloc_fragment((16, 32), "float16")
            T.c2d_im2col(data, x, bm, bk, kernel, stride, 1, pad)
            for i, j in T.Parallel(16, 32):
                y[i, j] = x[i, j] * 2
            T.copy(y, out[bm * 16, bk * 32])

    return main


def test_patches_for_the_vector_cores():
    image = np.random.default_rng(1).integers(-4, 5, (1, 4, 5, 32)).astype(np.float16)
    rows = patches(image, 3, 1, 1, 1)
    program = patch_matrix(image.shape, 3, 1, 1, len(rows))
    out = strict.run(program, {"data": image, "out": np.zeros(rows.shape, np.float16)}, text=False)
    np.testing.assert_array_equal(out["out"], rows * np.float16(2))


def test_the_definition_agrees():
    image = np.random.default_rng(2).integers(-4, 5, (2, 4, 5, 16)).astype(np.float16)
    rows = patches(image, 3, 2, 1, 1)
    program = patch_matrix(image.shape, 3, 2, 1, len(rows))
    assert any(op_name(s) == "tl.im2col" for s in statements(program.artifact.tile_ir.body))
    out = np.zeros(rows.shape, np.float16)
    reference.run(program.artifact.tile_ir, image, out)
    np.testing.assert_array_equal(out, rows * np.float16(2))


def kernel_with(col_dtype="float16", shape=(1, 4, 5, 16), kernel=3, pad=1):
    @T.prim_func
    def main(data: T.Tensor(shape, "float16")):
        with T.Kernel(1) as _:
            x = T.alloc_shared((16, 16), col_dtype)
            T.im2col(data, x, 0, 0, kernel, 1, 1, pad)


@pytest.mark.parametrize(
    "change, error, text",
    [
        ({"col_dtype": "float32"}, ShapeMismatch, "converts nothing"),
        ({"shape": (4, 5, 16)}, InvalidArgument, "shape \\(N, H, W, C\\)"),
        ({"kernel": 0}, InvalidArgument, "kernel of T.im2col"),
        ({"kernel": 9}, InvalidArgument, "covers 9 pixels, H with padding is 6"),
    ],
)
def test_bad_arguments(change, error, text):
    with pytest.raises(error, match=text) as info:
        kernel_with(**change)
    assert info.value.location.file == __file__
