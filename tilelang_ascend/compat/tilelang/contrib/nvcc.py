"""`tilelang.contrib.nvcc`: the answers of a device without TMA and warp-group instructions; nothing is compiled for
CUDA."""

from __future__ import annotations

from typing import Any

_CAPABILITY = (8, 0)


def get_target_compute_version(target: Any = None) -> str:
    """The capability scripts choose their kernels by, as ``"8.0"``."""
    return "{}.{}".format(*_CAPABILITY)


def parse_compute_version(compute_version: str) -> tuple[int, int]:
    """``"8.0"`` as a pair."""
    major, _, minor = str(compute_version).partition(".")
    return int(major), int(minor or 0)


def get_target_arch(compute_version: str | tuple[int, int]) -> str:
    """``"8.0"`` as ``"80"``."""
    pair = compute_version if isinstance(compute_version, tuple) else parse_compute_version(compute_version)
    return "{}{}".format(*pair)


def _has(name: str, answer: bool):
    def ask(*args: Any, **kwargs: Any) -> bool:
        return answer

    ask.__name__ = name
    ask.__doc__ = "Yes." if answer else "No."
    return ask


_ANSWERS = {
    "have_bf16": True, "have_fp16": True, "have_int8": True, "have_tensorcore": True, "have_cudagraph": False,
    "have_fp8": False, "have_mbarrier": False, "have_pdl": False, "have_tma": False, "is_hopper": False,
}  # fmt: skip
globals().update({name: _has(name, answer) for name, answer in _ANSWERS.items()})
