"""Conservative byte spans of operands: what an instruction may touch, relative to each operand's head address."""

from __future__ import annotations

from .base import Call, Span
from .units import BLOCK_BYTES


def is_nothing(call: Call, *counters: str) -> bool:
    """True when one of the counters is known to be zero: the instruction is a no-operation."""
    return any(call[name] == 0 for name in counters)


def count_form(call: Call) -> list[Span]:
    """Every operand is `count` consecutive elements."""
    if is_nothing(call, "count"):
        return []
    count = call["count"]
    return [(i, o.direction, 0, None if count is None else count * call.itemsize(i)) for i, o in enumerate(call.intrin.operands)]


def strided_span(repeat, rep_stride, blk_stride, blocks: int, last_block_bytes: int) -> tuple[int | None, int | None]:
    """Span of `repeat` repeats of `blocks` 32-byte blocks; strides in 32-byte blocks."""
    if None in (repeat, rep_stride, blk_stride):
        return 0, None
    return 0, ((repeat - 1) * rep_stride + (blocks - 1) * blk_stride) * BLOCK_BYTES + last_block_bytes


def lanes_of_mask(call: Call) -> int | None:
    """Index of the highest active lane plus one, None when the mask is not known."""
    if not call.known("mask_hi", "mask_lo"):
        return None
    word = (1 << 64) - 1
    return ((call["mask_hi"] & word) << 64 | (call["mask_lo"] & word)).bit_length()


def lanes_per_repeat(call: Call) -> int:
    """Lanes of one repeat: 256 bytes of the widest operand."""
    return 256 // max(call.itemsize(i) for i in range(len(call.dtypes)))


def mask_form(call: Call) -> list[Span]:
    """High-dimension form: operand `x` is described by `x_blk` and `x_rep`."""
    lanes = lanes_of_mask(call)
    if is_nothing(call, "repeat") or lanes == 0:
        return []
    lanes = lanes_per_repeat(call) if lanes is None else lanes
    spans = []
    for i, operand in enumerate(call.intrin.operands):
        per_block = BLOCK_BYTES // call.itemsize(i)
        blocks = -(-lanes // per_block)
        block_stride = call[operand.name + "_blk"]
        # With block stride 0 every block but the last is a whole one at the head.
        whole = block_stride == 0 and blocks > 1
        last = BLOCK_BYTES if whole else (lanes - (blocks - 1) * per_block) * call.itemsize(i)
        lo, hi = strided_span(call["repeat"], call[operand.name + "_rep"], block_stride, blocks, last)
        spans.append((i, operand.direction, lo, hi))
    return spans


def scaled(*factors) -> int | None:
    """Product of factors, None when one is unknown."""
    product = 1
    for factor in factors:
        if factor is None:
            return None
        product *= factor
    return product


def bursts(count, length, gap) -> int | None:
    """Bytes from the first to the last byte of `count` bursts of `length` bytes with `gap` bytes between them."""
    if None in (count, length, gap):
        return None
    return count * length + (count - 1) * gap


def total(*terms) -> int | None:
    """Sum of terms, None when one is unknown."""
    return None if any(t is None for t in terms) else sum(terms)


def element(call: Call) -> list[Span]:
    """Every operand is one element."""
    return [(i, o.direction, 0, call.itemsize(i)) for i, o in enumerate(call.intrin.operands)]
