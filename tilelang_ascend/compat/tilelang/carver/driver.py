"""`tilelang.carver.arch.driver`: what scripts ask of a GPU's driver, answered for the default chip. The number of the device does not count."""

from __future__ import annotations

from tilelang_ascend.arch import ChipSpec
from tilelang_ascend.isa.base import Space


def _chip() -> ChipSpec:
    from tilelang_ascend.targets import resolve_chip

    return resolve_chip(None)


def get_num_sms(device_id: int = 0) -> int:
    """How many blocks run at a time: one for each cube core."""
    return int(_chip().num_aic)


def get_device_name(device_id: int = 0) -> str:
    """Name of the chip."""
    return _chip().name


def get_shared_memory_per_block(device_id: int = 0, format: str = "bytes") -> int:
    """Bytes (or ``kb``, ``mb``) of the unified buffer of a vector core, the smaller of the memories that shared tiles live in."""
    units = {"bytes": 1, "kb": 1024, "mb": 1024**2}
    if format not in units:
        raise ValueError(f"format {format!r} is none of {', '.join(units)}")
    return _chip().capacity_bytes(Space.UB) // units[format]


def get_max_dynamic_shared_size_bytes(device_id: int = 0, format: str = "bytes") -> int:
    """As `get_shared_memory_per_block`."""
    return get_shared_memory_per_block(device_id, format)


__all__ = ["get_device_name", "get_max_dynamic_shared_size_bytes", "get_num_sms", "get_shared_memory_per_block"]
