"""Performance hints of GPU kernels: accepted, recorded in the attribute `tl.hints`, and otherwise without effect."""

from __future__ import annotations

import enum
import inspect

from ..frontend.keywords import note_hint


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


_IGNORED = {
    "use_swizzle": ("panel_size order=row enable=True", "Order in which a GPU runs the blocks of a grid."),
    "annotate_layout": ("layout_map allow_reannotation=False allow_buffer_region=False", "Layout of shared buffers and fragments."),
    "annotate_l2_hit_ratio": ("l2_hit_ratio_map", "Share of an L2 window."),
    "annotate_min_blocks_per_sm": ("n", "Occupancy target."),
    "annotate_restrict_buffers": ("*buffers", "Promise that buffers do not alias."),
    "annotate_producer_reg_dealloc": ("reg_count=24", "Register budget of a warp group."),
    "annotate_consumer_reg_alloc": ("reg_count=240", "Register budget of a warp group."),
    "annotate_compile_flags": ("flags", "Flags for a CUDA compiler."),
    "annotate_pass_configs": ("configs", "Options of another compiler's passes."),
    "annotate_ws_pipeline_depth": ("depth_map", "Depth of a warp-specialised pipeline."),
    "annotate_ws_schedule": ("schedule", "Schedule of warp groups."),
    "set_max_nreg": ("reg_count is_inc", "Register budget."),
    "inc_max_nreg": ("reg_count", "Register budget."),
    "dec_max_nreg": ("reg_count", "Register budget."),
    "no_set_max_nreg": ("", "Register budget."),
    "disable_warp_group_reg_alloc": ("", "Register budget."),
    "func_attr": ("attrs", "Attributes of a TVM function."),
    "sync_threads": ("barrier_id=None arrive_count=None", "Barrier among threads; operations on tiles are in the order of the program."),
    "sync_warp": ("mask=None", "Barrier among threads; operations on tiles are in the order of the program."),
    "pdl_trigger": ("", "Programmatic dependent launch."),
    "pdl_sync": ("", "Programmatic dependent launch."),
}
"""name -> (parameters, doc)."""


def _parameter(text: str) -> inspect.Parameter:
    name, _, default = text.partition("=")
    if name.startswith("*"):
        return inspect.Parameter(name[1:], inspect.Parameter.VAR_POSITIONAL)
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default or inspect.Parameter.empty)


def _ignored(name: str, parameters: str, doc: str):
    def accept(*args, **kwargs):
        note_hint(f"T.{name}")

    accept.__name__ = name
    accept.__doc__ = doc + " Accepted and ignored."
    setattr(accept, "__signature__", inspect.Signature([_parameter(p) for p in parameters.split()]))
    return accept


globals().update({name: _ignored(name, *rest) for name, rest in _IGNORED.items()})

NAMES = ("GemmWarpPolicy", *_IGNORED)
