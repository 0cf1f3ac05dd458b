"""The carver's proposals: which ones fit, which come first, what is asked for in vain."""

import pytest

from tilelang_ascend.arch import get_chip
from tilelang_ascend.compat import session
from tilelang_ascend.errors import InvalidArgument
from tilelang_ascend.isa.base import Space

with session():
    from tilelang.carver import (
        ConvTemplate,
        ElementwiseTemplate,
        FlashAttentionTemplate,
        GEMVTemplate,
        GeneralReductionTemplate,
        MatmulTemplate,
        TileDevice,
    )

UB = get_chip("Ascend910B1").capacity_bytes(Space.UB)
L0C = get_chip("Ascend910B1").capacity_bytes(Space.L0C)


def tiles(template, topk=1000):
    return [(hint.block, hint.rstep) for hint in template.recommend_hints(topk)]


def test_products():
    assert tiles(MatmulTemplate(M=1024, N=1024, K=1024), 3) == [([128, 128], [256]), ([128, 256], [256]), ([256, 128], [256])]
    convolution = ConvTemplate(N=8, C=64, H=28, W=30, F=128, K=3, P=1)
    assert tiles(convolution) == tiles(MatmulTemplate(M=8 * 28 * 30, N=128, K=64 * 9))
    strided = ConvTemplate(N=1, C=32, H=20, W=20, F=64, K=5, S=2, D=2)
    assert tiles(strided) == tiles(MatmulTemplate(M=6 * 6, N=64, K=32 * 25))


@pytest.mark.parametrize("template, size", [
    (GEMVTemplate(N=4096, K=4096), 2), (GEMVTemplate(N=4096, K=4096, trans_B=False, in_dtype="float32"), 4),
    (ElementwiseTemplate(shape=[8, 1000, 1000]), 2), (ElementwiseTemplate(shape=[10**6], dtype="float32"), 4),
    (GeneralReductionTemplate("SRS", [64, 1024, 1024]), 2), (GeneralReductionTemplate("R", [10**6], "int8"), 1),
], ids=["rows of A", "columns of A", "elements", "vector", "columns", "all"])  # fmt: skip
def test_vector_tiles_fit_twice(template, size):
    found = tiles(template)
    for block, rstep in found:
        extents = [*block, *rstep]
        elements = 1
        for extent in extents:
            elements *= extent
        assert 2 * elements * size <= UB and max(extents) * size >= 32
    worst, best = (block + rstep for block, rstep in (found[-1], found[0]))
    assert max(best) > max(worst) or len(found) < 8  # single blocks of 32 bytes are the last thing to try


def test_every_core_gets_a_tile():
    assert tiles(ElementwiseTemplate(shape=[48, 1024], dtype="float32"), 1) == [([1, 1024], [])]
    assert tiles(ElementwiseTemplate(shape=[48 * 8, 1024], dtype="float32"), 1) == [([8, 1024], [])]


def test_attention():
    for dim in (64, 128, 512):
        found = tiles(FlashAttentionTemplate(4, 32, dim, 2048, 1000))
        assert found and all(m * max(n, dim) * 4 <= L0C and step == [dim] for (m, n), step in found)
    assert tiles(FlashAttentionTemplate(1, 1, 64, 16, 16)) == [([16, 16], [64])]


def test_other_chips():
    a5 = ElementwiseTemplate(shape=[10**7]).with_arch(TileDevice("a5"))
    largest = max(block[0] for block, _ in tiles(a5))
    assert 2 * 2 * 2 * largest <= get_chip("a5").capacity_bytes(Space.UB) < 2 * 2 * 2 * 2 * largest


@pytest.mark.parametrize("template, message", [
    (MatmulTemplate(M=16, N=16), "K is None"), (GEMVTemplate(N=0, K=1), "N is 0"), (ElementwiseTemplate(), "shape is None"),
    (GeneralReductionTemplate("SR", [4]), "no S or R for each dimension"), (GeneralReductionTemplate("SX", [4, 4]), "no S or R"),
    (ConvTemplate(N=1, C=1, H=2, W=9, F=1, K=3), "larger than the image"),
])  # fmt: skip
def test_mistakes(template, message):
    with pytest.raises(InvalidArgument, match=message):
        template.recommend_hints()
