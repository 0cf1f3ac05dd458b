"""Stores to every kind of place in a tile, of every width: reversed, unaligned, stepping over lanes, transposed, columns."""

import numpy as np
import pytest
from harness import Lab, assign, parallel

from tilelang_ascend.ir import imm

RNG = np.random.default_rng(8)

PLACES = {
    "reversed": ((40,), (30,), lambda i: (35 - i,)),
    "rows reversed and shifted": ((5, 40), (5, 30), lambda i, j: (4 - i, j + 3)),
    "every second": ((5, 40), (5, 17), lambda i, j: (i, 2 * j + 1)),
    "one column": ((24, 3), (24,), lambda i: (i, 1)),
    "rows of one": ((24, 1), (24, 1), lambda i, j: (i, j)),
    "transposed and shifted": ((5, 40), (30, 5), lambda i, j: (j, i + 3)),
}


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16", "float32", "int64"])
@pytest.mark.parametrize("place", list(PLACES))
def test_places(place, dtype, constant):
    shape, extents, index = PLACES[place]
    x, y = RNG.integers(0, 120, extents).astype(dtype), RNG.integers(0, 120, shape).astype(dtype)
    lab = Lab(x=(dtype, x), y=(dtype, y))
    value = imm(7, dtype) if constant else None
    out = lab.run(parallel(extents, lambda *v: assign(lab.y, lab.x[v] if value is None else value, *index(*v))))["y"]
    want = y.copy()
    for at in np.ndindex(*extents):
        want[index(*at)] = 7 if constant else x[at]
    np.testing.assert_array_equal(out, want)
