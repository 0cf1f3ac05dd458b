"""Performance hints of GPU kernels: accepted, recorded in the attribute `tl.hints`, and otherwise without effect."""

from __future__ import annotations

import enum

from ..frontend.builder import Builder


def hint(text: str) -> None:
    """Record that a hint was given; outside a kernel nothing happens."""
    builder = Builder.active()
    if builder is not None:
        builder.hints.append(text)


class GemmWarpPolicy(enum.IntEnum):
    """How a GPU divides a gemm among its warps; one cube core has no such choice."""

    Square = 0
    FullRow = 1
    FullCol = 2

    def is_square(self) -> bool:
        return self is GemmWarpPolicy.Square

    def is_full_row(self) -> bool:
        return self is GemmWarpPolicy.FullRow

    def is_full_col(self) -> bool:
        return self is GemmWarpPolicy.FullCol


def _ignored(name: str, doc: str):
    def accept(*args, **kwargs):
        hint(f"T.{name}")

    accept.__name__ = name
    accept.__doc__ = doc + " Accepted and ignored."
    return accept


_IGNORED = {
    "use_swizzle": "Order in which a GPU runs the blocks of a grid.",
    "annotate_layout": "Layout of shared buffers and fragments.",
    "annotate_l2_hit_ratio": "Share of an L2 window.",
    "annotate_min_blocks_per_sm": "Occupancy target.",
    "annotate_restrict_buffers": "Promise that buffers do not alias.",
    "annotate_producer_reg_dealloc": "Register budget of a warp group.",
    "annotate_consumer_reg_alloc": "Register budget of a warp group.",
    "annotate_compile_flags": "Flags for a CUDA compiler.",
    "annotate_pass_configs": "Options of another compiler's passes.",
    "annotate_ws_pipeline_depth": "Depth of a warp-specialised pipeline.",
    "annotate_ws_schedule": "Schedule of warp groups.",
    "set_max_nreg": "Register budget.",
    "inc_max_nreg": "Register budget.",
    "dec_max_nreg": "Register budget.",
    "no_set_max_nreg": "Register budget.",
    "disable_warp_group_reg_alloc": "Register budget.",
    "pdl_trigger": "Programmatic dependent launch.",
    "pdl_sync": "Programmatic dependent launch.",
    "assume": "A fact the compiler may use.",
}

globals().update({name: _ignored(name, doc) for name, doc in _IGNORED.items()})

NAMES = ("GemmWarpPolicy", *_IGNORED)
