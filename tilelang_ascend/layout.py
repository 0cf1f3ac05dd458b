"""`tilelang.layout`: layout helpers that GPU kernels call. The compiler chooses layouts itself, so the results are hints."""

from __future__ import annotations

from typing import Any

from .language.layouts import Fragment, Layout

__all__ = ["Fragment", "Layout", "make_linear_layout", "make_swizzled_layout", "make_wgmma_swizzled_layout"]


def make_swizzled_layout(buffer: Any, *args: Any, **kwargs: Any) -> Layout:
    """A layout free of shared-memory bank conflicts on a GPU; accepted by `T.annotate_layout` and ignored."""
    return Layout(buffer, *args, **kwargs)


def make_wgmma_swizzled_layout(buffer: Any, *args: Any, **kwargs: Any) -> Layout:
    """A layout for a GPU's asynchronous tensor cores; accepted by `T.annotate_layout` and ignored."""
    return Layout(buffer, *args, **kwargs)


def make_linear_layout(buffer: Any, *args: Any, **kwargs: Any) -> Layout:
    """The row-major layout; accepted by `T.annotate_layout` and ignored."""
    return Layout(buffer, *args, **kwargs)
