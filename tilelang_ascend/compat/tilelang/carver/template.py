"""`tilelang.carver.template`: proposals of tile sizes for known computations, from the templates the tuner derives its spaces with.

What `hint.block` and `hint.rstep` are the extents of:

=========================  ==========================================  =======================================================
template                   `block`                                     `rstep`
=========================  ==========================================  =======================================================
`MatmulTemplate`           rows and columns of C                       a step along K
`ConvTemplate`             pixels and filters of the implicit product  a step along kernel and channels
`GEMVTemplate`             1, elements of y                            a step along K
`ElementwiseTemplate`      one for each dimension                      empty
`GeneralReductionTemplate` one for each S of the structure             one for each R
`FlashAttentionTemplate`   rows of Q, rows of K and V (the scores)     the head dimension
=========================  ==========================================  =======================================================
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable

from tilelang_ascend.autotune.templates import (
    ACCUMULATOR_BYTES,
    ATTENTION,
    ELEMENT_WISE,
    ROW_WISE,
    Load,
    Template,
    burst_bytes,
    useful,
)
from tilelang_ascend.errors import InvalidArgument
from tilelang_ascend.isa.base import Space
from tilelang_ascend.runtime.dtypes import dtype_name, itemsize

from .arch import TileDevice
from .roller import Hint

_TILES = (16, 32, 64, 128, 256)
_STEPS = (32, 64, 128, 256)
_COPIES = 2
"""Of each tile: one is loaded while the other is worked on."""


@dataclass
class BaseTemplate:
    """What all templates share: the chip, and functions a script calls on the way to the proposals."""

    _device: TileDevice | None = field(default=None, init=False, repr=False)

    def with_arch(self, arch: TileDevice) -> "BaseTemplate":
        """Propose for this device. Returns the template."""
        self._device = arch
        return self

    def has_arch(self) -> bool:
        """Whether a device was named."""
        return self._device is not None

    @property
    def arch(self) -> TileDevice:
        """The device proposals are made for."""
        self._device = self._device or TileDevice()
        return self._device

    def equivalent_function(self) -> Callable:
        """Something that is not None; proposals need no IR of the computation."""
        return self.recommend_hints

    def get_hardware_aware_configs(self, arch: TileDevice | None = None, topk: int = 10) -> list[Hint]:
        """`recommend_hints` for a device."""
        return (self.with_arch(arch) if arch is not None else self).recommend_hints(topk)

    def recommend_hints(self, topk: int = 10) -> list[Hint]:
        """The `topk` best proposals, best first.

        Raises:
            InvalidArgument: the template lacks a size.
        """
        raise NotImplementedError(type(self).__name__)

    def _sizes(self, *names: str) -> list[int]:
        """Fields that are positive integers."""
        found = [getattr(self, name) for name in names]
        for name, value in zip(names, found):
            if not isinstance(value, int) or value < 1:
                raise InvalidArgument(f"{type(self).__name__}: {name} is {value!r}, not a positive integer")
        return found

    def _room(self, space: Space) -> int:
        return self.arch.chip.capacity_bytes(space)


@dataclass
class _ProductTemplate(BaseTemplate):
    """Products, in tiles that fit L1 and L0 twice (double buffering)."""

    def _hints(self, M: int, N: int, K: int, dtype: Any, topk: int) -> list[Hint]:
        """Ranked by the traffic of the busiest core: waves of blocks times the bytes one block reads."""
        size = itemsize(dtype_name(dtype))

        def fits(m: int, n: int, k: int) -> bool:
            inputs = _COPIES * (m + n) * k * size
            return inputs <= self._room(Space.L1) and m * n * ACCUMULATOR_BYTES <= self._room(Space.L0C)

        def traffic(m: int, n: int, k: int) -> tuple:
            blocks = math.ceil(M / m) * math.ceil(N / n)
            steps = math.ceil(K / k)
            waves = math.ceil(blocks / self.arch.chip.num_aic)
            return waves * (m + n) * steps * k, steps, -k

        fitting = [shape for shape in itertools.product(_TILES, _TILES, _STEPS) if fits(*shape)]
        best = sorted(fitting, key=lambda shape: traffic(*shape))[:topk]
        return [_hint([m, n], [k]) for m, n, k in best]


@dataclass
class MatmulTemplate(_ProductTemplate):
    """C[M, N] = A[M, K] @ B."""

    M: int = None
    N: int = None
    K: int = None
    trans_A: bool = False
    trans_B: bool = True
    in_dtype: Any = "float16"
    out_dtype: Any = "float16"
    accum_dtype: Any = "float16"
    with_bias: bool = False

    def recommend_hints(self, topk: int = 10) -> list[Hint]:
        """As for all templates."""
        return self._hints(*self._sizes("M", "N", "K"), self.in_dtype, topk)


@dataclass
class ConvTemplate(_ProductTemplate):
    """A two-dimensional convolution of N images of H x W pixels and C channels with F filters of K x K, as a product of patches."""

    N: int = None
    C: int = None
    H: int = None
    W: int = None
    F: int = None
    K: int = None
    S: int = 1
    D: int = 1
    P: int = 0
    in_dtype: Any = "float16"
    out_dtype: Any = "float16"
    accum_dtype: Any = "float16"
    with_bias: bool = False

    def recommend_hints(self, topk: int = 10) -> list[Hint]:
        """As for all templates."""
        images, channels, height, width, filters, kernel, stride, dilation = self._sizes("N", "C", "H", "W", "F", "K", "S", "D")
        rows, columns = ((n + 2 * self.P - dilation * (kernel - 1) - 1) // stride + 1 for n in (height, width))
        if rows < 1 or columns < 1:
            raise InvalidArgument(f"ConvTemplate: a kernel of {kernel} x {kernel} is larger than the image of {height} x {width}")
        return self._hints(images * rows * columns, filters, kernel * kernel * channels, self.in_dtype, topk)


@dataclass
class _VectorTemplate(BaseTemplate):
    """Work of the vector cores, in tiles that fit UB twice: of all dimensions but the last two, a tile has one element."""

    def _tiles(self, template: Template, structure: str, shape: list[int], size: int, result_bytes: int) -> list[tuple[int, ...]]:
        """Tiles of a tensor, best first.

        Args:
            structure: S for dimensions the result has, R for those that are reduced.
            size: bytes of an element.
            result_bytes: of what a tile holds beside the tensor, for each element of the result.
        """
        chip = self.arch.chip

        def along(axis: int) -> Iterable[int]:
            if axis < len(shape) - 2:
                return [1]
            values = template.values("columns" if axis == len(shape) - 1 else "rows", chip, size)
            return useful(values, lambda value: math.ceil(shape[axis] / value))

        def rate(tile: tuple[int, ...]) -> tuple:
            parts = {kind: math.prod(math.ceil(n / t) for n, t, k in zip(shape, tile, structure) if k == kind) for kind in "SR"}
            results = math.prod(t for t, k in zip(tile, structure) if k == "S")
            rows = math.prod(tile[:-1])
            moved = parts["R"] * rows * burst_bytes(chip, tile[-1] * size) + burst_bytes(chip, results * size)
            return Load(parts["S"], moved, parts["R"], parts["R"] + 1).cost(template, chip)

        def fits(tile: tuple[int, ...]) -> bool:
            results = math.prod(t for t, k in zip(tile, structure) if k == "S")
            return _COPIES * (math.prod(tile) * size + results * result_bytes) <= self._room(Space.UB)

        return sorted(filter(fits, itertools.product(*map(along, range(len(shape))))), key=rate)


@dataclass
class GEMVTemplate(_VectorTemplate):
    """y[N] = A[N, K] @ x, or A[K, N] unless `trans_B`."""

    N: int = None
    K: int = None
    trans_B: bool = True
    in_dtype: Any = "float16"
    out_dtype: Any = "float16"
    accum_dtype: Any = "float16"
    with_bias: bool = False

    def recommend_hints(self, topk: int = 10) -> list[Hint]:
        """As for all templates."""
        n, k = self._sizes("N", "K")
        structure, shape = ("SR", [n, k]) if self.trans_B else ("RS", [k, n])
        tiles = self._tiles(ROW_WISE, structure, shape, itemsize(dtype_name(self.in_dtype)), ACCUMULATOR_BYTES)[:topk]
        return [_hint([1, tile[structure.index("S")]], [tile[structure.index("R")]]) for tile in tiles]


@dataclass
class ElementwiseTemplate(_VectorTemplate):
    """One output element for each element of a tensor."""

    shape: list[int] = None
    dtype: Any = "float16"

    def recommend_hints(self, topk: int = 10) -> list[Hint]:
        """As for all templates."""
        shape, size = _shape(self.shape, type(self).__name__), itemsize(dtype_name(self.dtype))
        return [_hint(tile, []) for tile in self._tiles(ELEMENT_WISE, "S" * len(shape), shape, size, size)[:topk]]


@dataclass
class GeneralReductionTemplate(_VectorTemplate):
    """Any reduction, described by axes of space (S) and reduction (R): ``structure="SSR", shape=[64, 128, 1024]``."""

    structure: Any = None
    shape: list[int] = None
    dtype: Any = "float16"

    def recommend_hints(self, topk: int = 10) -> list[Hint]:
        """As for all templates."""
        shape, structure = _shape(self.shape, type(self).__name__), "".join(self.structure or ())
        if len(structure) != len(shape) or set(structure) - set("SR"):
            raise InvalidArgument(f"GeneralReductionTemplate: structure {self.structure!r} is no S or R for each dimension of {shape}")
        size = itemsize(dtype_name(self.dtype))
        tiles = self._tiles(ROW_WISE if "R" in structure else ELEMENT_WISE, structure, shape, size, ACCUMULATOR_BYTES)[:topk]
        return [_hint(*([t for t, k in zip(tile, structure) if k == kind] for kind in "SR")) for tile in tiles]


@dataclass
class FlashAttentionTemplate(BaseTemplate):
    """softmax(Q @ K^T) @ V. Scores and the result fit L0C, Q and two steps of K and V L1, the scores of half the rows UB."""

    batch_size: int = 1
    num_heads: int = 1
    head_dim: int = 1
    seq_length: int = 1
    seq_kv_length: int = 1
    is_causal: bool = False
    in_dtype: Any = "float16"
    out_dtype: Any = "float16"
    accum_dtype: Any = "float16"

    def recommend_hints(self, topk: int = 10) -> list[Hint]:
        """As for all templates."""
        batch, heads, dim, queries, keys = self._sizes("batch_size", "num_heads", "head_dim", "seq_length", "seq_kv_length")
        chip, size = self.arch.chip, itemsize(dtype_name(self.in_dtype))

        def fits(tile: tuple[int, int]) -> bool:
            m, n = tile
            return (
                max(m * n, m * dim) * ACCUMULATOR_BYTES <= self._room(Space.L0C)
                and (m * dim + 2 * _COPIES * n * dim) * size <= self._room(Space.L1)
                and math.ceil(m / 2) * n * (ACCUMULATOR_BYTES + size) <= self._room(Space.UB)
            )

        def rate(tile: tuple[int, int]) -> tuple:
            m, n = tile
            steps = math.ceil(keys / n) / (2 if self.is_causal else 1)
            load = Load(batch * heads * math.ceil(queries / m), (2 * m + 2 * steps * n) * dim * size, steps, 2 + 2 * steps)
            return load.cost(ATTENTION, chip)

        values = ATTENTION.values("m", chip, ACCUMULATOR_BYTES)
        rows, columns = (useful(values, lambda value, n=n: math.ceil(n / value)) for n in (queries, keys))
        best = sorted(filter(fits, itertools.product(rows, columns)), key=rate)[:topk]
        return [_hint(tile, [dim]) for tile in best]


def _hint(block: Iterable[int], rstep: Iterable[int]) -> Hint:
    block = list(block)
    return Hint(block, [max(1, extent // 2) for extent in block], list(rstep))


def _shape(shape: Any, owner: str) -> list[int]:
    found = [int(n) for n in shape or ()]
    if not found or min(found) < 1:
        raise InvalidArgument(f"{owner}: shape is {shape!r}, not a list of positive integers")
    return found
