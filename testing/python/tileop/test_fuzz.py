"""Random nests: 1 to 4 statements over random shapes, dtypes, access patterns and conditions, against NumPy."""

import numpy as np
import pytest
from harness import Lab, assign, parallel
from reference import run_nest

from tilelang_ascend.ir import as_expr, dtype_of, if_then, tirx

FLOATS = ["float32", "float16", "bfloat16"]
DTYPES = [*FLOATS, "float32", "int32", "int16", "int8"]


class Body:
    """A random nest over the tiles of a lab."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.dims = int(self.rng.integers(1, 4))
        self.extents = tuple(int(self.rng.choice([1, 2, 3, 5, 8, 16, 17, 33, 64, 65, 70])) for _ in range(self.dims))
        while np.prod(self.extents) > 3000:
            self.extents = tuple(max(1, n // 2) for n in self.extents)
        self.dtype = str(self.rng.choice(DTYPES))
        self.patterns, arrays = [], {}
        for k in range(4):
            make = getattr(self, str(self.rng.choice(PATTERNS)))
            shape, index = make()
            dtype = self.dtype if self.rng.random() < 0.8 else str(self.rng.choice(DTYPES))
            arrays[f"x{k}"] = (dtype, self.rng.integers(-7, 8, shape) / (4 if dtype in FLOATS else 1))
            self.patterns.append((f"x{k}", index))
        for k in range(2):
            arrays[f"y{k}"] = (self.dtype, self.rng.integers(-7, 8, self.extents))
        self.lab = Lab(**arrays)

    # access patterns: (shape of the tile, function of the loop variables to indices)
    def identity(self):
        return self.extents, lambda *v: v

    def row(self):
        return self.extents[-1:], lambda *v: v[-1:]

    def column(self):
        return self.extents[:1], lambda *v: v[:1]

    def element(self):
        return (3,), lambda *v: (1,)

    def shifted(self):
        by = int(self.rng.choice([1, 2, 8]))
        return (*self.extents[:-1], self.extents[-1] + by), lambda *v: (*v[:-1], v[-1] + by)

    def strided(self):
        return (*self.extents[:-1], 2 * self.extents[-1]), lambda *v: (*v[:-1], v[-1] * 2)

    def mirrored(self):
        return self.extents, lambda *v: (*v[:-1], self.extents[-1] - 1 - v[-1])

    def transposed(self):
        return self.extents[::-1], lambda *v: v[::-1]

    def load(self, v):
        name, index = self.patterns[self.rng.integers(len(self.patterns))]
        tile = self.lab.tiles[name]
        value = tile[tuple(as_expr(i) for i in index(*v))]
        return value if dtype_of(value) == self.dtype else tirx.Cast(self.dtype, value)

    def expr(self, v, depth: int):
        if depth == 0 or self.rng.random() < 0.15:
            return self.load(v) if self.rng.random() < 0.85 else tirx.const(int(self.rng.integers(-3, 4)), self.dtype)
        a, b = self.expr(v, depth - 1), self.expr(v, depth - 1)
        kind = self.rng.integers(8)
        if kind == 5:
            return tirx.if_then_else(self.cond(v), a, b)
        if kind == 6 and self.dtype == "float32":
            return tirx.abs(a)
        if kind == 7 and self.dtype in ("int32", "int16"):
            return tirx.FloorDiv(a, tirx.const(int(self.rng.choice([2, 4, 3, 7])), self.dtype))
        return [tirx.Add, tirx.Sub, tirx.Mul, tirx.Max, tirx.Min][kind % 5](a, b)

    def cond(self, v):
        if self.rng.random() < 0.3:
            return v[-1] + int(self.rng.integers(3)) <= (v[0] if self.dims > 1 else int(self.rng.integers(70)))
        compare = [tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE][self.rng.integers(6)]
        first = compare(self.load(v), self.load(v))
        return first if self.rng.random() < 0.7 else tirx.And(first, compare(self.load(v), self.load(v)))

    def statement(self, v):
        store = assign(self.lab.tiles[f"y{self.rng.integers(2)}"], self.expr(v, int(self.rng.integers(1, 4))), *v)
        return store if self.rng.random() < 0.75 else if_then(self.cond(v), store)

    def nest(self):
        return parallel(self.extents, lambda *v: [self.statement(v) for _ in range(self.rng.integers(1, 5))])


PATTERNS = ["identity", "identity", "row", "column", "element", "shifted", "strided", "mirrored", "transposed"]


def check(seed: int) -> None:
    body = Body(seed)
    nest, lab = body.nest(), body.lab
    arrays = {t: lab.arrays[name].copy() for name, t in lab.tiles.items()}
    run_nest(nest, arrays)
    out = lab.run(nest, expect_scalar=True)
    assert all("runs as scalar loops" in w for w in lab.warnings)
    # bfloat16 intermediates are kept in float32, float16 ones are rounded: the reference rounds after every operation.
    tolerance = {"float32": 1e-6, "float16": 1e-6, "bfloat16": 0.06}.get(body.dtype, 0)
    for name, t in lab.tiles.items():
        want = arrays[t].astype(np.float64)
        scale = max(1.0, float(np.nanmax(np.abs(want), initial=0))) if body.dtype == "bfloat16" else 1.0
        np.testing.assert_allclose(
            out[name].astype(np.float64), want, rtol=tolerance, atol=tolerance * scale, err_msg=f"seed {seed}: {nest}"
        )


@pytest.mark.parametrize("seed", range(120))
@pytest.mark.one_in(6)
def test_random_nest(seed):
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(40))
def test_many_random_nests(block):
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        check(seed)
