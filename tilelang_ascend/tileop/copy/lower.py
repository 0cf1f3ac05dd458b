"""Copies between GM and the memories of the cores, exact at every edge.

Out-of-bounds parts of a GM region read as zero and are not written: transfers are clipped to the tensor, and the tile is
filled with zeros first where a clipped load leaves part of it untouched.
"""

from __future__ import annotations

from dataclasses import replace

from ...errors import UnsupportedConstruct
from ...ir import Stmt, const_int, dtype_of, imm, seq, tirx
from ...tile.uses import end_of, moved_regions
from ..base.layout import GmTensor
from .axes import Copy
from .cube import gm_to_l1, l0c_to_gm, l0c_to_l1, l0c_to_ub, ub_to_l1
from .ub import gm_to_gm, gm_to_ub, ub_to_gm, ub_to_ub


def lower_copy(c: Copy) -> Stmt:
    """Lower `tl.copy(src, dst)` or the tile form of `tl.atomic_*`."""
    s = c.stmt
    src, dst = (c.placement.side(x) for x in moved_regions(s))
    if (end := end_of(s)) is not None:
        src, dst = (x if x.gm is None else replace(x, gm=_shorter(x.gm, *end)) for x in (src, dst))
    key = (src.scope, dst.scope)
    routes = {
        ("global", "shared.l1"): gm_to_l1,
        ("global", "shared.ub"): gm_to_ub,
        ("shared.ub", "global"): ub_to_gm,
        ("local.l0c", "global"): l0c_to_gm,
        ("local.l0c", "shared.l1"): l0c_to_l1,
        ("local.l0c", "shared.ub"): l0c_to_ub,
        ("shared.ub", "shared.l1"): ub_to_l1,
        ("shared.ub", "shared.ub"): ub_to_ub,
        ("global", "global"): gm_to_gm,
    }
    if key not in routes:
        raise UnsupportedConstruct(
            f"no transfer from {key[0]} to {key[1]} on {c.placement.chip.name}", at=s.span, hint="copy through global memory"
        )
    body = routes[key](src, dst, c)
    return seq(c.binds, body)


def _shorter(gm: GmTensor, dim: int, end) -> GmTensor:
    """A tensor of which nothing is there from index `end` on along a dimension."""
    shape = list(gm.shape)
    shape[dim] = tirx.min(shape[dim], end) if const_int(shape[dim]) is None else tirx.min(end, imm(const_int(shape[dim]), dtype_of(end)))
    return replace(gm, shape=tuple(shape))


__all__ = ["lower_copy"]
