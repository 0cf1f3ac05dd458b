"""suggest_tile: the largest tile that would fit, for the hint of an out-of-memory error.

Tile sizes come from a few numbers in the user's program, and every dimension that shows the same number usually is that number. For
each number the search shrinks all dimensions equal to it until everything fits together. Temporaries and padding have no shape the
user knows: what the attempt with the smallest temporaries needed beside the tiles stays free.
"""

from __future__ import annotations

from bisect import bisect_right

from ..analysis.tiles.home_loops import versioned_buffers
from ..errors import OutOfMemory
from ..ir import PrimFunc, const_int, decl_buffer, dtype_of, scope_of
from ..isa.base import SCOPES, Space
from ..tileop.base.layout import tile_bytes

# Suggested sizes are multiples of a fractal side; large ones of 64, which leaves no tile with padding.
STEP, COARSE_STEP, COARSE_FROM = 16, 64, 256


def total_bytes(shapes: list, old: int, new: int) -> int:
    """Bytes of all tiles with dimension size `old` replaced by `new`."""
    total = 0
    for shape, dtype, scope in shapes:
        resized = [new if n == old else n for n in shape]
        total += tile_bytes(decl_buffer(resized, dtype, "t", scope=scope))
    return total


def suggest_tile(func: PrimFunc, chip, error: OutOfMemory, needed: int) -> OutOfMemory:
    """`error` with a hint that names, for the memory that overflows, sizes that fit. `needed`: bytes of that memory in the attempt that
    needed least."""
    space = Space[error.fields["memory"]]
    shapes = [
        ([const_int(n) for n in b.ty.shape], dtype_of(b), scope_of(b))
        for b in versioned_buffers(func.body)
        if SCOPES.get(scope_of(b)) is space
    ]
    beside = max(0, needed - total_bytes(shapes, 0, 0))
    options = []
    for size in sorted({n for shape, _, _ in shapes for n in shape if n > STEP}, reverse=True):
        step = COARSE_STEP if size > COARSE_FROM else STEP
        sizes = range(step, size, step)
        fit = bisect_right(sizes, chip.capacity_bytes(space) - beside, key=lambda n: total_bytes(shapes, size, n))  # noqa: B023
        if fit:
            options.append(f"{sizes[fit - 1]} instead of {size}")
    if options:
        # Smaller tiles need smaller temporaries, so that beside temporaries a larger one than the size found may fit.
        found = "tiles that fit" if beside else "the largest tiles that fit"
        error.hint = f"{found} have a dimension of " + ", or ".join(options)
    return error


__all__ = ["suggest_tile"]
