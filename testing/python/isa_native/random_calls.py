"""Random legal calls of any record of the table: arguments, operand places without overlap, data."""

from __future__ import annotations

import random
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tilelang_ascend.isa import ITEMSIZE, Intrinsic, Space, rules

BYTES = {
    Space.GM: 1 << 15,
    Space.L1: 1 << 16,
    Space.L0A: 1 << 15,
    Space.L0B: 1 << 15,
    Space.L0C: 1 << 16,
    Space.UB: 1 << 15,
}
SPECIAL = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    -2.5,
    np.inf,
    -np.inf,
    np.nan,
    65504.0,
    -65504.0,
    6e-8,
    1e-40,
    3.4e38,
    127.5,
    300.0,
)


@dataclass
class RandomCall:
    """One call: operands as (space, dtype, byte offset), scalar arguments in table order, attributes."""

    name: str
    operands: list[tuple[Space, str, int]]
    args: list
    attrs: dict[str, str]

    def dict_args(self, record: Intrinsic) -> dict:
        return dict(zip((a.name for a in record.args), self.args))


def numpy_dtype(name: str) -> np.dtype:
    """NumPy dtype of a dtype name; `bool` is one byte."""
    if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        return np.dtype(getattr(ml_dtypes, name))
    return np.dtype("uint8" if name == "bool" else name)


def is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


def elements(rng: random.Random, dtype: str, count: int) -> np.ndarray:
    """`count` elements as bytes: ordinary numbers with some special ones; integers over the whole range."""
    gen = np.random.default_rng(rng.getrandbits(32))
    if not is_float(dtype):
        return gen.integers(0, 256, count * ITEMSIZE[dtype], dtype=np.uint8)
    scale = 10.0 ** gen.integers(-3, 4, count)
    values = gen.standard_normal(count) * scale
    special = gen.random(count) < 0.1
    values[special] = gen.choice(SPECIAL, special.sum())
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(numpy_dtype(dtype)).view(np.uint8)


# ---- arguments -------------------------------------------------------------------------------------------------------


def scalar_value(rng: random.Random, dtype: str):
    """A value of an element argument, already rounded to the dtype."""
    if not is_float(dtype):
        info = np.iinfo(numpy_dtype(dtype))
        return rng.choice((0, 1, info.max, info.min, rng.randint(int(info.min), int(info.max))))
    value = rng.choice((rng.gauss(0, 3), rng.choice(SPECIAL)))
    with np.errstate(over="ignore"):
        return float(np.float32(value).astype(numpy_dtype(dtype)))


SMALL = {
    "repeat": (0, 4),
    "repeat_times": (0, 4),
    "block_count": (0, 4),
    "block_len": (0, 200),
    "block_num": (0, 5),
    "dst_gap": (0, 3),
    "src_gap": (0, 3),
    "src_stride": (0, 70),
    "dst_stride": (0, 3),
    "left_pad": (0, 3),
    "right_pad": (0, 3),
    "start_index": (0, 3),
    "dst_frac_gap": (0, 2),
    "nd_num": (0, 3),
    "n_value": (0, 20),
    "d_value": (0, 40),
    "src_nd_matrix_stride": (0, 900),
    "base_offset": (0, 0),
    "d_rep": (0, 10),
    "s_rep": (0, 10),
    "s_blk": (0, 3),
    "mask": (0, 64),
    "m": (0, 40),
    "n": (0, 40),
    "k": (0, 70),
    "unit_flag": (0, 0),
    "cmatrix_source": (0, 0),
    "n_size": (0, 40),
    "m_size": (0, 40),
    "m_start": (0, 2),
    "k_start": (0, 2),
    "m_step": (0, 3),
    "k_step": (0, 3),
    "d_row": (1, 3),
    "s_row": (0, 3),
    "count": (0, 300),
    "scalar": (0, 40),
    "len0": (0, 20),
    "len1": (0, 20),
    "len2": (0, 20),
    "len3": (0, 20),
}
"""Limits that keep random transfers small; everything else comes from the table."""


