"""Layout objects of GPU kernels, kept so that scripts that build them run; the compiler chooses layouts itself."""

from __future__ import annotations


class Layout:
    """``T.Layout(shape, function)``: a description of a buffer layout. Accepted by `T.annotate_layout` and ignored."""

    def __init__(self, *args, **kwargs):
        self.args, self.options = args, kwargs


class Fragment(Layout):
    """``T.Fragment(...)``: how a GPU spreads a tile over its threads. Accepted and ignored."""


def make_mma_swizzle_layout(shared_buf, is_smooth: bool = False) -> Layout:
    """A layout for the tensor cores of a GPU; accepted by `T.annotate_layout` and ignored."""
    return Layout(shared_buf, is_smooth)


def make_blockscaled_gemm_layout(C, A, transpose_A: bool = False) -> Layout:
    """A layout of scales for the tensor cores of a GPU; accepted by `T.annotate_layout` and ignored."""
    return Layout(C, A, transpose_A)


NAMES = ("make_mma_swizzle_layout", "make_blockscaled_gemm_layout")
