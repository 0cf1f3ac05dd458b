"""Vector instructions that reduce, rearrange or sort: lanes do not stay in their place."""

from __future__ import annotations

from .base import ITEMSIZE, Arg, Call
from .footprints import count_form, is_nothing, scaled, strided_span
from .units import BLOCK_BYTES
from .vector_common import B16_B32, COUNT_U32, FLOATS, REPEAT, dst, same_dtypes, src, uniform, vector

_U8 = (0, 255, "uint8_t")
_U16 = (0, 65535, "uint16_t")
_BOOL = (0, 1, "bool")
LANE_MASK = Arg("mask", "int", 0, 128, "int32_t")


def _int_arg(name: str, limits=_U16) -> Arg:
    lo, hi, ctype = limits
    return Arg(name, "int", lo, hi, ctype)


def _lanes(call: Call) -> int:
    return 256 // call.itemsize(call.intrin.operands.index(next(o for o in call.intrin.operands if o.name in ("s", "s0"))))


def _work(call: Call):
    return scaled(call["repeat"], _lanes(call))


# ---- reductions ----------------------------------------------------------------------------------------------------


def _masked_source(call: Call, index: int):
    lanes = call["mask"] if call["mask"] is not None else _lanes(call)
    per_block = BLOCK_BYTES // call.itemsize(index)
    blocks = max(-(-lanes // per_block), 1)
    last = (lanes - (blocks - 1) * per_block) * call.itemsize(index)
    return strided_span(call["repeat"], call["s_rep"], call["s_blk"], blocks, last)


def _reduce_footprint(unit):
    """Destination of repeat r starts at `r * d_rep` units; a repeat writes one unit. `unit(call)` is in bytes."""

    def footprint(call: Call):
        if is_nothing(call, "repeat", "mask"):
            return []
        repeat, step, size = call["repeat"], call["d_rep"], unit(call)
        hi = None if None in (repeat, step) else ((repeat - 1) * step + 1) * size
        return [(0, "out", 0, hi), (1, "in", *_masked_source(call, 1))]

    return footprint


def _check_lanes(call: Call):
    if call.known("mask") and call["mask"] > _lanes(call):
        return f"mask={call['mask']} lanes is more than the {_lanes(call)} of a repeat of {call.dtypes[1]}"
    return None


def _whole_reduce(kind: str):
    order = ", AscendC::ReduceOrder::ORDER_ONLY_VALUE" if kind != "sum" else ""
    return vector(
        f"whole_reduce_{kind}", f"WholeReduce{kind.capitalize()}", (dst(align_elements=1), src()),
        (LANE_MASK, REPEAT, _int_arg("d_rep"), _int_arg("s_blk"), _int_arg("s_rep")),
        f"AscendC::WholeReduce{kind.capitalize()}({{d}}, {{s}}, {{mask}}, {{repeat}}, {{d_rep}}, {{s_blk}}, "
        f"{{s_rep}}{order})",
        f"One value per repeat: the {kind} of its first `mask` lanes; result r goes to element `r * d_rep`. Sums "
        f"pairwise (tree); "
        "a NaN makes max and min NaN.",
        "whole_reduce", uniform(same_dtypes(FLOATS), 2), work_fn=_work, check_fn=_check_lanes,
        footprint_fn=_reduce_footprint(lambda call: call.itemsize()),
    )  # fmt: skip


def _block_reduce(kind: str):
    return vector(
        f"block_reduce_{kind}", f"BlockReduce{kind.capitalize()}", (dst(align_elements=8), src()),
        (REPEAT, LANE_MASK, _int_arg("d_rep"), _int_arg("s_blk"), _int_arg("s_rep")),
        f"AscendC::BlockReduce{kind.capitalize()}({{d}}, {{s}}, {{repeat}}, {{mask}}, {{d_rep}}, {{s_blk}}, {{s_rep}})",
        f"Eight values per repeat: the {kind} of every 32-byte block; the eight results of repeat r go to element `8 * "
        f"r * d_rep`. "
        "Blocks with no active lane are not written.",
        "block_reduce", uniform(same_dtypes(FLOATS), 2), work_fn=_work, check_fn=_check_lanes,
        footprint_fn=_reduce_footprint(lambda call: 8 * call.itemsize()),
    )  # fmt: skip


_PAIR_REDUCE_SUM = vector(
    "pair_reduce_sum", "PairReduceSum", (dst(), src()),
    (REPEAT, LANE_MASK, _int_arg("d_rep"), _int_arg("s_blk"), _int_arg("s_rep")),
    "AscendC::PairReduceSum({d}, {s}, {repeat}, {mask}, {d_rep}, {s_blk}, {s_rep})",
    "Half a repeat of values per repeat: sums of neighbours s[2i] + s[2i+1]; results of repeat r start at byte `128 * "
    "r * d_rep`.",
    "pair_reduce", uniform(same_dtypes(FLOATS), 2), work_fn=_work, check_fn=_check_lanes,
    footprint_fn=_reduce_footprint(lambda call: 128),
)  # fmt: skip


# ---- broadcast, gather, transpose ----------------------------------------------------------------------------------


def _brcb_footprint(call: Call):
    if is_nothing(call, "repeat"):
        return []
    lo, hi = strided_span(call["repeat"], call["d_rep"], call["d_blk"], 8, BLOCK_BYTES)
    return [(0, "out", lo, hi), (1, "in", 0, scaled(call["repeat"], 8, call.itemsize()))]


_BRCB = vector(
    "brcb", "Brcb", (dst(), src()), (REPEAT, _int_arg("d_blk"), _int_arg("d_rep")),
    "AscendC::Brcb({d}, {s}, {repeat}, AscendC::BrcbRepeatParams{{{d_blk}, {d_rep}}})",
    "Repeat r reads eight elements and fills eight blocks of 32 bytes with one of them each. d and s must not overlap.",
    "brcb", uniform(same_dtypes(B16_B32), 2), work_fn=_work, footprint_fn=_brcb_footprint,
)  # fmt: skip


def _gather_footprint(call: Call):
    if is_nothing(call, "count"):
        return []
    spans = count_form(call)
    # The source bytes depend on the offsets, which are data: anything from the base on.
    return [spans[0], (1, "in", 0, None), spans[2]]


_GATHER = vector(
    "gather", "Gather", (dst(), src(), src("offset")), (_int_arg("base_offset", (0, 2**32 - 1, "uint32_t")), COUNT_U32),
    "AscendC::Gather({d}, {s}, {offset}, {base_offset}, {count})",
    "d[i] = the element at byte `base_offset + offset[i]` of s. Offsets are multiples of the element size.",
    "gather", {g: tuple((d, d, "uint32") for d in names) for g, names in same_dtypes(B16_B32).items()},
    work_fn=lambda call: call["count"], footprint_fn=_gather_footprint,
)  # fmt: skip

_TRANSPOSE_DTYPES = same_dtypes(("int16", "uint16", "float16"))
_TRANSPOSE = vector(
    "transpose", "Transpose", (dst(), src()), (), "AscendC::Transpose({d}, {s})",
    "16x16 matrix transpose of a 16-bit dtype.",
    "transpose", uniform(_TRANSPOSE_DTYPES, 2), work_fn=lambda call: 256,
    footprint_fn=lambda call: [(0, "out", 0, 512), (1, "in", 0, 512)],
)  # fmt: skip


def _to_5hd_footprint(call: Call):
    if is_nothing(call, "repeat"):
        return []

    def span(row, rep):
        if None in (call["repeat"], call[row], call[rep]):
            return None
        return (15 * call[row] + (call["repeat"] - 1) * call[rep] + 1) * BLOCK_BYTES

    return [(0, "out", 0, span("d_row", "d_rep")), (1, "in", 0, span("s_row", "s_rep"))]


def _to_5hd_text(call) -> str:
    element = call["d"].ctype
    rows = "; ".join(
        f"list{x}[i] = reinterpret_cast<uint64_t>({call[x]}.GetPhyAddr()) + i * {BLOCK_BYTES}ull * ({call[x + '_row']})" for x in ("d", "s")
    )
    return (
        f"{{ uint64_t listd[16], lists[16]; for (uint32_t i = 0; i < 16; ++i) {{ {rows}; }} "
        f"AscendC::TransDataTo5HD<{element}>(listd, lists, AscendC::TransDataTo5HDParams{{{call['dst_high_half']}, "
        f"{call['src_high_half']}, {call['repeat']}, {call['d_rep']}, {call['s_rep']}}}); }}"
    )


_TRANS_DATA_TO_5HD = vector(
    "trans_data_to_5hd", "TransDataTo5HD", (dst(), src()),
    (_int_arg("d_row"), _int_arg("s_row"), _int_arg("dst_high_half", _BOOL), _int_arg("src_high_half", _BOOL), REPEAT,
     _int_arg("d_rep"), _int_arg("s_rep")),
    _to_5hd_text,
    "Transpose 16 rows of one 32-byte block: row i of the source starts at block `i * s_row`, of the destination at "
    "block `i * d_row`; repeats step by d_rep and s_rep blocks. b32: two destination rows of 8 make one column of 16. "
    "The half flags choose the 16 bytes of b8 blocks.",
    "transpose", uniform(same_dtypes(("int8", "uint8", "int16", "uint16", "float16", "int32", "uint32", "float32")), 2),
    work_fn=lambda call: scaled(call["repeat"], 16 * BLOCK_BYTES // call.itemsize()), footprint_fn=_to_5hd_footprint,
)  # fmt: skip


# ---- sort and squeeze ----------------------------------------------------------------------------------------------


def _sort32_footprint(call: Call):
    if is_nothing(call, "repeat"):
        return []
    size = call.itemsize()
    return [
        (0, "out", 0, scaled(call["repeat"], 32, 8)),
        (1, "in", 0, scaled(call["repeat"], 32, size)),
        (2, "in", 0, scaled(call["repeat"], 32, 4)),
    ]


_SORT32 = vector(
    "sort32", "Sort32", (dst(), src("s0"), src("s1")), (REPEAT,), "AscendC::Sort32({d}, {s0}, {s1}, {repeat})",
    "Sort groups of 32 scores s0 with indices s1 (uint32) in descending order, stable; d gets 8-byte pairs score, "
    "index (f16 scores leave two bytes unused).",
    "sort", {g: tuple((d, d, "uint32") for d in FLOATS) for g in ("c220", "3510")},
    work_fn=lambda call: scaled(call["repeat"], 32), footprint_fn=_sort32_footprint,
)  # fmt: skip

_QUEUES = 4
_VALID_BIT = Arg("valid_bit", "int", 1, 15, "uint16_t")


def _queue_lengths(call: Call):
    return [call[f"len{i}"] if call["valid_bit"] is not None and call["valid_bit"] >> i & 1 else 0 for i in range(_QUEUES)]


def _mrg_sort_footprint(call: Call):
    if is_nothing(call, "repeat"):
        return []
    if call["valid_bit"] is None or call["repeat"] is None:
        return [(0, "out", 0, None), *((i + 1, "in", 0, None) for i in range(_QUEUES))]
    lengths = _queue_lengths(call)
    total = None if None in lengths else sum(lengths) * 8 * call["repeat"]
    step = None if total is None else (call["repeat"] - 1) * sum(lengths)
    inputs = [(i + 1, "in", 0, None if None in (n, step) else (step + n) * 8) for i, n in enumerate(lengths) if n != 0]
    return [(0, "out", 0, total), *inputs]


def _check_merge(call: Call):
    """MrgSort: the first two, three or four queues take part; repeats go through four queues of equal length."""
    if call.known("valid_bit") and call["valid_bit"] not in (0b0011, 0b0111, 0b1111):
        return f"valid_bit={call['valid_bit']}: the first two (3), three (7) or all four (15) queues take part"
    if call.known("repeat", "valid_bit") and call["repeat"] > 1:
        lengths = _queue_lengths(call)
        if call["valid_bit"] != 0b1111 or None not in lengths and len(set(lengths)) > 1:
            return f"repeat={call['repeat']} needs four queues of equal length"
    return None


_MRG_SORT = vector(
    "mrg_sort", "MrgSort", (dst(), src("s0"), src("s1"), src("s2"), src("s3")),
    (*(_int_arg(f"len{i}", (0, 4095, "uint16_t")) for i in range(_QUEUES)), _VALID_BIT, REPEAT),
    "{{ const uint16_t lengths[4] = {{{len0}, {len1}, {len2}, {len3}}}; "
    "AscendC::MrgSort<{d.ctype}>({d}, AscendC::MrgSortSrcList<{d.ctype}>{{{s0}, {s1}, {s2}, {s3}}}, "
    "AscendC::MrgSort4Info{{lengths, false, {valid_bit}, {repeat}}}); }}",
    "Merge up to four descending queues of 8-byte pairs (score, index) into one; `valid_bit` says which queues take "
    "part.",
    "sort", uniform(same_dtypes(FLOATS), 5),
    work_fn=lambda call: None if None in _queue_lengths(call) else scaled(call["repeat"], sum(_queue_lengths(call))),
    check_fn=_check_merge, footprint_fn=_mrg_sort_footprint,
)  # fmt: skip


GATHER_MASK_PATTERNS = {1: (2, 0), 2: (2, 1), 3: (4, 0), 4: (4, 1), 5: (4, 2), 6: (4, 3), 7: (1, 0)}
"""pattern -> (step, first): the lanes a fixed pattern keeps."""


def _gather_mask_footprint(call: Call):
    if is_nothing(call, "repeat", "mask"):
        return []
    if not call.known("repeat", "mask", "s_blk", "s_rep"):
        return [(0, "out", 0, None), (1, "in", 0, None)]
    size = call.itemsize()
    per_block = BLOCK_BYTES // size
    blocks = -(-call["mask"] // per_block)
    last = (call["mask"] - (blocks - 1) * per_block) * size
    lo, hi = strided_span(call["repeat"], call["s_rep"], call["s_blk"], blocks, last)
    kept = call["mask"] * call["repeat"]
    if call.known("pattern"):
        step, first = GATHER_MASK_PATTERNS[call["pattern"]]
        kept = len(range(first, call["mask"], step)) * call["repeat"]
    return [(0, "out", 0, kept * size), (1, "in", lo, hi)]


def _gather_mask_text(call) -> str:
    params = "AscendC::GatherMaskParams{{{s_blk}, {repeat}, {s_rep}, 0}}".format_map(call)
    return "{{ uint64_t kept = 0; AscendC::GatherMask({d}, {s}, {pattern}, true, {mask}, ".format_map(call) + params + ", kept); }"


_GATHER_MASK = vector(
    "gather_mask", "GatherMask", (dst(), src()),
    (_int_arg("pattern", (1, 7, "uint8_t")), Arg("mask", "int", 0, 2**32 - 1, "uint32_t"), _int_arg("repeat"),
     _int_arg("s_blk", _U8), _int_arg("s_rep")),
    _gather_mask_text,
    "Keep lanes by a fixed pattern and pack them: 1 = even lanes, 2 = odd lanes, 3..6 = lane 0..3 of every four, 7 = "
    "all. `mask` is the number of lanes per repeat (counter mode).",
    "gather_mask", uniform(same_dtypes(B16_B32), 2), work_fn=lambda call: scaled(call["repeat"], call["mask"]),
    footprint_fn=_gather_mask_footprint,
)  # fmt: skip

RECORDS = (
    _BRCB,
    _GATHER,
    *(_whole_reduce(kind) for kind in ("sum", "max", "min")),
    *(_block_reduce(kind) for kind in ("sum", "max", "min")),
    _PAIR_REDUCE_SUM,
    _TRANSPOSE,
    _TRANS_DATA_TO_5HD,
    _SORT32,
    _MRG_SORT,
    _GATHER_MASK,
)
assert all(ITEMSIZE.get(d) for r in RECORDS for rows in r.signatures.values() for row in rows for d in row)
