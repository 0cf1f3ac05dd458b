"""`tilelang.layout`: layouts of GPU shared memory and fragments, as objects that `T.annotate_layout` accepts and
ignores."""

from __future__ import annotations

from tilelang_ascend.layout import (
    Fragment,
    Layout,
    make_linear_layout,
    make_swizzled_layout,
    make_wgmma_swizzled_layout,
)

__all__ = ["Fragment", "Layout", "make_linear_layout", "make_swizzled_layout", "make_wgmma_swizzled_layout"]


def _layout_of(name: str):
    def make(*args, **kwargs) -> Layout:
        return Layout(name, *args, **kwargs)

    make.__name__ = name
    make.__doc__ = "A layout the compiler for Ascend chooses by itself."
    return make


def _fragment_of(name: str):
    def make(*args, **kwargs) -> Fragment:
        return Fragment(name, *args, **kwargs)

    make.__name__ = name
    make.__doc__ = "A distribution over GPU threads, which Ascend cores do not have."
    return make


_LAYOUTS = (
    "make_volta_swizzled_layout",
    "make_tcgen05mma_swizzled_layout", "make_full_bank_swizzled_layout", "make_half_bank_swizzled_layout",
    "make_quarter_bank_swizzled_layout", "make_cutlass_metadata_layout",
)  # fmt: skip
_FRAGMENTS = ("make_gemm_fragment_8x8", "make_gemm_fragment_8x8_transposed", "make_fully_replicated_layout_fragment")

globals().update({name: _layout_of(name) for name in _LAYOUTS})
globals().update({name: _fragment_of(name) for name in _FRAGMENTS})
__all__ += [*_LAYOUTS, *_FRAGMENTS]
