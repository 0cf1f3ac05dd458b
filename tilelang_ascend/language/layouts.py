"""Layout objects of GPU kernels, kept so that scripts that build them run; the compiler chooses layouts itself."""

from __future__ import annotations


class Layout:
    """``T.Layout(shape, function)``: a description of a buffer layout. Accepted by `T.annotate_layout` and ignored."""

    def __init__(self, *args, **kwargs):
        self.args, self.options = args, kwargs


class Fragment(Layout):
    """``T.Fragment(...)``: how a GPU spreads a tile over its threads. Accepted and ignored."""
