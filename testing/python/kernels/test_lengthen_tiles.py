"""Neighbouring blocks, or iterations of a loop, become one with longer tiles where that is faster, and only where it means the same."""

import numpy as np
import pytest
import strict

import tilelang_ascend as tilelang
import tilelang_ascend.language as T

RNG = np.random.default_rng(0)
N, BLOCK = 24, 2
CHIPS = ["Ascend910B1", "Ascend910_9391", "Ascend950PR_958x"]


def compiled(kernel, together=True, **options):
    out = tilelang.compile(kernel, **options)
    assert any("worked on together" in note for note in out.artifact.notes) == together, out.artifact.notes
    return out


def softmax(rows, blocks=None, knows_block=False, in_place=False):
    """Softmax of rows, a few in each block; of the first blocks only, if asked for."""
    blocks = -(-rows // BLOCK) if blocks is None else blocks

    @T.prim_func
    def kernel(X: T.Tensor((rows, N), "float32"), Y: T.Tensor((rows, N), "float32")):
        with T.Kernel(blocks, threads=128) as bx:
            x, most = T.alloc_fragment((BLOCK, N), "float32"), T.alloc_fragment((BLOCK,), "float32")
            T.copy(X[bx * BLOCK, 0], x)
            T.reduce_max(x, most, dim=1)
            for i, j in T.Parallel(BLOCK, N):
                x[i, j] = T.exp(x[i, j] - most[i])
            T.reduce_sum(x, most, dim=1)
            for i, j in T.Parallel(BLOCK, N):
                x[i, j] = x[i, j] / most[i] + (T.cast(bx, "float32") if knows_block else T.float32(0))
            T.copy(x, X[bx * BLOCK, 0] if in_place else Y[bx * BLOCK, 0])

    return kernel


def expected(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("rows, target", [(512, CHIPS[0]), *((613, chip) for chip in CHIPS)])
def test_rows(rows, target):
    x = RNG.standard_normal((rows, N)).astype("float32")
    out = strict.run(compiled(softmax(rows), target=target), {"X": x, "Y": np.zeros_like(x)}, text=rows == 512)["Y"]
    np.testing.assert_allclose(out, expected(x), rtol=1e-5, atol=1e-6)


def test_rows_in_place():
    x = RNG.standard_normal((512, N)).astype("float32")
    out = strict.run(compiled(softmax(512, in_place=True)), {"X": x.copy(), "Y": np.zeros_like(x)}, text=False)["X"]
    np.testing.assert_allclose(out, expected(x), rtol=1e-5, atol=1e-6)


def test_blocks_that_end_before_the_tensor():
    x, blocks = RNG.standard_normal((700, N)).astype("float32"), 257
    out = strict.run(tilelang.compile(softmax(700, blocks)), {"X": x, "Y": np.full_like(x, 7)}, text=False)["Y"]
    np.testing.assert_allclose(out[: blocks * BLOCK], expected(x)[: blocks * BLOCK], rtol=1e-5, atol=1e-6)
    assert (out[blocks * BLOCK :] == 7).all(), "rows of no block are written"


def test_blocks_that_know_their_number():
    rows = 512
    x = RNG.standard_normal((rows, N)).astype("float32")
    out = strict.run(compiled(softmax(rows, knows_block=True), together=False), {"X": x, "Y": np.zeros_like(x)}, text=False)["Y"]
    np.testing.assert_allclose(out, expected(x) + (np.arange(rows) // BLOCK)[:, None], rtol=1e-5)


def test_may_be_switched_off():
    compiled(softmax(512), together=False, pass_configs={"tl.coarsen_blocks": False})


def looped(tile=64, trips=16, shift=0, carried=False, overlap=0, more=False, shared=False, copied=False):
    """Y = 2 X + 1, or running sums, in a loop over small tiles. shift: it reads that far in front of what it stores, in the same tensor. shared:
    a tile that is loaded once is added to all."""
    length = trips * tile

    @T.prim_func
    def kernel(X: T.Tensor((length,), "float32"), Y: T.Tensor((length + tile,), "float32")):
        with T.Kernel(1, threads=128) as _:
            x, y = T.alloc_shared((tile,), "float32"), T.alloc_fragment((tile,), "float32")
            z = T.alloc_shared((tile,), "float32")
            if carried:
                T.clear(y)
            if shared:
                T.copy(X[0], z)
            for t in T.Pipelined(trips, num_stages=2):
                T.copy(Y[t * tile - shift] if shift else X[t * tile], x)
                for i in T.Parallel(tile):
                    y[i] = (y[i] if carried else z[i] if shared else T.float32(1)) + x[i] * 2.0
                T.copy(y, Y[t * (tile - overlap)])
            if more:
                T.copy(y, Y[length])
            if copied:
                T.copy(X[0], z)
                T.copy(z, Y[length])

    return kernel


def test_iterations():
    x = RNG.integers(-9, 10, 1024).astype("float32")
    out = strict.run(compiled(looped(copied=True)), {"X": x, "Y": np.zeros(1088, "float32")})["Y"]
    np.testing.assert_array_equal(out, np.concatenate([2 * x + 1, x[:64]]))


@pytest.mark.parametrize(
    "what",
    [{"carried": True}, {"overlap": 8}, {"more": True}, {"shift": 8}, {"shared": True}],
    ids=["running sums", "stores that meet", "a tile used later", "reads what was stored", "a tile of all iterations"],
)
def test_iterations_with_an_order(what):
    x, y = RNG.integers(-9, 10, 1024).astype("float32"), np.zeros(1088, "float32")
    out = strict.run(compiled(looped(**what), together=False), {"X": x, "Y": y.copy()}, text=False)["Y"]
    tile, total = 64, np.zeros(64, "float32")
    for t in range(16):
        first = t * tile - what.get("shift", 0)
        part = (np.pad(y, (8, 0))[first + 8 : first + 8 + tile] if "shift" in what else x[first : first + tile]) * 2
        total = total + part if "carried" in what else part + (x[:tile] if "shared" in what else 1)
        at = t * (tile - what.get("overlap", 0))
        y[at : at + tile] = total
    if "more" in what:
        y[1024:] = total
    np.testing.assert_array_equal(out, y)
