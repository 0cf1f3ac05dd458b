"""Reductions, broadcasts, gathers, transposes, sorts."""

from __future__ import annotations

import numpy as np

from ..units import BLOCK_BYTES, REPEAT_BYTES
from ..vector_shuffle import GATHER_MASK_PATTERNS
from .elementwise import BINARY, apply
from .memory import Execution, Tensor

_KINDS = {"sum": BINARY["add"], "max": BINARY["max"], "min": BINARY["min"]}


def tree(kind: str, dtype: str, values: np.ndarray) -> np.ndarray:
    """Pairwise reduction of neighbours along the last axis, rounding after every step; an odd one out moves up as it
    is.
    """
    while values.shape[-1] > 1:
        even = values.shape[-1] // 2 * 2
        pairs = apply(_KINDS[kind], dtype, values[..., 0:even:2], values[..., 1:even:2])
        values = np.concatenate([pairs, values[..., even:]], axis=-1)
    return values[..., 0]


def _lanes(s: Tensor) -> int:
    return REPEAT_BYTES // s.itemsize


def _source(x: Execution, repeat: int) -> np.ndarray:
    """The first `mask` lanes of one repeat of the source."""
    lane = np.arange(x.a["mask"])
    return x.t["s"].read(x.lane_offsets("s", lane, repeat))


def whole_reduce(kind: str):
    def run(x: Execution) -> None:
        d = x.t["d"]
        for repeat in range(x.a["repeat"] if x.a["mask"] else 0):
            d.write([repeat * x.a["d_rep"] * d.itemsize], [tree(kind, d.dtype, _source(x, repeat))])

    return run


def block_reduce(kind: str):
    def run(x: Execution) -> None:
        d, s = x.operands
        per_block = BLOCK_BYTES // s.itemsize
        for repeat in range(x.a["repeat"]):
            values = _source(x, repeat)
            for block in range(-(-x.a["mask"] // per_block)):
                part = values[block * per_block : (block + 1) * per_block]
                d.write([(repeat * x.a["d_rep"] * 8 + block) * d.itemsize], [tree(kind, d.dtype, part)])

    return run


def pair_reduce_sum(x: Execution) -> None:
    """A lane whose neighbour is masked off is the result itself."""
    d = x.t["d"]
    for repeat in range(x.a["repeat"]):
        values = _source(x, repeat)
        even = values.size // 2 * 2
        sums = apply(_KINDS["sum"], d.dtype, values[0:even:2], values[1:even:2])
        d.write_n(np.concatenate([sums, values[even:]]), repeat * x.a["d_rep"] * (REPEAT_BYTES // 2))


def brcb(x: Execution) -> None:
    d, s = x.operands
    per_block = BLOCK_BYTES // d.itemsize
    for repeat in range(x.a["repeat"]):
        values = s.read_n(8, repeat * 8 * s.itemsize)
        for block in range(8):
            d.write_n(np.full(per_block, values[block]), (repeat * x.a["d_rep"] + block * x.a["d_blk"]) * BLOCK_BYTES)


def gather(x: Execution) -> None:
    d, s, offset = x.operands
    count = x.a["count"]
    d.write_n(s.read(offset.read_n(count).astype(np.int64) + x.a["base_offset"]))


def transpose(x: Execution) -> None:
    d, s = x.operands
    d.write_n(s.read_n(256).reshape(16, 16).T)


def trans_data_to_5hd(x: Execution) -> None:
    """Element j of source row i becomes element i of column j of the destination."""
    d, s = x.operands
    if d.itemsize == 1:
        return _to_5hd_b8(x)
    per_block = BLOCK_BYTES // d.itemsize
    for repeat in range(x.a["repeat"]):
        rows = np.stack([s.read_n(per_block, (i * x.a["s_row"] + repeat * x.a["s_rep"]) * BLOCK_BYTES) for i in range(16)])
        columns = rows.T.reshape(16, per_block)  # b32: column j fills destination rows 2j and 2j + 1
        for i in range(16):
            d.write_n(columns[i], (i * x.a["d_row"] + repeat * x.a["d_rep"]) * BLOCK_BYTES)
    return None


def _to_5hd_b8(x: Execution) -> None:
    d, s = x.operands
    for repeat in range(x.a["repeat"]):
        take = 16 * x.a["src_high_half"]
        put = 16 * x.a["dst_high_half"]
        rows = np.stack([s.read_n(16, (i * x.a["s_row"] + repeat * x.a["s_rep"]) * BLOCK_BYTES + take) for i in range(16)])
        for i in range(16):
            d.write_n(rows[:, i], (i * x.a["d_row"] + repeat * x.a["d_rep"]) * BLOCK_BYTES + put)


# ---- sort: 8-byte records of a score and an index ------------------------------------------------------------------


def descending(scores: np.ndarray) -> np.ndarray:
    """Stable order of scores from large to small."""
    return np.argsort(-scores.astype(np.float64), kind="stable")


def _records(scores: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Bytes of (score, index) records; f16 scores leave bytes 2 and 3 zero."""
    out = np.zeros((scores.size, 8), np.uint8)
    out[:, : scores.dtype.itemsize] = np.ascontiguousarray(scores).view(np.uint8).reshape(scores.size, -1)
    out[:, 4:] = np.ascontiguousarray(indices, dtype=np.uint32).view(np.uint8).reshape(scores.size, 4)
    return out


def _write_records(d: Tensor, records: np.ndarray, first_byte: int) -> None:
    start = d.offset + first_byte
    if start + records.size > d.bytes.size:
        raise IndexError(f"operand {d.name}: byte {start + records.size} of {d.bytes.size}")
    d.bytes[start : start + records.size] = records.reshape(-1)


def sort32(x: Execution) -> None:
    d, s0, s1 = x.operands
    for repeat in range(x.a["repeat"]):
        scores = s0.read_n(32, repeat * 32 * s0.itemsize)
        order = descending(scores)
        _write_records(d, _records(scores[order], s1.read_n(32, repeat * 128)[order]), repeat * 256)


def mrg_sort(x: Execution) -> None:
    """Ties: the queue with the lower number goes first. Repeats need queues of equal length back to back."""
    d = x.t["d"]
    queues = [(x.t[f"s{i}"], x.a[f"len{i}"]) for i in range(4) if x.a["valid_bit"] >> i & 1]
    merged = sum(n for _, n in queues)
    for repeat in range(x.a["repeat"]):
        raw = []
        for s, n in queues:
            start = s.offset + repeat * merged * 8
            raw.append(s.bytes[start : start + n * 8].reshape(n, 8))
        records = np.concatenate(raw)
        scores = np.ascontiguousarray(records[:, : d.itemsize]).view("f2" if d.itemsize == 2 else "f4").reshape(-1)
        _write_records(d, records[descending(scores)], repeat * merged * 8)


def gather_mask(x: Execution) -> None:
    d = x.t["d"]
    step, first = GATHER_MASK_PATTERNS[x.a["pattern"]]
    kept = [_source(x, repeat)[first::step] for repeat in range(x.a["repeat"])]
    d.write_n(np.concatenate(kept) if kept else [])


SHUFFLE = {
    **{f"whole_reduce_{kind}": whole_reduce(kind) for kind in _KINDS},
    **{f"block_reduce_{kind}": block_reduce(kind) for kind in _KINDS},
    "pair_reduce_sum": pair_reduce_sum, "brcb": brcb, "gather": gather, "transpose": transpose,
    "trans_data_to_5hd": trans_data_to_5hd, "sort32": sort32, "mrg_sort": mrg_sort, "gather_mask": gather_mask,
}  # fmt: skip
