"""`tilelang.carver.template`: proposals of tile sizes for known computations."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Any, Callable

from tilelang_ascend.errors import UnsupportedConstruct
from tilelang_ascend.isa.base import Space
from tilelang_ascend.runtime.dtypes import dtype_name, itemsize

from .arch import TileDevice
from .roller import Hint

_TILES = (16, 32, 64, 128, 256)
_STEPS = (32, 64, 128, 256)


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
        """The `topk` best proposals, best first."""
        raise UnsupportedConstruct(
            f"{type(self).__name__} has no proposals for Ascend yet",
            hint="pass a list of configurations to the tuner instead",
        )


@dataclass
class MatmulTemplate(BaseTemplate):
    """C[M, N] = A[M, K] @ B, in tiles that fit L1 and L0 twice (double buffering)."""

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
        """Ranked by the traffic of the busiest core: waves of blocks times the bytes one block reads."""
        shapes = itertools.product(_TILES, _TILES, _STEPS)
        fitting = [s for s in shapes if self._fits(*s)]
        best = sorted(fitting, key=lambda s: self._traffic(*s))[:topk]
        return [Hint([m, n], [m // 2, n // 2], [k]) for m, n, k in best]

    def _fits(self, m: int, n: int, k: int) -> bool:
        chip, size = self.arch.chip, itemsize(dtype_name(self.in_dtype))
        inputs = 2 * (m + n) * k * size
        memories = chip.memories
        return inputs <= memories[Space.L1].usable_bytes and m * n * 4 <= memories[Space.L0C].usable_bytes

    def _traffic(self, m: int, n: int, k: int) -> tuple:
        blocks = math.ceil(self.M / m) * math.ceil(self.N / n)
        waves = math.ceil(blocks / self.arch.chip.num_aic)
        steps = math.ceil(self.K / k) if self.K else 1
        return (waves * (m + n) * steps * k, steps, -k)


@dataclass
class GEMVTemplate(BaseTemplate):
    """y[N] = A[N, K] @ x."""

    N: int = None
    K: int = None
    trans_B: bool = True
    in_dtype: Any = "float16"
    out_dtype: Any = "float16"
    accum_dtype: Any = "float16"
    with_bias: bool = False


@dataclass
class ElementwiseTemplate(BaseTemplate):
    """One output element for each element of a tensor."""

    shape: list[int] = None
    dtype: Any = "float16"


@dataclass
class GeneralReductionTemplate(BaseTemplate):
    """Any reduction, described by axes of space (S) and reduction (R)."""

    structure: Any = None
    shape: list[int] = None
    dtype: Any = "float16"


@dataclass
class FlashAttentionTemplate(BaseTemplate):
    """softmax(Q @ K^T) @ V."""

    batch_size: int = 1
    num_heads: int = 1
    head_dim: int = 1
    seq_length: int = 1
    seq_kv_length: int = 1
    is_causal: bool = False
    in_dtype: Any = "float16"
    out_dtype: Any = "float16"
    accum_dtype: Any = "float16"


@dataclass
class ConvTemplate(BaseTemplate):
    """A two-dimensional convolution."""

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
