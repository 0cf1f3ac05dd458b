"""Random views of tiles, and tiles of 8-bit floats."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from .expressions import access, cast, operation
from .numbers import FLOAT8
from .program import Stmt, Tile, index

WIDTHS = (("float32", "int32", "uint32"), ("float16", "bfloat16", "int16", "uint16"), ("int8", "uint8", *FLOAT8))
"""dtypes a view may exchange."""
MOST_PADDED = 3000
"""Elements of a view, its rows padded."""
SPACE = ("rank", "block", "size", "spelled", "origin", "dtype", "extents", "offsets", "view", "hidden")


class Storage:
    """The part of the generator that looks at storage in other ways; see `generate.Generator` for its state."""

    # --- views -------------------------------------------------------------------------------------------------------

    def reshaped(self) -> Stmt:
        """T.reshape or T.view of a tile, and a statement that goes through it."""
        src = self.tile(range(self.rank), self.dtype, "S" if self.chance(0.3) else "W", reuse=0.9)
        group = next((g for g in WIDTHS if self.dtype in g), (self.dtype,))
        dtype = str(self.pick(group)) if self.chance(0.35) else self.dtype
        v = self._view(src, dtype)
        if dtype in FLOAT8 or self.chance(0.3):
            return self._read_through(v, src)
        with self._space_of(v, src.name):
            made = self.pick([self.nest, self.nest, self.nest, self.scan, self.fill, self.sort, self.reduction])()
        return made

    def _view(self, src: Tile, dtype: str) -> Tile:
        v = Tile(self.fresh("Wv"), self._other_shape(), dtype, "view")
        if dtype == src.dtype and self.chance(0.7):
            call = f"reshape({src.name}, {v.shape})"
        else:
            call = f'view({src.name}, {v.shape}, "{dtype}")'
        tag = "reshape" if dtype == src.dtype else "view of 8-bit floats" if {dtype, src.dtype} & {*FLOAT8} else "view as another dtype"
        self.pending.append(Stmt((f"{v.name} = T.{call}",), (f"{v.name} = {call}",), kind="view", defines=v.name, tags=frozenset({tag})))
        return v

    def _other_shape(self) -> tuple[int, ...]:
        """Another shape of as many elements, of one to four dimensions, whose rows padded on chip still leave room."""
        shape = self._any_shape()
        return shape if math.prod(shape[:-1]) * -(-shape[-1] // 8) * 8 <= MOST_PADDED else (math.prod(self.block),)

    def _any_shape(self) -> tuple[int, ...]:
        shape, n = list(self.block), math.prod(self.block)
        roll = self.rng.random()
        if roll < 0.25:
            return (n,)
        if roll < 0.55 and self.rank < 4:
            d = int(self.rng.integers(self.rank))
            part = self._divisor(shape[d])
            return (*shape[:d], shape[d] // part, part, *shape[d + 1 :])
        if roll < 0.8 and self.rank > 1:
            d = int(self.rng.integers(self.rank - 1))
            return (*shape[:d], shape[d] * shape[d + 1], *shape[d + 2 :])
        part = self._divisor(n)
        return (n // part, part)

    def _divisor(self, n: int) -> int:
        return int(self.pick([k for k in range(1, n + 1) if n % k == 0]))

    @contextmanager
    def _space_of(self, v: Tile, hidden: str) -> Iterator[None]:
        """Statements made inside are over the elements of `v`. All blocks have the same: nothing but atomics writes GM."""
        kept = {name: getattr(self, name) for name in SPACE}
        self.rank, self.block, self.size, self.dtype = len(v.shape), list(v.shape), list(v.shape), v.dtype
        self.spelled, self.origin = [str(n) for n in v.shape], ["0"] * len(v.shape)
        self.extents, self.offsets, self.view, self.hidden = list(v.shape), [0] * len(v.shape), v, hidden
        try:
            yield
        finally:
            for name, value in kept.items():
                setattr(self, name, value)

    def _read_through(self, v: Tile, src: Tile) -> Stmt:
        """A nest over the block that reads its own elements through the view."""
        linear = "0"
        for d, n in enumerate(self.block):
            linear = f"({linear}) * {n} + {self.var(d).tile}" if d else self.var(d).tile
        place = []
        for d, n in enumerate(v.shape):
            step = math.prod(v.shape[d + 1 :])
            at = f"({linear}) // {step}" if step > 1 else f"({linear})"
            place.append(index(f"{at} % {n}" if d else at))
        kept, self.hidden = self.hidden, src.name
        t = self.tile(range(self.rank), self.dtype, "W")
        self.exprs.written = {t.name}
        own = access(v, place) if v.dtype == self.dtype else cast(access(v, place), self.dtype)
        both = ("T.Or({0}, {1})", "either({0}, {1})") if self.dtype == "bool" else ("({0} + {1})", "")
        value = operation(self.dtype, *both, own, self.exprs.varying(self.exprs.value(self.dtype, 1)))
        store = self._store(t, [self.var(d) for d in range(self.rank)], self._clamped(value), {"read through a view"})
        self.exprs.written, self.hidden = set(), kept
        return self._parallel([store])

    # --- 8-bit floats ------------------------------------------------------------------------------------------------

    def narrow(self) -> Stmt:
        """A tile of 8-bit floats made of numbers, and stored or turned back."""
        whole = list(range(self.rank))
        t = self.tile(whole, str(self.pick(FLOAT8)), "W")
        own, zeros, tags = [self.var(d) for d in whole], [index("0")] * self.rank, frozenset({"8-bit float tile"})
        if self.chance(0.7):
            wide = str(self.pick(["float32", "float32", "float16", "bfloat16", self.dtype]))
            value = self.exprs.varying(self._clamped(self.exprs.value(wide, self.pick([1, 2]))))
            made = self._parallel([self._store(t, own, cast(value, t.dtype) if self.chance(0.5) else value, tags)])
        else:
            src = self.tile(whole, self.dtype, self.pick("SW"), reuse=0.9)
            made = self._copy(t, zeros, src, zeros, src.shape, fills=t.name, tags=tags)
        self.pending.append(made)
        roll = self.rng.random()
        if roll < 0.4:
            p = self.param(whole, t.dtype, "out")
            return self._copy(p, self._origins(whole), t, zeros, t.shape, tags=frozenset({"8-bit float store"}))
        if roll < 0.55 and self.dtype != "bool":
            return self._read_through(self._view(t, str(self.pick(["uint8", "int8"]))), t)
        dst = self.tile(whole, self.dtype, "W")
        if roll < 0.7:
            return self._copy(dst, zeros, t, zeros, t.shape, fills=dst.name, tags=frozenset({"copy with conversion"}))
        value = cast(access(t, own), self.dtype)
        if self.dtype != "bool":
            self.exprs.written = {dst.name}
            value = operation(self.dtype, "({0} + {1})", "", value, self.exprs.varying(self.exprs.value(self.dtype, 1)))
            self.exprs.written = set()
        return self._parallel([self._store(dst, own, self._clamped(value), set())])
