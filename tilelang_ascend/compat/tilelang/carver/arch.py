"""`tilelang.carver.arch`: devices by their GPU names; each of them is the default chip."""

from __future__ import annotations

from typing import Any

from . import driver as driver


class TileDevice:
    """The chip that proposals are made for."""

    def __init__(self, target: Any = None):
        from tilelang_ascend.targets import resolve_chip

        from ...targets import replace_foreign

        self.chip = resolve_chip(None if target is None else replace_foreign(target))
        self.target = self.chip.name
        self.compute_max_core = self.chip.num_aic

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.target})"


class CUDA(TileDevice):
    """`CUDA("cuda")` of a GPU script."""


class CDNA(TileDevice):
    """`CDNA("hip")` of a GPU script."""


class RDNA(TileDevice):
    """`RDNA("hip")` of a GPU script."""


def get_arch(target: Any = "cuda") -> TileDevice:
    """The device a target names."""
    return TileDevice(target)


def auto_infer_current_arch() -> TileDevice:
    """The default chip."""
    return TileDevice()


def is_cuda_arch(arch: TileDevice) -> bool:
    """Whether the script may go on as for a CUDA device: yes."""
    return True


def is_cdna_arch(arch: TileDevice) -> bool:
    """Whether the device is a CDNA GPU: no."""
    return False


is_volta_arch = is_ampere_arch = is_ada_arch = is_hopper_arch = is_rdna_arch = is_cdna_arch