def random_args(rng: random.Random, record: Intrinsic, dtypes: tuple[str, ...]) -> dict:
    """Scalar arguments within the limits of the table, then made consistent with each other."""
    values: dict = {}
    for arg in record.args:
        if arg.kind == "float":
            values[arg.name] = scalar_value(rng, dtypes[-1] if record.name.startswith("compare") else dtypes[0])
        elif arg.name in ("mask_hi", "mask_lo"):
            values[arg.name] = rng.choice((0, 2**64 - 1, rng.getrandbits(64), (1 << rng.randint(1, 63)) - 1))
        elif arg.name.endswith("_blk"):
            values[arg.name] = rng.choice((1, 1, 1, 2, 0 if not arg.name.startswith("d") else 1))
        elif arg.name.endswith("_rep") and record.name.endswith("_mask"):
            values[arg.name] = rng.choice((8, 8, 4, 16, 1, 0))
        else:
            lo, hi = SMALL.get(arg.name, (arg.lo or 0, arg.hi or 3))
            values[arg.name] = rng.randint(max(lo, arg.lo or 0), min(hi, arg.hi if arg.hi is not None else hi))
    for fix in FIXES:
        fix(rng, record, dtypes, values)
    return values


def _mask_lanes(rng, record, dtypes, v):
    lanes = 256 // max(ITEMSIZE[d] for d in (dtypes[1:] if record.name.startswith("compare") else dtypes))
    if "mask_hi" not in v:
        if "mask" in v:
            v["mask"] = rng.randint(0, 256 // ITEMSIZE[dtypes[-1]])
        return
    word = v["mask_hi"] << 64 | v["mask_lo"]
    word &= (1 << min(lanes, 128)) - 1
    word = word or 1
    v["mask_hi"], v["mask_lo"] = word >> 64, word & (2**64 - 1)
    # An updated destination must not meet itself: one lane, one place.
    if record.operands[0].reads:
        v["d_blk"], v["d_rep"] = 1, 8
    if rng.random() < 0.3:
        for name in v:
            v[name] = 1 if name.endswith("_blk") else v[name]


def _compare_count(rng, record, dtypes, v):
    if record.name in ("compare", "compare_scalar"):
        v["count"] = 256 // ITEMSIZE[dtypes[-1]] * rng.randint(0, 4)


def _whole_elements(rng, record, dtypes, v):
    size = ITEMSIZE[dtypes[0]]
    if record.name in ("copy_gm_to_ub", "copy_ub_to_gm"):
        v["block_len"] = v["block_len"] // size * size
        for side in ("left_pad", "right_pad"):
            if side in v:
                v[side] = min(v[side], 32 // size)
        if "pad_value" in v and size == 8:
            v["pad_value"] = 0
        gm_gap = "src_stride" if record.name == "copy_gm_to_ub" else "dst_stride"
        ub_gap = "dst_stride" if record.name == "copy_gm_to_ub" else "src_stride"
        v[gm_gap], v[ub_gap] = rng.randint(0, 70), rng.randint(0, 3)


def _nd2nz(rng, record, dtypes, v):
    if record.name != "copy_gm_to_l1_nd2nz":
        return
    size, groups = ITEMSIZE[dtypes[0]], -(-v["d_value"] * ITEMSIZE[dtypes[0]] // 32)
    v["src_d_value"] = max(1, v["d_value"] + rng.randint(0, 9))
    v["dst_nz_n_stride"] = rng.choice((1, 1, 2))
    v["dst_nz_c0_stride"] = max(1, v["n_value"] * v["dst_nz_n_stride"] + rng.randint(0, 3))
    v["dst_nz_matrix_stride"] = max(1, groups * v["dst_nz_c0_stride"] * 32 // size)


def _transpose_b16(rng, record, dtypes, v):
    if "if_transpose" in v and ITEMSIZE[dtypes[0]] != 2:
        v["if_transpose"] = 0
    if record.name.startswith("load_l0"):
        v["src_stride"] = rng.randint(0, 4)
        if "dst_stride" in v:
            v["dst_stride"] = rng.randint(3, 5)
        if "dst_frac_gap" in v:
            v["dst_gap"] = 2 * (1 + v["dst_frac_gap"]) - 1


def _fixpipe(rng, record, dtypes, v):
    if not record.name.startswith("fixpipe"):
        return
    v["src_stride"] = -(-v["m_size"] // 16) * 16
    v["dst_stride"] = v["n_size"] + rng.randint(0, 5) if record.name == "fixpipe_to_gm" else v["m_size"] + rng.randint(0, 3)
    if record.name == "fixpipe_to_l1":
        v["n_size"] = v["n_size"] // 16 * 16
    if record.name == "fixpipe_to_ub":
        v["n_size"], v["m_size"] = v["n_size"] // 32 * 32, v["m_size"] // 2 * 2
        v["dst_stride"] = v["n_size"] + 16 * rng.randint(0, 2)
        v["sub_block"] = 0 if v["dual"] else rng.randint(0, 1)


def _merge(rng, record, dtypes, v):
    if record.name != "mrg_sort":
        return
    v["valid_bit"] = rng.choice((3, 7, 15))
    v["repeat"] = 1


FIXES = (_mask_lanes, _compare_count, _whole_elements, _nd2nz, _transpose_b16, _fixpipe, _merge)


def random_attrs(rng: random.Random, record: Intrinsic, dtypes: tuple[str, ...]) -> dict[str, str]:
    """Legal attributes for the dtypes: rejected ones are drawn again by the caller through `check`."""
    attrs = {key: rng.choice(values) if values else "%d" * len(record.args) for key, values in record.attrs.items()}
    if record.name == "select":
        attrs["mode"] = "tensor_tensor"
    if record.name == "select_scalar":
        attrs["mode"] = "tensor_scalar"
    if "quant" in attrs:
        attrs["quant"] = {"float16": "f32_f16", "bfloat16": "f32_bf16"}.get(dtypes[0], "none")
    return attrs


# ---- places ----------------------------------------------------------------------------------------------------------


def place(rng: random.Random, record: Intrinsic, dtypes: tuple[str, ...], call) -> list[tuple[Space, str, int]] | None:
    """Offsets at which no two operands overlap, or exactly coincide where the record allows it."""
    spans = {i: 0 for i in range(len(record.operands))}
    for index, _, _, hi in record.footprint(call):
        spans[index] = max(spans[index], 4096 if hi is None else hi)
    cursor = {space: 32 * rng.randint(0, 4) for space in BYTES}
    out = []
    for i, operand in enumerate(record.operands):
        space = rng.choice(operand.spaces)
        align = max(operand.alignment(space, dtypes[i]), ITEMSIZE[dtypes[i]])
        at = -(-cursor[space] // align) * align
        if i > 0 and record.ascending and space == out[0][0] and dtypes[i] == dtypes[0] and rng.random() < 0.2 and "count" in call.args:
            out.append((space, dtypes[i], out[0][2]))
            continue
        cursor[space] = at + -(-spans[i] // 32) * 32 + 32 * rng.randint(0, 2)
        if cursor[space] > BYTES[space]:
            return None
        out.append((space, dtypes[i], at))
    return out


def random_call(rng: random.Random, record: Intrinsic, generation: str) -> RandomCall:
    """A legal call of a record on a chip generation."""
    for _ in range(200):
        dtypes = rng.choice(record.signatures[generation]) if record.operands else ()
        values, attrs = random_args(rng, record, dtypes), random_attrs(rng, record, dtypes)
        args = [values[a.name] for a in record.args]
        call = record.bind(dtypes, args, attrs, generation)
        if rules.check(call):
            continue
        operands = place(rng, record, dtypes, call)
        if operands is not None:
            return RandomCall(record.name, operands, args, attrs)
    raise AssertionError(f"no legal random call of {record.name}")


def random_memories(rng: random.Random, record: Intrinsic, call: RandomCall) -> dict[Space, np.ndarray]:
    """The memories of the operands, full of elements of the dtype of the last operand in each."""
    out = {}
    for space in dict.fromkeys(s for s, _, _ in call.operands):
        size = BYTES[space]
        dtype = next(d for s, d, _ in reversed(call.operands) if s == space)
        count = size // ITEMSIZE[dtype]
        block = elements(rng, dtype, min(count, 8192))
        out[space] = np.resize(block, size).copy()
    for fill in FILLS:
        fill(rng, record, call, out)
    return out


def _operand_bytes(memories, operand, count):
    space, dtype, offset = operand
    return memories[space][offset : offset + count * ITEMSIZE[dtype]]


def _fill_gather_offsets(rng, record, call, memories):
    if record.name != "gather":
        return
    size, count = ITEMSIZE[call.operands[0][1]], call.args[-1]
    offsets = np.array([rng.randrange(0, 4096 // size) * size for _ in range(count)], dtype=np.uint32)
    _operand_bytes(memories, call.operands[2], count)[:] = offsets.view(np.uint8)


def _fill_distinct_types(rng, record, call, memories):
    """Sources of another dtype than the rest of their memory get numbers of their own."""
    if record.name.startswith(("axpy", "cast", "compare", "select", "sort32")):
        for operand in call.operands[1:]:
            room = memories[operand[0]].size - operand[2]
            count = min(2048, room // ITEMSIZE[operand[1]])
            end = min([o[2] for o in call.operands if o[0] == operand[0] and o[2] > operand[2]], default=1 << 30)
            count = min(count, (end - operand[2]) // ITEMSIZE[operand[1]])
            _operand_bytes(memories, operand, count)[:] = elements(rng, operand[1], count)


def _fill_cube(rng, record, call, memories):
    """Finite cube operands; the padding of K is zero because the machine multiplies it."""
    if record.name != "mmad":
        return
    values = call.dict_args(record)
    for operand in call.operands:
        dtype = operand[1]
        count = (memories[operand[0]].size - operand[2]) // ITEMSIZE[dtype]
        gen = np.random.default_rng(rng.getrandbits(32))
        numbers = gen.standard_normal(count) if is_float(dtype) else gen.integers(-128, 128, count)
        _operand_bytes(memories, operand, count)[:] = numbers.astype(numpy_dtype(dtype)).view(np.uint8)
    for operand, lines in zip(call.operands[1:], (values["m"], values["n"])):
        _zero_k_padding(
            memories,
            operand,
            lines,
            values["k"],
            row_major=operand[0] == Space.L0A and not getattr(call, "nz_a", False),
        )


def _zero_k_padding(memories, operand, lines, k, row_major):
    c0 = 32 // ITEMSIZE[operand[1]]
    line_fractals, k_fractals = -(-lines // 16), -(-k // c0)
    if k % c0 == 0 or lines == 0:
        return
    for line in range(line_fractals):
        fractal = line * k_fractals + k_fractals - 1 if row_major else (k_fractals - 1) * line_fractals + line
        space, dtype, offset = operand
        part = memories[space][offset + fractal * 512 : offset + (fractal + 1) * 512].view(numpy_dtype(dtype)).reshape(16, c0)
        part[:, k % c0 :] = 0


def _fill_sorted_queues(rng, record, call, memories):
    """Queues of (score, index) pairs in descending order, as the merge requires."""
    if record.name != "mrg_sort":
        return
    for queue in range(4):
        count, dtype = call.args[queue], call.operands[0][1]
        scores = np.sort(np.array([rng.randint(-9, 9) for _ in range(count)], dtype=np.float32))[::-1]
        pairs = np.zeros((count, 8), np.uint8)
        pairs[:, : ITEMSIZE[dtype]] = scores.astype(numpy_dtype(dtype)).view(np.uint8).reshape(count, ITEMSIZE[dtype])
        pairs[:, 4:] = np.arange(count, dtype=np.uint32).view(np.uint8).reshape(count, 4)
        space, _, offset = call.operands[1 + queue]
        memories[space][offset : offset + 8 * count] = pairs.reshape(-1)


FILLS = (_fill_gather_offsets, _fill_distinct_types, _fill_cube, _fill_sorted_queues)
