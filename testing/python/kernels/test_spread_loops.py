"""Iterations of a loop become blocks where there are fewer blocks than cores, and only where that means the same."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

RNG = np.random.default_rng(0)
TILE, TRIPS = 128, 16


def scaled(blocks, where="t", sums=False):
    """A share of a vector for each block, tile by tile. `where`: the tile that iteration t stores; `sums`: a tile goes from one to the next."""
    n = blocks * TRIPS * TILE

    @T.prim_func
    def kernel(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(blocks, threads=128) as bx:
            x, total = T.alloc_shared((TILE,), "float32"), T.alloc_fragment((TILE,), "float32")
            if sums:
                T.clear(total)
            for t in T.Pipelined(TRIPS, num_stages=2):
                first = (bx * TRIPS + t) * TILE
                T.copy(X[first], x)
                for i in T.Parallel(TILE):
                    if sums:
                        total[i] = total[i] + x[i]
                        x[i] = total[i]
                    else:
                        x[i] = x[i] * 2
                T.copy(x, Y[first if where == "t" else bx * TRIPS * TILE])

    return kernel


def spread(kernel) -> bool:
    return any("is a block" in note for note in tilelang.compile(kernel).artifact.notes)


@pytest.mark.parametrize("blocks", [3, 50])
def test_values(blocks):
    kernel = tilelang.compile(scaled(blocks))
    assert any("is a block" in note for note in kernel.artifact.notes)
    x = RNG.standard_normal(blocks * TRIPS * TILE).astype("float32")
    out = strict.run(kernel, {"X": x, "Y": np.zeros_like(x)}, text=blocks == 3)["Y"]
    np.testing.assert_array_equal(out, x * 2)


def test_what_has_an_order_stays():
    assert not spread(scaled(3, where="block")), "the last iteration's store is the one that counts"
    assert not spread(scaled(3, sums=True)), "sums go from one iteration to the next"
    assert not spread(scaled(48)), "no core is without work"


def test_places_that_iterations_load_have_an_order():
    """`first + t` is the same row again and again where what is loaded counts down."""
    blocks, width = 4, 64

    @T.prim_func
    def kernel(
        X: T.Tensor((blocks * TRIPS, width), "float32"),
        I: T.Tensor((blocks * TRIPS,), "int32"),
        Y: T.Tensor((blocks, TRIPS, width), "float32"),
    ):
        with T.Kernel(blocks, threads=128) as bx:
            x = T.alloc_shared((width,), "float32")
            for t in T.serial(TRIPS):
                first = I[bx * TRIPS + t]
                T.copy(X[bx * TRIPS + t, 0], x)
                for j in T.Parallel(width):
                    Y[bx, first + t, j] = x[j] * 2.0

    assert not spread(kernel)
    x, down = RNG.standard_normal((blocks * TRIPS, width)).astype("float32"), np.tile(np.arange(TRIPS)[::-1], blocks).astype("int32")
    y = np.zeros((blocks, TRIPS, width), "float32")
    out, _ = strict.once(kernel, "a2", {"X": x, "I": down, "Y": y})
    y[:, -1] = 2 * x.reshape(blocks, TRIPS, width)[:, -1]
    np.testing.assert_array_equal(out["Y"], y)


def test_few_blocks_use_all_cores():
    """K01 of the catalogue, simulated: eight blocks take 0.44 us without this."""
    kernel = tilelang.compile(scaled(8))
    x = np.zeros(8 * TRIPS * TILE, "float32")
    report = kernel.simulate(x, x.copy(), values=False, checks=False, warm=False)
    assert report.simulated_us - report.run.launch_us < 0.4
