"""Copies between GM, UB, L1 and L0, the cube and Fixpipe, single elements."""

from __future__ import annotations

import numpy as np

from ..debug import MAX_VALUES
from ..units import BLOCK_BYTES, FRACTAL_BYTES
from .elementwise import BINARY, apply, constant
from .memory import Execution, Tensor, np_dtype
from .number import convert, scalar_of, to_float, widen


def write_gm(x: Execution, d: Tensor, offsets, values) -> None:
    """Store to GM under the current atomic mode."""
    op, dtype = x.machine.atomic
    if op == "none" or d.space != 0:
        d.write(offsets, values)
        return
    assert dtype == d.dtype, f"atomic {op} on {dtype} while writing {d.dtype}"
    for offset, value in zip(np.asarray(offsets).reshape(-1), np.asarray(values).reshape(-1)):
        old = d.read([offset])
        d.write([offset], apply(BINARY[op], dtype, old, np.asarray([value], dtype=np_dtype(dtype))))


def copy_gm_to_ub(x: Execution) -> None:
    """Without `is_pad` the bytes between the end of a row and the end of its block are left as they are."""
    d, s = x.operands
    size = d.itemsize
    count, length = x.a["block_count"], x.a["block_len"] // size
    left = x.a["left_pad"] if x.a["is_pad"] else 0
    right = x.a["right_pad"] if x.a["is_pad"] else 0
    pad = scalar_of(x.a["pad_value"], d.dtype)
    step = -(-(length + left + right) * size // BLOCK_BYTES) * BLOCK_BYTES + x.a["dst_stride"] * BLOCK_BYTES
    for row in range(count if length else 0):
        values = s.read_n(length, row * (x.a["block_len"] + x.a["src_stride"]))
        d.write_n(constant(pad, d.dtype, left), row * step)
        d.write_n(values, row * step + left * size)
        d.write_n(constant(pad, d.dtype, right), row * step + (left + length) * size)


def copy_ub_to_gm(x: Execution) -> None:
    d, s = x.operands
    length = x.a["block_len"] // s.itemsize
    step = -(-x.a["block_len"] // BLOCK_BYTES) * BLOCK_BYTES + x.a["src_stride"] * BLOCK_BYTES
    for row in range(x.a["block_count"] if length else 0):
        start = row * (x.a["block_len"] + x.a["dst_stride"])
        write_gm(x, d, start + np.arange(length) * d.itemsize, s.read_n(length, row * step))


def copy_gm_to_l1_nd2nz(x: Execution) -> None:
    d, s = x.operands
    c0 = BLOCK_BYTES // d.itemsize
    for matrix in range(x.a["nd_num"]):
        for row in range(x.a["n_value"]):
            start = matrix * x.a["src_nd_matrix_stride"] + row * x.a["src_d_value"]
            values = s.read_n(x.a["d_value"], start * s.itemsize)
            values = np.concatenate([values, np.zeros(-values.size % c0, values.dtype)])
            for column in range(values.size // c0):
                block = column * x.a["dst_nz_c0_stride"] + row * x.a["dst_nz_n_stride"]
                to = matrix * x.a["dst_nz_matrix_stride"] * d.itemsize + block * BLOCK_BYTES
                d.write_n(values[column * c0 : (column + 1) * c0], to)


def fill_l1(x: Execution) -> None:
    (d,) = x.operands
    per_run = x.a["block_num"] * BLOCK_BYTES // d.itemsize
    values = constant(scalar_of(x.a["value"], d.dtype), d.dtype, per_run)
    for run in range(x.a["repeat_times"]):
        d.write_n(values, run * (x.a["block_num"] + x.a["dst_gap"]) * BLOCK_BYTES)


def copy_ub_to_ub(x: Execution) -> None:
    d, s = x.operands
    per_run = x.a["block_len"] * BLOCK_BYTES // d.itemsize
    for run in range(x.a["block_count"]):
        values = s.read_n(per_run, run * (x.a["block_len"] + x.a["src_gap"]) * BLOCK_BYTES)
        d.write_n(values, run * (x.a["block_len"] + x.a["dst_gap"]) * BLOCK_BYTES)


# ---- L1 -> L0 ------------------------------------------------------------------------------------------------------


def load_2d(x: Execution) -> None:
    d, s = x.operands
    per_fractal = FRACTAL_BYTES // d.itemsize
    for i in range(x.a["repeat_times"]):
        values = s.read_n(per_fractal, (x.a["start_index"] + i * x.a["src_stride"]) * FRACTAL_BYTES)
        if x.a["if_transpose"]:
            values = values.reshape(16, 16).T
        d.write_n(values, i * (1 + x.a["dst_gap"]) * FRACTAL_BYTES)


def load_transpose(x: Execution) -> None:
    """A square of b8 (32x32) or b32 (16x16) is two fractals of 16 rows x 32 bytes side by side; so is its transpose."""
    d, s = x.operands
    side = 32 if d.itemsize == 1 else 16
    c0 = BLOCK_BYTES // d.itemsize
    fractals = side * side * d.itemsize // FRACTAL_BYTES
    for i in range(x.a["repeat_times"]):
        first = (x.a["start_index"] + i * x.a["src_stride"]) * fractals
        parts = [s.read_n(16 * c0, (first + f) * FRACTAL_BYTES).reshape(16, c0) for f in range(fractals)]
        square = np.concatenate(parts, axis=0 if side == 32 else 1)
        turned = square.T
        for f in range(fractals):
            part = turned[f * 16 : (f + 1) * 16] if side == 32 else turned[:, f * c0 : (f + 1) * c0]
            at = i * (1 + x.a["dst_gap"]) + f * (1 + x.a["dst_frac_gap"])
            d.write_n(np.ascontiguousarray(part), at * FRACTAL_BYTES)


def load_v2(x: Execution) -> None:
    d, s = x.operands
    per_fractal = FRACTAL_BYTES // d.itemsize
    for j in range(x.a["k_step"]):
        for i in range(x.a["m_step"]):
            at = (x.a["k_start"] + j) * x.a["src_stride"] + x.a["m_start"] + i
            values = s.read_n(per_fractal, at * FRACTAL_BYTES)
            if x.a["if_transpose"]:
                values = values.reshape(16, 16).T
                to = i * x.a["dst_stride"] + j
            else:
                to = j * x.a["dst_stride"] + i
            d.write_n(values, to * FRACTAL_BYTES)


# ---- cube ----------------------------------------------------------------------------------------------------------


def _fractal_offsets(rows: int, cols: int, c0: int, row_major_fractals: bool, size: int, n_fractals: int) -> np.ndarray:
    """Byte offset of element (r, c); fractals of 16 x c0, in row-major (zZ) or column-major (nZ) order of fractals."""
    r, c = np.meshgrid(np.arange(rows), np.arange(cols), indexing="ij")
    fr, fc = r // 16, c // c0
    fractal = fr * n_fractals + fc if row_major_fractals else fc * n_fractals + fr
    return (fractal * 16 * c0 + r % 16 * c0 + c % c0) * size


def mmad(x: Execution, l0a_layout: str | None = None) -> None:
    """Products are exact; every sum is rounded to the dtype of d, with K ascending, starting with d (or 0)."""
    d, a, b = x.operands
    m, n, k = x.a["m"], x.a["n"], x.a["k"]
    if 0 in (m, n, k):
        return
    c0 = BLOCK_BYTES // a.itemsize
    fm, fk = -(-m // 16), -(-k // c0)
    zz = (l0a_layout or x.machine.l0a_layout) == "zZ"
    left = a.read(_fractal_offsets(m, k, c0, zz, a.itemsize, fk if zz else fm)).reshape(m, k)
    # B is Zn: fractals of c0 (K) x 16 (N), stored N-major inside, K-major outside: the transpose of A's zZ with n in
    # place of m.
    right = b.read(_fractal_offsets(n, k, c0, False, b.itemsize, -(-n // 16))).reshape(n, k)
    to = _fractal_offsets(m, n, 16, False, 4, fm)
    start = np.zeros((m, n), np_dtype(d.dtype)) if x.a["cmatrix_init"] else d.read(to).reshape(m, n)
    d.write(to, accumulate(start, left, right, d.dtype))


def accumulate(c: np.ndarray, a: np.ndarray, b: np.ndarray, dtype: str) -> np.ndarray:
    """c[m, n] + sum over k of a[m, k] * b[n, k]."""
    if dtype == "int32":
        return (c.astype(np.int64) + a.astype(np.int64) @ b.astype(np.int64).T).astype(np.int32)
    with np.errstate(all="ignore"):
        for i in range(a.shape[1]):
            product = widen(a[:, i])[:, None] * widen(b[:, i])[None, :]
            c = to_float(product + widen(c), dtype)
    return c


def fixpipe(x: Execution) -> None:
    """L0C is NZ with columns of 16 elements; `src_stride` rows of 16 elements lie between two columns."""
    d, s = x.operands
    m, n = x.a["m_size"], x.a["n_size"]
    r, c = np.meshgrid(np.arange(m), np.arange(n), indexing="ij")
    values = s.read((c // 16 * x.a["src_stride"] + r) * 64 + c % 16 * 4)
    if x.a["relu_en"]:
        values = np.where(np.isnan(values) if values.dtype.kind == "f" else False, values, np.maximum(values, 0))
        values = values.astype(np_dtype(s.dtype))
    if s.dtype != d.dtype:
        with np.errstate(all="ignore"):
            values = convert(values, s.dtype, d.dtype, "rint")
    if x.intrin.name == "fixpipe_to_ub":
        # All there is is one core: what the second vector core gets comes last.
        row, column = ((0, 0), (m // 2, 0), (0, n // 2))[x.a["dual"]]
        mine = (r >= row) & (c >= column)
        d.write((((r - row) * x.a["dst_stride"] + c - column) * d.itemsize)[mine], np.asarray(values).reshape(m, n)[mine])
        return
    if x.intrin.name == "fixpipe_to_gm":
        write_gm(x, d, (r * x.a["dst_stride"] + c) * d.itemsize, values)
        return
    group = 16 if d.itemsize == 2 else BLOCK_BYTES // d.itemsize
    d.write((c // group * x.a["dst_stride"] + r) * BLOCK_BYTES + c % group * d.itemsize, values)


# ---- scalar pipe ---------------------------------------------------------------------------------------------------


def get_value(x: Execution):
    value = x.t["s"].read([0])[0]
    return float(value) if x.t["s"].dtype.startswith(("float", "bfloat")) else int(value)


def set_value(x: Execution) -> None:
    d = x.t["d"]
    d.write([0], constant(scalar_of(x.a["value"], d.dtype), d.dtype, 1))


def set_atomic(x: Execution) -> None:
    x.machine.atomic = (x.attrs["op"], x.attrs["dtype"])


def nothing(x: Execution) -> None:
    """Order or output only, no values."""


def dump_tensor(x: Execution) -> None:
    """Reads; what is printed is no value of the machine."""
    x.t["s"].read_n(x.a["count"])


TRANSFER = {
    "copy_gm_to_ub": copy_gm_to_ub, "copy_ub_to_gm": copy_ub_to_gm, "copy_gm_to_l1_nd2nz": copy_gm_to_l1_nd2nz,
    "fill_l1": fill_l1, "copy_ub_to_ub": copy_ub_to_ub, "copy_ub_to_l1": copy_ub_to_ub, "load_l0a": load_2d, "load_l0b": load_2d,
    "load_l0a_transpose": load_transpose, "load_l0b_transpose": load_transpose, "load_l0a_v2": load_v2,
    "load_l0b_v2": load_v2,
    "mmad": mmad, "fixpipe_to_gm": fixpipe, "fixpipe_to_l1": fixpipe, "fixpipe_to_ub": fixpipe, "get_value": get_value, "set_value": set_value,
    "set_atomic": set_atomic, "data_cache_clean": nothing, "set_flag": nothing, "wait_flag": nothing,
    "pipe_barrier": nothing,
    "cross_core_set_flag": nothing, "cross_core_wait_flag": nothing,
    **{f"printf_{n}": nothing for n in range(MAX_VALUES + 1)}, "dump_tensor": dump_tensor, "trap": nothing,
}  # fmt: skip
