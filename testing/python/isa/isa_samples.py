"""Random legal calls of every record, for tests that compare descriptions of the same instruction with each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilelang_ascend.isa import ITEMSIZE, Call, Intrinsic, Space, rules
from tilelang_ascend.isa.semantics import encode_operand

MEMORY_BYTES = 1 << 16
REGION_BYTES = 1 << 13
"""Every operand has a region of its own, so that source and destination never overlap."""


@dataclass(frozen=True)
class Sample:
    """A call with everything needed to execute it. `operands` are (space, dtype, byte offset)."""

    intrin: Intrinsic
    operands: tuple
    args: tuple
    attrs: dict
    call: Call

    @property
    def words(self) -> list[int]:
        """The stream form: attr codes, operand words, arguments (floats as float64 bits)."""
        out = [self.intrin.attr_code(name, value) for name, value in self.attrs.items()]
        out += [encode_operand(*operand) for operand in self.operands]
        dtype = self.operands[-1][1] if self.operands else "int32"
        is_float = dtype.startswith(("float", "bfloat"))
        for arg, value in zip(self.intrin.args, self.args):
            bits = arg.kind == "float" and is_float
            out.append(int(np.float64(value).view(np.int64)) if bits else int(value))
        return out


def _mask_word(rng, lanes: int) -> int:
    style = rng.integers(3)
    if style == 0:
        return (1 << lanes) - 1
    if style == 1:
        return (1 << int(rng.integers(1, lanes + 1))) - 1
    return int(rng.integers(1, 2**62)) & ((1 << lanes) - 1) | 1 << int(rng.integers(0, lanes))


def _scalar(rng, dtype: str):
    if dtype.startswith(("float", "bfloat")):
        return float(np.float32(rng.choice([0.0, -0.0, 1.5, -2.25, 1e-3, 300.0])))
    return int(rng.integers(0, 100))


def _values(rng, intrin: Intrinsic, dtypes) -> dict:
    """Argument values by name; small enough for `REGION_BYTES`."""
    size = max((ITEMSIZE[d] for d in dtypes), default=4)
    lanes = 256 // size
    source_lanes = 256 // ITEMSIZE[dtypes[1 if len(dtypes) > 1 else 0]] if dtypes else 64
    mask = _mask_word(rng, min(lanes, 128))
    small = lambda low, high: int(rng.integers(low, high + 1))  # noqa: E731
    element = ITEMSIZE[dtypes[0]] if dtypes else 4
    fractals = small(1, 3)
    values = {
        "count": small(0, 400), "mask_hi": mask >> 64, "mask_lo": mask & (2**64 - 1), "repeat": small(0, 4),
        "mask": small(1, source_lanes), "block_count": small(0, 3), "block_len": small(0, 40) * element,
        "src_stride": small(0, 3), "dst_stride": small(0, 3), "is_pad": small(0, 1),
        "left_pad": small(0, 32 // element),
        "right_pad": small(0, 32 // element), "nd_num": small(1, 2), "n_value": small(1, 20), "d_value": small(1, 40),
        "src_nd_matrix_stride": 900, "src_d_value": small(40, 44), "dst_nz_c0_stride": small(20, 24),
        "dst_nz_n_stride": 1,
        "dst_nz_matrix_stride": 3000 // element, "repeat_times": small(0, 3), "block_num": small(0, 3),
        "dst_gap": small(0, 2),
        "src_gap": small(0, 2), "start_index": small(0, 2), "dst_frac_gap": small(0, 1), "if_transpose": 0,
        "m_start": small(0, 1), "k_start": small(0, 1), "m_step": small(0, 2), "k_step": small(0, 2), "m": small(0, 40),
        "n": small(0, 40), "k": small(0, 40), "unit_flag": 0, "cmatrix_source": 0, "cmatrix_init": small(0, 1),
        "n_size": 16 * small(0, 2), "m_size": small(0, 20), "relu_en": small(0, 1), "base_offset": 8 * small(0, 4),
        "pattern": small(1, 7), "valid_bit": 2 ** small(1, 4) - 1, "dst_high_half": small(0, 1),
        "src_high_half": small(0, 1), "desc": 7, **{f"v{i}": small(-5, 5) for i in range(4)},
        "d_row": small(1, 3), "s_row": small(1, 3), **{f"len{i}": small(1, 8) for i in range(4)},
    }  # fmt: skip
    if intrin.name.startswith("compare") and "count" in intrin.arg_names:
        values["count"] = 256 // source_lanes and source_lanes * small(0, 3)
    if "m_size" in intrin.arg_names:
        values["src_stride"], values["dst_stride"] = 32, 32
    elif "m_start" in intrin.arg_names:
        values["src_stride"], values["dst_stride"] = 4, fractals + 1
    elif (
        "n_value" not in intrin.arg_names and "block_len" in intrin.arg_names and intrin.name.startswith(("copy_ub_to_ub", "copy_ub_to_l1"))
    ):
        values["block_len"] = small(0, 4)
    if "dual" in intrin.arg_names:
        values |= {"dual": small(0, 2), "sub_block": 0, "n_size": 32 * small(0, 1), "m_size": 2 * small(0, 10)}
    if intrin.name == "mrg_sort":
        values["repeat"] = small(0, 1)
    for operand in intrin.operands:
        values[operand.name + "_blk"] = small(1, 2)
        values[operand.name + "_rep"] = small(8, 18)
    for arg in intrin.args:
        if arg.kind == "float":
            values[arg.name] = 0 if ITEMSIZE[dtypes[-1]] == 8 else _scalar(rng, dtypes[-1])
    if intrin.name.startswith("shift"):
        values["scalar"] = small(0, 8 * element - 1)
    return values


def a_format(intrin: Intrinsic) -> str:
    """A text for an attribute that takes any: the printing records check it against their values."""
    return " %d" * len(intrin.args)


def sample(intrin: Intrinsic, rng, generation: str = "c220") -> Sample:
    """A random call that passes `check`."""
    for _ in range(200):
        dtypes = intrin.signatures[generation][rng.integers(len(intrin.signatures[generation]))]
        attrs = {name: str(rng.choice(values)) if values else a_format(intrin) for name, values in intrin.attrs.items()}
        values = _values(rng, intrin, dtypes)
        args = tuple(values[a.name] for a in intrin.args)
        call = intrin.bind(dtypes, args, attrs, generation)
        if rules.check(call) is None:
            operands = []
            for i, (operand, dtype) in enumerate(zip(intrin.operands, dtypes)):
                space = operand.spaces[rng.integers(len(operand.spaces))]
                step = operand.alignment(space, dtype)
                offset = i * REGION_BYTES + int(rng.integers(0, 3)) * step
                operands.append((Space(space), dtype, offset))
            return Sample(intrin, tuple(operands), args, attrs, call)
    raise AssertionError(f"no legal call of {intrin.name} found")


def memories(rng) -> dict[Space, np.ndarray]:
    """Memories full of small, finite values of mixed meaning."""
    floats = rng.standard_normal(MEMORY_BYTES // 4).astype(np.float32)
    return {
        space: floats.view(np.uint8).copy() if space != Space.GM else rng.integers(0, 60, MEMORY_BYTES).astype(np.uint8) for space in Space
    }
